"""Two factors of one matrix: balanced, resized, and swept until the gradient is small."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.solvers._loop import Recorder
from lrml.solvers._result import Callback, Factors, History, Status

Float64: TypeAlias = npt.NDArray[np.float64]
# Share of tol that a sweep may still gain, over the objective.
_GAIN = 0.1


class Balanced(NamedTuple):
    """Factors Z = U√s and H = V√s of a matrix with the thin singular value decomposition U diag(s) Vᵀ.

    ``sigma`` is s, descending; rounding noise is set to 0, with zero columns in Z and H. ``left`` and
    ``right`` (k × k) turn the old factors into the new ones: Z = Z_old @ left, H = H_old @ right.
    """

    Z: Float64
    H: Float64
    sigma: Float64
    left: Float64
    right: Float64


def balance(Z: Float64, H: Float64) -> Balanced:
    """Balance two factors, k ≤ min(d, L), without forming their product: O((d + L) k²).

    Of all factors of ZHᵀ these have the least ‖Z‖² + ‖H‖², namely 2 Σ s.
    """
    Q, R = np.linalg.qr(Z)
    P, S = np.linalg.qr(H)
    U, sigma, Vt = np.linalg.svd(R @ S.T)
    floor = max(len(Z), len(H)) * np.finfo(np.float64).eps * sigma[0]
    sigma = np.where(sigma > floor, sigma, 0.0)
    root = np.sqrt(sigma)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    # R Sᵀ = U s Vᵀ gives R⁻¹U√s = SᵀV/√s, which needs no inverse of R.
    return Balanced(Q @ (U * root), P @ (Vt.T * root), sigma, S.T @ (Vt.T * inverse), R.T @ (U * inverse))


def resize(Z: Float64, H: Float64, rank: int, random: np.random.RandomState) -> tuple[Float64, Float64]:
    """Truncate balanced factors to their first columns, or pad them for a larger rank.

    New columns are random in Z, as long as the shortest one there, and zero in H: the product does not
    change, and the next improvement of H puts them to use.
    """
    kept = min(rank, Z.shape[1])
    Z, H = Z[:, :kept], H[:, :kept]
    missing = rank - kept
    if not missing:
        return Z, H
    noise = random.standard_normal((len(Z), missing))
    lengths = np.linalg.norm(Z, axis=0)
    lengths = lengths[lengths > 0]
    noise *= (lengths.min() if lengths.size else 1.0) / np.linalg.norm(noise, axis=0)
    return np.hstack([Z, noise]), np.hstack([H, np.zeros((len(H), missing))])


class Penalty(NamedTuple):
    """½ alpha (‖Z‖²_F + ‖H‖²_F) + ridge ‖ZHᵀ‖²_F; in one factor it is a quadratic form, given the other."""

    alpha: float
    ridge: float = 0.0

    def value(self, Z: Float64, H: Float64) -> float:
        """Return the penalty, in O((d + L) k²)."""
        of_Z, of_H = Z.T @ Z, H.T @ H
        return 0.5 * self.alpha * float(np.trace(of_Z) + np.trace(of_H)) + self.ridge * float(
            np.vdot(of_Z, of_H)
        )

    def balanced(self, sigma: Float64) -> float:
        """Return the penalty of balanced factors with these singular values."""
        return self.alpha * float(sigma.sum()) + self.ridge * float(sigma @ sigma)

    def product(self, D: Float64, gram: Float64) -> Float64:
        """D (alpha + 2 ridge G), G the Gram matrix of the other factor: its gradient and Hessian."""
        image: Float64 = D * self.alpha
        if self.ridge:
            image += D @ (2.0 * self.ridge * gram)
        return image

    def by_row(self, D: Float64, gram: Float64) -> Float64:
        """Each row's part of the penalty, less what the other factor adds."""
        parts: Float64 = 0.5 * np.einsum("ij,ij->i", D, self.product(D, gram))
        return parts


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
    constants: Float64
    status: Status
    objective: float
    residual: float
    history: History


class Alternation(Protocol):
    """Factors, their singular values (descending), F and its `relative_gradient`; and a way to lower F."""

    Z: Float64
    H: Float64
    c: Float64
    sigma: Float64
    objective: float
    residual: float

    def sweep(self) -> None:
        """Improve one factor, then the other; F does not rise."""


def relative_gradient(
    gradients: tuple[Float64, Float64], factors: tuple[Float64, Float64], unit: float
) -> float:
    """‖(∇_Z F, ∇_H F)‖_F / (unit · ‖(Z, H)‖_F) for balanced factors; 0 if they vanish.

    ``unit`` is ‖∇f(0)‖₂, the largest singular value of the gradient of the loss with respect to the
    coefficients where these are zero: the least alpha that makes them vanish. The quotient does not depend on
    the units of X, Y and weights, and is about |1 − alpha/unit| for tiny factors of the right direction.
    """
    size = np.sqrt(sum(float(np.vdot(factor, factor)) for factor in factors))
    steep = np.sqrt(sum(float(np.vdot(gradient, gradient)) for gradient in gradients))
    return float(steep / (unit * size)) if size > 0 else 0.0


def alternate(alternation: Alternation, limits: Limits) -> LemlResult:
    """Sweep until the residual is at most ``tol``, and a sweep gains no more than that of the objective.

    The residual alone ignores features that are small compared with others. Entry 0 of the history is the
    starting point.
    """
    run: Recorder[None] = Recorder(limits.callback)

    def record(phase: str) -> None:
        rank = int(np.count_nonzero(alternation.sigma))
        run.record(phase, alternation.objective, alternation.residual, rank)

    record("start")
    while run.status is None and len(run.history) <= limits.max_iter:
        before = alternation.objective
        with run.clock():
            alternation.sweep()
        gain = before - alternation.objective
        if alternation.residual <= limits.tol and gain <= _GAIN * limits.tol * abs(before):
            run.status = Status.RESIDUAL_SMALL
        record("sweep")
    rank = int(np.count_nonzero(alternation.sigma))
    root = np.sqrt(alternation.sigma[:rank])
    factors = Factors(
        alternation.Z[:, :rank] / root, alternation.sigma[:rank], alternation.H[:, :rank] / root
    )
    status = run.status or Status.MAX_ITER
    return LemlResult(
        factors, alternation.c, status, alternation.objective, alternation.residual, run.history
    )


def closed_form(factors: Factors, constants: Float64, objective: float, limits: Limits) -> LemlResult:
    """Return a solution that needs no sweeps."""
    run: Recorder[None] = Recorder(limits.callback)
    run.record("closed form", objective, 0.0, len(factors.s))
    return LemlResult(factors, constants, Status.CLOSED_FORM, objective, 0.0, run.history)
