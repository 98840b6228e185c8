"""Fit of a loss plus a penalty of the singular values: what LRML, ML-trace and ML-Fro share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lrml import _validation as check
from lrml._arrays import is_sparse, to_numpy
from lrml._progress import solver_progress
from lrml.estimators._fitting import (
    Solution,
    TrainingData,
    check_feature_count,
    check_limits,
    is_warm_start,
    nothing_to_learn,
    prepare,
    sort_labels,
    store,
    warn_unless_converged,
)
from lrml.estimators._linear import LinearMultiLabelModel
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.row_problem import RowProblem
from lrml.solvers import (
    ROW_SOLVERS,
    Callback,
    Certificate,
    Factors,
    SolverResult,
    solve,
    solve_rows,
)

# Where every iteration reads the rows there is time for fewer of them.
_MAX_ITER_MOMENTS, _MAX_ITER_ROWS = 5000, 1000
# Scores in single precision give the objective to 2e-7, and so gaps down to here.
_SINGLE_PRECISION_FROM = 1e-5


class SpectralModel(LinearMultiLabelModel):
    """Base of the estimators whose penalty is a function of the singular values.

    Subclasses say what they penalise by ``_penalty`` and ``_ridge``. They have the parameters ``loss``,
    ``fit_intercept``, ``max_iter``, ``tol``, ``targets``, ``threshold``, ``warm_start``, ``callback`` and
    ``verbose``.
    """

    solver: Any = "auto"
    _default_tol = 1e-4
    _default_row_tol = 1e-4

    def _penalty(self, data: TrainingData) -> TailSum:
        """Return the checked penalty."""
        raise NotImplementedError

    def _ridge(self) -> float:
        """Return the checked strength of the squared Frobenius norm."""
        raise NotImplementedError

    def _certificate(self, penalty: TailSum) -> Certificate | None:
        """Return what ``tol`` limits where the moments suffice; None for the stationarity residual."""
        return None

    def _extras(
        self, penalty: TailSum, problem: SpectralProblem | RowProblem | None, result: SolverResult | None
    ) -> dict[str, Any]:
        """Return further fitted attributes; problem and result are None where there was nothing to learn."""
        return {}

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            Never densified as a whole if sparse.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels; NaN where it is not known whether a label applies. Column names of a frame become
            ``classes_``.
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row.
        observed : array, sparse matrix or frame of bool of shape (n, L), optional
            True where a label is known, as an alternative to NaN. In a sparse matrix what is not stored is
            unknown.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        # scikit-learn's validation writes to the estimator it is given: a stand-in takes that for now.
        return self._fit_data(prepare(self, X, y, sample_weight, observed))

    def _fit_data(self, data: TrainingData) -> Self:
        """Fit checked data."""
        check_feature_count(data.X.shape[1], type(self).__name__)
        penalty = self._penalty(data)
        ridge = self._ridge()
        fit_intercept = check.check_flag("fit_intercept", self.fit_intercept)
        fit = self._fit_moments if data.needs_moments_only else self._fit_rows
        solution, extras = fit(data, penalty, ridge, fit_intercept)
        U, s, V = solution.factors
        coef = np.ascontiguousarray((V * s) @ U.T, dtype=data.X.dtype)
        store(self, data, solution, coef_=coef, **extras)
        warn_unless_converged(self, solution)
        return self

    def _fit_moments(
        self, data: TrainingData, penalty: TailSum, ridge: float, fit_intercept: bool
    ) -> tuple[Solution, dict[str, Any]]:
        """Least squares with all labels known: everything follows from the second moments."""
        statistics = data.statistics
        problem = data.problem(fit_intercept=fit_intercept).with_ridge(ridge)
        last = self._last_coefficients(data)
        start = None if last is None else problem.compress(last[0])
        result = self._solve_moments(problem, penalty, start)
        U, s, V = (to_numpy(factor) for factor in result.factors)
        intercept = np.zeros(data.Y.shape[1])
        if fit_intercept:
            intercept = statistics.y_mean - ((statistics.x_mean @ U) * s) @ V.T
        unseen = (statistics.y_mean == 0) & (data.targets == "binary")
        intercept[unseen] = data.loss.unseen_score
        return _solution(Factors(U, s, V), intercept, unseen, result), self._extras(penalty, problem, result)

    def _solve_moments(self, problem: SpectralProblem, penalty: TailSum, start: Any) -> SolverResult:
        solver = check.check_solver(self.solver)
        max_iter, tol = check_limits(self, self._default_tol, _MAX_ITER_MOMENTS)
        with self._progress(max_iter) as callback:
            return solve(
                problem,
                penalty,
                solver=solver,
                start=start,
                max_iter=max_iter,
                tol=tol,
                callback=callback,
                certificate=self._certificate(penalty),
            )

    def _fit_rows(
        self, data: TrainingData, penalty: TailSum, ridge: float, fit_intercept: bool
    ) -> tuple[Solution, dict[str, Any]]:
        """Any loss, any labels known: the rows are read in every iteration."""
        if self.solver not in ROW_SOLVERS:
            raise ValueError(
                f"solver must be one of {', '.join(map(repr, ROW_SOLVERS))} unless loss='squared' and all "
                f"labels are known, got {self.solver!r}. Use 'auto'."
            )
        max_iter, tol = check_limits(self, self._default_row_tol, _MAX_ITER_ROWS)
        rows = data.rows
        if not rows.label_totals()[0].any():
            raise ValueError(
                "some label must be known in a row with a positive weight, got none. Check sample_weight."
            )
        unseen, used, intercept = sort_labels(data, rows, fit_intercept=fit_intercept)
        if not used.any():
            return nothing_to_learn(data, unseen, intercept), self._extras(penalty, None, None)
        single = tol >= _SINGLE_PRECISION_FROM and _suits_single_precision(rows.X)
        precision = np.float32 if single else np.float64
        problem = RowProblem(
            rows.select_labels(used).with_precision(precision), data.loss, ridge, fit_intercept=fit_intercept
        )
        last = self._last_coefficients(data)
        start = None if last is None else problem.compress(last[0][:, used], last[1][used])
        with self._progress(max_iter) as callback:
            result = solve_rows(
                problem,
                penalty,
                solver=self.solver,
                start=start,
                max_iter=max_iter,
                tol=tol,
                callback=callback,
            )
        V = np.zeros((len(used), len(result.factors.s)))
        V[used] = result.factors.V
        intercept[used] = problem.intercept(result.solution)
        intercept[unseen] = data.loss.unseen_score
        factors = Factors(result.factors.U, result.factors.s, V)
        return _solution(factors, intercept, unseen, result), self._extras(penalty, problem, result)

    def _progress(self, max_iter: int) -> Any:
        callback: Callback | None = check.check_callback(self.callback)
        return solver_progress(self.verbose, max_iter, callback, type(self).__name__)

    def _last_coefficients(
        self, data: TrainingData
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """Coefficients (d × L) and intercepts of the last fit, if warm starts are wanted."""
        if not is_warm_start(self, data):
            return None
        return self.coef_.T.astype(np.float64), self.intercept_.astype(np.float64)


def _suits_single_precision(X: Any) -> bool:
    """Whether no feature is far from zero beside its spread, nor of a size that float32 cannot square.

    Scores of features that are not centred are differences of large numbers. And of features that differ much
    in scale the smaller ones would be learnt from rounding.
    """
    edges = (X.min(axis=0), X.max(axis=0))
    low, high = (edge.toarray().ravel() if is_sparse(edge) else edge for edge in edges)
    size = np.maximum(np.abs(low), np.abs(high))[low != high]
    spread = (high - low)[low != high]
    alike = spread.max(initial=0.0) <= 1e3 * spread.min(initial=np.inf)
    return bool(alike and np.all((size <= 100 * spread) & (size < 1e15) & (size > 1e-15)))


def _solution(
    factors: Factors,
    intercept: npt.NDArray[np.float64],
    unseen: npt.NDArray[np.bool_],
    result: SolverResult,
) -> Solution:
    return Solution(
        factors,
        intercept,
        unseen,
        result.status,
        result.n_iter,
        result.objective,
        result.residual,
        result.history,
    )
