"""What the functions of `lrml.theory` return: an estimate with its standard error, a bound with its terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MonteCarlo:
    """Mean of independent draws.

    Parameters
    ----------
    mean : float
    standard_error : float
        Standard deviation of the draws (with n_draws − 1) over √n_draws.
    n_draws : int
    """

    mean: float
    standard_error: float
    n_draws: int

    @classmethod
    def of(cls, draws: Vector) -> MonteCarlo:
        """Return mean and standard error of at least two draws."""
        error = float(np.std(draws, ddof=1)) / float(np.sqrt(draws.size))
        return cls(float(np.mean(draws)), error, int(draws.size))


@dataclass(frozen=True)
class Bound:
    """An upper bound that is a sum of terms.

    Parameters
    ----------
    terms : mapping of str to float
        What each part contributes; the bound is their sum.
    head_size : int or None
        Where data were split along their principal axes: how many axes the head has.

    Examples
    --------
    >>> Bound({"head": 1.0, "tail": 0.5}).value
    1.5
    """

    terms: Mapping[str, float] = field(default_factory=dict)
    head_size: int | None = None

    @property
    def value(self) -> float:
        """Sum of the terms."""
        return float(sum(self.terms.values()))


@dataclass(frozen=True)
class LocalComplexity:
    """A local complexity between two Monte-Carlo estimates over the same signs.

    For every draw the supremum lies between the two values, so its mean lies between the two means.

    Parameters
    ----------
    lower : MonteCarlo
        Values at members of the class that were found.
    upper : MonteCarlo
        Values of a dual problem, which no member exceeds.
    """

    lower: MonteCarlo
    upper: MonteCarlo
