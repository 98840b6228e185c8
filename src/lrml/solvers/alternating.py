"""Least squares on both sides of the matrix around a proximal step: the engine of fits and of paths."""

from __future__ import annotations

import math
from typing import NamedTuple

from lrml._arrays import Array, descending_eigh, frobenius, inner, namespace
from lrml.penalties import Penalty, gram_noise, right_singular, right_singular_by_svd
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, objective_of
from lrml.solvers.anderson import Anderson
from lrml.solvers.reduced_rank import ReducedRank


class _Step(NamedTuple):
    """A gradient step Y = W − ∇f(W)/ρ with its decomposition, and the proximal point that it leads to."""

    Y: Array
    spectrum: Array
    basis: Array
    U: Array
    point: Point
    objective: float


class Alternating:
    """Proximal steps, each followed by an exact least-squares solve on either side of the matrix.

    At a W, a proximal step of curvature ρ shows which singular values live:

    ::

        Z = prox_{Ω/ρ}(W − ∇f(W)/ρ) = U diag(σ) Vᵀ,     (2(Λ + ridge) − ρ)(Z − W) ∈ ∇f(Z) + ∂Ω(Z),

    and the norm of that element says, at no further cost, how far Z is from stationary. From Z two
    majorisers of Ω, with its slopes c_j, are minimised in closed form: one keeps the column space, one the
    row space.

    ::

        K = (Uᵀ(Λ + ridge)U + diag(c/2σ))⁻¹ UᵀB,      U K = U E diag(σ') V'ᵀ
        R_ij = (B V')_ij / (λ_i + ridge + c_j/2σ'_j),  W⁺ = R V'ᵀ

    Reweighted least squares on one side only is slow to turn the space that it keeps; on both sides it
    converges several times faster than splitting methods do, and the proximal step gives what neither has:
    exact zeros and new directions. Where nearly all values live there is little to turn, and the first of the
    two is left out.

    With ρ at the Lipschitz constant L of ∇f no step can raise the objective. ρ starts at ``share`` · L, and
    doubles, up to L, whenever a proximal step rises above the majoriser's value at W. The
    map W ↦ W⁺ is accelerated by Anderson's method (type II) with the given ``memory``; an accelerated point
    that is no better is dropped for the plain one.

    A ``rival`` is a `ReducedRank` phase that has run before; after ``approach`` steps its solution replaces
    the point that was reached, if it is better.
    """

    name = "alternating"
    seeks_tolerance = True
    turning = 0.8
    approach = 3
    patient_steps = 8

    def __init__(
        self,
        share: float = 0.3,
        memory: int = 8,
        patience: int = 15,
        rival: ReducedRank | None = None,
    ) -> None:
        self.share = share
        self.memory = memory
        self.patience = patience
        self.rival = rival
        self.n_decompositions = 0

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Begin at a point, with ρ from the mean curvature."""
        self.problem, self.scale = problem, problem.scale
        self._set_rho(self.share * problem.lipschitz)
        self.W = self.plain = point.W
        self.bound = objective_of(problem, penalty, point.W, point.sigma)
        self.last: _Step | None = None
        self.accelerator = Anderson(self.memory)
        self.retarget(penalty)

    def retarget(self, penalty: Penalty) -> None:
        """Go on from here with another penalty; the last decomposition serves its first solves."""
        self.penalty = penalty
        self.accelerator.forget()
        self.least_residual = self.least_objective = math.inf
        self.stalled = self.steps = 0
        if self.last is not None:
            sigma = penalty.prox(self.last.spectrum, 1.0 / self.rho)
            # What the objective was under another penalty says nothing.
            self.last = self.last._replace(point=Point(self.last.point.W, sigma), objective=math.inf)

    def step(self) -> Point | None:
        """Solve on both sides of the last proximal point, then decompose once."""
        if self.stalled >= self.patience and self.rho >= self.problem.lipschitz:
            return None
        if self.rival is not None and self.steps == self.approach:
            self._compare(*self.rival.solution)
        self.steps += 1
        if self.stalled >= self.patience:
            self._set_rho(min(2.0 * self.rho, self.problem.lipschitz))
            self.stalled = 0
        accelerated = False
        if self.last is not None:
            self._solve_both_sides(self.last)
            accelerated = self.W is not self.plain
        found = self._proximal(self.W)
        if accelerated and self.last is not None and found.objective > self.last.objective:
            self.accelerator.forget()
            self.W = self.plain
            found = self._proximal(self.W)
        while (
            found.objective > self.bound * (1 + self.problem.rounding) and self.rho < self.problem.lipschitz
        ):
            self._set_rho(min(2.0 * self.rho, self.problem.lipschitz))
            found = self._proximal(self.W)
        self._watch(found)
        self.last = found
        return found.point

    def _compare(self, W: Array, unpenalised: float) -> None:
        """Begin again at the reduced-rank solution if that is better than what the first steps have found."""
        if self.last is not None and unpenalised < self.last.objective:
            self.W = self.plain = W
            self.bound, self.last = unpenalised, None
            self.accelerator.forget()

    def _watch(self, found: _Step) -> None:
        """Count the steps that bring nothing; on the way past a saddle point only the objective falls."""
        gain = self.least_objective - found.objective
        improved = found.point.residual < self.least_residual
        improved = improved or gain > self.problem.rounding * abs(found.objective)
        self.stalled = 0 if improved else self.stalled + 1
        self.least_residual = min(self.least_residual, found.point.residual)
        self.least_objective = min(self.least_objective, found.objective)

    def _set_rho(self, rho: float) -> None:
        """Prepare gradient steps of curvature ρ: W − ∇f(W)/ρ = (1 − 2(Λ + ridge)/ρ) W + 2B/ρ."""
        self.rho = rho
        self._gradient_step = (
            1.0 - (2.0 / rho) * self.problem.curvature[:, None],
            (2.0 / rho) * self.problem.cross,
        )

    def _proximal(self, W: Array) -> _Step:
        scale, shift = self._gradient_step
        Y = scale * W
        Y += shift
        spectrum, basis = right_singular(Y)
        self.n_decompositions += 1
        xp = namespace(Y)
        free = min(self.penalty.n_free, int(spectrum.shape[0]))
        kept = max(int(xp.count_nonzero(self.penalty.prox(spectrum, 1.0 / self.rho) > 0)), free)
        if kept and float(spectrum[kept - 1]) <= gram_noise(spectrum):
            spectrum, basis = right_singular_by_svd(Y)
        return self._shrink(W, Y, spectrum, basis)

    def _shrink(self, W: Array, Y: Array, spectrum: Array, basis: Array) -> _Step:
        """Proximal point from the singular values and right singular vectors of Y."""
        xp = namespace(Y)
        shrunk = self.penalty.prox(spectrum, 1.0 / self.rho)
        kept = int(xp.count_nonzero(shrunk > 0))
        V = basis[:, :kept]
        U = (Y @ V) / spectrum[:kept]
        Z = (U * shrunk[:kept]) @ V.T
        rest = Z - W
        rest *= self.rho * self._gradient_step[0]
        point = Point(Z, shrunk, frobenius(rest) / self.scale, proved=True)
        return _Step(Y, spectrum, basis, U, point, objective_of(self.problem, self.penalty, Z, shrunk))

    def _left_factor(self, last: _Step, kept: int) -> Array:
        """U of a proximal point, which another penalty may have made longer."""
        if kept <= last.U.shape[1]:
            return last.U[:, :kept]
        return (last.Y @ last.basis[:, :kept]) / last.spectrum[:kept]

    def _solve_both_sides(self, last: _Step) -> None:
        """W⁺ from a proximal point, and the value of the majoriser there, which bounds the objective."""
        xp = namespace(last.Y)
        problem, kept = self.problem, last.point.rank
        sigma, V = last.point.sigma[:kept], last.basis[:, :kept]
        slopes = self.penalty.slopes(last.point.sigma)
        # A few steps later it is worth its price in any case.
        turning = 1.0 if self.steps > self.patient_steps else self.turning
        if 0 < kept <= turning * int(last.spectrum.shape[0]):
            sigma, V = self._turn(self._left_factor(last, kept), 0.5 * slopes[:kept] / sigma)
        slopes = slopes[: sigma.shape[0]]
        projected = problem.cross @ V
        # In place: what a chain of large temporary arrays costs is mostly the memory that they are made of.
        R = problem.curvature[:, None] + 0.5 * slopes / sigma
        R **= -1.0
        R *= projected
        # The quadratic part of the majoriser at its minimiser is half of its linear part.
        self.bound = problem.target - inner(R, projected) + 0.5 * float(xp.sum(slopes * sigma))
        previous, self.plain = self.W, R @ V.T
        self.W = self.accelerator.extrapolate(self.plain, self.plain - previous)

    def _turn(self, U: Array, weights: Array) -> tuple[Array, Array]:
        """Singular values and right singular vectors of the best U K, without those that are noise."""
        xp = namespace(U)
        curvature = U.T @ (self.problem.curvature[:, None] * U)
        diagonal = xp.eye(int(weights.shape[0]), dtype=U.dtype) * weights
        K = xp.linalg.solve(curvature + diagonal, U.T @ self.problem.cross)
        squares, E = descending_eigh(K @ K.T)
        sigma = xp.sqrt(xp.clip(squares, min=0.0))
        kept = int(xp.count_nonzero(sigma > gram_noise(sigma)))
        return sigma[:kept], (K.T @ E[:, :kept]) / sigma[:kept]
