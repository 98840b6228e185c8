"""Proximal Newton for losses over rows: every step reads the data once and uses its curvature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lrml.core.arrays import HOST, Array, Place, dot, frobenius, namespace
from lrml.core.linalg import spectrum
from lrml.core.loss_problem import Evaluation, RowProblem
from lrml.core.penalties import Penalty, Values
from lrml.core.quadratic import Beyond, SpectralProblem
from lrml.solvers._loop import Gains, Point, point_at
from lrml.solvers.alternating import Alternating

# Ridge of the first starting point, as a share of the mean curvature.
_START_RIDGE = 0.1
# Least curvature of an intercept, as a share of that of the diagonal.
_LEAST_CORNER = 1e-6
# Gaps up to this mean that the model is exact.
_EXACT = 1e-8
# A pair whose curvature is below this share of that of the diagonal is rounding noise, or the loss is flat.
_LEAST_CURVATURE = 1e-8
# Numbers of the vectors of labels whose systems are solved together: so that they stay in the cache, and on a
# device, so that few kernels are launched.
_CHUNK, _DEVICE_CHUNK = 1 << 17, 1 << 26


class ProximalNewton:
    """Repeatedly minimise a quadratic model of the loss plus the penalty.

    At a point V₀ with gradient G the model of f is

    ::

        f(V₀) + ⟨G, D⟩ + ½ Σ_l d_lᵀ (B_l + 2 ridge) d_l,    D = V − V₀.

    Each label has a B_l of its own, that of limited-memory BFGS (`Secants`) on top of the diagonal
    κ_l c_l λ_i: c_l is the mean curvature of label l at V₀, and κ_l corrects it by what the last step has
    shown. Pairs come from the loss alone, so they stay valid if penalty and ridge change.

    `Alternating` lowers the model plus the penalty, as long as its last step brings more than a share
    ``worth`` of what all have brought; where the second was not worth it, the next few models get one only. A
    point that does not lower the objective is tried again with what it has shown, and with a larger diagonal
    (Levenberg's damping): a penalty that is not convex can draw the minimiser far away. A fit that takes many
    steps is near a saddle point or on a plateau, and each model is then minimised thoroughly.
    """

    name = "newton"
    _slowest, _fastest = 0.8, 4.0  # limits to the change of κ in one step
    _least = 1e-3  # κ of labels that show no curvature at all, where the loss is zero; rounding is far below
    _first = 4.0  # κ at the origin; rare labels bend the logistic loss more once they get scores
    memory = 6  # pairs of the model
    _trials, _least_damping = 12, 0.5
    _simple_steps = 15  # more of them make a fit slow
    _thorough_worth, _refinements, _thorough_refinements = 0.02, 2, 20
    _most_blind_steps, _most_inner = 5, 12
    _most_single = 4  # models with one step; without them, fits of corel5k and enron take a quarter longer

    def __init__(self, worth: float = 0.3) -> None:
        self.worth = worth

    def start(self, problem: RowProblem, penalty: Penalty, point: Point) -> None:
        """Begin with the mean curvature; at a solution of the same rows, with what was learnt on the way."""
        self.problem, self.penalty, self.last = problem, penalty, point
        self.gains = Gains(problem.rounding)
        self.gains.add(point.objective)
        at_origin = point.rank == 0
        if at_origin or "secants" not in problem.learnt:
            (size, n_labels), place = problem.shape, Place.of(point.W)
            secants = Secants((n_labels, self.memory, size), problem.rows.dtype, place)
            kappa = (self._first if at_origin else 1.0) * place.ones(n_labels)
            problem.learnt.update(secants=secants, kappa=kappa)
        self.secants: Secants = problem.learnt["secants"]
        self.kappa: Array = problem.learnt["kappa"]
        self.blind_steps, self.damping, self.slow = 0, 0.0, False
        self.untrusted = 2 if at_origin else 0
        self.single = 0  # how many of the next models get a single step
        self.penalised = float(np.sum(penalty.slopes(np.zeros(min(point.W[1:, :].shape))))) > 0
        self.wide = problem.shape[1] > problem.shape[0] - 1
        self.phase: Alternating | None = None
        self.model = self._model(problem.evaluate(point.W))

    def step(self) -> Point | None:
        """Return the next point; None if even the safest model finds nothing better."""
        V, here = self.last.W, self.problem.evaluate(self.last.W)
        for _ in range(self._trials):
            found, sigma, subgradient = self._minimise(here)
            there = self.problem.evaluate(found)
            D = found - V
            objective = there.value + self.penalty.value(sigma)
            accepted = objective < self.last.objective or self._is_lost_in_rounding(objective, D)
            self._learn(D, there, here)  # the model is of no use from here on
            if accepted:
                self.damping = 0.25 * self.damping if self.damping > self._least_damping else 0.0
                self.model = self._model(there)
                slope = namespace(D).asarray(there.gradient, copy=True)
                slope[1:, :] += subgradient
                self.last = self._point(found, sigma, objective, slope)
                return self.last
            self.damping = max(4.0 * self.damping, self._least_damping)
            self.model = self._model(here)
            self.phase = None  # its state from there is useless here
        return None

    def _point(self, V: Array, sigma: Values, objective: float, slope: Array) -> Point:
        self.gains.add(objective)
        self.slow = len(self.gains.least) > self._simple_steps
        decrement = 0.5 * (1.0 + self.damping) * float(dot(slope, self.model.solve(slope.T).T))
        unit = max(objective, self.problem.least)
        # Along directions whose curvature the model overestimates, the gap is larger. And with
        # single-precision scores it never vanishes.
        gap = max(decrement / unit, self.gains.to_come())
        if self.slow:
            gap = max(gap, self.gains.of_last(5))  # near a saddle point slopes are small
        if len(self.gains.least) > 20:
            # If gains fall like 1/k², that of the later half is about what remains; if faster, it is more.
            gap = min(gap, self.gains.of_last((len(self.gains.least) - 1) // 2))
        self.untrusted -= 1
        if self.untrusted >= 0 and gap > _EXACT:
            # The first models of a cold start know little of the curvature: what a step has gained counts.
            gap = max(gap, (self.last.objective - objective) / unit)
        return Point(V, sigma, objective, frobenius(slope) / self.problem.scale, gap)

    def _is_lost_in_rounding(self, objective: float, D: Array) -> bool:
        """Whether a step gains less than rounding; a few of these are taken, as when the ridge dominates."""
        noise = self.problem.rounding * abs(self.last.objective)
        hidden = abs(objective - self.last.objective) <= noise
        hidden = hidden and float(dot(D.T, self.model.product(D.T))) <= noise
        self.blind_steps += hidden
        return hidden and self.blind_steps <= self._most_blind_steps

    def _curvatures(self, here: Evaluation) -> Array:
        xp = namespace(self.kappa)
        bent = self.kappa * xp.maximum(here.curvatures, self.problem.least_curvatures)
        return xp.clip(bent, max=self.problem.loss.largest_curvature)

    def _model(self, here: Evaluation) -> Model:
        """Return the model of the Hessian of f, one matrix per label, with the damping and the ridge."""
        diagonal = self._curvatures(here)[:, None] * self.problem.spread[:, 0]
        model = self.secants.model(diagonal)
        bent = (1.0 + self.damping) * diagonal
        bent[:, 1:] += 2.0 * self.problem.ridges[:, 0]
        return model._replace(diagonal=bent)

    def _minimise(self, here: Evaluation) -> tuple[Array, Values, Array]:
        """Minimise ⟨G, D⟩ + ½⟨D, BD⟩ + Ω; return V, its singular values and an element of ∂Ω there."""
        V = self.last.W
        xp = namespace(V)
        if not self.penalised:
            newton = V - self.model.solve(here.gradient.T).T
            return newton, spectrum(newton[1:, :]), xp.zeros_like(newton[1:, :])
        reduced = Reduced.of(self.model, here.gradient)
        problem = self._quadratic(here, reduced)
        fresh = self.phase is None
        if self.phase is None:
            self.phase = Alternating()
            W, sigma = self._turned(V[1:, :].T), self.last.sigma
            if self.last.rank == 0:
                # At the origin there are no directions, and small steps would have to find them: begin at the
                # minimiser of the model with a little more ridge, and without the penalty.
                h = problem.curvature
                W = problem.cross / (h + _START_RIDGE * xp.mean(h, axis=int(self.wide), keepdims=True))
                sigma = spectrum(W)
            self.phase.start(problem, self.penalty, point_at(problem, self.penalty, W, sigma))
        else:
            self.phase.retarget(self.penalty, problem)
        self._lower(self.phase, fresh)
        last = self.phase.last
        assert last is not None  # there was at least one step
        W = self._turned(last.point.W).T
        subgradient = self._turned(last.slope - problem.gradient(last.point.W)).T
        constants = V[0, :] + reduced.constants(W - V[1:, :])
        return xp.concat([constants[None, :], W]), last.point.sigma, subgradient

    def _turned(self, A: Array) -> Array:
        """Return a matrix with a row per label as the quadratic has it, the longer side first; or back."""
        return A if self.wide else A.T

    def _lower(self, phase: Alternating, fresh: bool) -> None:
        """Take steps while they are worth it."""
        start = before = self.last.objective
        worth = self._thorough_worth if self.slow else self.worth
        # The first step of a new phase only looks around.
        least = 3 if fresh or self.slow else 1 if self.single > 0 else 2
        for count in range(1, self._most_inner + 1):
            found = phase.step()
            if found is None:
                break
            gain, total, before = before - found.objective, start - found.objective, found.objective
            if count >= least and total > 0 and (count == 1 or gain <= worth * total):
                break
        self.single = self._most_single if count == 2 else max(self.single - 1, 0)

    def _quadratic(self, here: Evaluation, reduced: Reduced) -> SpectralProblem:
        """Return the model, turned, as a quadratic that agrees with f at the last point."""
        V, G = self.last.W[1:, :].T, reduced.gradient.T
        eigenvalues = self.problem.spread[1:, 0]
        curvatures = 0.5 * (1.0 + self.damping) * self._curvatures(here) + self.problem.tilt
        h = self.model.diagonal[:, 1:]
        target = here.value - reduced.gain - dot(G, V) + 0.5 * namespace(V).sum(h * V * V)
        rows, columns = (curvatures, eigenvalues) if self.wide else (eigenvalues, curvatures)
        beyond = None
        if self.secants.count:
            product = reduced.beyond.product
            refinements = self._thorough_refinements if self.slow else self._refinements
            beyond = Beyond(lambda W: self._turned(product(self._turned(W))), self._turned(V), refinements)
        cross = self._turned(0.5 * (h * V - G))
        return SpectralProblem(
            rows, cross, float(target), ridge=self.problem.ridge, columns=columns, beyond=beyond
        )

    def _learn(self, D: Array, there: Evaluation, here: Evaluation) -> None:
        """Remember the pair of each label, and move κ towards the curvature that it has shown."""
        change = there.gradient - here.gradient
        change[1:, :] -= 2.0 * self.problem.ridges * D[1:, :]  # of the loss only
        xp = namespace(change)
        base = xp.maximum(here.curvatures, self.problem.least_curvatures)[:, None] * self.problem.spread[:, 0]
        self.secants.add(D.T, change.T, base)
        expected = xp.vecdot(base * D.T, D.T)
        moved = (expected > 1e-12 * xp.max(expected)) & (expected > 1e-312)
        ratio = xp.vecdot(change.T, D.T) / xp.where(moved, expected, 1.0)
        low, high = self._slowest * self.kappa, self._fastest * self.kappa
        kappa = xp.clip(xp.minimum(xp.maximum(ratio, low), high), min=self._least)
        self.kappa[:] = xp.where(moved, kappa, self.kappa)


class Model(NamedTuple):
    """B = diagonal + Σ_k ± v_k v_kᵀ for every label."""

    diagonal: Any  # L × size; None stands for zeros
    vectors: Array  # L × k × size
    signs: Array  # (k,)

    def product(self, E: Array) -> Array:
        """B e for every label, e a row of E."""
        V = self.vectors
        narrow = namespace(E).astype(E, V.dtype, copy=False)
        # Products of tiny matrices in single precision sometimes report an invalid value though all numbers
        # are finite: the processor adds numbers beside the matrices, whose sums are not used.
        with np.errstate(invalid="ignore"):
            along = (V @ narrow[:, :, None]).mT * self.signs
            beyond = (along @ V)[:, 0, :]
        return beyond if self.diagonal is None else self.diagonal * E + beyond

    def solve(self, G: Array) -> Array:
        """B⁻¹ g for every label, by Woodbury's formula, in double precision: it subtracts large parts."""
        xp, T = namespace(G), self.diagonal
        solution = xp.empty_like(T)
        vectors, signs = self.vectors, xp.astype(self.signs, T.dtype)
        identity = xp.eye(signs.shape[0], dtype=T.dtype, device=T.device)
        numbers = _CHUNK if isinstance(T, np.ndarray) else _DEVICE_CHUNK
        step = max(1, numbers // max(vectors.shape[1] * vectors.shape[2], 1))
        for first in range(0, T.shape[0], step):
            some = slice(first, min(first + step, T.shape[0]))
            U = xp.astype(vectors[some, ...], T.dtype, copy=False)
            over_T = U / T[some, None, :]
            inner = over_T @ U.mT + signs * identity
            found = xp.linalg.solve(inner, over_T @ G[some, :, None])
            solution[some, :] = G[some, :] / T[some, :] - (found.mT @ over_T)[:, 0, :]
        return solution


class Reduced(NamedTuple):
    """A model of f without its intercepts: for every W they are at their minimum.

    With the row h of B between the intercept and the features, the Hessian of the rest loses h hᵀ / B₀₀.
    """

    slopes: Array
    row: Array
    corner: Array
    gradient: Array
    gain: Array
    beyond: Model  # what the Hessian has beyond the diagonal of B

    @classmethod
    def of(cls, model: Model, gradient: Array) -> Reduced:
        """Eliminate the first coordinate."""
        xp = namespace(gradient)
        unit = xp.zeros_like(model.diagonal)
        unit[:, 0] = 1.0
        row = model.product(unit)
        # Where the last steps have shown hardly any curvature, rounding must not make it negative.
        corner = xp.maximum(row[:, 0], _LEAST_CORNER * model.diagonal[:, 0])
        row, slopes, (_, vectors, signs) = row[:, 1:], gradient[0, :], model
        lost = xp.astype(row / xp.sqrt(corner)[:, None], vectors.dtype)
        beyond = Model(
            None,
            xp.concat([vectors[:, :, 1:], lost[:, None, :]], axis=1),
            xp.concat([signs, -xp.ones(1, dtype=signs.dtype, device=signs.device)]),
        )
        rest, gain = gradient[1:, :] - row.T * (slopes / corner), 0.5 * xp.sum(slopes**2 / corner)
        return cls(slopes, row, corner, rest, gain, beyond)

    def constants(self, E: Array) -> Array:
        """Return the best change of the intercepts for a change of the coefficients."""
        return -(self.slopes + namespace(E).vecdot(self.row, E.T)) / self.corner


class Secants:
    """The last pairs of steps and changes of the gradient of every label, for one L-BFGS model each.

    From a diagonal B₀ and pairs of steps s_k and changes of the gradient y_k with s_kᵀ y_k = 1, the oldest
    first, every pair changes two rank-one parts:

    ::

        B_(k+1) = B_k + y_k y_kᵀ − a_k a_kᵀ,    a_k = B_k s_k / √(s_kᵀ B_k s_k).

    As a_k a_kᵀ ≤ B_k, no part is much larger than B itself, so single precision is enough for them; the
    compact form of Byrd, Nocedal and Schnabel (1994) would need the inverse of a matrix that is nearly
    singular if steps are nearly parallel. All labels are handled together: arrays have one row per label.
    ``shape`` are the numbers of labels, of the pairs that are kept and of the entries of a step; ``dtype`` is
    the precision of the pairs, as most of the time goes into reading them. All else is in double precision.
    """

    def __init__(self, shape: tuple[int, int, int], dtype: Any = np.float64, place: Place = HOST) -> None:
        self.S, self.Y = place.zeros(shape, dtype), place.zeros(shape, dtype)  # the newest is the last
        self.memory, self.count = shape[1], 0

    def add(self, steps: Array, changes: Array, diagonal: Array) -> None:
        """Add one pair for every label that has moved and shown curvature; the others keep a gap."""
        xp = namespace(steps)
        shown = xp.vecdot(steps, changes)
        expected = xp.vecdot(steps, diagonal * steps)
        # The model does not depend on the length of a pair.
        unit = _inverse_roots(shown, (expected > 0.0) & (shown > _LEAST_CURVATURE * expected))
        for kept, new in ((self.S, steps), (self.Y, changes)):
            for place in range(self.memory - 1):
                kept[:, place, :] = kept[:, place + 1, :]
            kept[:, -1, :] = xp.astype(new * unit, kept.dtype, copy=False)
        self.count += 1

    def model(self, diagonal: Array) -> Model:
        """Return the model on top of a positive B₀ (one row per label)."""
        known, Y = min(self.count, self.memory), self.Y
        xp = namespace(Y)
        # y₁, a₁, y₂, a₂, …
        vectors = xp.empty((Y.shape[0], 2 * known, Y.shape[2]), dtype=Y.dtype, device=Y.device)
        signs = 1.0 - 2.0 * (xp.arange(2 * known, dtype=Y.dtype, device=Y.device) % 2.0)
        for place in range(known):
            s = self.S[:, place - known, :]
            before = Model(diagonal, vectors[:, : 2 * place, :], signs[: 2 * place])
            bent = before.product(s)  # B_k s_k
            length = xp.vecdot(xp.astype(s, bent.dtype, copy=False), bent)
            vectors[:, 2 * place, :] = Y[:, place - known, :]
            # 0 where there is a gap instead of a pair.
            a = bent * _inverse_roots(length, length > 0.0)
            vectors[:, 2 * place + 1, :] = xp.astype(a, vectors.dtype, copy=False)
        return Model(diagonal, vectors, signs)


def _inverse_roots(squares: Array, valid: Array) -> Array:
    """Return 1/√ of some numbers, as a column, and 0 for those that are not valid."""
    xp = namespace(squares)
    return xp.where(valid, 1.0 / xp.sqrt(xp.where(valid, squares, 1.0)), 0.0)[:, None]
