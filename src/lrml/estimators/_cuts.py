"""Thresholds chosen on scores of rows that the model has not seen, for ``threshold="auto"``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml.core.arrays import Array, Place, namespace, take, to_host
from lrml.core.coordinates import coordinates_of, road_of
from lrml.core.rows import Rows
from lrml.estimators._defaults import sums_suffice
from lrml.estimators._loo import LeaveOneOut
from lrml.estimators._parameters import Parameters
from lrml.model_selection import iterative_train_test_split
from lrml.thresholds import best_threshold

_Rows = npt.NDArray[np.int64]
# Rows held out if leave-one-out scores are not in closed form.
_HELD_OUT = 0.2
# A threshold is chosen on so many rows and scores at most: more would hardly change it.
_LEAST_ROWS, _MOST_SCORES = 1500, 1 << 25
# The same rows at every fit, so that the threshold does not depend on chance.
_SEED = 0


def automatic_cut(model: Any, data: Rows, params: Parameters) -> Any:
    """Return the best cut for a model that has just been fitted to the data.

    It is the best one for leave-one-out scores where they are in closed form, and otherwise for the scores
    of a fifth of the rows by a fit to the others. If there is no positive example to judge by, it is the
    natural one of the loss.
    """
    counted, most = data.counted, max(_LEAST_ROWS, _MOST_SCORES // data.Y.shape[1])
    if len(counted) < 2:
        return params.loss.threshold
    if hasattr(model, "_regressions") and sums_suffice(params.loss, data) and road_of(data) != "compressed":
        if len(counted) > most:
            counted = np.sort(np.random.RandomState(_SEED).permutation(counted)[:most])
        rows, scores = counted, left_out_scores(model, data, params, counted, warm=True)
    else:
        share = min(_HELD_OUT, most / len(counted))
        labels = take(to_host(data.Y), counted)  # splits are made on the host
        rows = iterative_train_test_split(counted, labels, test_size=share, random_state=_SEED)[1]
        scores = _held_out_scores(model, data, rows)
    place = Place.of(scores)
    known = None if data.mask is None else place.asarray(data.mask.known(rows))
    return best_cut(place.asarray(take(data.Y, rows)), scores, params, known, data.home)


def best_cut(Y: Array, scores: Array, params: Parameters, known: Array | None, home: Place) -> Any:
    """Return the best cut, at home; the natural one if nothing tells."""
    natural = params.loss.threshold
    xp = namespace(Y)
    if not bool(xp.any(xp.astype(Y, xp.bool))):  # unknown labels are 0
        return natural
    cut = best_threshold(
        Y,
        scores,
        params.threshold.metric,
        per_label=params.threshold.per_label,
        natural=natural,
        known=known,
    ).cut
    return cut if isinstance(cut, float) else home.asarray(cut)


def left_out_scores(
    model: Any, data: Rows, params: Parameters, rows: _Rows, *, warm: bool = False, precise: bool = False
) -> Array:
    """Leave-one-out scores of some rows, by a fit to all that starts from the last one if ``warm``."""
    quiet = Parameters(**vars(params) | {"callback": None, "verbose": 0})
    # All directions of a kernel matrix, before the fit asks for the leading ones only.
    space = coordinates_of(data, fit_intercept=params.fit_intercept)
    scorer = LeaveOneOut(space, data, rows, fit_intercept=params.fit_intercept, precise=precise)
    return scorer.of(model._regressions(data, quiet, warm=warm))(slice(None))


def _held_out_scores(model: Any, data: Rows, rows: _Rows) -> Array:
    """Scores of some rows by a fit to the others."""
    others = np.setdiff1d(np.arange(data.X.shape[0]), rows)
    twin = clone(model)
    quiet = {"threshold": None, "callback": None, "verbose": 0, "warm_start": False}
    twin.set_params(**{name: value for name, value in quiet.items() if name in twin.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fit to all rows has warned
        fitted = twin._solved(data.some(others), twin._check_params())
    return fitted.scores(data.features(rows, others))
