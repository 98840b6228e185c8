"""Duality gaps of trace-norm problems: proven bounds on the distance from the optimum."""

from __future__ import annotations

from typing import Any, NamedTuple

from lrml.core.arrays import Array, Place, dot, namespace
from lrml.core.linalg import singular_values
from lrml.core.loss_problem import RowProblem, scores_of
from lrml.core.losses import Loss
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Block
from lrml.solvers._loop import Point


def duality_gap(problem: SpectralProblem, penalty: TailSum, point: Point) -> float:
    """Relative duality gap of f(W) + alpha · ‖W‖_*, f the squared loss with or without a ridge.

    A ridge is equivalent to rows √ridge · I of X with zero rows of Y, so let f be ‖Y − XW‖². The dual is

    ::

        maximise ⟨A, Y⟩ − ‖A‖²/4    subject to    ‖XᵀA‖₂ ≤ alpha,

    and A = 2t(Y − XW), for t in [0, alpha / ‖∇f(W)‖₂], is feasible. The best such t gives the dual value
    D(t) = 2t ⟨E, Y⟩ − t² ‖E‖², E = Y − XW. Primal minus dual value, over the primal value, bounds how far
    the objective is above the least one.
    """
    W, primal = point.W, point.objective
    projected = float(dot(W, problem.cross))
    error_on_target = problem.target - projected
    error = error_on_target - projected + float(dot(W, problem.diagonal * W))
    steepest = singular_values(problem.gradient(W))[0]
    t = error_on_target / error if error > 0 else 1.0
    if steepest > 0:
        t = min(t, penalty.alpha / steepest)
    t = max(t, 0.0)
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
    sigma = xp.linalg.svdvals(moments)
    if problem.ridge > 0:
        dual -= xp.sum(xp.clip(sigma - alpha, min=0.0) ** 2) / (4.0 * problem.ridge)
    elif float(sigma[0]) > alpha:
        dual = problem.rows.sum(_dual_sums, *feasible._replace(scale=alpha / float(sigma[0])))[1]
    primal = problem.value(V) + alpha * float(xp.sum(xp.linalg.svdvals(V[1:, :])))
    return max(primal - float(dual), 0.0) / primal if primal > 0 else 0.0


class _Feasible(NamedTuple):
    """What makes u of the rows: minus the slopes at a point, minus a mean, or times shares by label sign."""

    loss: Loss
    coefficients: Array
    shift: Array
    mean: Array | None = None
    shares: tuple[Array, Array] | None = None  # of the labels that apply, and of the others
    scale: float = 1.0

    def at(self, block: Block) -> tuple[Array, Array]:
        """Return u of a block, and A."""
        U = -self.loss.terms(block.Y, scores_of(block, self.coefficients, self.shift)).slopes
        if self.mean is not None:
            U -= self.mean
        if self.shares is not None:
            U *= namespace(U).where(block.Y > 0, *self.shares)
        U *= self.scale
        return U, U if block.factors is None else U * block.factors


def _feasible(problem: RowProblem, V: Array) -> _Feasible:
    """Return what gives minus the slopes of the rows, so that weighted columns add up to 0."""
    raw = _Feasible(problem.loss, *problem.scoring(V))
    if not problem.fit_intercept:
        return raw
    of_positive, total = problem.rows.sum(_signed_sums, *raw)
    xp, place, dtype = namespace(total), Place.of(total), problem.rows.dtype
    if problem.loss.name == "squared":
        return raw._replace(mean=place.asarray(total / problem.rows.label_totals()[0], dtype))
    signs = of_positive, of_positive - total
    lighter = xp.minimum(*signs)
    shares = [xp.where(one > 0, lighter / xp.where(one > 0, one, 1.0), 0.0) for one in signs]
    return raw._replace(shares=tuple(place.asarray(share, dtype) for share in shares))


def _signed_sums(block: Block, *feasible: Any) -> tuple[Array, Array]:
    """Return the sums of A over labels that apply, and over all."""
    _, A = _Feasible(*feasible).at(block)
    xp = namespace(A)
    positive = xp.where(block.Y > 0, A, 0.0)
    return xp.sum(positive, axis=0, dtype=xp.float64), xp.sum(A, axis=0, dtype=xp.float64)


def _dual_sums(block: Block, *feasible: Any) -> tuple[Array, Array]:
    """Return XᵀA and the sum of the dual of the loss."""
    U, A = _Feasible(*feasible).at(block)
    xp, dual = namespace(U), feasible[0].dual(block.Y, U)
    total = xp.sum(dual if block.factors is None else dual * block.factors, dtype=xp.float64)
    return Place.of(U).asarray(block.X.T @ A, "float64"), total
