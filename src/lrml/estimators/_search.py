"""What all ``…CV`` estimators share: default folds, how candidates are judged, results, last fit, cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, replace
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from lrml._door import check_threshold, warn_of_spreads
from lrml._progress import tell
from lrml._shown import shown
from lrml.blocks import BlockError, Checkpoint
from lrml.core import checks as check
from lrml.core.arrays import dense, is_sparse, namespace, one_blas_thread_if
from lrml.core.coordinates import road_of
from lrml.core.rows import Rows
from lrml.estimators._base import LowRankModel
from lrml.estimators._block_fits import opened
from lrml.estimators._constructor import with_constructor
from lrml.estimators._criteria import (
    Contest,
    GridPoint,
    best_of,
    by_row,
    check_enough_labels,
    check_scorings,
    criterion_of_one_label,
)
from lrml.estimators._fitted import Fitted
from lrml.estimators._judges import Comparison, Judge, PathJudge, RefitJudge, told_of_models
from lrml.estimators._loo import automatically_pruned, chosen_on, chosen_on_unseen
from lrml.estimators._plans import (
    DEFAULT_THETAS,
    FIRST_SHARES,
    GRID_SHARES,
    N_SCREENING,
    ROW_SHARES,
    ROW_THETAS,
    WITH_GAMMA,
    beside,
    choose_gamma,
    follow,
    resolve_counts,
    ridges_leaving,
    screened,
)
from lrml.estimators._spec import CHECKS, Parameters, check_reach, loss_scale, sums_suffice
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
# Most iterations for a candidate on the coefficients.
_MAX_ITER = 500


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
    calibrate = property(lambda self: getattr(self._base, "calibrate", None))
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
        found = self._names.items()
        return {name: value for name, part in found if (value := getattr(point, part)) is not None}

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
                contest = self._contest(comparison, params)
            if not contest.judge.tells:
                fewer = ", or pass fewer folds" if len(contest.judge.splits) > 1 else ""
                raise ValueError(
                    f"scoring={shown(params.criteria[0].name)} must have a value on every split, got none. "
                    f"Check that held-out rows have labels and weight{fewer}."
                )
            return self._results(contest, params) | widths

    def fit_blocks(self, blocks: Any, *, classes: Any = None, checkpoint: Any = None) -> Self:
        """Choose the parameters and fit, on rows that come in blocks and are read once.

        Every candidate is fitted to all rows, by their sums in each fold, and judged on a sample of at most
        k = max(7,500, 2²³ / (d + L)) rows. Sample and folds are drawn by ``random_state`` (None stands for
        0). Memory, for any number of rows: 2 (K + 1)(d² + dL) numbers, with K = 5 folds by default, and 4k
        rows. docs/selection.md says more.

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
        comparison = Comparison(data, params.criteria, cut, params.fit_intercept, told)
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

    def _contest(self, comparison: Comparison, params: Parameters) -> Contest:
        """Judge a whole grid; or ridges, and what is penalised or limited beside the best one."""
        data, is_grid, pruned = comparison.data, _is_grid(params), params.prune not in (None, "auto")
        # Coefficients that are left out are known once a model is fitted; a sample of rows is not for that.
        closed = sums_suffice(params.loss, data) and (not pruned or isinstance(data, SampledRows))
        top = max(params.ranks or [min(data.model_shape)]) if params.limited else None
        judge = (self._in_coordinates if closed else self._by_fits)(comparison, params, top)
        _check_error_can_be_told(judge.splits, params)
        usual = DEFAULT_THETAS if closed else ROW_THETAS
        thetas = params.thetas or resolve_counts("theta", usual, 0, data.model_shape)
        shares = ROW_SHARES if not closed else GRID_SHARES if is_grid else FIRST_SHARES

        def first() -> list[float]:
            return ridges_leaving(judge.spectrum, shares, loss_scale(data, params))

        if is_grid:
            judge.judge(self._grid(params, thetas, first))
            return Contest(judge)
        bare = params.ridges is not None and not any(params.ridges)
        best, given = GridPoint(0, 0.0, 0.0, top), params.ridges
        if not closed and given is not None:  # each fit starts from the last one
            given = sorted(given, reverse=True)
        # Without any penalty, separable labels of other losses have no optimum.
        if closed or params.alphas is not None or not bare:
            best = follow(judge, given, first, lambda ridge: best._replace(ridge=ridge))
        if params.alphas is not None and not params.limited:
            return Contest(judge)
        if isinstance(judge, PathJudge):
            return self._rivals(judge, best, params)
        if params.limited:
            judge.judge([best._replace(rank=rank) for rank in params.ranks])
        else:
            beside(judge, params, best.ridge, thetas)
        return Contest(judge)

    def _in_coordinates(self, comparison: Comparison, params: Parameters, top: int | None) -> Judge:
        """Return the judge of candidates that are solved in the coordinates of training parts."""
        data, full, penalised = comparison.data, min(comparison.data.model_shape), any(params.alphas or ())
        # Given alphas are those of the paper, as in LRML.
        params.space = params.space or ("coefficients" if penalised else "predictions")
        if params.cv is not None:
            splits = make_splits(params.cv, data, params.random_state)
        elif road_of(data) == "compressed":
            splits = sampled(make_splits(_HELD_OUT, data, params.random_state), data.Y.shape[1])
        elif _is_grid(params) or (top or full) < full or _tells_no_error(params):
            splits = random_folds(data, _N_FOLDS, params.random_state)
            splits = splits or make_splits(min(_N_FOLDS, data.X.shape[0]), data, params.random_state)
            splits = sampled(splits, data.Y.shape[1])
        else:  # each row, as that will do
            splits = [leave_one_out(data, params.random_state)]
        tol = self._tol if params.tol is None else params.tol
        how = {"space": params.space, "tol": tol, "max_iter": params.max_iter or _MAX_ITER}
        return PathJudge(comparison, splits, **how)

    def _by_fits(self, comparison: Comparison, params: Parameters, top: int | None) -> Judge:
        """Return the judge of candidates that are fitted one by one, only as exactly as a choice needs."""
        data, rough = comparison.data, clone(self._base)
        many = data.X.shape[0] >= _MANY_ROWS and not _tells_no_error(params)
        usual = _HELD_OUT if many else min(_N_FOLDS, data.X.shape[0])
        given = {name: None for name in ("callback", "threshold", "calibrate") if name in rough.get_params()}
        rough.set_params(**given, verbose=0, tol=self._row_tol if params.tol is None else params.tol)
        splits = make_splits(usual if params.cv is None else params.cv, data, params.random_state)
        return RefitJudge(comparison, splits, rough, self._params_of)

    def _rivals(self, judge: PathJudge, best: GridPoint, params: Parameters) -> Contest:
        """Judge what is penalised or limited beside the best ridge, on folds."""
        comparison, folds, data = judge.comparison, judge, judge.comparison.data
        if not (judge.tells and judge.unit > 0):
            return Contest(judge)
        if judge.splits[0].is_leave_one_out:
            splits = random_folds(data, _N_FOLDS, params.random_state)
            if not splits:
                return Contest(judge)
            # Ranks are fewer than strengths, and three of the folds tell as much about them.
            splits = splits[:N_SCREENING] if params.limited else splits
            folds = PathJudge(comparison, sampled(splits, data.Y.shape[1]), **judge.how)
        points, variants = screened(folds, best, judge.unit, params)
        rivals = [point for point in points if point.alpha or point.rank != best.rank]
        if folds is judge:  # the ridges of lower ranks at the largest one
            judge.judge([point for point in points if point not in rivals])
        bare = judge.points
        folds.judge([*(best_of(judge, bare, number) for number in range(len(judge.tables))), *rivals])
        return Contest(judge, rivals, folds, variants)

    def _grid(
        self, params: Parameters, thetas: Sequence[int], usual: Callable[[], list[float]]
    ) -> list[GridPoint]:
        """Return all candidates of a grid."""
        alphas, ridges = sorted(params.alphas or [0.0], reverse=True), params.ridges
        if ridges is None:  # a model that is always limited takes a trace norm in place of a ridge
            ridges = [0.0] if self._limited else usual()
        if params.limited:
            return [GridPoint(0, a, ridge, rank) for ridge in ridges for rank in params.ranks for a in alphas]
        return [GridPoint(theta, alpha, ridge) for ridge in ridges for theta in thetas for alpha in alphas]

    # What is kept

    def _results(self, contest: Contest, params: Parameters) -> dict[str, Any]:
        """Return every fitted attribute, with the record of the final fit."""
        judge, several = contest.judge, isinstance(params.scoring, list | tuple)
        names = [criterion.name if several else "score" for criterion in params.criteria]
        results, chosen, fitted = contest.results(names, self._params_of), {}, {}
        for number, name in enumerate(names):
            point, *told = contest.choice(number, params.rule)
            if point not in fitted:
                fitted[point] = self._final_fit(contest, point, params)
            chosen[name] = contest.points.index(point), *fitted[point], *told
        place, best, seconds, score, facts = chosen[names[0]]
        if max(params.ranks or [math.inf]) < min(judge.comparison.data.model_shape):
            # The best ridge has the greatest of these ranks: its lead is none over ridge regression alone.
            facts |= dict.fromkeys(("gain", "gain_error", "gain_rows"), math.nan)
        judged_by = (
            judge.how_told if contest.asked is judge else f"{judge.how_told} and {contest.asked.how_told}"
        )
        gamma = {"gamma": params.gamma} if _has_gamma(judge.comparison.data) else {}
        found = {
            "fitted_": best.fitted_,
            "best_estimator_": best,
            "best_index_": place,
            "best_params_": gamma | results["params"][place],
            "best_score_": score,
            "cv_results_": results,
            "n_splits_": len(judge.splits),
            "refit_time_": seconds,
            "search_": facts | {"judged_by": judged_by},
        }
        if several:
            found["best_indices_"] = {name: one[0] for name, one in chosen.items()}
            found["best_estimators_"] = {name: one[1] for name, one in chosen.items()}
        return found

    def _final_fit(self, contest: Contest, point: GridPoint, params: Parameters) -> tuple[Any, float]:
        """Fit a candidate on all rows; return it and the seconds taken."""
        values, judge, data = self._params_of(point), contest.judge, contest.judge.comparison.data
        if params.verbose:
            words = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
            tell(type(self).__name__, f"fits {words} to all rows")
        last = judge.neighbour(0, point) if isinstance(judge, RefitJudge) and len(judge.splits) == 1 else None
        given, settings = self._base.get_params(deep=False), dict.fromkeys(self._names) | values
        begun, best = last is not None, type(self._base)(**given) if last is None else copy(last)
        settings["warm_start"] = begun or given.get("warm_start")
        if isinstance(judge, PathJudge):
            settings["space"] = params.space
        if _has_gamma(data):
            settings["gamma"] = params.gamma
        vars(best).update({name: value for name, value in (given | settings).items() if name in given})
        began = perf_counter()
        best._fit_to(data, best._check_params())
        seconds = perf_counter() - began
        if begun:
            best.warm_start = given["warm_start"]
        if params.calibrate is not None or isinstance(params.threshold, Cut):
            whole = isinstance(judge, PathJudge) and params.prune not in (None, "auto")  # judged unpruned
            if whole or judge.splits[0].is_leave_one_out:
                chosen = chosen_on_unseen(best, data, best._check_params())
            else:
                asked = contest.asked
                parts = (asked.scored(number, point) for number in range(len(asked.splits)))
                held_out, scores = zip(*parts, strict=True)
                join = namespace(scores[0]).concat
                known = None if held_out[0].known is None else join([part.known for part in held_out])
                labels = join([dense(part.Y) for part in held_out])
                chosen = chosen_on(labels, join(scores), params, known, data)
            if "cut" in chosen:
                best.threshold = chosen["cut"]
            best.fitted_ = replace(best.fitted_, calibration=chosen.get("calibration"))
        if params.prune == "auto":
            alone = isinstance(judge, RefitJudge) and len(judge.splits) == 1
            leader = partial(judge.leader, point) if alone else None
            best.fitted_ = automatically_pruned(best, best.fitted_, data, leader)
        return best, seconds

    def _changed(self, change: Callable[[Fitted], Fitted]) -> Self:
        twin, chosen = copy(self), vars(self).get("best_estimators_", {})
        changed = {id(model): model._changed(change) for model in (self.best_estimator_, *chosen.values())}
        if chosen:
            twin.best_estimators_ = {name: changed[id(model)] for name, model in chosen.items()}
        twin.best_estimator_ = changed[id(self.best_estimator_)]
        twin.fitted_ = twin.best_estimator_.fitted_
        return twin


def _check_sums_suffice(params: Parameters, member: Any) -> None:
    """Refuse what sums and a sample do not tell."""
    on_some = f"search on some of the rows with fit, then fit to all with {member.__name__}.fit_blocks"
    if params.loss.name != "squared":
        raise ValueError(
            f"a search over blocks sums over rows; loss={params.loss.name!r} needs them all: {on_some}."
        )
    check_reach(SimpleNamespace(kernel=params.kernel, threshold=None, prune=params.prune), "fit_blocks")
    if not (params.cv is None or check.is_real(params.cv)):
        raise ValueError(
            f"a search over blocks draws folds, not cv={shown(params.cv)}: pass cv=5, or {on_some}."
        )


def _is_grid(params: Parameters) -> bool:
    """Whether the user has given all values to try."""
    return any(params.alphas or ()) or bool(params.limited and params.ranks and params.ridges)


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
