"""What a fit is told: what is minimised, where it begins, what it returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lrml._progress import progress
from lrml.core.arrays import Array, Place
from lrml.core.coordinates import ROADS
from lrml.core.linalg import Factors
from lrml.core.losses import Loss
from lrml.core.penalties import Penalty, TailSum, TraceNorm
from lrml.core.rows import Rows
from lrml.estimators._fitted import Fitted
from lrml.solvers import ROW_SOLVERS, Callback, IterationInfo, Phase, SolverResult

WEAK = 0.5
"""The default ridge, as a share of the one with the least squared error: labels are ranked better by less."""

# Most iterations: if each of them reads the rows, there is time for fewer.
_MAX_ITER = (5000, 1000)


@dataclass(frozen=True)
class Spec:
    """What is minimised over the rows, and how far.

    ::

        Σ loss + TailSum(theta, alpha, max_rank)(σ(W)) + ridge · ‖W‖²_F

    Attributes
    ----------
    name : str
        Of the estimator, for messages and progress.
    theta : int, "auto" or None
        None for members of the family that have no such parameter; it counts as 0.
    alpha, ridge : float or None
        None follows the data, see `lrml.estimators._defaults`; the ridge is then ``ridge_share`` times the
        one with the least squared error.
    max_rank : int, optional
    given : Penalty, optional
        In place of the tail sum.
    space : {"coefficients", "predictions"}
        Whose singular values are penalised: those of W, or of X̃W, see `lrml.core.quadratic`.
    certified : bool
        Whether the fit is to prove its gap.
    ridge_is_alpha : bool
        Whether the only strength, the ridge, is called alpha.
    encodes : bool
        Whether the directions of label space that the limit of the rank leaves are kept.
    again : bool
        Whether further fits to the same rows may follow.
    """

    name: str
    loss: Loss
    theta: int | str | None = None
    alpha: float | None = 0.0
    ridge: float | None = 0.0
    max_rank: int | None = None
    given: Penalty | None = None
    space: str = "coefficients"
    fit_intercept: bool = True
    ridge_share: float = 1.0
    solver: str | Phase = "auto"
    max_iter: int | None = None
    tol: float | None = None
    tols: tuple[float, float] = (1e-4, 1e-4)  # by default: where sums suffice, and where rows are read
    certified: bool = False
    ridge_is_alpha: bool = False
    encodes: bool = False
    again: bool = False
    otherwise: Spec | None = None  # where sums do not suffice
    callback: Callback | None = None
    verbose: int = 0

    @property
    def tail(self) -> TailSum:
        """The tail sum; what is not known as a number yet counts as 0."""
        if self.certified:
            return TraceNorm(self.alpha or 0.0)
        theta = 0 if isinstance(self.theta, str) else self.theta or 0
        return TailSum(theta, self.alpha or 0.0, max_rank=self.max_rank)

    @property
    def penalty(self) -> Penalty:
        """The penalty, given or a tail sum."""
        return self.tail if self.given is None else self.given

    @property
    def is_bare(self) -> bool:
        """Whether there is no penalty, but perhaps a limit of the rank."""
        return self.given is None and self.alpha == 0

    def expected_rank(self, n_labels: int) -> int:
        """Rank that a solution may well have."""
        return n_labels if self.given is not None else self.tail.expected_rank(n_labels)

    @property
    def road(self) -> str:
        """The coordinates that the user has asked for, if any."""
        return self.solver if isinstance(self.solver, str) and self.solver in ROADS else "auto"

    @property
    def method(self) -> str | Phase:
        """The solver in these coordinates."""
        return "auto" if self.road != "auto" else self.solver

    def needs_sums_only(self, rows: Rows) -> bool:
        """Whether this is least squares with all labels known."""
        return sums_suffice(self.loss, rows)

    def reading_rows(self) -> Spec:
        """Return what is minimised where sums do not suffice."""
        if self.otherwise is not None:
            return self.otherwise
        if self.space == "predictions":
            raise ValueError(
                "space='predictions' needs the squared loss with all labels known, where fits have a closed "
                "form. Leave it out, or use space='coefficients'."
            )
        return self

    def limited(self, rows: Rows) -> Spec:
        """Return the same with numbers in place of the default limits of a fit to these rows."""
        place = 0 if self.needs_sums_only(rows) else 1
        return replace(
            self,
            max_iter=_MAX_ITER[place] if self.max_iter is None else self.max_iter,
            tol=self.tols[place] if self.tol is None else self.tol,
        )

    def quiet(self) -> Spec:
        """Return the same without progress."""
        return replace(self, callback=None, verbose=0)


def sums_suffice(loss: Loss, rows: Rows) -> bool:
    """Whether a fit is one of least squares with all labels known."""
    return loss.name == "squared" and rows.all_known


class Start(NamedTuple):
    """Coefficients left rightᵀ and intercepts to begin with, in the space of the model."""

    left: Array
    right: Array
    intercept: Array

    @classmethod
    def of(cls, fitted: Fitted, rows: Rows) -> Start:
        """Return the last fit; for a kernel, its scores without the intercept."""
        place = rows.place
        intercept = place.asarray(fitted.intercept, "float64")
        if rows.kernel is None:
            U, s, V = (place.asarray(factor, "float64") for factor in fitted.factors)
            return cls(U * s, V, intercept)
        X = rows.X if rows.given is None else rows.given
        X = (
            X if Place.of(X) == fitted.place else fitted.place.asarray(X)
        )  # the last fit may have been elsewhere
        scores = place.asarray(fitted.scores(X) - fitted.intercept, "float64")
        return cls(scores, place.asarray(np.eye(scores.shape[1])), intercept)


class Solution(NamedTuple):
    """A model in its own space, before it is stored."""

    factors: Factors
    intercept: Array
    unseen: Array
    outcome: SolverResult
    gap: float | None = None  # proven
    compression_gap: float | None = None
    kernel_gap: float | None = None
    components: Array | None = None


def check_row_solver(solver: str | Phase) -> None:
    """Refuse a solver that cannot read rows."""
    possible = (*ROW_SOLVERS, *ROADS)
    if solver not in possible:
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, possible))} unless loss='squared' and all labels "
            f"are known, got {solver!r}. Use 'auto'."
        )


@contextmanager
def solver_progress(spec: Spec) -> Iterator[Callback | None]:
    """Yield a callback that shows progress (``verbose`` > 0) and then calls that of the user."""
    if not spec.verbose:
        yield spec.callback
        return
    with progress(spec.name, "iterations", at_most=True) as shown_progress:

        def report(info: IterationInfo) -> bool | None:
            residual = f"residual {info.residual:.1e}, " if np.isfinite(info.residual) else ""  # unknown yet
            words = f"objective {info.objective:.6g}, {residual}rank {info.rank}"
            shown_progress.update(info.iteration, spec.max_iter or 0, words)
            return spec.callback(info) if spec.callback is not None else None

        yield report
