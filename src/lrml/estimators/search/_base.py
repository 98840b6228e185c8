"""What every ``…CV`` estimator shares: the search, its results, the final fit, the threshold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from lrml._door import check_threshold
from lrml._progress import tell
from lrml._shown import level_of_user, shown
from lrml.core import checks as check
from lrml.core.arrays import is_sparse, namespace, one_blas_thread_if
from lrml.core.coordinates import road_of
from lrml.core.rows import Rows
from lrml.estimators._base import LowRankModel
from lrml.estimators._cuts import best_cut
from lrml.estimators._defaults import sums_suffice
from lrml.estimators._parameters import CHECKS, Parameters
from lrml.estimators.search._gamma import WITH_GAMMA, choose_gamma, has_gamma
from lrml.estimators.search._refits import RefitSearch
from lrml.estimators.search._score_table import ScoreTable, cv_results
from lrml.estimators.search._scoring import check_enough_labels, check_scorings, criterion_of_one_label
from lrml.estimators.search._search import (
    Comparison,
    Family,
    LeaveOneOutSearch,
    MomentSearch,
    Params,
    Plan,
    Search,
)
from lrml.estimators.search._splits import check_cv, make_splits, training_part
from lrml.thresholds import Cut

# Folds unless leave-one-out scores are in closed form, and the held-out share of wide data.
_N_FOLDS, _HELD_OUT = 5, 0.2
MANY_ROWS = 3000
"""From so many rows on, a held-out fifth tells enough where every candidate is a fit of its own."""
# A best value on the edge of at least so many given ones calls for a warning if it leads by so many standard
# errors.
_LEAST_VALUES, _CLEAR = 5, 2.0
# Up to this many multiplications for XᵀX and XᵀY and their decomposition, one thread of BLAS is enough.
_MANY = 4e9
# Rules that go by a standard error, beside "best".
_WITHIN_ERROR = ("one_standard_error", "smallest")
# Parameters of a search that its candidates share.
_PASSED_ON = (
    *("loss", "space", "fit_intercept", "max_iter", "tol", "targets", "random_state", "device"),
    *("kernel", "gamma", "degree", "coef0"),
)


def needs_folds(params: Parameters) -> bool:
    """Whether a standard error is to be told, without values of rows that would tell it."""
    return params.rule in _WITHIN_ERROR and not all(criterion.by_row for criterion in params.criteria)


def _check_rule(rule: Any) -> Any:
    if not callable(rule) and not (isinstance(rule, str) and rule in ("best", *_WITHIN_ERROR)):
        raise ValueError(
            "rule must be one of 'best', 'one_standard_error', 'smallest', or a function of cv_results_ that "
            f"returns the index of a candidate, got {shown(rule)}. Use 'best'."
        )
    return rule


class SearchModel(LowRankModel):
    """An estimator that chooses its parameters on held-out rows and is then fitted on all.

    Subclasses define in ``_member`` what is fitted, in ``_family`` the candidates if second moments suffice,
    and in ``_candidates`` those if the rows have to be read.
    """

    _member: ClassVar[Callable[..., Any]]
    _targets = property(lambda self: self.targets)
    _row_tol: float | None = None  # default tol of candidates that read many rows; None: that of a fit
    _checks = CHECKS | {
        "abandon": partial(check.check_flag, "abandon"),
        "cv": check_cv,
        "rule": _check_rule,
    }

    def _in_coordinates(self, data: Rows, params: Parameters) -> bool:
        """Whether least squares with all labels known is solved in spectral coordinates."""
        return True

    def _family(self, data: Rows, params: Parameters) -> Family:
        """Return the candidates for second moments."""
        raise NotImplementedError

    def _refits(self, data: Rows, params: Parameters) -> tuple[Plan, Callable[[Params], Any]]:
        """Return a plan of candidates that are fitted one by one, and their groups for warm starts."""
        raise NotImplementedError

    def _check_params(self) -> Parameters:
        params = super()._check_params()
        params.criteria = check_scorings(params.scoring, params.loss, params.targets)
        if vars(params).get("gammas") is not None and params.kernel not in WITH_GAMMA:
            raise ValueError(
                f"gammas needs a kernel that has a gamma, one of {', '.join(map(repr, WITH_GAMMA))}, got "
                f"kernel={shown(params.kernel)}. Pass gammas=None, or another kernel."
            )
        return params

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        """Check parameters against the shape of the data, and resolve shares of labels."""
        if params.scoring is None and data.Y.shape[1] == 1 and params.targets == "binary":
            params.criteria = (criterion_of_one_label(params.loss, all_known=data.mask is None),)
        check_enough_labels(params.criteria, data.Y.shape[1])
        if data.mask is not None and params.targets == "real":
            raise ValueError(
                "a search with targets='real' needs to know all targets, got a Y with NaN or unobserved "
                "entries. Impute them or drop those rows."
            )

    def _found(self, data: Rows, params: Parameters) -> dict[str, Any]:
        self._check_shapes(data, params)
        # Candidates run side by side. What remains gains little from threads of BLAS, and loses much by them
        # if other processes keep the cores busy.
        size = data.X.shape[0 if (road_of(data) == "dual") else 1]
        entries = data.X.nnz if is_sparse(data.X) else math.prod(data.X.shape)
        with one_blas_thread_if(size**3 + entries * (size + data.Y.shape[1]) <= _MANY):
            return self._search_and_fit(data, params)

    def _search_and_fit(self, data: Rows, params: Parameters) -> dict[str, Any]:
        in_coordinates = self._in_coordinates(data, params)
        closed_form = in_coordinates and sums_suffice(params.loss, data)
        if params.cv == "loo" and not closed_form:
            got = f"loss={params.loss.name!r}{'' if data.mask is None else ' and unknown labels'}"
            raise ValueError(
                "cv='loo' needs fits in closed form, that is, loss='squared' with all labels known, got "
                f"{got if in_coordinates else f'{type(self).__name__}, whose fits iterate'}. Pass cv=5."
            )
        compressed = in_coordinates and road_of(data) == "compressed"
        if params.cv == "loo":
            data = replace(data, only_exact=True)
        if params.cv is None:
            params.cv = _N_FOLDS
            if not needs_folds(params):
                # Leave-one-out scores need all directions. Where there are too many, there are rows to spare.
                spare = in_coordinates and data.X.shape[0] >= MANY_ROWS
                several = _HELD_OUT if spare else _N_FOLDS
                params.cv = _HELD_OUT if compressed else "loo" if closed_form else several
        given = None if isinstance(params.threshold, Cut) else params.threshold
        comparison = Comparison(
            data,
            make_splits(params.cv, data, params.random_state),
            params.criteria,
            check_threshold(given, data.Y.shape[1], params.loss.threshold),
            params.abandon,
            params.rule in _WITHIN_ERROR,
        )
        _check_error_can_be_told(comparison, params)
        gamma_results = None
        if data.kernel is not None and has_gamma(data.kernel):
            params.gamma = params.gammas[0] if params.gammas else None
            if params.gammas is None or len(params.gammas) > 1:
                fit_intercept, seed = params.fit_intercept, params.random_state
                params.gamma, gamma_results = choose_gamma(
                    comparison, params.gammas, fit_intercept=fit_intercept, random_state=seed
                )
            data = replace(data, kernel=replace(data.kernel, gamma=params.gamma))
            comparison = comparison._replace(data=data)
        search = self._search(comparison, params)
        tables = search.run(params.verbose, type(self).__name__)
        orders = [self._preferred(search, table, params) for table in tables]
        chosen = [order[0] for order in orders]
        _warn_of_edges(search, tables[0], chosen[0], params)
        if isinstance(search, LeaveOneOutSearch) and not callable(params.rule):
            chosen = search.confirm(orders, params.random_state)
        fitted = {index: self._final_fit(search, index, params) for index in dict.fromkeys(chosen)}
        found = self._results(search, chosen, fitted, several=isinstance(params.scoring, list | tuple))
        if has_gamma(data.kernel):
            found["best_params_"] = {"gamma": params.gamma} | found["best_params_"]
        return found if gamma_results is None else found | {"gamma_results_": gamma_results}

    def _search(self, comparison: Comparison, params: Parameters) -> Search:
        data = comparison.data
        if not (sums_suffice(params.loss, data) and self._in_coordinates(data, params)):
            plan, group = self._refits(data, params)
            rough = self._estimator(params)
            if self._row_tol is not None and params.tol is None and data.X.shape[0] >= MANY_ROWS:
                rough.set_params(tol=self._row_tol)
            return RefitSearch(comparison, plan, group, rough)
        centred = {"fit_intercept": params.fit_intercept}
        if params.cv == "loo":
            return LeaveOneOutSearch(comparison, self._family(data, params), **centred)
        # A subspace is not made of all rows only to see what their eigenvalues are like.
        first = training_part(data, comparison.splits[0])
        seen = first if road_of(data) == "compressed" else data
        return MomentSearch(comparison, self._family(seen, params), first, **centred)

    def _estimator(self, params: Parameters) -> Any:
        """Return an unfitted estimator with all parameters that are not searched."""
        estimator = type(self)._member()
        estimator._targets = params.targets
        passed_on = vars(params) | {"loss": params.loss.name, "device": self.get_params().get("device")}
        known = estimator.get_params()
        names = [name for name in _PASSED_ON if passed_on.get(name) is not None and name in known]
        return estimator.set_params(**{name: passed_on[name] for name in names})

    def _preferred(self, search: Search, table: ScoreTable, params: Parameters) -> list[int]:
        """Return the indices of the candidates that the rule admits, its choice first."""
        if not table.complete.any():
            fewer = ", or pass fewer folds" if len(search.comparison.splits) > 1 else ""
            raise ValueError(
                f"scoring={shown(params.scoring)} must have a value on every split, got none. "
                f"Check that held-out rows have labels and weight{fewer}."
            )
        if not callable(params.rule):
            return table.in_order(params.rule, search.strengths())
        index = params.rule(cv_results(search.candidates, {"score": table}))
        last = len(search.candidates) - 1
        if not check.is_integer(index) or not 0 <= int(index) <= last:
            raise ValueError(
                f"rule must return the index of a candidate, an integer in [0, {last}], got {shown(index)}. "
                "Return for example results['mean_test_score'].argmax()."
            )
        return [int(index)]

    def _final_fit(self, search: Search, index: int, params: Parameters) -> tuple[Any, float]:
        """Fit a candidate on all rows; return it and the seconds taken."""
        if params.verbose:
            values = ", ".join(f"{name} {value:.4g}" for name, value in search.candidates[index].items())
            tell(type(self).__name__, f"fits {values} to all rows")
        cut = params.threshold
        if isinstance(cut, Cut):
            cut = _best_cut(search, index, params)
        best = search.starting_point(index) or self._estimator(params).set_params(**search.candidates[index])
        best.set_params(threshold=cut)
        if self._row_tol is not None:
            best.set_params(tol=params.tol)
        start = perf_counter()
        best._fit_rows(search.comparison.data, best._check_params())
        seconds = perf_counter() - start
        if hasattr(best, "warm_start"):
            best.set_params(warm_start=False)
        return best, seconds

    @property
    def threshold_(self) -> Any:
        """Where ``predict`` cuts; None for the loss's own."""
        return self.best_estimator_.threshold

    @property
    def _decision_threshold(self) -> Any:
        return self.threshold_

    def _rename(self, features: Any = None, labels: Any = None) -> None:
        for model in [self.best_estimator_, *vars(self).get("best_estimators_", {}).values()]:
            model._rename(features, labels)
        self.fitted_ = self.best_estimator_.fitted_

    def _results(
        self, search: Search, chosen: list[int], fitted: dict[int, tuple[Any, float]], *, several: bool
    ) -> dict[str, Any]:
        """Return every fitted attribute, with the record of the final fit."""
        index = chosen[0]
        best, seconds = fitted[index]
        names = [criterion.name for criterion in search.comparison.criteria]
        titles = names if several else ["score"]
        results = cv_results(search.candidates, dict(zip(titles, search.tables, strict=True)))
        confirmed = getattr(search, "confirmed", {})
        if confirmed:
            for title, name in zip(titles, names, strict=True):
                results[f"confirmed_test_{title}"] = np.array(
                    [confirmed.get((place, name), np.nan) for place in range(len(search.candidates))]
                )
        found = {
            "fitted_": best.fitted_,
            "best_estimator_": best,
            "best_index_": index,
            "best_params_": search.candidates[index],
            "best_score_": confirmed.get((index, names[0]), float(results[f"mean_test_{titles[0]}"][index])),
            "cv_results_": results,
            "n_splits_": len(search.comparison.splits),
            "refit_time_": seconds,
        }
        if several:
            found["best_indices_"] = dict(zip(names, chosen, strict=True))
            found["best_estimators_"] = {name: fitted[i][0] for name, i in found["best_indices_"].items()}
        return found


