"""Noisy completion by factors, exact completion by full decompositions.

Both leave the matrix in ``run.best``, its objective in ``run.least``, and return its residual.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.linalg import aslinearoperator, svds

from lrml.completion._observed import Floats, Observed
from lrml.core.linalg import thin_svd
from lrml.core.penalties import TailSum, TraceNorm
from lrml.solvers import Anderson, Factors, Recorder

# The warm-up goes down from σ₁ of the zero-filled matrix by this factor, with few steps for each alpha; if
# values are free, to this share of σ₁, with triplets of this accuracy.
_SHRINK, _STEPS = 0.3, 5
_LEAST, _ACCURACY = 0.02, 0.03
# Exact completion: the threshold as a share of σ₁, and the share of its first residual to which a problem is
# solved before the linear part is renewed.
_THRESHOLD, _INNER = 0.2, 0.1


class NoisyCompletion:
    """Minimise F(Z) = ½‖P_Ω(Z − M)‖² + Ω(σ(Z)) over matrices given by factors.

    A step from Y takes P = prox(P_Ω(M) + P_Ω⊥(Y)), then refits all rows in the row space of P and all columns
    in the column space of the result. With slopes c_j of the penalty, Σ c_j σ_j(Z) ≤ ½ Σ c_j (‖Z v_j‖²/σ_j +
    σ_j), so both fits are ridge regressions that cannot raise F. The next Y extrapolates beyond the new
    point; if F rose, the step is dropped and a plain one follows. Unless ``dense``, Lanczos's method finds
    the singular triplets that are needed, with a relative accuracy (0 for machine precision).
    """

    def __init__(self, observed: Observed, run: Recorder, *, dense: bool) -> None:
        self.observed, self.run, self.dense = observed, run, dense
        self.rank, self.accuracy = 0, 0.0

    def solve(self, penalty: TailSum, start: Factors | None, tol: float, max_iter: int) -> float:
        """Take steps until the residual is at most ``tol``, or ``max_iter`` of them; return the residual."""
        if start is None:  # nothing may be worse than zero
            starts = self._warm_up(penalty, tol, max_iter // 2), Factors.zero(self.observed.shape)
            start = min(starts, key=lambda point: self._objective(point, penalty))
        return self._descend(start, penalty, tol, max_iter)

    def leading(self, point: Factors, penalty: TailSum) -> Factors:
        """Return the triplets of P_Ω(M) + P_Ω⊥(Y) that prox may keep: the free ones, and those above alpha.

        Lanczos's method tries a few more than were kept last, and half as many again while all exceed alpha.
        """
        shape, misfit = self.observed.shape, self.observed.misfit(point)
        sparse, left = self.observed.sparse(misfit), point.U * point.s
        operator = aslinearoperator(sparse) + aslinearoperator(left) @ aslinearoperator(point.V.T)
        most = min(shape) if penalty.max_rank is None else min(*shape, max(1, penalty.max_rank))
        count = min(shape) if self.dense else min(most, max(penalty.n_free, self.rank) + 3)
        while True:
            if count == min(shape):
                full = left @ point.V.T
                full[self.observed.rows, self.observed.cols] += misfit
                found = Factors.of(full)
            else:
                start = np.random.default_rng(0).standard_normal(min(shape))
                U, s, Vt = svds(operator, k=count, v0=start, tol=self.accuracy)
                found = Factors(U[:, ::-1], s[::-1], Vt[::-1].T)
            if found.s[-1] <= penalty.alpha or count >= most:
                break
            count = min(most, count + max(4, count // 2))
        self.rank = int(np.count_nonzero(found.s > penalty.alpha))
        return found

    def at_zero(self, k: int) -> float:
        """Return σ_k of the zero-filled matrix."""
        return float(self.leading(Factors.zero(self.observed.shape), TailSum(k, math.inf)).s[k - 1])

    def _objective(self, point: Factors, penalty: TailSum) -> float:
        misfit = self.observed.misfit(point)
        return 0.5 * float(misfit @ misfit) + penalty.value(point.s)

    def _prox_step(self, point: Factors, penalty: TailSum) -> tuple[Factors, float]:
        """Return prox(P_Ω(M) + P_Ω⊥(Y)) and how far it is from Y, over ‖P_Ω(M)‖_F."""
        found = self.leading(point, penalty)
        shrunk = penalty.prox(found.s, 1.0)
        # Slopes are divided by the values: free ones that are zero up to rounding are dropped.
        count = int(np.count_nonzero(shrunk > np.finfo(np.float64).eps * found.s[0]))
        nearest = Factors(found.U[:, :count], shrunk[:count], found.V[:, :count])
        return nearest, float(np.linalg.norm(combined(1.0, nearest, -1.0, point).s)) / self.observed.norm

    def _refitted(self, point: Factors, penalty: TailSum) -> Factors:
        for entries in (self.observed, self.observed.transposed):
            U, s, V = point
            found = decomposed(entries.fit_rows(V, penalty.slopes(s) / s, U * s), V)
            point = Factors(found.V, found.s, found.U)  # of the transpose
        return point

    def _warm_up(self, penalty: TailSum, tol: float, limit: int) -> Factors:
        """Follow the trace-norm solution down from strong penalties, where steps are cheap.

        With free values it ends at a small share of σ₁, with a bounded rank: if little is observed, poor
        stationary points explain a few entries by huge values; a start near the convex problem avoids most.
        """
        alpha, lowest, most = self.at_zero(1), penalty.alpha, penalty.max_rank
        if penalty.n_free:
            few = penalty.n_free + 5
            lowest, most = _LEAST * alpha, few if most is None else min(few, most)
            # Its triplets reach into the bulk of the noise, where they are slow to separate.
            self.accuracy = _ACCURACY
        point, history = Factors.zero(self.observed.shape), self.run.history
        alpha *= _SHRINK
        while alpha > lowest and len(history) + _STEPS < limit:
            self._descend(point, TraceNorm(alpha, max_rank=most), max(tol, 1e-3), len(history) + _STEPS)
            point = self.run.best
            alpha *= _SHRINK
        self.accuracy = 0.0
        return point

    def _descend(self, point: Factors, penalty: TailSum, tol: float, limit: int) -> float:
        """Step until the residual is at most ``tol`` or the history has ``limit`` lines."""
        run, phase = self.run, f"alpha={penalty.alpha:.4g}"
        run.best, run.least = point, self._objective(point, penalty)
        best = ahead = point
        momentum = 0
        while len(run.history) < limit:
            nearest, residual = self._prox_step(ahead, penalty)
            run.record(phase, run.least, residual, len(nearest.s))
            plain = ahead is best
            if residual <= tol and plain:
                return residual
            refit = residual > tol and len(nearest.s)
            turned = self._refitted(nearest, penalty) if refit else nearest
            objective = self._objective(turned, penalty)
            if objective > run.least and not plain:
                ahead, momentum = best, 0
                continue
            last, best = best, turned
            run.best, run.least = best, objective
            momentum = 0 if residual <= tol else momentum + 1
            share = (momentum - 1) / (momentum + 2)
            ahead = best if momentum <= 1 else combined(1 + share, best, -share, last)
        return self._prox_step(best, penalty)[1]


def combined(a: float, first: Factors, b: float, second: Factors) -> Factors:
    """Return the factors of a · Z₁ + b · Z₂."""
    left = np.concatenate([a * first.U * first.s, b * second.U * second.s], axis=1)
    basis, triangle = np.linalg.qr(np.concatenate([first.V, second.V], axis=1))
    return decomposed(left @ triangle.T, basis)


def decomposed(R: Floats, V: Floats) -> Factors:
    """Thin singular value decomposition of R Vᵀ for an orthonormal V, without values that are zero."""
    U, s, right = Factors.of_sides(R, V)
    keep = s > np.finfo(np.float64).eps * max(R.shape) * s.max(initial=0.0)
    return Factors(U[:, keep], s[keep], right[:, keep])


def complete_exactly(observed: Observed, run: Recorder, penalty: TailSum, tol: float, max_iter: int) -> float:
    """Minimise Ω(σ(Z)) subject to P_Ω(Z) = P_Ω(M).

    The tail sum is ‖Z‖_* − (σ₁ + … + σ_theta), and the sum is at least ⟨G, Z⟩ with G = U_theta V_thetaᵀ of
    the current point, so minimising ‖Z‖_* − ⟨G, Z⟩ cannot raise it. Douglas–Rachford splitting solves these
    convex problems, with Anderson's method. The first one, with G = 0, is the trace norm.

    ::

        Z = soft(V + γG, γ),    V ← P_Ω(V + M − Z) + P_Ω⊥(Z)
    """
    filled = observed.sparse(observed.values).toarray()
    outside = np.ones(observed.shape)
    outside[observed.rows, observed.cols] = 0.0
    gamma = _THRESHOLD * float(np.linalg.norm(filled, 2))
    shadow, linear = filled, np.zeros(observed.shape)
    anderson = Anderson(8)
    reached = math.inf  # the residual of run.best
    first: float | None = 0.0  # the first one with this G; the trace norm itself is solved to the end
    for step in range(max_iter):
        U, s, Vt = thin_svd(shadow + gamma * linear)
        shrunk = np.maximum(s - gamma, 0.0)
        Z = (U * shrunk) @ Vt
        image = outside * Z + (1.0 - outside) * (shadow + filled - Z)
        change = image - shadow
        residual = float(np.linalg.norm(change)) / observed.norm
        first = residual if first is None else first
        if residual > max(0.5 * tol, _INNER * first) and step < max_iter - 1:
            shadow = anderson.extrapolate(image, change)
        else:
            point, head = Factors.of(outside * Z + filled), U[:, : penalty.theta] @ Vt[: penalty.theta]
            # The point is stationary for its own G only as far as G has converged.
            unsettled = gamma * float(np.linalg.norm(head - linear)) / observed.norm
            stationarity = math.hypot(residual, unsettled)
            if penalty.value(point.s) <= run.least or stationarity <= tol:
                run.best, run.least = point, penalty.value(point.s)
                reached = stationarity
            # The dual part of the shadow belongs to the old G; the same V + γG is a better start.
            shadow, linear, first = shadow + gamma * (linear - head), head, None
            anderson.count = 0
        run.record("exact", penalty.value(shrunk), residual, int(np.count_nonzero(shrunk)))
        if reached <= tol:
            break
    return reached
