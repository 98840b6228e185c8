"""The observed entries of a matrix; noisy completion by factors, exact completion by full decompositions.

Both methods leave the matrix in ``run.best``, its objective in ``run.least``, and return its residual.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator, svds
from sklearn.utils import check_array

from lrml.core.arrays import is_sparse, to_host
from lrml.core.linalg import thin_svd
from lrml.core.penalties import TailSum, TraceNorm
from lrml.solvers import Anderson, Factors, Recorder

Floats = npt.NDArray[np.float64]
# Numbers gathered at a time, of factors at many entries or of the systems of some rows.
_BATCH = 1 << 20
# The warm-up goes down from σ₁ of the zero-filled matrix by this factor, with few steps for each alpha; if
# values are free, to this share of σ₁, with triplets of this accuracy.
_SHRINK, _STEPS = 0.3, 5
_LEAST, _ACCURACY = 0.02, 0.03
# Exact completion: the threshold as a share of σ₁, and the share of its first residual to which a problem is
# solved before the linear part is renewed.
_THRESHOLD, _INNER = 0.2, 0.1


class Observed:
    """Observed entries Ω of an m × n matrix M, each pair once, sorted by row and then by column."""

    def __init__(self, shape: tuple[int, int], places: tuple[Any, ...], values: Floats) -> None:
        order = np.lexsort(places[::-1])
        self.shape, self.values = shape, values[order]
        self.rows, self.cols = (place[order] for place in places)
        self.row_starts = np.searchsorted(self.rows, np.arange(shape[0] + 1))
        self.norm = float(np.linalg.norm(values))  # ‖P_Ω(M)‖_F

    @classmethod
    def of(cls, M: Any) -> Observed:
        """Read a dense matrix (all but NaN is observed) or a sparse one (all that is stored)."""
        if isinstance(M, Observed):
            return M
        options: dict[str, Any] = {"ensure_all_finite": "allow-nan", "input_name": "M"}
        matrix: Any = check_array(to_host(M), accept_sparse="coo", dtype=np.float64, **options)
        places = (matrix.row, matrix.col) if is_sparse(matrix) else np.indices(matrix.shape).reshape(2, -1)
        values = matrix.data if is_sparse(matrix) else matrix.ravel()
        known = ~np.isnan(values)
        found = cls(matrix.shape, tuple(place[known] for place in places), values[known])
        if not len(found.values):
            raise ValueError("M has no observed entry. Mark only missing ones as NaN, or store the others.")
        twice = np.flatnonzero((np.diff(found.rows) == 0) & (np.diff(found.cols) == 0))
        if len(twice):  # SciPy would add them, which may not be meant
            where = f"row {found.rows[twice[0]]}, column {found.cols[twice[0]]}"
            raise ValueError(f"M stores {where} twice. Add the values up with M.sum_duplicates().")
        return found

    def only(self, chosen: Any) -> Observed:
        """Return some of the entries."""
        return Observed(self.shape, (self.rows[chosen], self.cols[chosen]), self.values[chosen])

    @cached_property
    def transposed(self) -> Observed:
        """The same entries, sorted by column."""
        return Observed(self.shape[::-1], (self.cols, self.rows), self.values)

    def misfit(self, factors: Factors) -> Floats:
        """Return M − U diag(s) Vᵀ at the observed entries."""
        return self.values - entries_of(factors, self.rows, self.cols)

    def sparse(self, values: Floats) -> sp.csr_array:
        """Return the sparse matrix that has these values at the observed entries."""
        return sp.csr_array((values, self.cols, self.row_starts), shape=self.shape)

    def fit_rows(self, V: Floats, weights: Floats, old: Floats) -> Floats:
        """Return the coefficients r of every row i in the basis V, from its observed entries Ω_i.

        ::

            argmin_r Σ_{j ∈ Ω_i} (m_ij − r·v_j)² + Σ_k w_k r_k² + ε ‖r − r_old‖²

        A tiny ε keeps what fewer entries than free directions leave undetermined as it is in ``old``. Rows
        with equally many entries are solved together.
        """
        counts, rank = np.diff(self.row_starts), V.shape[1]
        found = np.zeros_like(old)
        near = 1e-9 * (1.0 + weights)  # ε, beside the unit length of a basis vector
        for count in np.unique(counts):
            alike = np.flatnonzero(counts == count)
            step = max(1, _BATCH // (1 + rank * (int(count) + rank)))
            for start in range(0, len(alike), step):
                rows = alike[start : start + step]
                places = self.row_starts[rows, None] + np.arange(count)
                basis = V[self.cols[places]]
                gram = np.swapaxes(basis, 1, 2) @ basis + np.diag(weights + near)
                moments = np.einsum("ick,ic->ik", basis, self.values[places]) + near * old[rows]
                found[rows] = np.linalg.solve(gram, moments[..., None])[..., 0]
        return found


def entries_of(factors: Factors, rows: Any, cols: Any) -> Floats:
    """Return (U diag(s) Vᵀ)_ij for pairs of indices, without the other entries."""
    left = factors.U * factors.s
    found = np.empty(len(rows))
    step = max(1, _BATCH // max(1, len(factors.s)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        found[some] = np.einsum("ij,ij->i", left[rows[some]], factors.V[cols[some]])
    return found


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
