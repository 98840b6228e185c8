"""Completion of a noisy matrix: proximal steps, least squares on both sides, safe extrapolation."""

from __future__ import annotations

import numpy as np

from lrml.completion._observed import Decomposition, Observed, distance, tidy, turn
from lrml.penalties import TailSum, TraceNorm
from lrml.solvers import Factors, Recorder

# The warm-up goes down from σ₁ of the zero-filled matrix by this factor, with few steps for each alpha.
_SHRINK = 0.3
_LEAST_WARM_UP = 0.02
_WARM_UP_STEPS = 5
_WARM_UP_TOL = 1e-3
_WARM_UP_ACCURACY = 0.03


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
        misfit = self.observed.values - self.observed.at(point)
        return 0.5 * float(misfit @ misfit) + penalty.value(point.s)

    def _prox_step(self, point: Factors, penalty: TailSum) -> tuple[Factors, float]:
        """Return prox(P_Ω(M) + P_Ω⊥(Y)) and how far it is from Y, over ‖P_Ω(M)‖_F."""
        misfit = self.observed.values - self.observed.at(point)
        found = self.decomposition.leading(point, misfit, penalty.alpha, penalty.theta, self.max_rank)
        shrunk = penalty.prox(found.s, 1.0)[: self.max_rank]
        # Slopes are divided by the values: free ones that are zero up to rounding are dropped.
        count = int(np.count_nonzero(shrunk > np.finfo(np.float64).eps * found.s[0]))
        nearest = Factors(found.U[:, :count], shrunk[:count], found.V[:, :count])
        return nearest, distance(nearest, point) / self.observed.norm

    def _warm_up(self, penalty: TailSum, limit: int) -> Factors:
        """Follow the trace-norm solution down from strong penalties, to a loose tolerance.

        With theta = 0 it goes down to ``alpha``: early points have few singular values, so early steps are
        cheap. Otherwise it goes down to a small share of σ₁, with a bounded rank. If little is observed, the
        tail sum has many poor stationary points, whose free directions explain a few entries by huge values;
        a start near the solution of the convex problem avoids most of them.
        """
        point = Factors.zero(self.observed.shape)
        alpha = float(self.decomposition.leading(point, self.observed.values, np.inf, 1, None).s[0])
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
                turned = nearest
                if residual > tol and len(nearest.s):
                    turned = turn(self.observed, nearest, penalty)
                objective = self._objective(turned, penalty)
            if objective > run.least and not plain:
                ahead, momentum = best, 0
                continue
            last, best = best, turned
            run.keep(best, objective)
            momentum = 0 if residual <= tol else momentum + 1
            ahead = best if momentum <= 1 else _extrapolated(best, last, (momentum - 1) / (momentum + 2))
        return self._prox_step(best, penalty)[1]


def _extrapolated(point: Factors, last: Factors, share: float) -> Factors:
    """Return the factors of Z + share · (Z − Z_last)."""
    left = np.concatenate([(1 + share) * point.U * point.s, -share * last.U * last.s], axis=1)
    basis, triangle = np.linalg.qr(np.concatenate([point.V, last.V], axis=1))
    return tidy(left @ triangle.T, basis)
