"""Exact completion: the least penalty among all matrices that agree with every observed entry."""

from __future__ import annotations

import numpy as np

from lrml.completion._observed import Floats, Observed
from lrml.core.arrays import thin_svd
from lrml.core.penalties import TailSum
from lrml.solvers import Anderson, Recorder

# The threshold of a step as a share of the largest singular value of the zero-filled matrix.
_STEP = 0.2
_MEMORY = 8
# The linear part is renewed when the problem with the old one is solved to this share of its first residual.
_INNER = 0.1


def complete_exactly(
    observed: Observed, penalty: TailSum, tol: float, max_iter: int, run: Recorder[Floats]
) -> float:
    """Minimise Ω(σ(Z)) subject to P_Ω(Z) = P_Ω(M); ``run.best`` is Z. Return its stationarity residual.

    The tail sum is a difference of convex functions, ‖Z‖_* − (σ₁ + … + σ_theta). The second is at least ⟨G,
    Z⟩ with G = U_theta V_thetaᵀ of the current point, so minimising ‖Z‖_* − ⟨G, Z⟩ cannot raise the tail sum.
    Each of these convex problems is solved by Douglas–Rachford splitting, sped up by Anderson's method:

    ::

        Z = soft(V + γG, γ),    V ← P_Ω(V + M − Z) + P_Ω⊥(Z)

    The first G is 0, so the first problem is the trace norm, and the result is never worse than its solution.
    """
    filled = observed.sparse(observed.values).toarray()
    outside = np.ones(observed.shape)
    outside[observed.rows, observed.cols] = 0.0
    gamma = _STEP * float(np.linalg.norm(filled, 2))
    shadow, linear = filled, np.zeros(observed.shape)
    anderson = Anderson(_MEMORY)
    reached, goal, fresh = np.inf, 0.5 * tol, False
    for _ in range(max_iter):
        with run.clock():
            U, s, Vt = thin_svd(shadow + gamma * linear)
            shrunk = np.maximum(s - gamma, 0.0)
            Z = (U * shrunk) @ Vt
            image = outside * Z + (1.0 - outside) * (shadow + filled - Z)
            change = image - shadow
            residual = float(np.linalg.norm(change)) / observed.norm
        run.record("exact", penalty.value(shrunk), residual, int(np.count_nonzero(shrunk)))
        if fresh:
            goal, fresh = max(0.5 * tol, _INNER * residual), False
        if residual > goal:
            with run.clock():
                shadow = anderson.extrapolate(image, change)
            continue
        with run.clock():
            point, head = outside * Z + filled, U[:, : penalty.theta] @ Vt[: penalty.theta]
            value = penalty.value(np.linalg.svd(point, compute_uv=False))
        # The point is stationary for its own G only as far as G has converged.
        unsettled = gamma * float(np.linalg.norm(head - linear)) / observed.norm
        stationarity = float(np.hypot(residual, unsettled))
        if value <= run.least or stationarity <= tol:
            run.keep(point, value)
            reached = stationarity
        if stationarity <= tol:
            break
        # The dual part of the shadow belongs to the old G; the same V + γG is a better start.
        shadow, linear, fresh = shadow + gamma * (linear - head), head, True
        anderson.forget()
    if run.least == np.inf:
        run.keep(outside * Z + filled, np.inf)
        reached = residual
    return reached
