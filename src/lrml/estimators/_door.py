"""The door of every fit: data is checked and becomes rows, before anything is summed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lrml._shown import shown
from lrml._targets import check_threshold, checked_rows, needs_dispatch
from lrml.core.arrays import Place
from lrml.core.coordinates import road_of
from lrml.core.moments import Statistics, without_weightless
from lrml.core.rows import Rows
from lrml.estimators._kernels import Kernel, check_kernel_matrix
from lrml.estimators._parameters import Parameters
from lrml.estimators._warnings import warn_of_scales
from lrml.thresholds import Cut

# Share of a device's memory that rows may take; the rest is for what a fit makes of them.
_SHARE_OF_ROWS = 0.5


def memory_rows(
    estimator: Any,
    params: Parameters,
    X: Any,
    y: Any,
    sample_weight: Any,
    observed: Any,
    *,
    allow_flat: bool = True,
) -> Rows:
    """Check all input of ``fit``, and the threshold against it, without touching the estimator."""
    given, kernel = vars(params), None
    if params.kernel != "linear":
        kernel = Kernel(params.kernel, given.get("gamma"), params.degree, params.coef0)
    precomputed = kernel is not None and kernel.is_precomputed
    rows = checked_rows(
        X,
        y,
        sample_weight,
        observed,
        targets=params.targets,
        allow_flat=allow_flat,
        precomputed=precomputed,
        estimator=type(estimator).__name__,
    )
    home, device = rows.home, given.get("device")
    place: Place = home if device is None else device
    if not home.is_host and place != home:
        raise ValueError(
            f"device must be that of X, or None, if X is an array of {home}, got that of "
            f"{'NumPy, the host' if place.is_host else place}. Pass device=None, or move X."
        )
    if not isinstance(params.threshold, Cut):
        check_threshold(params.threshold, rows.shape[2], params.loss.threshold)
    if kernel is not None and not rows.all_known:
        raise ValueError(
            f"kernel={shown(params.kernel)} needs to know all labels, got a Y with NaN or unobserved labels. "
            "Pass kernel='linear', for example on features made by sklearn.kernel_approximation.Nystroem."
        )
    if precomputed:
        check_kernel_matrix(rows.X)
    else:
        weighty, _, _ = without_weightless(rows.X, rows.X[:, :1], rows.weights)
        warn_of_scales(weighty, rows.schema.feature_names)
    rows = rows if kernel is None else replace(rows, kernel=kernel)
    return rows if place == home else _moved(rows, place, sums_suffice=params.loss.name == "squared")


def _moved(rows: Rows, place: Place, *, sums_suffice: bool) -> Rows:
    """Move rows to a device; only their sums, if the rows would not fit and the sums suffice."""
    n, d, n_labels = rows.shape
    needed = n * (d * rows.X.dtype.itemsize + 8 * n_labels)
    given = f"{n} rows, {d} features and {n_labels} labels"
    with place.explaining_errors(given):
        if needed > _SHARE_OF_ROWS * place.memory:
            if sums_suffice and rows.all_known and road_of(rows) == "primal":
                sums = Statistics.from_arrays(rows.X, rows.Y, rows.weights, place=place)
                return replace(rows, sums=sums, only_sums=True)
            raise ValueError(
                f"rows must fit into {_SHARE_OF_ROWS:.0%} of the memory of the device ({place}, "
                f"{place.memory / 1e9:.1f} GB free) unless the squared loss is fitted to fewer features than "
                f"rows, got {given}, which take {needed / 1e9:.1f} GB. Pass device=None, or fewer rows."
            )
        return replace(
            rows,
            X=place.asarray(rows.X),
            Y=place.asarray(rows.Y),
            mask=None if rows.mask is None else rows.mask.at(place),
            weights=None if rows.weights is None else place.asarray(rows.weights),
            given=rows.X,
        )


def checked_start(estimator: Any, params: Parameters, rows: Rows) -> Any:
    """Return the last fit if the next one is to start there; refuse if that had other features or labels."""
    last = vars(estimator).get("fitted_")
    if last is None or not vars(params).get("warm_start") or last.kernel != rows.kernel:
        return None
    expected, got = (last.n_labels, last.schema.n_features), (rows.shape[2], rows.shape[1])
    if expected != got:
        raise ValueError(
            "warm_start needs the shape (labels, features) of the last fit, "
            f"{expected}, got {got}. Pass warm_start=False or a new estimator."
        )
    return last


def at_model(X: Any, given: Place, home: Place) -> Any:
    """Return X if it lives where the model does; nothing is copied to or from a device unasked.

    Without dispatch, X is NumPy's whatever was given.
    """
    there = Place.of(X)
    if there == home:
        return X
    if there.is_host and not given.is_host:
        raise needs_dispatch("X", given, "take model.to_numpy(), for NumPy arrays")
    remedy = "" if home.is_host else ", or take model.to_numpy() for NumPy arrays"
    raise ValueError(
        f"X must live where the model does, got X with {there} and a model with {home}. Move X{remedy}."
    )
