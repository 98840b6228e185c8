"""Specifications of experiments and protocols: data in TOML files, read into frozen records.

An experiment says what is computed (datasets, methods, theta, seeds, metrics), a protocol says how (features,
intercept, grids). Both are in ``specs/``; the code holds no numbers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any, TypeVar

PROTOCOLS = ("paper", "tuned", "kernel")
DATASETS = ("yeast", "corel5k", "bibtex", "delicious")
"""The paper's, the small ones first."""
EMBEDDED = "yeast"
EXPERIMENTS = ("table1", "fig1", "table2", "equal_rank", "fig2", "fig3")
TARGETS = {
    "all": EXPERIMENTS,
    "table1": ("table1",),
    "table2": ("table2", "equal_rank"),
    "fig1": ("fig1",),
    "fig2": ("fig2",),
    "fig3": ("fig3",),
}
"""The targets, and the experiments that each needs."""

METHODS = ("LRML", "LEML", "CPLST", "MLTrace", "MLFro")
WITH_THETA = ("LRML", "LEML", "CPLST")
"""Methods that have a theta, or a rank; the others are the same for all."""

# Further keys in the file of an experiment of each kind, besides those of `Experiment`.
_OPTIONS = {
    "statistics": frozenset[str](),
    "models": frozenset[str](),
    "equal_rank": frozenset({"theta_shares"}),
    "convergence": frozenset({"alphas", "steps", "gammas", "tol", "max_iter"}),
    "completion": frozenset({"matrix", "theta", "lowest", "highest", "points", "printed"}),
}
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Kernel:
    """Nystroem features of a Gaussian kernel exp(−gamma ‖x − x'‖²).

    They are based on training rows drawn with the seed of the validation rows. ``fewer`` has numbers of
    features for small datasets; there are never more than training rows.
    """

    gamma: float
    n_components: int
    fewer: Mapping[str, int] = field(default_factory=dict)

    def count(self, dataset: str, n_train: int) -> int:
        """Return the number of features of a dataset."""
        return min(self.fewer.get(dataset, self.n_components), n_train)


@dataclass(frozen=True)
class Protocol:
    """What is done to the data before a fit, and which candidates a search has.

    Attributes
    ----------
    name, summary : str
        For tables and for people.
    normalise : bool
        Scale every row of X to unit length.
    fit_intercept : bool
    threshold : float or "auto"
        Where scores are cut for Hamming loss; "auto" chooses it on the validation rows.
    kernel : Kernel or None
    searches : dict of str to list of dict
        For every method, parameters of its ``…CV`` estimator. The entry that is best on the validation rows
        wins; an entry may be for some ``datasets`` only.
    """

    name: str
    summary: str
    normalise: bool
    fit_intercept: bool
    threshold: float | str
    kernel: Kernel | None = None
    searches: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    def searches_for(self, method: str, dataset: str) -> list[dict[str, Any]]:
        """Return the searches of a method on a dataset."""
        found = [dict(entry) for entry in self.searches[method]]
        return [entry for entry in found if dataset in entry.pop("datasets", (dataset,))]


@dataclass(frozen=True)
class Experiment:
    """What is computed.

    Attributes
    ----------
    name, title : str
    kind : {"statistics", "models", "equal_rank", "convergence", "completion"}
    datasets, protocols, methods : tuple of str
    percents : tuple of int
        theta, or the rank, as a share of the labels.
    seeds : tuple of int
        One choice of validation rows each.
    held_out : float
        The share of the training rows that is held out for validation.
    criteria : dict of str to str
        For every metric, the one by which the model is chosen on the validation rows.
    options : dict
        What else the kind needs.
    """

    name: str
    title: str
    kind: str
    datasets: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    percents: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    held_out: float = 0.2
    criteria: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def load_protocol(name: str) -> Protocol:
    """Read a protocol of this package."""
    content = _read(name)
    content["searches"] = {method: content.pop(method) for method in METHODS if method in content}
    if "kernel" in content:
        content["kernel"] = _record(Kernel, content["kernel"], name)
    return _record(Protocol, content, name)


def load_experiment(name: str) -> Experiment:
    """Read an experiment of this package."""
    content = _read(name)
    known = {entry.name for entry in fields(Experiment)}
    options = {key: content.pop(key) for key in list(content) if key not in known}
    content = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    experiment = _record(Experiment, content | {"name": name, "options": options}, name)
    _check_options(experiment)
    return experiment


def _check_options(experiment: Experiment) -> None:
    """Refuse unknown kinds, and options other than those of the kind: a key may be misspelt."""
    if experiment.kind not in _OPTIONS:
        raise ValueError(
            f"{experiment.name}.toml must have as kind one of {', '.join(_OPTIONS)}, "
            f"got {experiment.kind!r}. Correct the file."
        )
    expected, given = _OPTIONS[experiment.kind], set(experiment.options)
    if given != expected:
        raise ValueError(
            f"{experiment.name}.toml must have the options {sorted(expected)} of an experiment of kind "
            f"{experiment.kind}, got {sorted(given)}: missing {sorted(expected - given)}, unknown "
            f"{sorted(given - expected)}. Correct the file."
        )


def _read(name: str) -> dict[str, Any]:
    file = resources.files("lrml.experiments").joinpath(f"specs/{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _record(kind: type[_Record], content: Mapping[str, Any], name: str) -> _Record:
    try:
        return kind(**content)
    except TypeError as error:
        raise ValueError(
            f"{name}.toml must have the keys of {kind.__name__}, got {sorted(content)} ({error}). "
            "Correct the file."
        ) from error
