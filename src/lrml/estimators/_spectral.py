"""Fit of a loss plus a penalty on the singular values: shared by LRML, ML-trace and ML-Fro."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lrml._shown import shown
from lrml.blocks import BlockSource, Columns
from lrml.core.arrays import Array, Place, namespace, take
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.estimators._blocks import BlockFitting, SummedData
from lrml.estimators._fitted import Fitted
from lrml.estimators._fitting import (
    Solution,
    TrainingData,
    is_warm_start,
    nothing_to_learn,
    record,
    solver_progress,
    sort_labels,
    warn_of_subspace,
    warn_of_weakness,
    warn_unless_converged,
    with_used,
)
from lrml.estimators._parameters import ROADS, Parameters
from lrml.estimators._row_fits import RowFit, Start
from lrml.estimators._size import check_size
from lrml.estimators._space import (
    MOST_COMPRESSED,
    MOST_EXTENSIONS,
    InSubspace,
    RidgeRegressions,
    Space,
    with_unseen,
)
from lrml.estimators._streams import fit_by_passes
from lrml.estimators._usual_ridge import usual_strengths
from lrml.solvers import (
    ROW_SOLVERS,
    Certificate,
    Factors,
    SolverResult,
    Status,
    solve,
)

_Float64 = npt.NDArray[np.float64]
# If every iteration reads the rows, there is time for fewer iterations.
_MAX_ITER_MOMENTS, _MAX_ITER_ROWS = 5000, 1000
WEAK = 0.5
"""The default ridge, as a share of the one with the least squared error: labels are ranked better by less."""


class SpectralModel(BlockFitting):
    """Base of the estimators whose penalty is a function of the singular values.

    Subclasses define their penalty by ``_penalty`` and ``_ridge``.
    """

    _assumed: ClassVar[dict[str, Any]] = {**BlockFitting._assumed, "solver": "auto"}
    _default_tol = 1e-4
    _default_row_tol = 1e-4

    def _penalty(self, data: TrainingData, params: Parameters) -> TailSum:
        """Return the penalty for data of this shape."""
        raise NotImplementedError

    def _ridge(self, params: Parameters) -> float:
        """Return the strength of the squared Frobenius norm."""
        return float(params.ridge)

    def _with_strengths(self, data: TrainingData, params: Parameters) -> Parameters:
        """Return the parameters with strengths that suit loss and data in place of None.

        Beside a given alpha, squares have no ridge: that is the objective of the paper.
        """
        if params.alpha is not None and params.loss.name == "squared":
            params = _filled(params, ridge=0.0)
        if None not in (params.alpha, vars(params).get("ridge", 0.0)):
            return params
        alpha, ridge = usual_strengths(data, fit_intercept=params.fit_intercept)
        return _filled(params, alpha=alpha, ridge=WEAK * ridge)

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
        if params.kernel != "linear" and isinstance(params.solver, str) and params.solver in ROADS:
            raise ValueError(
                f"solver={params.solver!r} needs kernel='linear', got kernel={shown(params.kernel)}, whose "
                "n × n matrix is always decomposed. Use 'auto'."
            )
        return params

    def _solved(self, data: TrainingData, params: Parameters) -> Fitted:
        check_size(data, type(self).__name__, str(params.solver))
        if not data.needs_moments_only:
            _check_row_solver(params)
        self._check_counts(data, params)
        last = None
        if is_warm_start(self, params, data):
            last = self._start_of(data), data.place.asarray(self.fitted_.intercept, "float64")
        params = self._with_strengths(data, params)
        penalty, ridge = self._penalty(data, params), self._ridge(params)
        fit = self._fit_moments if data.needs_moments_only else self._fit_rows
        solution, extras = fit(data, params, penalty, ridge, last)
        if {"gap", "compression_gap"} <= extras.keys():
            extras["gap"] += extras["compression_gap"]  # what is proven inside a subspace is not all
        extras["alpha"] = params.alpha
        if "ridge" in vars(params):
            extras["ridge"] = ridge
        warn_unless_converged(solution.outcome)
        return record(data, solution, **extras)

    def _is_separable(self, data: TrainingData, params: Parameters, penalty: TailSum) -> bool:
        """Whether a fit by rows is one of every label on its own, without a certificate."""
        inactive = not np.any(penalty.slopes(np.ones(min(data.shape))))
        alone = inactive and params.solver == "auto" and self._certificate(penalty) is None
        return alone and data.n_passes is None and data.place.is_host

    _reads_again = True

    def _iterates(self, params: Parameters) -> bool:
        return bool(params.alpha != 0)

    def _follows_data(self, params: Parameters) -> bool:
        """Whether strengths of squares are to follow the data."""
        return params.alpha is None

    def _check_before(self, columns: Columns, params: Parameters) -> None:
        squared = params.loss.name == "squared"
        if squared and self._follows_data(params) and not self._has_room(columns, params):
            raise ValueError(
                "the default strengths of blocks follow from XᵀX, which does not fit into memory for "
                f"{columns.n_features} features and {columns.n_labels} labels. Pass alpha and ridge, such as "
                f"alpha_ and ridge_ of {type(self).__name__}().fit on some of the rows."
            )
        self._check_counts(SummedData.of(None, columns, params.targets), params)

    def _check_counts(self, data: TrainingData, params: Parameters) -> None:
        """Refuse a theta or a rank that is wrong for this shape; alpha may still follow the data."""
        if vars(params).get("theta") != "auto":
            self._penalty(data, Parameters(**vars(params) | {"alpha": 0.0}))

    def _fit_passes(self, source: BlockSource, params: Parameters) -> None:
        """Fit by reading the blocks several times."""
        fit_by_passes(self, source, params)

    def _start_of(self, data: TrainingData) -> Factors:
        """Coefficients of the last fit as factors; for a kernel, its scores without the intercept."""
        if data.kernel is not None:
            fitted, X = self.fitted_, data.rows_given
            X = (
                X if Place.of(X) == fitted.place else fitted.place.asarray(X)
            )  # the last fit may have been elsewhere
            scores = data.place.asarray(fitted.scores(X) - fitted.intercept, "float64")
            identity = data.place.asarray(np.eye(scores.shape[1]))
            return Factors(scores, data.place.ones(scores.shape[1]), identity)
        return Factors(*(data.place.asarray(factor, "float64") for factor in self.factors_))

    def _fit_moments(
        self,
        data: TrainingData,
        params: Parameters,
        penalty: TailSum,
        ridge: float,
        last: tuple[Factors, Array] | None,
    ) -> tuple[Solution, dict[str, Any]]:
        """Least squares with all labels known: everything follows from the second moments."""
        space, problem, result, gap = self._solve_moments(data, params, penalty, ridge, last)
        extras: dict[str, Any] = space.kernel_gap(problem.ridge, result.objective)
        if isinstance(space, InSubspace):
            extras = {"compression_gap": gap} | warn_of_subspace(self, gap, 2 * MOST_COMPRESSED, ridge)
            space = space.without_coordinates()
        extras |= self._extras(penalty, problem, result)
        del problem
        factors = space.factors(result.factors)
        solution = Solution(factors, space.intercept(factors.U, factors.V * factors.s), space.unseen, result)
        return solution, extras

    def _ridge_regressions(
        self, data: TrainingData, params: Parameters, *, warm: bool = False
    ) -> RidgeRegressions:
        """Solve once more, from the fitted model if ``warm``, and read the solution as regressions."""
        if isinstance(params.solver, str) and params.solver in ROADS:
            params = Parameters(**vars(params) | {"solver": "auto"})  # as the space that reads the solution
        params = self._with_strengths(data, params)
        penalty = self._penalty(data, params)
        last = (self._start_of(data), data.place.asarray(self.intercept_, "float64")) if warm else None
        _, problem, result, _ = self._solve_moments(data, params, penalty, self._ridge(params), last)
        return _as_regressions(problem, penalty, result)

    def _solve_moments(
        self,
        data: TrainingData,
        params: Parameters,
        penalty: TailSum,
        ridge: float,
        last: tuple[Factors, Array] | None,
    ) -> tuple[Space, SpectralProblem, SolverResult, float]:
        """Solve, and extend a subspace until it costs little; also return what it costs."""
        road = params.solver if isinstance(params.solver, str) else "auto"
        centred, bare = {"fit_intercept": params.fit_intercept}, penalty.alpha == 0
        directions = penalty.expected_rank(data.shape[1])
        space = data.space(
            **centred, ridge=ridge, road=road, bare=bare, extensible=True, directions=directions
        )
        problem = space.problem.with_ridge(ridge)
        start = None if last is None else space.compress(*last[0])
        result = self._solve(problem, params, penalty, start)
        gap = 0.0
        for extension in range(1 + MOST_EXTENSIONS if isinstance(space, InSubspace) else 0):
            assert isinstance(space, InSubspace)
            regressions = _as_regressions(problem, penalty, result)
            at_end = extension == MOST_EXTENSIONS or result.status is Status.STOPPED
            unit = space.unit_of_gaps(result.objective)
            alpha = _price_of_rank(penalty, regressions)
            if at_end:
                gap = space.found(regressions, alpha, MOST_COMPRESSED * unit).gap / unit
                break
            tell = None if extension or not alpha else partial(warn_of_weakness, alpha)
            gap, larger = space.extended(regressions, alpha, MOST_COMPRESSED * unit, tell)
            if larger is None:
                gap /= unit
                break
            start = space.start_in(larger, regressions)
            space, problem = larger, larger.problem.with_ridge(ridge)
            del larger
            result = self._solve(problem, params, penalty, start)
        return space, problem, result, gap

    def _solve(
        self, problem: SpectralProblem, params: Parameters, penalty: TailSum, start: Array | None
    ) -> SolverResult:
        max_iter = _MAX_ITER_MOMENTS if params.max_iter is None else params.max_iter
        with solver_progress(params.verbose, max_iter, params.callback, type(self).__name__) as callback:
            return solve(
                problem,
                penalty,
                solver="auto" if isinstance(params.solver, str) and params.solver in ROADS else params.solver,
                start=start,
                max_iter=max_iter,
                tol=self._default_tol if params.tol is None else params.tol,
                callback=callback,
                certificate=self._certificate(penalty),
            )

    def _fit_rows(
        self,
        data: TrainingData,
        params: Parameters,
        penalty: TailSum,
        ridge: float,
        last: tuple[Factors, Array] | None,
    ) -> tuple[Solution, dict[str, Any]]:
        """Any loss, with or without unknown labels: every iteration reads the rows."""
        rows = data.row_sums
        xp = data.place.xp
        if not bool(xp.any(rows.label_totals()[0] != 0)):
            raise ValueError(
                "some label must be known in a row with a positive weight, got none. Check sample_weight."
            )
        unseen, used, intercept = sort_labels(data, rows, fit_intercept=params.fit_intercept)
        if not bool(xp.any(used)):
            return nothing_to_learn(data, unseen, intercept), self._extras(penalty, None, None)
        max_iter = _MAX_ITER_ROWS if params.max_iter is None else params.max_iter
        tol = self._default_row_tol if params.tol is None else params.tol
        start = None
        if last is not None:
            places = xp.nonzero(used)[0]
            start = Start(last[0].U * last[0].s, take(last[0].V, places), take(last[1], places))
        with solver_progress(params.verbose, max_iter, params.callback, type(self).__name__) as callback:
            fit = RowFit(
                *(data, used, penalty, ridge, params.fit_intercept),
                *(params.solver, max_iter, tol, callback),
                again=params.warm_start,
            )
            if self._is_separable(data, params, penalty):
                found = fit.separable(start)
            else:
                found = fit.penalised(start, data.road(params.solver))
        extras = self._extras(penalty, found.problem, found.result) | found.extras
        if "compression_gap" in extras:
            extras |= warn_of_subspace(self, extras["compression_gap"], 2.0 * fit.enough, ridge)
        V = with_used(found.factors.V, used, 0.0)
        intercept = with_unseen(with_used(found.intercept, used, intercept), unseen, data.loss)
        solution = Solution(found.factors._replace(V=V), intercept, unseen, found.result)
        return solution, extras


def _as_regressions(problem: SpectralProblem, penalty: TailSum, result: SolverResult) -> RidgeRegressions:
    """Read a solution as ridge regressions of directions of label space."""
    if result.status is Status.EXACT and penalty.expected_rank(problem.shape[1]) == problem.shape[1]:
        return RidgeRegressions(result.solution, None, problem.ridge)
    U, s, V = Factors.of(result.solution)
    xp = namespace(s)
    kept = int(xp.count_nonzero(s > max(problem.shape) * xp.finfo(s.dtype).eps * s[0]))  # they descend
    extra = 0.5 * penalty.slopes(s)[:kept] / s[:kept]
    return RidgeRegressions(U[:, :kept] * s[:kept], V[:, :kept], problem.ridge, extra)


def _price_of_rank(penalty: TailSum, solution: RidgeRegressions) -> float | None:
    """Return the slope of the penalty along a direction that a solution lacks; None if it may take no more.

    A solution of less rank than theta may take on a further one at no price.
    """
    left = solution.left
    none = namespace(left).zeros(left.shape[1] + 1, dtype=left.dtype, device=left.device)
    slope = float(penalty.slopes(none)[-1])
    return slope if slope < math.inf else None


def _filled(params: Parameters, **usual: float) -> Parameters:
    """Return the parameters with the usual strengths in place of None."""
    missing = {name: value for name, value in usual.items() if vars(params).get(name, value) is None}
    return Parameters(**vars(params) | missing)


def _check_row_solver(params: Parameters) -> None:
    possible = (*ROW_SOLVERS, *ROADS)
    if params.solver not in possible:
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, possible))} unless loss='squared' and all labels "
            f"are known, got {params.solver!r}. Use 'auto'."
        )
