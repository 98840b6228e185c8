"""Duality gaps of trace-norm problems: proven bounds on the distance from the optimum."""

from __future__ import annotations

from typing import Any, NamedTuple

from lrml.core.arrays import Array, Place, inner, namespace
from lrml.core.loss_problem import RowProblem, scores_of
from lrml.core.losses import Loss
from lrml.core.penalties import Penalty
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Block
from lrml.core.spectra import singular_values
from lrml.solvers._loop import Point


class DualityGap:
    """Relative duality gap of f(W) + alpha · ‖W‖_*, f the squared loss with or without a ridge.

    A ridge is equivalent to rows √ridge · I of X with zero rows of Y, so let f be ‖Y − XW‖². The dual is

    ::

        maximise ⟨A, Y⟩ − ‖A‖²/4    subject to    ‖XᵀA‖₂ ≤ alpha,

    and A = 2t(Y − XW), for t in [0, alpha / ‖∇f(W)‖₂], is feasible. The best such t gives the dual value
    D(t) = 2t ⟨E, Y⟩ − t² ‖E‖², E = Y − XW. Primal minus dual value, over the primal value, bounds how far
    the objective is above the least one.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def measure(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> float:
        """Return (primal − dual) / primal, from the moments alone."""
        W = point.W
        projected = inner(W, problem.cross)
        error_on_target = problem.target - projected
        error = error_on_target - projected + inner(W, problem.curvature[:, None] * W)
        steepest = float(singular_values(problem.gradient(W))[0])
        t = error_on_target / error if error > 0 else 1.0
        if steepest > 0:
            t = min(t, self.alpha / steepest)
        t = max(t, 0.0)
        primal = point.objective
        dual = 2.0 * t * error_on_target - t * t * error
        return max(primal - dual, 0.0) / primal if primal > 0 else 0.0


def row_duality_gap(problem: RowProblem, alpha: float, V: Array) -> float:
    """Relative duality gap of f(W, b) + alpha · ‖W‖_* at a point, in two or three passes over the rows.

    With the weights f_il of the entries (0 where unknown), A = f ∘ u and −ℓ* the `dual` of the loss, every u
    for which the columns of A add up to 0 (if there is an intercept) gives the lower bound

    ::

        Σ f_il · dual(y_il, u_il) − ‖S_alpha(XᵀA)‖²_F / (4 ridge),

    S_alpha soft-thresholding singular values; without a ridge XᵀA must not exceed alpha in spectral norm, and
    the last term vanishes. u is minus the slope of the loss, made feasible: for the squared loss its mean is
    subtracted; for the others, where u has the sign of the label, the heavier of the two signs is scaled
    down. Without a ridge all of u is scaled down until XᵀA is within alpha.
    """
    feasible = _feasible(problem, V)
    moments, dual = problem.rows.sum(_dual_sums, *feasible)
    xp = namespace(moments)
    sigma, dual = xp.linalg.svdvals(moments), float(dual)
    if problem.ridge > 0:
        dual -= float(xp.sum(xp.clip(sigma - alpha, min=0.0) ** 2)) / (4.0 * problem.ridge)
    elif float(sigma[0]) > alpha:
        dual = float(problem.rows.sum(_dual_sum, alpha / float(sigma[0]), *feasible))
    trace = float(xp.sum(xp.linalg.svdvals(V[1:, :])))
    primal = problem.value(V) + alpha * trace
    return max(primal - dual, 0.0) / primal if primal > 0 else 0.0


class _Feasible(NamedTuple):
    """What makes u of the rows: minus the slopes at a point, minus a mean, or times shares by label sign."""

    loss: Loss
    coefficients: Array
    shift: Array
    mean: Array | None = None
    shares: tuple[Array, Array] | None = None  # of the labels that apply, and of the others

    def at(self, block: Block) -> Array:
        """Return u of a block."""
        U = -self.loss.terms(block.Y, scores_of(block, self.coefficients, self.shift)).slopes
        if self.mean is not None:
            U -= self.mean
        return U if self.shares is None else U * namespace(U).where(block.Y > 0, *self.shares)


def _feasible(problem: RowProblem, V: Array) -> _Feasible:
    """Return what gives minus the slopes of the rows, so that weighted columns add up to 0."""
    raw = _Feasible(problem.loss, *problem.scoring(V))
    if not problem.fit_intercept:
        return raw
    of_positive, total = problem.rows.sum(_signed_sums, *raw)
    xp, place, dtype = namespace(total), Place.of(total), problem.rows.dtype
    if problem.loss.name == "squared":
        return raw._replace(mean=place.asarray(total / problem.rows.label_totals()[0], dtype))
    of_negative = of_positive - total
    lighter = xp.minimum(of_positive, of_negative)
    up, down = (
        place.asarray(xp.where(part > 0, lighter / xp.where(part > 0, part, 1.0), 0.0), dtype)
        for part in (of_positive, of_negative)
    )
    return raw._replace(shares=(up, down))


def _weighted(block: Block, values: Array) -> Array:
    return values if block.factors is None else values * block.factors


def _signed_sums(block: Block, *feasible: Any) -> tuple[Array, Array]:
    """Return the sums of f ∘ u over labels that apply, and over all."""
    A = _weighted(block, _Feasible(*feasible).at(block))
    xp = namespace(A)
    positive = xp.where(block.Y > 0, A, 0.0)
    return xp.sum(positive, axis=0, dtype=xp.float64), xp.sum(A, axis=0, dtype=xp.float64)


def _dual_sums(block: Block, *feasible: Any) -> tuple[Array, Array]:
    """Return XᵀA and the sum of the dual of the loss."""
    U = _Feasible(*feasible).at(block)
    A = Place.of(U).asarray(block.X.T @ _weighted(block, U), "float64")
    return A, _dual_sum_at(block, feasible[0], U)


def _dual_sum(block: Block, share: float, *feasible: Any) -> Array:
    """Return the sum of the dual of the loss, u scaled down."""
    return _dual_sum_at(block, feasible[0], share * _Feasible(*feasible).at(block))


def _dual_sum_at(block: Block, loss: Loss, U: Array) -> Array:
    xp = namespace(U)
    return xp.sum(_weighted(block, loss.dual(block.Y, U)), dtype=xp.float64)
