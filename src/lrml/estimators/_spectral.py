"""Fit of a loss plus a penalty on the singular values: shared by LRML, ML-trace and ML-Fro."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from lrml._arrays import is_sparse, to_numpy
from lrml.estimators._fitting import (
    Solution,
    TrainingData,
    check_size,
    is_warm_start,
    nothing_to_learn,
    solver_progress,
    sort_labels,
    store,
    warn_unless_converged,
)
from lrml.estimators._linear import LinearMultiLabelModel
from lrml.estimators._parameters import Parameters
from lrml.estimators._space import RidgeRegressions, Space, with_unseen
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.row_problem import RowProblem
from lrml.solvers import (
    ROW_SOLVERS,
    Certificate,
    Factors,
    SolverResult,
    Status,
    solve,
    solve_rows,
    solve_separable,
)

_Float64 = npt.NDArray[np.float64]
# If every iteration reads the rows, there is time for fewer iterations.
_MAX_ITER_MOMENTS, _MAX_ITER_ROWS = 5000, 1000
# Single-precision scores give the objective to 2e-7, which suffices for gaps down to this.
_SINGLE_PRECISION_FROM = 1e-5


class SpectralModel(LinearMultiLabelModel):
    """Base of the estimators whose penalty is a function of the singular values.

    Subclasses define their penalty by ``_penalty`` and ``_ridge``.
    """

    _assumed: ClassVar[dict[str, Any]] = {**LinearMultiLabelModel._assumed, "solver": "auto"}
    _default_tol = 1e-4
    _default_row_tol = 1e-4

    def _penalty(self, data: TrainingData, params: Parameters) -> TailSum:
        """Return the penalty for data of this shape."""
        raise NotImplementedError

    def _ridge(self, params: Parameters) -> float:
        """Return the strength of the squared Frobenius norm."""
        return float(params.ridge)

    def _certificate(self, penalty: TailSum) -> Certificate | None:
        """Return the certificate to use if the moments suffice; None for the solver's estimate."""
        return None

    def _extras(
        self, penalty: TailSum, problem: SpectralProblem | RowProblem | None, result: SolverResult | None
    ) -> dict[str, Any]:
        """Return further fitted attributes; problem and result are None if there was nothing to learn."""
        return {}

    def _check_params(self) -> Parameters:
        params = super()._check_params()
        if params.loss.name != "squared":
            _check_row_solver(params)
        return params

    def _fit_data(self, data: TrainingData, params: Parameters) -> Self:
        if not data.needs_moments_only:
            _check_row_solver(params)
        last = None
        if is_warm_start(self, params, data):
            last = self._start_of(data), self.intercept_.astype(np.float64)
        penalty = self._penalty(data, params)
        if data.needs_moments_only or not self._is_separable(data, params, penalty):
            check_size(data, type(self).__name__)
        fit = self._fit_moments if data.needs_moments_only else self._fit_rows
        solution, extras = fit(data, params, penalty, last)
        store(self, data, solution, **extras)
        warn_unless_converged(solution.outcome)
        return self

    def _is_separable(self, data: TrainingData, params: Parameters, penalty: TailSum) -> bool:
        """Whether a fit by rows is one of every label on its own, without a certificate."""
        inactive = not np.any(penalty.slopes(np.ones(min(data.shape))))
        return inactive and params.solver == "auto" and self._certificate(penalty) is None

    def _start_of(self, data: TrainingData) -> _Float64:
        """Coefficients of the last fit (d × L); for a kernel, its scores without the intercept (n × L)."""
        if data.kernel is not None:
            return np.asarray(self._scores(data.X) - self.intercept_, dtype=np.float64)
        return np.asarray(self.coef_.T, dtype=np.float64)

    def _fit_moments(
        self, data: TrainingData, params: Parameters, penalty: TailSum, last: tuple[_Float64, _Float64] | None
    ) -> tuple[Solution, dict[str, Any]]:
        """Least squares with all labels known: everything follows from the second moments."""
        space, problem, result = self._solve_moments(data, params, penalty, last)
        factors = space.factors(result.factors)
        solution = Solution(factors, space.intercept(factors.U * factors.s, factors.V), space.unseen, result)
        extras = self._extras(penalty, problem, result)
        return solution, extras | space.kernel_gap(problem.ridge, result.objective)

    def _ridge_regressions(self, data: TrainingData, params: Parameters) -> RidgeRegressions:
        penalty = self._penalty(data, params)
        _, problem, result = self._solve_moments(data, params, penalty, None)
        if result.status is Status.EXACT:
            return RidgeRegressions(to_numpy(result.solution), None, problem.ridge)
        U, s, V = Factors.of(to_numpy(result.solution))
        kept = s > max(problem.shape) * np.finfo(s.dtype).eps * s[0]
        extra = 0.5 * penalty.slopes(s)[kept] / s[kept]
        return RidgeRegressions(U[:, kept] * s[kept], V[:, kept], problem.ridge, extra)

    def _solve_moments(
        self, data: TrainingData, params: Parameters, penalty: TailSum, last: tuple[_Float64, _Float64] | None
    ) -> tuple[Space, SpectralProblem, SolverResult]:
        ridge = self._ridge(params)
        space = data.space(fit_intercept=params.fit_intercept, ridge=ridge)
        problem = space.problem.with_ridge(ridge)
        max_iter = _MAX_ITER_MOMENTS if params.max_iter is None else params.max_iter
        with solver_progress(params.verbose, max_iter, params.callback, type(self).__name__) as callback:
            result = solve(
                problem,
                penalty,
                solver=params.solver,
                start=None if last is None else space.compress(last[0]),
                max_iter=max_iter,
                tol=self._default_tol if params.tol is None else params.tol,
                callback=callback,
                certificate=self._certificate(penalty),
            )
        return space, problem, result

    def _fit_rows(
        self, data: TrainingData, params: Parameters, penalty: TailSum, last: tuple[_Float64, _Float64] | None
    ) -> tuple[Solution, dict[str, Any]]:
        """Any loss, with or without unknown labels: every iteration reads the rows."""
        rows = data.rows
        if not rows.label_totals()[0].any():
            raise ValueError(
                "some label must be known in a row with a positive weight, got none. Check sample_weight."
            )
        unseen, used, intercept = sort_labels(data, rows, fit_intercept=params.fit_intercept)
        if not used.any():
            return nothing_to_learn(data, unseen, intercept), self._extras(penalty, None, None)
        tol = self._default_row_tol if params.tol is None else params.tol
        single = tol >= _SINGLE_PRECISION_FROM and _suits_single_precision(rows.X)
        rows = rows.select_labels(used)
        precision = np.float32 if single else np.float64
        ridge, fit_intercept = self._ridge(params), params.fit_intercept
        start = None if last is None else (last[0][:, used], last[1][used])
        max_iter = _MAX_ITER_ROWS if params.max_iter is None else params.max_iter
        problem = None
        with solver_progress(params.verbose, max_iter, params.callback, type(self).__name__) as callback:
            if self._is_separable(data, params, penalty):
                result, intercept[used] = solve_separable(
                    replace(rows, dtype=precision),
                    data.loss,
                    ridge,
                    fit_intercept=fit_intercept,
                    start=start,
                    max_iter=max_iter,
                    tol=tol,
                    callback=callback,
                )
            else:
                rows = rows.with_precision(precision)
                problem = RowProblem(rows, data.loss, ridge, fit_intercept=fit_intercept)
                result = solve_rows(
                    problem,
                    penalty,
                    solver=params.solver,
                    start=None if start is None else problem.compress(*start),
                    max_iter=max_iter,
                    tol=tol,
                    callback=callback,
                )
                intercept[used] = problem.intercept(result.solution)
        V = np.zeros((len(used), len(result.factors.s)))
        V[used] = result.factors.V
        factors = Factors(result.factors.U, result.factors.s, V)
        solution = Solution(factors, with_unseen(intercept, unseen, data.loss), unseen, result)
        return solution, self._extras(penalty, problem, result)


def _check_row_solver(params: Parameters) -> None:
    if params.solver not in ROW_SOLVERS:
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, ROW_SOLVERS))} unless loss='squared' and all "
            f"labels are known, got {params.solver!r}. Use 'auto'."
        )


def _suits_single_precision(X: Any) -> bool:
    """Whether no feature is far from zero relative to its spread, or too large or small for float32 squares.

    Scores of features that are not centred are differences of large numbers. If features differ much in
    scale, rounding errors would swamp the smaller ones.
    """
    edges = (X.min(axis=0), X.max(axis=0))
    low, high = (edge.toarray().ravel() if is_sparse(edge) else edge for edge in edges)
    size = np.maximum(np.abs(low), np.abs(high))[low != high]
    spread = (high - low)[low != high]
    alike = spread.max(initial=0.0) <= 1e3 * spread.min(initial=np.inf)
    return bool(alike and np.all((size <= 100 * spread) & (size < 1e15) & (size > 1e-15)))
