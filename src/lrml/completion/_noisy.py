"""Completion of a noisy matrix: proximal steps, least squares on both sides, safe extrapolation."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import aslinearoperator, svds

from lrml.completion._observed import Floats, Observed, fit_rows
from lrml.core.penalties import TailSum, TraceNorm
from lrml.solvers import Factors, Recorder

# The warm-up goes down from σ₁ of the zero-filled matrix by this factor, with few steps for each alpha.
_SHRINK = 0.3
_LEAST_WARM_UP = 0.02
_WARM_UP_STEPS = 5
_WARM_UP_TOL = 1e-3
_WARM_UP_ACCURACY = 0.03


class Decomposition:
    """Leading singular triplets of Z + P_Ω(M − Z), the matrix that every proximal step decomposes.

    ``dense`` takes the SVD of the full matrix. Otherwise Lanczos's method finds as many triplets as are
    needed. The number of singular values above the threshold is not known in advance. The count of the last
    call, plus a few, is tried first; while all values found exceed the threshold, it grows by half. If it
    reaches all of them, the m × n matrix is made and decomposed: it is smaller than its singular vectors, and
    Lanczos's method cannot find the last triplet.

    ``accuracy`` is the relative accuracy of the triplets; 0 stands for machine precision.
    """

    def __init__(self, observed: Observed, *, dense: bool) -> None:
        self.observed, self.dense = observed, dense
        self.accuracy = 0.0
        self.rank = 0
        self.start = np.random.default_rng(0).standard_normal(min(observed.shape))

    def leading(self, point: Factors, threshold: float, n_free: int, max_rank: int | None) -> Factors:
        """Return at least ``n_free`` triplets and all with a value above ``threshold``, or ``max_rank``."""
        shape, misfit = self.observed.shape, self.observed.misfit(point)
        sparse, left = self.observed.sparse(misfit), point.U * point.s
        operator = aslinearoperator(sparse) + aslinearoperator(left) @ aslinearoperator(point.V.T)
        most = min(shape) if max_rank is None else min(*shape, max_rank)
        count = min(shape) if self.dense else min(most, max(n_free, self.rank) + 3)
        while True:
            if count == min(shape):
                full = left @ point.V.T
                full[self.observed.rows, self.observed.cols] += misfit
                found = Factors.of(full)
            else:
                U, s, Vt = svds(operator, k=count, v0=self.start, tol=self.accuracy)
                found = Factors(U[:, ::-1], s[::-1], Vt[::-1].T)
            if found.s[-1] <= threshold or count >= most:
                break
            count = min(most, count + max(4, count // 2))
        self.rank = max(n_free, int(np.count_nonzero(found.s > threshold)))
        # Lanczos's method starts from the leading directions of the last call.
        self.start = (found.U if shape[0] <= shape[1] else found.V)[:, : self.rank + 1].sum(axis=1)
        return found


class NoisyCompletion:
    """Minimise F(Z) = ½‖P_Ω(Z − M)‖² + Ω(σ(Z)) over matrices given by factors.

    A step from Y takes P = prox(P_Ω(M) + P_Ω⊥(Y)), then refits all rows in the row space of P and all columns
    in the column space of the result. With slopes c_j of the penalty, Σ c_j σ_j(Z) ≤ ½ Σ c_j (‖Z v_j‖²/σ_j +
    σ_j), so both fits are ridge regressions that cannot raise F. The next Y extrapolates beyond the new
    point; if F rose, the step is dropped and a plain one follows, which cannot raise F.

    ``run.best`` is the point reached; at most ``max_rank`` singular values are kept.
    """

    def __init__(self, observed: Observed, *, dense: bool, max_rank: int | None) -> None:
        self.observed, self.max_rank = observed, max_rank
        self.decomposition = Decomposition(observed, dense=dense)
        self.run: Recorder[Factors] = Recorder()

    def solve(self, penalty: TailSum, start: Factors | None, tol: float, max_iter: int) -> float:
        """Take steps until the residual is at most ``tol``, or ``max_iter`` of them; return the residual."""
        point = self._warm_up(penalty, max_iter // 2) if start is None else start
        # Without a given start, the zero matrix counts as the start: nothing may be worse.
        zero = Factors.zero(self.observed.shape)
        if start is None and self._objective(point, penalty) > self._objective(zero, penalty):
            point = zero
        return self._descend(point, penalty, tol, max_iter)

    def _objective(self, point: Factors, penalty: TailSum) -> float:
        misfit = self.observed.misfit(point)
        return 0.5 * float(misfit @ misfit) + penalty.value(point.s)

    def _prox_step(self, point: Factors, penalty: TailSum) -> tuple[Factors, float]:
        """Return prox(P_Ω(M) + P_Ω⊥(Y)) and how far it is from Y, over ‖P_Ω(M)‖_F."""
        found = self.decomposition.leading(point, penalty.alpha, penalty.theta, self.max_rank)
        shrunk = penalty.prox(found.s, 1.0)[: self.max_rank]
        # Slopes are divided by the values: free ones that are zero up to rounding are dropped.
        count = int(np.count_nonzero(shrunk > np.finfo(np.float64).eps * found.s[0]))
        nearest = Factors(found.U[:, :count], shrunk[:count], found.V[:, :count])
        return nearest, float(np.linalg.norm(combined(1.0, nearest, -1.0, point).s)) / self.observed.norm

    def _refitted(self, point: Factors, penalty: TailSum) -> Factors:
        """Refit all rows in the row space V with the weights c_j/σ_j, then all columns likewise."""
        for entries in (self.observed, self.observed.transposed):
            U, s, V = point
            found = decomposed(fit_rows(entries, V, penalty.slopes(s) / s, U * s), V)
            point = Factors(found.V, found.s, found.U)  # of the transpose
        return point

    def _warm_up(self, penalty: TailSum, limit: int) -> Factors:
        """Follow the trace-norm solution down from strong penalties, to a loose tolerance.

        With theta = 0 it goes down to ``alpha``: early points have few singular values, so early steps are
        cheap. Otherwise it goes down to a small share of σ₁, with a bounded rank. If little is observed, the
        tail sum has many poor stationary points, whose free directions explain a few entries by huge values;
        a start near the solution of the convex problem avoids most of them.
        """
        point = Factors.zero(self.observed.shape)
        alpha = float(self.decomposition.leading(point, np.inf, 1, None).s[0])
        lowest = _LEAST_WARM_UP * alpha if penalty.theta else penalty.alpha
        bound, history = self.max_rank, self.run.history
        if penalty.theta:
            self.max_rank = min(bound or min(self.observed.shape), penalty.theta + 5)
            # Its triplets reach into the bulk of the noise, where they are slow to separate.
            self.decomposition.accuracy = _WARM_UP_ACCURACY
        alpha *= _SHRINK
        while alpha > lowest and len(history) + _WARM_UP_STEPS < limit:
            self._descend(point, TraceNorm(alpha), _WARM_UP_TOL, len(history) + _WARM_UP_STEPS)
            point = self.run.best
            alpha *= _SHRINK
        self.max_rank, self.decomposition.accuracy = bound, 0.0
        return point

    def _descend(self, point: Factors, penalty: TailSum, tol: float, limit: int) -> float:
        """Step until the residual is at most ``tol`` or the history has ``limit`` lines."""
        run, phase = self.run, f"alpha={penalty.alpha:.4g}"
        run.keep(point, self._objective(point, penalty))
        best = ahead = point
        momentum = 0
        while len(run.history) < limit:
            with run.clock():
                nearest, residual = self._prox_step(ahead, penalty)
            run.record(phase, run.least, residual, len(nearest.s))
            plain = ahead is best
            if residual <= tol and plain:
                return residual
            with run.clock():
                refit = residual > tol and len(nearest.s)
                turned = self._refitted(nearest, penalty) if refit else nearest
                objective = self._objective(turned, penalty)
            if objective > run.least and not plain:
                ahead, momentum = best, 0
                continue
            last, best = best, turned
            run.keep(best, objective)
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
