"""Two factors of one matrix: balanced, resized, and swept until the gradient is small."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from lrml._arrays import Array, Place, dot, is_host, namespace, row_dots
from lrml.solvers._loop import Recorder
from lrml.solvers._result import Callback, Factors, History, Status

LinearMap: TypeAlias = Callable[[Array], Array]
EPS, TINY = sys.float_info.epsilon, sys.float_info.min
# Share of tol that a sweep may still gain, over the objective.
_GAIN = 0.1


class Balanced(NamedTuple):
    """Factors Z = U√s and H = V√s of a matrix with the thin singular value decomposition U diag(s) Vᵀ.

    ``sigma`` is s, descending; rounding noise is set to 0, with zero columns in Z and H. ``left`` and
    ``right`` (k × k) turn the old factors into the new ones: Z = Z_old @ left, H = H_old @ right.
    """

    Z: Array
    H: Array
    sigma: Array
    left: Array
    right: Array


def balance(Z: Array, H: Array) -> Balanced:
    """Balance two factors, k ≤ min(d, L), without forming their product: O((d + L) k²).

    Of all factors of ZHᵀ these have the least ‖Z‖² + ‖H‖², namely 2 Σ s.
    """
    xp = namespace(Z, H)
    Q, R = xp.linalg.qr(Z, mode="reduced")
    P, S = xp.linalg.qr(H, mode="reduced")
    U, sigma, Vt = xp.linalg.svd(R @ S.T, full_matrices=False)
    floor = max(Z.shape[0], H.shape[0]) * EPS * sigma[0]
    sigma = xp.where(sigma > floor, sigma, 0.0)
    root = xp.sqrt(sigma)
    inverse = quotient(xp.ones_like(root), root, root > 0)
    # R Sᵀ = U s Vᵀ gives R⁻¹U√s = SᵀV/√s, which needs no inverse of R.
    return Balanced(Q @ (U * root), P @ (Vt.T * root), sigma, S.T @ (Vt.T * inverse), R.T @ (U * inverse))


def resize(Z: Array, H: Array, rank: int, random: np.random.RandomState) -> tuple[Array, Array]:
    """Truncate balanced factors to their first columns, or pad them for a larger rank.

    New columns are random in Z, as long as the shortest one there, and zero in H: the product does not
    change, and the next improvement of H puts them to use.
    """
    kept = min(rank, Z.shape[1])
    Z, H = Z[:, :kept], H[:, :kept]
    missing = rank - kept
    if not missing:
        return Z, H
    xp, place = namespace(Z, H), Place.of(Z)
    noise = random.standard_normal((Z.shape[0], missing))
    lengths = xp.linalg.vector_norm(Z, axis=0)
    lengths = lengths[lengths > 0]
    noise *= (float(xp.min(lengths)) if lengths.shape[0] else 1.0) / np.linalg.norm(noise, axis=0)
    return (
        xp.concat([Z, place.asarray(noise)], axis=1),
        xp.concat([H, place.zeros((H.shape[0], missing))], axis=1),
    )


def quotient(a: Array, b: Array, where: Array) -> Array:
    """Divide a by b where that is wanted; 0 elsewhere."""
    xp = namespace(a, b)
    return xp.where(where, a / xp.where(where, b, 1.0), 0.0)


def column_dots(a: Array, b: Array) -> Array:
    """⟨a_j, b_j⟩ for all columns."""
    return np.einsum("ij,ij->j", a, b) if is_host(a) else namespace(a, b).vecdot(a, b, axis=-2)


class Penalty(NamedTuple):
    """½ alpha (‖Z‖²_F + ‖H‖²_F) + ridge ‖ZHᵀ‖²_F; in one factor it is a quadratic form, given the other."""

    alpha: float
    ridge: float = 0.0

    def value(self, Z: Array, H: Array) -> float:
        """Return the penalty, in O((d + L) k²)."""
        trace = namespace(Z, H).linalg.trace
        of_Z, of_H = Z.T @ Z, H.T @ H
        return float(0.5 * self.alpha * (trace(of_Z) + trace(of_H)) + self.ridge * dot(of_Z, of_H))

    def balanced(self, sigma: Array) -> float:
        """Return the penalty of balanced factors with these singular values."""
        return float(self.alpha * namespace(sigma).sum(sigma) + self.ridge * (sigma @ sigma))

    def product(self, D: Array, gram: Array) -> Array:
        """D (alpha + 2 ridge G), G the Gram matrix of the other factor: its gradient and Hessian."""
        image = D * self.alpha
        if self.ridge:
            image += D @ (2.0 * self.ridge * gram)
        return image

    def by_row(self, D: Array, gram: Array) -> Array:
        """Each row's part of the penalty, less what the other factor adds."""
        return 0.5 * row_dots(D, self.product(D, gram))


