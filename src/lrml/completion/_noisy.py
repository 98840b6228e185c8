"""Completion of a noisy matrix: proximal steps, least squares on both sides, safe extrapolation."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from lrml.completion._alternate import distance, tidy, turn_columns, turn_rows
from lrml.completion._decompose import Decomposition
from lrml.completion._observed import Observed
from lrml.penalties import TailSum, TraceNorm
from lrml.solvers import Factors, History, IterationInfo

# The warm-up goes down from σ₁ of the zero-filled matrix by this factor, with few steps for each alpha.
_SHRINK = 0.3
_LEAST_WARM_UP = 0.02
_WARM_UP_STEPS = 5
_WARM_UP_TOL = 1e-3
_WARM_UP_ACCURACY = 0.03


def zero_factors(shape: tuple[int, int]) -> Factors:
    """Return the factors of the zero matrix."""
    return Factors(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))


@dataclass
class NoisyCompletion:
    """Minimise F(Z) = ½‖P_Ω(Z − M)‖² + Ω(σ(Z)) over matrices given by factors.

    A step from Y takes P = prox(P_Ω(M) + P_Ω⊥(Y)), then fits all rows anew in the row space of P and all
    columns anew in the column space of what comes out. With slopes c_j of the penalty,
    Σ c_j σ_j(Z) ≤ ½ Σ c_j (‖Z v_j‖²/σ_j + σ_j), so both fits are ridge regressions that cannot raise F. The
    next Y goes on beyond the new point; if F rose, that is forgotten and a plain step follows, which cannot.

    Attributes
    ----------
    observed : Observed
    decomposition : Decomposition
    max_rank : int or None
        Most singular values that a proximal step keeps.
    history : History
    """

    observed: Observed
    decomposition: Decomposition
    max_rank: int | None = None
    history: History = field(default_factory=History)
    started: float = field(default_factory=time.perf_counter)

    def objective(self, point: Factors, penalty: TailSum) -> float:
        """Return F at a point."""
        misfit = self.observed.values - self.observed.at(point)
        return 0.5 * float(misfit @ misfit) + penalty.value(point.s)

    def prox_step(self, point: Factors, penalty: TailSum) -> tuple[Factors, float]:
        """Return prox(P_Ω(M) + P_Ω⊥(Y)) and how far it is from Y, over ‖P_Ω(M)‖_F."""
        misfit = self.observed.values - self.observed.at(point)
        found = self.decomposition.leading(point, misfit, penalty.alpha, penalty.theta, self.max_rank)
        shrunk = penalty.prox(found.s, 1.0)[: self.max_rank]
        # Free values that are zero but for rounding would divide the slopes by nothing.
        count = int(np.count_nonzero(shrunk > np.finfo(np.float64).eps * found.s[0]))
        nearest = Factors(found.U[:, :count], shrunk[:count], found.V[:, :count])
        return nearest, distance(nearest, point) / self.observed.norm

    def warm_up(self, penalty: TailSum, limit: int) -> Factors:
        """Follow the solution of the trace norm down from strong penalties, loosely.

        With theta = 0 down to ``alpha``: early points have few singular values, so early steps are cheap.
        Else down to a small share of σ₁, with a bounded rank. The tail sum has many poor stationary points
        where little is observed, free directions that explain a few entries by huge values, and a start near
        the solution of the convex problem keeps clear of most of them.
        """
        point = zero_factors(self.observed.shape)
        alpha = float(self.decomposition.leading(point, self.observed.values, np.inf, 1, None).s[0])
        lowest = _LEAST_WARM_UP * alpha if penalty.theta else penalty.alpha
        bound = self.max_rank
        if penalty.theta:
            self.max_rank = min(bound or min(self.observed.shape), penalty.theta + 5)
            # Its triplets reach into the bulk of the noise, where they take long to tell apart.
            self.decomposition.accuracy = _WARM_UP_ACCURACY
        alpha *= _SHRINK
        while alpha > lowest and len(self.history) + _WARM_UP_STEPS < limit:
            stage = TraceNorm(alpha)
            point, _, _ = self.descend(point, stage, _WARM_UP_TOL, len(self.history) + _WARM_UP_STEPS)
            alpha *= _SHRINK
        self.max_rank, self.decomposition.accuracy = bound, 0.0
        return point

    def descend(
        self, point: Factors, penalty: TailSum, tol: float, limit: int
    ) -> tuple[Factors, float, float]:
        """Take steps until the residual is at most ``tol`` or the history has ``limit`` lines.

        Returns
        -------
        tuple
            The best point, its objective and its residual.
        """
        best, least = point, self.objective(point, penalty)
        ahead, momentum, residual = point, 0, np.inf
        while len(self.history) < limit:
            nearest, residual = self.prox_step(ahead, penalty)
            self._note(penalty, least, residual, len(nearest.s))
            plain = ahead is best
            if residual <= tol and plain:
                return best, least, residual
            turned = nearest
            if residual > tol and len(nearest.s):
                turned = turn_rows(self.observed, nearest, penalty.slopes(nearest.s))
                turned = turn_columns(self.observed, turned, penalty.slopes(turned.s))
            objective = self.objective(turned, penalty)
            if objective > least and not plain:
                ahead, momentum = best, 0
                continue
            last, best, least = best, turned, objective
            momentum = 0 if residual <= tol else momentum + 1
            ahead = best if momentum <= 1 else extrapolated(best, last, (momentum - 1) / (momentum + 2))
        _, residual = self.prox_step(best, penalty)
        return best, least, residual

    def _note(self, penalty: TailSum, objective: float, residual: float, rank: int) -> None:
        seconds = time.perf_counter() - self.started
        phase = f"alpha={penalty.alpha:.4g}"
        self.history.entries.append(
            IterationInfo(len(self.history), phase, objective, residual, rank, seconds)
        )


def extrapolated(point: Factors, last: Factors, share: float) -> Factors:
    """Return the factors of Z + share · (Z − Z_last)."""
    left = np.concatenate([(1 + share) * point.U * point.s, -share * last.U * last.s], axis=1)
    basis, triangle = np.linalg.qr(np.concatenate([point.V, last.V], axis=1))
    return tidy(left @ triangle.T, basis)
