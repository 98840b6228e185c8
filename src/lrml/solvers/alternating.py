"""Proximal steps with least squares on both sides of the matrix: the engine of fits and of paths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, beside, namespace, to_numpy
from lrml.core.linalg import (
    Factors,
    check_shrunk,
    descending_eigh,
    gram_noise,
    noise_may_survive,
    right_singular,
    singular_values,
    spectrum,
    thin_svd,
)
from lrml.core.penalties import Penalty, Values
from lrml.core.quadratic import SpectralProblem
from lrml.solvers._loop import Point, point_at


class _Step(NamedTuple):
    """A gradient step Y = W − ∇f(W)/ρ with its decomposition, and the proximal point from it."""

    Y: Array
    spectrum: Values
    basis: Array
    U: Array
    point: Point
    price: float  # Ω there
    slope: Array


class Alternating:
    """Proximal steps, each followed by an exact least-squares solve on either side of the matrix.

    At W, a proximal step of curvature ρ shows which singular values are positive:

    ::

        Z = prox_{Ω/ρ}(W − ∇f(W)/ρ) = U diag(σ) Vᵀ,     (2(Λ + ridge) − ρ)(Z − W) ∈ ∇f(Z) + ∂Ω(Z),

    and that element g gives, at no further cost, the residual and the gap of Z (see `Point`). From Z two
    majorisers of Ω, with its slopes c_j, are minimised in closed form: one keeps the column space, one the
    row space.

    ::

        K = (Uᵀ(Λ + ridge)U + diag(c/2σ))⁻¹ UᵀB,      U K = U E diag(σ') V'ᵀ
        R_ij = (B V')_ij / (λ_i + ridge + c_j/2σ'_j),  W⁺ = R V'ᵀ

    If nearly all values are positive there is little to gain, and early steps skip the first of the two. ρ
    starts at ``share`` · L, L the Lipschitz constant of ∇f, and doubles, up to L, whenever a step exceeds the
    majoriser's value at W or several steps gain nothing. The map W ↦ W⁺ is accelerated by Anderson's method
    with the given ``memory``; an accelerated point that is no better is replaced by the plain one.

    With ``compare``, the first point is the least-squares solution of rank ``penalty.n_free``, which pays no
    penalty, if a strong penalty makes it stationary. Otherwise it replaces the current point if it is better,
    after ``approach`` steps or once the gap is within ``close``.
    """

    name = "alternating"
    settles = True
    turning = 0.8
    approach, close = 3, 1e-2
    patient_steps = 8

    def __init__(
        self, share: float = 0.3, memory: int = 8, patience: int = 15, *, compare: bool = False
    ) -> None:
        self.share, self.memory, self.patience = share, memory, patience
        self.compared = not compare
        self.last: _Step | None = None

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Begin at a point."""
        self.W = self.plain = point.W
        self.bound = point.objective
        self.last = None
        self.accelerator = Anderson(self.memory)
        self.retarget(penalty, problem)
        self.limit = None if self.compared else self._limit_if_stationary(point.sigma)

    def retarget(self, penalty: Penalty, problem: SpectralProblem | None = None) -> None:
        """Continue with another penalty or problem; its first solves reuse the last decomposition."""
        self.penalty = penalty
        if problem is not None:
            self.problem = problem
            self.steepest = problem.lipschitz
            self._set_rho(self.share * self.steepest)
        self.accelerator.count = 0
        self.least = self.least_residual = math.inf
        self.stalled = self.steps = 0
        if self.last is not None:
            sigma = penalty.prox(self.last.spectrum, 1.0 / self.rho)
            # The objective under another penalty is meaningless here.
            point, price = Point(self.last.point.W, sigma, math.inf), penalty.value(sigma)
            self.last = self.last._replace(point=point, price=price)

    def step(self) -> Point | None:
        """Solve on both sides of the last proximal point, then decompose once."""
        if self.limit is not None:
            limit, self.limit = self.limit, None
            return limit
        if self.stalled >= self.patience:
            if self.rho >= self.steepest:
                return None
            self._set_rho(min(2.0 * self.rho, self.steepest))
            self.stalled = 0
        near = self.last is not None and (self.steps >= self.approach or self.last.point.gap <= self.close)
        if near and not self.compared:
            self.compared = True
            W, unpenalised = self.problem.reduced_rank_solution(self.penalty.n_free)
            if self.last is not None and unpenalised < self.last.point.objective:
                self.W = self.plain = W
                self.bound, self.last = unpenalised, None
                self.accelerator.count = 0
        self.steps += 1
        accelerated = False
        if self.last is not None:
            self._solve_both_sides(self.last)
            accelerated = self.W is not self.plain
        found = self._proximal(self.W)
        if accelerated and self.last is not None and found.point.objective > self.last.point.objective:
            self.accelerator.count = 0
            self.W = self.plain
            found = self._proximal(self.W)
        tolerated = self.bound + self.problem.rounding * abs(self.bound)
        while found.point.objective > tolerated and self.rho < self.steepest:
            self._set_rho(min(2.0 * self.rho, self.steepest))
            found = self._proximal(self.W)
        # Near a saddle point only the objective falls.
        self.last, point = found, found.point
        lower = self.least - point.objective > self.problem.rounding * abs(point.objective)
        self.stalled = 0 if lower or point.residual < self.least_residual else self.stalled + 1
        self.least = min(self.least, point.objective)
        self.least_residual = min(self.least_residual, point.residual)
        return point if self.compared else replace(point, gap=math.inf)  # no end before that

    @property
    def reached(self) -> tuple[Point, Factors]:
        """The last point, and its decomposition."""
        assert self.last is not None  # there was at least one step
        point, (U, V), kept = self.last.point, (self.last.U, self.last.basis), self.last.point.rank
        return point, Factors(U[:, :kept], beside(point.sigma[:kept], U), V[:, :kept])

    def _limit_if_stationary(self, sigma: Values) -> Point | None:
        problem, rank = self.problem, self.penalty.n_free
        W, _ = problem.reduced_rank_solution(rank)
        gradient, slopes, xp = problem.gradient(W), self.penalty.slopes(sigma), namespace(W)
        if np.any(slopes != self.penalty.slopes(0.0 * sigma)):
            return None  # a price that is not in proportion: the slope at 0 says little of large values
        slope = float(slopes[rank])
        # The norm of a column is a cheap lower bound, which mostly decides.
        longest = float(xp.max(xp.linalg.vector_norm(gradient, axis=0)))
        if longest > slope or singular_values(gradient)[0] > slope:
            return None
        # f has no slope within the row and column space of W, and elsewhere none above the penalty's.
        found = point_at(problem, self.penalty, W, spectrum(W, rank))
        return replace(found, residual=0.0, gap=0.0)

    def _set_rho(self, rho: float) -> None:
        """Prepare gradient steps of curvature ρ: W − ∇f(W)/ρ = A ∘ W + C − N(W)/ρ."""
        self.rho = rho
        self.scale = 1.0 - (2.0 / rho) * self.problem.diagonal
        self.shift = (2.0 / rho) * self.problem.pull

    def _proximal(self, W: Array) -> _Step:
        Y, beyond = self.scale * W, self.problem.beyond
        Y += self.shift
        if beyond is not None:
            Y -= beyond.product(W) / self.rho
        spectrum, basis = right_singular(Y)
        left = None
        if noise_may_survive(spectrum, self.penalty, 1.0 / self.rho):
            # Features of large scale have small coefficients, which may show only in a small singular value.
            left, sigma, right = thin_svd(Y)
            spectrum, basis = to_numpy(sigma), right.T
        shrunk = self.penalty.prox(spectrum, 1.0 / self.rho)
        if self.penalty.__module__ != Penalty.__module__:
            check_shrunk(shrunk, spectrum, self.penalty)
        kept = np.count_nonzero(shrunk)
        V, scales = basis[:, :kept], beside(np.stack([spectrum[:kept], shrunk[:kept]]), Y)
        U = (Y @ V) / scales[0, :] if left is None else left
        Z = (U[:, :kept] * scales[1, :]) @ V.T
        rest = W - Z
        bent = None if beyond is None else beyond.product(rest)
        rest *= self.rho * self.scale
        if bent is not None:
            rest -= bent
        price = self.penalty.value(shrunk)
        point = point_at(self.problem, price, Z, shrunk, rest)
        return _Step(Y, spectrum, basis, U, point, price, rest)

    def _solve_both_sides(self, last: _Step) -> None:
        """Compute W⁺ from a proximal point, and the majoriser's value there, which bounds the objective."""
        problem, kept = self.problem, last.point.rank
        sigma, V = last.point.sigma[:kept], last.basis[:, :kept]
        slopes = self.penalty.slopes(last.point.sigma)
        # After a few steps the left solve always pays.
        turning = 1.0 if self.steps > self.patient_steps else self.turning
        if 0 < kept <= turning * len(last.spectrum):
            enough = kept <= last.U.shape[1]  # not if another penalty keeps more values
            U = last.U[:, :kept] if enough else (last.Y @ V) / beside(last.spectrum[:kept], V)
            sigma, V = self._turn(U, 0.5 * slopes[:kept] / sigma)
        # The majoriser is Ω(σ) + Σ c_j (σ'_j − σ_j).
        offset = -np.sum(slopes[:kept] * last.point.sigma[:kept])
        slopes = slopes[: len(sigma)]
        R, least = problem.solve_left(V, 0.5 * slopes / sigma)
        self.bound = least + last.price + float(0.5 * np.sum(slopes * sigma) + offset)
        previous, self.plain = self.W, R @ V.T
        self.W = self.accelerator.extrapolate(self.plain, self.plain - previous)

    def _turn(self, U: Array, weights: Values) -> tuple[Values, Array]:
        """Singular values and right singular vectors of the best U K, without noise."""
        K = self.problem.solve_right(U, weights)
        squares, E = descending_eigh(K @ K.T)
        sigma = np.sqrt(np.maximum(to_numpy(squares), 0.0))
        if sigma[-1] > gram_noise(sigma):
            return sigma, (K.T @ E) / beside(sigma, K)
        _, values, Vt = thin_svd(K)
        sigma = to_numpy(values)
        kept = np.count_nonzero(sigma > len(sigma) * np.finfo(sigma.dtype).eps * sigma[0])
        return sigma[:kept], Vt[:kept, :].T


class Anderson:
    """Anderson acceleration (type II) of a fixed-point iteration y ↦ g(y).

    From the last images g_k = g(y_k) and residuals r_k = g_k − y_k, ``memory`` + 1 of them at most, it
    returns Σ c_j g_j with Σ c_j = 1 and the least ‖Σ c_j r_j‖. Images and residuals are rows of two matrices,
    in which the newest overwrites the oldest; with ``count`` = 0 it starts over.
    """

    def __init__(self, memory: int) -> None:
        self.memory, self.count = memory, 0
        self.gram = np.zeros((memory + 1, memory + 1))
        self.images: Array = None
        self.residuals: Array = None

    def extrapolate(self, image: Array, residual: Array) -> Array:
        """Add one pair and return the accelerated point (the image itself while there are few pairs)."""
        if self.memory == 0:
            return image
        xp, place = namespace(image), self.count % (self.memory + 1)
        if self.images is None:
            size = (self.memory + 1, math.prod(image.shape))
            self.images = xp.empty(size, dtype=image.dtype, device=image.device)
            self.residuals = xp.empty_like(self.images)
        self.images[place, :] = xp.reshape(image, (-1,))
        self.residuals[place, :] = xp.reshape(residual, (-1,))
        self.count += 1
        known = min(self.count, self.memory + 1)
        products = to_numpy(self.residuals[:known, :] @ self.residuals[place, :])
        self.gram[place, :known] = self.gram[:known, place] = products
        # A single difference is a poor guide, unless no more are ever kept.
        weights = None if self.count <= min(2, self.memory) else self._combination()
        if weights is None:
            return image
        mixed = xp.asarray(weights, dtype=image.dtype, device=image.device) @ self.images[:known, :]
        return xp.reshape(mixed, image.shape)

    def _combination(self) -> npt.NDArray[np.float64] | None:
        """Weights c of the stored images, or None if the residuals do not differ at all."""
        known = min(self.count, self.memory + 1)
        newest = (self.count - 1) % (self.memory + 1)
        oldest_first = (newest + 1 + np.arange(known)) % known
        steps = np.diff(np.eye(known)[oldest_first], axis=0)  # each row subtracts one residual from the next
        gram = steps @ self.gram[:known, :known] @ steps.T
        trace = np.trace(gram)
        if not trace > 0:
            return None
        # A trace of Tikhonov regularisation keeps nearly parallel differences from blowing up.
        moments = steps @ self.gram[:known, newest]
        gamma = np.linalg.solve(gram + 1e-10 * trace * np.eye(known - 1), moments)
        weights: npt.NDArray[np.float64] = np.eye(known)[newest] - steps.T @ gamma
        return weights