class Limits(NamedTuple):
    """When to stop: see `alternate`."""

    max_iter: int
    tol: float
    callback: Callback | None = None


class LemlResult(NamedTuple):
    """Outcome of a solve: a thin singular value decomposition of ZHᵀ, in the coordinates of the problem.

    ``constants`` are the scores at the mean of X, zeros if the moments were centred; the rest is as in
    `lrml.solvers.SolverResult`.
    """

    factors: Factors
    constants: Array
    status: Status
    objective: float
    residual: float
    history: History


class Alternation(Protocol):
    """Factors, their singular values (descending), F and its `relative_gradient`; and a way to lower F."""

    Z: Array
    H: Array
    c: Array
    sigma: Array
    objective: float
    residual: float

    def sweep(self) -> None:
        """Improve one factor, then the other; F does not rise."""


def relative_gradient(gradients: tuple[Array, Array], factors: tuple[Array, Array], unit: float) -> float:
    """‖(∇_Z F, ∇_H F)‖_F / (unit · ‖(Z, H)‖_F) for balanced factors; 0 if they vanish.

    ``unit`` is ‖∇f(0)‖₂, the largest singular value of the gradient of the loss with respect to the
    coefficients where these are zero: the least alpha that makes them vanish. The quotient does not depend on
    the units of X, Y and weights, and is about |1 − alpha/unit| for tiny factors of the right direction.
    """
    size, steep = (math.sqrt(float(dot(a, a) + dot(b, b))) for a, b in (factors, gradients))
    return steep / (unit * size) if size > 0 else 0.0


def alternate(alternation: Alternation, limits: Limits) -> LemlResult:
    """Sweep until the residual is at most ``tol``, and a sweep gains no more than that of the objective.

    The residual alone ignores features that are small compared with others. Entry 0 of the history is the
    starting point.
    """
    run: Recorder[None] = Recorder(limits.callback)

    def n_positive() -> int:
        return int(namespace(alternation.sigma).count_nonzero(alternation.sigma))

    def record(phase: str) -> None:
        run.record(phase, alternation.objective, alternation.residual, n_positive())

    record("start")
    while run.status is None and len(run.history) <= limits.max_iter:
        before = alternation.objective
        with run.clock():
            alternation.sweep()
        gain = before - alternation.objective
        if alternation.residual <= limits.tol and gain <= _GAIN * limits.tol * abs(before):
            run.status = Status.RESIDUAL_SMALL
        record("sweep")
    rank = n_positive()
    root = alternation.sigma[:rank] ** 0.5
    factors = Factors(
        alternation.Z[:, :rank] / root, alternation.sigma[:rank], alternation.H[:, :rank] / root
    )
    status = run.status or Status.MAX_ITER
    return LemlResult(
        factors, alternation.c, status, alternation.objective, alternation.residual, run.history
    )


def closed_form(factors: Factors, constants: Array, objective: float, limits: Limits) -> LemlResult:
    """Return a solution that needs no sweeps."""
    run: Recorder[None] = Recorder(limits.callback)
    run.record("closed form", objective, 0.0, factors.s.shape[0])
    return LemlResult(factors, constants, Status.CLOSED_FORM, objective, 0.0, run.history)
