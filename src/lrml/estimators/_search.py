"""What every ``…CV`` estimator shares: how candidates are judged, results, the final fit, the threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from lrml._door import check_threshold, warn_of_spreads
from lrml._progress import tell
from lrml._shown import shown
from lrml.blocks import BlockError, Checkpoint
from lrml.core import checks as check
from lrml.core.arrays import dense, is_sparse, namespace, one_blas_thread_if
from lrml.core.coordinates import road_of, spectrum_of
from lrml.core.rows import Rows
from lrml.estimators._base import LowRankModel
from lrml.estimators._block_fits import opened
from lrml.estimators._criteria import (
    Contest,
    GridPoint,
    best_of,
    by_row,
    check_enough_labels,
    check_scorings,
    criterion_of_one_label,
)
from lrml.estimators._judges import Comparison, PathJudge, RefitJudge, told_of_models
from lrml.estimators._loo import automatic_cut, best_cut
from lrml.estimators._plans import (
    DEFAULT_THETAS,
    FIRST_SHARES,
    N_SCREENING,
    WITH_GAMMA,
    Plan,
    choose_gamma,
    follow_or_try,
    grid_points,
    resolve_counts,
    ridges_leaving,
    run,
    screened,
    shrinking,
    staged,
)
from lrml.estimators._spec import CHECKS, Parameters, loss_scale, noise_along, sums_suffice, with_constructor
from lrml.estimators._splits import (
    Folds,
    FoldSums,
    SampledRows,
    Split,
    check_cv,
    fold_sums,
    leave_one_out,
    make_splits,
    random_folds,
    sampled,
)
from lrml.thresholds import Cut

_N_FOLDS = 5
# The held-out share where there are many rows, or decompositions are dear.
_HELD_OUT = 0.2
# From so many rows on, a held-out fifth tells enough where every candidate is a fit of its own.
_MANY_ROWS = 3000
# Up to this many multiplications for XᵀX and XᵀY and their decomposition, one thread of BLAS is enough.
_MANY = 4e9
_RULES = ("best", "one_standard_error", "smallest")
# A grid by default: shares of effective directions left by its ridges.
_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.4, 0.2)
# Most iterations for a candidate on the coefficients.
_MAX_ITER = 500
# Where every candidate is a fit of its own: shares of the labels that are free, shares of effective
# directions left by ridges, and by the ridge that marks the direction along which noise is measured.
_ROW_THETAS, _ROW_SHARES, _NOISE_SHARE = (0.0, 0.05), (0.2, 0.4, 0.6), 0.2
# Alphas then: how many, the strongest as a multiple of the noise, the ratio of neighbours. Beside a ridge the
# best alpha is smaller, and matters less.
_BESIDE_RIDGE, _ALONE = (3, 1.0, 3.0), (4, 3.0, 2.0)


@with_constructor
class SearchModel(LowRankModel):
    """An estimator that chooses parameters of another one on held-out rows, and is then fitted on all.

    Subclasses say which estimator (``_member``), which of its parameters (``_names``, by what a `GridPoint`
    calls them), and what a user may ask of them (``_asked``).
    """

    estimator: Any = None
    _: KW_ONLY
    cv: Any = None
    scoring: Any = None
    rule: str = "best"
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    _member: ClassVar[Any]
    _names: ClassVar[Mapping[str, str]]
    _limited = False  # whether there are always limits of the rank
    _tol = 1e-4  # default tol of candidates on the coefficients
    _row_tol: ClassVar[float | None] = None  # and of those that read the rows; None: that of a fit
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
    _decision_threshold = property(lambda self: self.best_estimator_.threshold)

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
            params.thetas = resolve_counts("theta", params.thetas, 0, data.model_shape)
        if params.ranks is not None:
            params.ranks = resolve_counts("each of ranks", params.ranks, 1, data.model_shape)
        params.limited = self._limited or params.ranks is not None

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
        with one_blas_thread_if(size**3 + entries * (size + data.Y.shape[1]) <= _MANY):
            with told_of_models(params.verbose, type(self).__name__, params.callback) as told:
                comparison, widths = self._comparison(data, params, told)
                contest = (self._solved if sums_suffice(params.loss, data) else self._fitted)(
                    comparison, params
                )
            if not contest.judge.tells:
                fewer = ", or pass fewer folds" if len(contest.judge.splits) > 1 else ""
                raise ValueError(
                    f"scoring={shown(params.scoring)} must have a value on every split, got none. "
                    f"Check that held-out rows have labels and weight{fewer}."
                )
            return self._results(contest, params) | widths

    def fit_blocks(self, blocks: Any, *, classes: Any = None, checkpoint: Any = None) -> Self:
        """Choose the parameters and fit, on rows that come in blocks and are read once.

        Every candidate is fitted to all rows, by sums over them: one for each fold, which add up. They are
        judged on a sample of at most k = max(7,500, 2²³ / (d + L)) rows. A leave-one-out score follows from
        the sums of all rows and the row itself; a fold is held out on those of its rows that are sampled. So
        if all rows are in the sample, ``fit`` differs in the folds only.

        Sample and folds depend on ``random_state`` (None stands for 0) and on the blocks, not on the order in
        which these are summed: the rows of block i are drawn by ``default_rng([random_state, i])``. The
        sample has the rows with the smallest random numbers. Folds have equal shares of the rows, and a
        held-out share its own, up to chance.

        Cost: the sums take O(n d² + n d L) at most, as in a fit; the rest is that of ``fit`` to the sample.
        Memory, for any number of rows, 2 (K + 1)(d² + dL) numbers and 4k rows beside one block. K is 5 by
        default, the number of folds if ``cv`` is one, and 2 for a held-out share.

        Parameters
        ----------
        blocks : iterable, callable or BlockSource
            As in `LRML.fit_blocks`. An iterator will do.
        classes, checkpoint
            As in `LRML.fit_blocks`.

        Returns
        -------
        self
            Unchanged if anything is wrong. Needs the squared loss, all labels known, a linear kernel, and a
            ``cv`` that is None, a number of folds, which are random here, or a held-out share.

        Examples
        --------
        >>> from lrml import MLFroCV
        >>> from lrml.datasets import load_yeast
        >>> X, Y = load_yeast().train
        >>> blocks = ((X[start : start + 100], Y[start : start + 100]) for start in range(0, 1500, 100))
        >>> round(MLFroCV().fit_blocks(blocks).best_params_["alpha"], 3)
        3.7
        >>> round(MLFroCV().fit(X, Y).best_params_["alpha"], 3)
        3.7
        """
        params = self._check_params()
        _check_sums_suffice(params, type(self)._member)
        source = opened(self, blocks, classes, params)
        columns = source.columns
        seed = params.random_state
        if not (seed is None or check.is_integer(seed)):
            seed = seed.randint(1 << 32, dtype=np.uint64)
        folds = Folds.of(_N_FOLDS if params.cv is None else params.cv, int(seed or 0), columns)
        # Parameters against the shape of the data, before anything is summed.
        if not isinstance(params.threshold, Cut):
            check_threshold(params.threshold, columns.n_labels, params.loss.threshold)
        self._check_shapes(Rows.of_sums(None, columns), self._check_params())
        try:
            sums: FoldSums = source.sum(
                fold_sums, folds, columns, checkpoint=Checkpoint.of(checkpoint, FoldSums)
            )
        except BlockError as error:
            if isinstance(error.sums, FoldSums):
                error.sums = error.sums.total
            raise
        sums.check_same(folds)
        data = SampledRows.of_folds(sums, columns)
        warn_of_spreads(data.statistics, columns)
        return self._keep(**self._found(data, params))

    # Judging

    def _comparison(self, data: Rows, params: Parameters, told: Any) -> tuple[Comparison, dict[str, Any]]:
        """Return what all judges share, after the width of the kernel has been chosen, and how that was."""
        given = None if isinstance(params.threshold, Cut) else params.threshold
        cut = check_threshold(given, data.Y.shape[1], params.loss.threshold)
        comparison = Comparison(data, params.criteria, cut, params.fit_intercept, *told)
        if not _has_gamma(data):
            return comparison, {}
        results, gammas = {}, params.gammas
        params.gamma = params.gamma if gammas is None else gammas[0]
        if params.gamma is None or len(gammas or ()) > 1:
            splits = None
            if params.cv is not None:  # the splits that judge all else; a splitter may draw anew
                splits = make_splits(params.cv, data, params.random_state)
                params.cv = [(split.train, split.test) for split in splits]
            params.gamma, compared = choose_gamma(comparison, gammas, splits, params.random_state)
            results = {"gamma_results_": compared}
        wide = replace(data, kernel=replace(data.kernel, gamma=params.gamma))
        return comparison._replace(data=wide), results

    def _solved(self, comparison: Comparison, params: Parameters) -> Contest:
        """Judge ridges, and whatever is penalised or limited beside them on folds; or a whole grid."""
        data, full = comparison.data, min(comparison.data.model_shape)
        penalised, top = any(params.alphas or ()), None
        is_grid = penalised or bool(params.limited and params.ranks and params.ridges)
        # Given alphas are those of the paper, as in LRML.
        params.space = params.space or ("coefficients" if penalised else "predictions")
        if params.limited:
            top = max(params.ranks or [full])
        tol = self._tol if params.tol is None else params.tol
        how = {"space": params.space, "tol": tol, "max_iter": params.max_iter or _MAX_ITER}
        splits = self._splits(data, params, needs_folds=is_grid or (top or full) < full)
        alone = PathJudge(comparison, splits, **how)
        _check_error_can_be_told(splits, params)
        if is_grid:
            alone.judge(self._grid(alone.problem, params))
            return Contest(alone, alone.points, alone, [], {})
        ridges = follow_or_try(
            params.ridges,
            lambda: ridges_leaving(alone.problem, FIRST_SHARES),
            lambda ridge: GridPoint(0, 0.0, ridge, top),
        )
        best, bare = run(ridges, alone), alone.points
        folds, contest = alone, Contest(alone, bare, alone, [], {})
        if (params.alphas is not None and not params.limited) or not (alone.tells and alone.unit > 0):
            return contest
        if alone.splits[0].is_leave_one_out:
            splits = random_folds(data, _N_FOLDS, params.random_state)
            if not splits:
                return contest
            # Ranks are fewer than strengths, and three of the folds tell as much about them.
            splits = splits[:N_SCREENING] if params.limited else splits
            folds = PathJudge(comparison, sampled(splits, data.Y.shape[1]), **how)
        ranks = (params.ranks or range(1, full + 1)) if params.limited else None
        allowed = {"thetas": params.thetas, "ridges": params.ridges, "ranks": ranks}
        points, variants = screened(folds, best, alone.unit, **allowed, small=params.rule != "best")
        rivals = [point for point in points if point.alpha or point.rank != top]
        if folds is alone:  # the ridges of lower ranks at the largest one
            bare += [point for point in points if point not in rivals]
            alone.judge(bare)
        folds.judge([*(best_of(alone, bare, number) for number in range(len(alone.tables))), *rivals])
        return Contest(alone, bare, folds, rivals, variants)

    def _splits(self, data: Rows, params: Parameters, *, needs_folds: bool) -> list[Split]:
        """Return what judges ridges alone, or a whole grid: by default each row, if that will do."""
        if params.cv is not None:
            return make_splits(params.cv, data, params.random_state)
        if road_of(data) == "compressed":
            return sampled(make_splits(_HELD_OUT, data, params.random_state), data.Y.shape[1])
        if not (needs_folds or _tells_no_error(params)):
            return [leave_one_out(data, params.random_state)]
        splits = random_folds(data, _N_FOLDS, params.random_state)
        splits = splits or make_splits(min(_N_FOLDS, data.X.shape[0]), data, params.random_state)
        return sampled(splits, data.Y.shape[1])

    def _grid(self, problem: Any, params: Parameters) -> list[GridPoint]:
        """Return all candidates of a grid."""
        ridges, alphas = params.ridges, sorted(params.alphas or [0.0], reverse=True)
        if ridges is None:  # a model that is always limited takes a trace norm in place of a ridge
            ridges = [0.0] if self._limited else ridges_leaving(problem, _RIDGE_SHARES)
        if params.limited:
            return [GridPoint(0, a, ridge, rank) for ridge in ridges for rank in params.ranks for a in alphas]
        thetas = params.thetas or resolve_counts("theta", DEFAULT_THETAS, 0, problem.shape)
        return grid_points(problem, thetas, alphas, ridges)

    def _fitted(self, comparison: Comparison, params: Parameters) -> Contest:
        """Judge candidates that are fitted one by one."""
        data = comparison.data
        many = data.X.shape[0] >= _MANY_ROWS and not _tells_no_error(params)
        usual = _HELD_OUT if many else min(_N_FOLDS, data.X.shape[0])
        rough = clone(self._base)
        known = rough.get_params()
        if self._row_tol is not None and params.tol is None:
            rough.set_params(tol=self._row_tol)
        rough.set_params(**{name: None for name in ("callback", "threshold") if name in known}, verbose=0)
        splits = make_splits(usual if params.cv is None else params.cv, data, params.random_state)
        judge = RefitJudge(comparison, splits, rough, self._params_of)
        _check_error_can_be_told(splits, params)
        run(self._plan(data, params), judge)
        return Contest(judge, judge.points, judge, [], {})

    def _plan(self, data: Rows, params: Parameters) -> Plan:
        """Propose candidates that are fitted one by one."""
        spectrum, ridges = spectrum_of(data, fit_intercept=params.fit_intercept), params.ridges

        def usual_ridges() -> list[float]:
            scale = loss_scale(data, params)
            return [scale * ridge for ridge in ridges_leaving(spectrum, _ROW_SHARES)]

        thetas = params.thetas or resolve_counts("theta", _ROW_THETAS, 0, data.model_shape)
        if any(params.alphas or ()):
            yield grid_points(spectrum, thetas, params.alphas, usual_ridges() if ridges is None else ridges)
            return
        alphas = list[float]()
        if params.alphas is None:
            count, multiple, ratio = _BESIDE_RIDGE if ridges is None or any(ridges) else _ALONE
            noise = noise_along(data, params, spectrum.ridge_leaving(_NOISE_SHARE))
            alphas = [multiple * noise / ratio**step for step in range(count)]
        plan = staged(ridges, usual_ridges, alphas, thetas)
        yield from shrinking(plan, min(alphas)) if params.rule == "smallest" and any(alphas) else plan

    # What is kept

    def _results(self, contest: Contest, params: Parameters) -> dict[str, Any]:
        """Return every fitted attribute, with the record of the final fit."""
        judge, names = contest.judge, [criterion.name for criterion in params.criteria]
        several = isinstance(params.scoring, list | tuple)
        chosen = [contest.choice(number, params.rule) for number in range(len(names))]
        results = contest.results(names if several else ["score"], self._params_of)
        places = [contest.points.index(point) for point, *_ in chosen]
        fitted = {point: self._final_fit(contest, point, params) for point, *_ in chosen}
        (point, score, facts), judged_by = chosen[0], judge.how_told
        if max(params.ranks or [math.inf]) < min(judge.comparison.data.model_shape):
            # The best ridge has the greatest of these ranks: its lead is none over ridge regression alone.
            facts |= dict.fromkeys(("gain", "gain_error", "gain_rows"), math.nan)
        best, seconds = fitted[point]
        if contest.rivals_judge is not judge:
            judged_by += f" and {contest.rivals_judge.how_told}"
        gamma = {"gamma": params.gamma} if _has_gamma(judge.comparison.data) else {}
        found = {
            "fitted_": best.fitted_,
            "best_estimator_": best,
            "best_index_": places[0],
            "best_params_": gamma | results["params"][places[0]],
            "best_score_": score,
            "cv_results_": results,
            "n_splits_": len(judge.splits),
            "refit_time_": seconds,
            "search_": facts | {"judged_by": judged_by},
        }
        if several:
            found["best_indices_"] = dict(zip(names, places, strict=True))
            models = (fitted[point][0] for point, *_ in chosen)
            found["best_estimators_"] = dict(zip(names, models, strict=True))
        return found

    def _final_fit(self, contest: Contest, point: GridPoint, params: Parameters) -> tuple[Any, float]:
        """Fit a candidate on all rows; return it and the seconds taken."""
        values, judge, data = self._params_of(point), contest.judge, contest.judge.comparison.data
        if params.verbose:
            words = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
            tell(type(self).__name__, f"fits {words} to all rows")
        given = self._base.get_params(deep=False)
        best = judge.starting_point(point) if isinstance(judge, RefitJudge) else None
        begun, best = best is not None, clone(self._base) if best is None else best
        settings = given | dict.fromkeys(self._names) | values
        settings["warm_start"] = begun or given.get("warm_start")
        if isinstance(judge, PathJudge):
            settings["space"] = params.space
        if _has_gamma(data):
            settings["gamma"] = params.gamma
        best.set_params(**{name: value for name, value in settings.items() if name in given})
        began = perf_counter()
        best._fit_to(data, best._check_params())
        seconds = perf_counter() - began
        if begun:
            best.set_params(warm_start=given["warm_start"])
        if isinstance(params.threshold, Cut):
            if judge.splits[0].is_leave_one_out:
                cut = automatic_cut(best, data, best._check_params())
            else:
                held_out, scores = zip(*contest.rivals_judge.scores_of(point), strict=True)
                join = namespace(scores[0]).concat
                known = None if held_out[0].known is None else join([part.known for part in held_out])
                labels = join([dense(part.Y) for part in held_out])
                cut = best_cut(labels, join(scores), params, known, data)
            best.set_params(threshold=cut)
        return best, seconds

    def _rename(self, features: Any = None, labels: Any = None) -> None:
        for model in [self.best_estimator_, *vars(self).get("best_estimators_", {}).values()]:
            model._rename(features, labels)
        self.fitted_ = self.best_estimator_.fitted_


def _check_sums_suffice(params: Parameters, member: Any) -> None:
    """Refuse what sums and a sample do not tell."""
    on_some = f"search on some of the rows with fit, then fit to all with {member.__name__}.fit_blocks"
    if params.loss.name != "squared":
        wrong, remedy = f"loss={params.loss.name!r}", on_some
    elif params.kernel != "linear":
        wrong, remedy = f"kernel={shown(params.kernel)}", "take features of sklearn's Nystroem"
    elif not (params.cv is None or check.is_real(params.cv)):
        wrong, remedy = f"cv={shown(params.cv)}", f"pass cv=5, or {on_some}"
    else:
        return
    raise ValueError(f"a search over blocks sums over rows, but {wrong} needs them all at once: {remedy}.")


def _has_gamma(data: Rows) -> bool:
    return data.kernel is not None and data.kernel.metric in WITH_GAMMA


def _tells_no_error(params: Parameters) -> bool:
    """Whether a standard error is to be told, without values of rows that would tell it."""
    return params.rule != "best" and not by_row(params.criteria)


def _check_error_can_be_told(splits: list[Split], params: Parameters) -> None:
    """Refuse a standard error of a single value."""
    if _tells_no_error(params) and len(splits) == 1:
        remedy = ", or scoring='label_ranking_average_precision'" if params.targets == "binary" else ""
        raise ValueError(
            f"rule={params.rule!r} needs several splits, or a metric with a value for every row, got one "
            f"split and scoring={shown(params.scoring)}. Pass cv=5{remedy}."
        )
