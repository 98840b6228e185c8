"""What every ``…CV`` estimator shares: the search, its results, the final fit, the threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from time import perf_counter
from typing import Any, ClassVar

from sklearn.base import clone

from lrml._door import check_threshold
from lrml._progress import progress, tell
from lrml._shown import shown
from lrml.core import checks as check
from lrml.core.arrays import is_sparse, namespace, one_blas_thread_if
from lrml.core.coordinates import road_of
from lrml.core.rows import Rows
from lrml.estimators._base import LowRankModel
from lrml.estimators._criteria import check_enough_labels, check_scorings, criterion_of_one_label
from lrml.estimators._cuts import automatic_cut, best_cut
from lrml.estimators._defaults import sums_suffice
from lrml.estimators._grid import GridPoint, grid_points, resolve_ranks, resolve_thetas, ridges_leaving
from lrml.estimators._judges import Comparison, FoldJudge, Judge, LeaveOneOutJudge, RefitJudge
from lrml.estimators._parameters import CHECKS, Parameters
from lrml.estimators._plans import FIRST_SHARES, N_SCREENING, Plan, follow, run, screened
from lrml.estimators._splits import Split, check_cv, leave_one_out, make_splits, random_folds, sampled
from lrml.estimators._table import Choice, best_of, candidates, choice, cv_results
from lrml.estimators._widths import WITH_GAMMA, choose_gamma
from lrml.thresholds import Cut

N_FOLDS = 5
# The held-out share where there are many rows, or decompositions are dear.
_HELD_OUT = 0.2
MANY_ROWS = 3000
"""From so many rows on, a held-out fifth tells enough where every candidate is a fit of its own."""
# Up to this many multiplications for XᵀX and XᵀY and their decomposition, one thread of BLAS is enough.
_MANY = 4e9
_RULES = ("best", "one_standard_error", "smallest")
# A grid by default: shares of effective directions left by its ridges.
_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.4, 0.2)
# Candidates on the coefficients are solved only as well as a choice needs.
_MAX_ITER, _TOL = 500, 1e-4


class SearchModel(LowRankModel):
    """An estimator that chooses parameters of another one on held-out rows, and is then fitted on all.

    Subclasses say which estimator (``_member``), which of its parameters (``_names``, by what a `GridPoint`
    calls them), what a user may ask of them (``_asked``), and what is tried if every candidate is a fit of
    its own (``_plan``).
    """

    _member: ClassVar[Any]
    _names: ClassVar[Mapping[str, str]]
    _limited = False  # whether there are always limits of the rank in place of a penalty
    _row_tol: float | None = None  # default tol of candidates that read the rows; None: that of a fit
    _checks = CHECKS | {
        "cv": check_cv,
        "rule": lambda value: check.check_choice("rule", value, _RULES),
        "estimator": lambda value: value,
    }

    @property
    def _base(self) -> Any:
        """The estimator whose parameters are searched."""
        given = self.estimator
        return type(self)._member() if given is None else given

    loss = property(lambda self: getattr(self._base, "loss", "squared"))
    kernel = property(lambda self: getattr(self._base, "kernel", "linear"))
    threshold = property(lambda self: self._base.threshold)
    threshold_ = property(lambda self: self.best_estimator_.threshold)
    _decision_threshold = threshold_

    def _check_params(self) -> Parameters:
        own = super()._check_params()
        member: Any = type(self)._member
        if not isinstance(self._base, member):
            raise TypeError(
                f"estimator of {type(self).__name__} is {shown(self.estimator)}. Pass "
                f"{member.__name__}(…), or None for its defaults."
            )
        params = Parameters(**vars(self._base._check_params()) | vars(own))
        params.criteria = check_scorings(params.scoring, params.loss, params.targets)
        if vars(params).get("gammas") is not None and params.kernel not in WITH_GAMMA:
            raise ValueError(
                f"gammas needs a kernel that has a gamma, one of {', '.join(map(repr, WITH_GAMMA))}, got "
                f"kernel={shown(params.kernel)}. Pass gammas=None, or another kernel."
            )
        return params

    def _asked(self, data: Rows, params: Parameters) -> None:
        """Set thetas, alphas, ridges and ranks of the parameters; None stands for all that may be tried."""
        for name in ("thetas", "alphas", "ridges", "ranks"):
            setattr(params, name, vars(params).get(name))
        if params.thetas is not None:
            params.thetas = resolve_thetas(params.thetas, data.model_shape)
        if params.ranks is not None:
            params.ranks = resolve_ranks(params.ranks, (), data.model_shape)
        params.limited = self._limited or params.ranks is not None

    def _plan(self, data: Rows, params: Parameters) -> Plan:
        """Return a plan of candidates that are fitted one by one."""
        raise NotImplementedError

    def _has_closed_forms(self, data: Rows, params: Parameters) -> bool:
        """Whether candidates are solved in coordinates."""
        return sums_suffice(params.loss, data)

    def _params_of(self, point: GridPoint) -> dict[str, Any]:
        found = {name: getattr(point, part) for name, part in self._names.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        """Check parameters against the shape of the data, and resolve shares of labels."""
        self._asked(data, params)
        if params.scoring is None and data.Y.shape[1] == 1 and params.targets == "binary":
            params.criteria = (criterion_of_one_label(params.loss, all_known=data.mask is None),)
        check_enough_labels(params.criteria, data.Y.shape[1])
        if data.mask is not None and params.targets == "real":
            raise ValueError(
                "a search with real targets needs to know all of them, got a Y with NaN or unobserved "
                "entries. Impute them or drop those rows."
            )

    def _found(self, data: Rows, params: Parameters) -> dict[str, Any]:
        if data.X.shape[0] < 2:
            raise ValueError("A search needs rows to hold out, got n_samples = 1. Pass more rows.")
        self._check_shapes(data, params)
        # Candidates run side by side. What remains gains little from threads of BLAS, and loses much by them
        # if other processes keep the cores busy.
        size = data.X.shape[0 if (road_of(data) == "dual") else 1]
        entries = data.X.nnz if is_sparse(data.X) else math.prod(data.X.shape)
        small = one_blas_thread_if(size**3 + entries * (size + data.Y.shape[1]) <= _MANY)
        with small:
            with _progress(params.verbose, type(self).__name__) as told:
                comparison, gamma_results = self._comparison(data, params, told)
                closed = self._has_closed_forms(data, params)
                alone, folds = (self._closed if closed else self._refitted)(comparison, params)
            _check_scores(alone, params)
            chosen = [choice(alone, folds, number, params.rule) for number in range(len(params.criteria))]
            found = self._results(alone, folds, chosen, params)
        return found if gamma_results is None else found | {"gamma_results_": gamma_results}

    # Judging

    def _comparison(self, data: Rows, params: Parameters, told: Any) -> tuple[Comparison, Any]:
        """Return what all judges share, after the width of the kernel has been chosen, and how that was."""
        given = None if isinstance(params.threshold, Cut) else params.threshold
        cut = check_threshold(given, data.Y.shape[1], params.loss.threshold)
        comparison = Comparison(data, params.criteria, cut, params.fit_intercept, *told)
        if not _has_gamma(data):
            return comparison, None
        results, gammas = None, params.gammas
        if gammas is not None:
            params.gamma = gammas[0]
        if params.gamma is None or len(gammas or ()) > 1:
            splits = None
            if params.cv is not None:  # the splits that judge all else; a splitter may draw anew
                splits = make_splits(params.cv, data, params.random_state)
                params.cv = [(split.train, split.test) for split in splits]
            params.gamma, results = choose_gamma(comparison, gammas, splits, params.random_state)
        return comparison._replace(
            data=replace(data, kernel=replace(data.kernel, gamma=params.gamma))
        ), results

    def _closed(self, comparison: Comparison, params: Parameters) -> tuple[Judge, FoldJudge | None]:
        """Judge ridges, and whatever is penalised or limited on folds."""
        data, full = comparison.data, min(comparison.data.model_shape)
        is_bare = params.alphas is not None and not any(params.alphas)
        is_grid = not is_bare and params.alphas is not None
        is_grid = is_grid or bool(params.limited and params.ranks and params.ridges)
        if "space" in vars(params):
            # Given alphas are those of the paper, as in LRML.
            params.space = params.space or ("coefficients" if is_grid else "predictions")
        space = params.space or "predictions"
        how = {"space": space, "tol": params.tol or _TOL, "max_iter": params.max_iter or _MAX_ITER}
        top = max(params.ranks or [full]) if params.limited else None
        alone = self._first_judge(comparison, params, how, needs_folds=is_grid or (top or full) < full)
        if is_grid:
            alone.judge(self._grid(alone.problem, params))
            return alone, None

        def point(ridge: float) -> GridPoint:
            return GridPoint(0, 0.0, ridge, top)

        if params.ridges is None:
            ridge = run(follow(ridges_leaving(alone.problem, FIRST_SHARES), point), alone)
        else:
            alone.judge([point(ridge) for ridge in params.ridges])
            ridge = max(params.ridges, key=lambda value: alone.tables[0].mean(point(value)))
        judged = all(max(map(table.mean, alone.points)) > -math.inf for table in alone.tables)
        if (is_bare and not params.limited) or not judged:
            return alone, None
        folds = alone
        if isinstance(alone, LeaveOneOutJudge):
            splits = random_folds(data, N_FOLDS, params.random_state)
            if not splits:
                return alone, None
            # Ranks are fewer than strengths, and three of the folds tell as much about them.
            splits = splits[:N_SCREENING] if params.limited else splits
            folds = FoldJudge(comparison, sampled(splits, data.Y.shape[1]), **how)
        ranks = (params.ranks or range(1, full + 1)) if params.limited else None
        if alone.unit > 0:
            allowed = {"thetas": params.thetas, "ridges": params.ridges, "ranks": ranks}
            points, folds.variants = screened(
                folds, point(ridge), alone.unit, **allowed, small=params.rule != "best"
            )
            rivals = [best_of(alone, alone.points, number) for number in range(len(alone.tables))]
            folds.judge([*rivals, *points])
        return alone, folds

    def _first_judge(
        self, comparison: Comparison, params: Parameters, how: dict[str, Any], *, needs_folds: bool
    ) -> Any:
        """Return the judge of ridges alone, or of a whole grid."""
        data, cv, splits = comparison.data, params.cv, list[Split]()
        compressed = road_of(data) == "compressed"
        if cv is None and not (compressed or needs_folds or _tells_no_error(params)):
            return LeaveOneOutJudge(comparison, leave_one_out(data, params.random_state))
        if cv is None and not compressed:
            splits = random_folds(data, N_FOLDS, params.random_state)
        if not splits:
            usual = _HELD_OUT if compressed else min(N_FOLDS, data.X.shape[0])
            splits = make_splits(usual if cv is None else cv, data, params.random_state)
        judge = FoldJudge(comparison, sampled(splits, data.Y.shape[1]) if cv is None else splits, **how)
        _check_error_can_be_told(judge, params)
        return judge

    def _grid(self, problem: Any, params: Parameters) -> list[GridPoint]:
        """Return all candidates of a grid."""
        ridges = ridges_leaving(problem, _RIDGE_SHARES) if params.ridges is None else params.ridges
        if params.limited:
            return [GridPoint(0, 0.0, ridge, rank) for ridge in ridges for rank in params.ranks]
        thetas = resolve_thetas(None, problem.shape) if params.thetas is None else params.thetas
        return grid_points(problem, thetas, params.alphas, ridges)

    def _refitted(self, comparison: Comparison, params: Parameters) -> tuple[Judge, None]:
        """Judge candidates that are fitted one by one."""
        data = comparison.data
        many = data.X.shape[0] >= MANY_ROWS and not _tells_no_error(params)
        usual = _HELD_OUT if many else min(N_FOLDS, data.X.shape[0])
        rough = clone(self._base)
        known = rough.get_params()
        if self._row_tol is not None and params.tol is None:
            rough.set_params(tol=self._row_tol)
        rough.set_params(**{name: None for name in ("callback", "threshold") if name in known}, verbose=0)
        splits = make_splits(usual if params.cv is None else params.cv, data, params.random_state)
        judge = RefitJudge(comparison, splits, rough, self._params_of)
        _check_error_can_be_told(judge, params)
        run(self._plan(data, params), judge)
        return judge, None

    # What is kept

    def _results(
        self,
        alone: Any,
        folds: FoldJudge | None,
        chosen: Sequence[Choice],
        params: Parameters,
    ) -> dict[str, Any]:
        """Return every fitted attribute, with the record of the final fit."""
        comparison = alone.comparison
        names = [criterion.name for criterion in comparison.criteria]
        several = isinstance(params.scoring, list | tuple)
        results = cv_results(alone, folds, names if several else ["score"], self._params_of)
        points = candidates(alone, folds)
        places = [points.index(point) for point, *_ in chosen]
        fitted: dict[GridPoint, Any] = {}
        for point, *_ in chosen:
            if point not in fitted:
                fitted[point] = self._final_fit(alone, folds, point, params)
        best, seconds = fitted[chosen[0][0]]
        judged_by: str = alone.how_told
        if folds is not None and folds is not alone:
            judged_by += f" and {folds.how_told}"
        gamma = {"gamma": params.gamma} if _has_gamma(comparison.data) else {}
        found = {
            "fitted_": best.fitted_,
            "best_estimator_": best,
            "best_index_": places[0],
            "best_params_": gamma | results["params"][places[0]],
            "best_score_": chosen[0][1],
            "cv_results_": results,
            "n_splits_": len(alone.splits),
            "refit_time_": seconds,
            "search_": chosen[0][2] | {"judged_by": judged_by},
        }
        if several:
            found["best_indices_"] = dict(zip(names, places, strict=True))
            models = (fitted[point][0] for point, *_ in chosen)
            found["best_estimators_"] = dict(zip(names, models, strict=True))
        return found

    def _final_fit(self, alone: Any, folds: Any, point: GridPoint, params: Parameters) -> tuple[Any, float]:
        """Fit a candidate on all rows; return it and the seconds taken."""
        values = self._params_of(point)
        if params.verbose:
            words = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
            tell(type(self).__name__, f"fits {words} to all rows")
        data = alone.comparison.data
        start_at = alone.starting_point(point) if isinstance(alone, RefitJudge) else None
        best = clone(self._base) if start_at is None else start_at
        given = self._base.get_params(deep=False)
        if start_at is not None:
            best.set_params(**{name: value for name, value in given.items() if name not in values})
            best.set_params(warm_start=True)
        best.set_params(**dict.fromkeys(self._names) | values)
        if self._has_closed_forms(data, params) and "space" in given:
            best.set_params(space=params.space)
        if _has_gamma(data):
            best.set_params(gamma=params.gamma)
        began = perf_counter()
        best._fit_to(data, best._check_params())
        seconds = perf_counter() - began
        if start_at is not None:
            best.set_params(warm_start=given["warm_start"])
        if isinstance(params.threshold, Cut):
            if isinstance(alone, LeaveOneOutJudge):
                cut = automatic_cut(best, data, best._check_params())
            else:
                held_out, scores = zip(*(folds or alone).scores_of(point), strict=True)
                join = namespace(scores[0]).concat
                known = None if held_out[0].known is None else join([part.known for part in held_out])
                cut = best_cut(
                    join([part.labels for part in held_out]), join(scores), params, known, data.home
                )
            best.set_params(threshold=cut)
        return best, seconds

    def _rename(self, features: Any = None, labels: Any = None) -> None:
        for model in [self.best_estimator_, *vars(self).get("best_estimators_", {}).values()]:
            model._rename(features, labels)
        self.fitted_ = self.best_estimator_.fitted_


def _has_gamma(data: Rows) -> bool:
    return data.kernel is not None and data.kernel.metric in WITH_GAMMA


def _tells_no_error(params: Parameters) -> bool:
    """Whether a standard error is to be told, without values of rows that would tell it."""
    return params.rule != "best" and not all(criterion.by_row for criterion in params.criteria)


def _check_error_can_be_told(judge: Judge, params: Parameters) -> None:
    """Refuse a standard error of a single value."""
    if _tells_no_error(params) and len(judge.splits) == 1:
        remedy = ", or scoring='average_precision'" if params.targets == "binary" else ""
        raise ValueError(
            f"rule={params.rule!r} needs several splits, or a metric with a value for every row, got one "
            f"split and scoring={shown(params.scoring)}. Pass cv=5{remedy}."
        )


def _check_scores(judge: Judge, params: Parameters) -> None:
    if not all(max(map(table.mean, judge.points)) > -math.inf for table in judge.tables):
        fewer = ", or pass fewer folds" if len(judge.splits) > 1 else ""
        raise ValueError(
            f"scoring={shown(params.scoring)} must have a value on every split, got none. "
            f"Check that held-out rows have labels and weight{fewer}."
        )


@contextmanager
def _progress(verbose: int, name: str) -> Iterator[tuple[Callable[[int, str], None], Callable[[int], None]]]:
    """Yield functions that expect more models on splits, and that advance; both show it if ``verbose``."""
    if not verbose:
        yield (lambda count, how: None), (lambda count: None)
        return
    done = total = 0
    lock = Lock()  # candidates are judged in threads
    with progress(name, "models on splits") as report:

        def expect(count: int, how: str) -> None:
            nonlocal total
            total += count
            if how:
                report.say(f"{how} to begin with")

        def advance(count: int) -> None:
            nonlocal done
            with lock:
                done += count
                report.update(done, total)

        yield expect, advance
