"""Specifications of experiments: data in a TOML file, read into frozen records."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LogGrid:
    """Numbers that are evenly spaced on a log scale, both ends included."""

    start: float
    stop: float
    count: int

    @property
    def values(self) -> tuple[float, ...]:
        """The numbers, ascending."""
        return tuple(np.geomspace(self.start, self.stop, self.count).tolist())


@dataclass(frozen=True)
class Protocol:
    """What is done to the data before a fit, and which ridges are tried.

    Attributes
    ----------
    name, summary : str
        For tables and for people.
    normalize : bool
        Scale every row of X to unit length.
    fit_intercept : bool
    ridges : tuple of float
        Candidates for LRML's ridge; a single one is not a choice.
    """

    name: str
    summary: str
    normalize: bool
    fit_intercept: bool
    ridges: tuple[float, ...]


@dataclass(frozen=True)
class ConvergenceSpec:
    """What Figure 3 shows.

    Attributes
    ----------
    alpha : float
        Strength of the penalty in every panel.
    steps : int
        Iterations of Algorithm 1.
    gammas : tuple of float
        Growth of its t per iteration, one curve each.
    tol : float
        Tolerance of the default solver, far below its usual one, to get a good reference value.
    max_iter : int
        Iterations of the default solver, at most.
    """

    alpha: float
    steps: int
    gammas: tuple[float, ...]
    tol: float
    max_iter: int


@dataclass(frozen=True)
class Spec:
    """All choices of an experiment; use `dataclasses.replace` to make a smaller one.

    Attributes
    ----------
    theta_shares : tuple of float
        Values of theta, as shares of the number of labels.
    strengths : LogGrid
        Candidates for alpha of LRML, and for the ridge of the reference method.
    validation_share : float
        Share of the training rows on which the candidates are compared.
    protocols : tuple of Protocol
    convergence : ConvergenceSpec
    """

    theta_shares: tuple[float, ...]
    strengths: LogGrid
    validation_share: float
    protocols: tuple[Protocol, ...]
    convergence: ConvergenceSpec

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Spec:
        """Build the record from what a TOML parser returns; a missing or unknown key is an error."""
        return cls(
            **_frozen(data)
            | {
                "strengths": LogGrid(**data["strengths"]),
                "protocols": tuple(Protocol(**_frozen(protocol)) for protocol in data["protocols"]),
                "convergence": ConvergenceSpec(**_frozen(data["convergence"])),
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain dictionaries, for JSON."""
        return asdict(self)


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def load_spec(name: str = "yeast") -> Spec:
    """Read a specification that comes with the package.

    Examples
    --------
    >>> spec = load_spec("yeast")
    >>> spec.theta_shares, [protocol.name for protocol in spec.protocols]
    ((0.2, 0.4, 0.6, 0.8), ['paper', 'tuned'])
    """
    text = resources.files("lrml.experiments").joinpath(f"data/{name}.toml").read_text(encoding="utf-8")
    return Spec.from_dict(tomllib.loads(text))