def _best_cut(search: Search, index: int, params: Parameters) -> Any:
    """Return the best cut of a candidate's held-out scores."""
    parts = list(search.scores_of(index))
    known = None
    concat = namespace(parts[0][1]).concat
    if parts[0][0].known is not None:
        known = concat([held_out.known for held_out, _ in parts])
    Y, scores = (concat(column) for column in zip(*((h.labels, s) for h, s in parts), strict=True))
    return best_cut(Y, scores, params, known, search.comparison.data.home)


def _warn_of_edges(search: Search, table: ScoreTable, index: int, params: Parameters) -> None:
    """Warn if the best value is the first or last of those given, and clearly better than the next one."""
    best = search.candidates[index]
    for name in ("alpha", "ridge"):
        values = sorted(getattr(params, f"{name}s", None) or [])
        if len(values) < _LEAST_VALUES or best.get(name) not in (values[0], values[-1]) or best[name] == 0.0:
            continue
        next_one = values[1] if best[name] == values[0] else values[-2]
        others = [i for i, one in enumerate(search.candidates) if one[name] == next_one]
        gain, error = table.lead(index, max(others, key=table.scores[:, 0].__getitem__))
        if gain > _CLEAR * error:
            side, more = ("smallest", "smaller") if best[name] == values[0] else ("largest", "larger")
            warnings.warn(
                f"the best {name} should lie between those given, got the {side} of {name}s, "
                f"{best[name]:.3g}, which is better than the next one by more than {_CLEAR:g} standard "
                f"errors. Pass {more} ones too, or None to have them chosen.",
                UserWarning,
                stacklevel=level_of_user(),
            )


def _check_error_can_be_told(comparison: Comparison, params: Parameters) -> None:
    """Refuse a standard error of a single value."""
    by_row = all(criterion.by_row for criterion in comparison.criteria)
    if comparison.with_margin and len(comparison.splits) == 1 and not by_row:
        remedy = ", or scoring='average_precision'" if params.targets == "binary" else ""
        raise ValueError(
            f"rule={params.rule!r} needs several splits, or a metric with a value for every row, got one "
            f"split and scoring={shown(params.scoring)}. Pass cv=5{remedy}."
        )
