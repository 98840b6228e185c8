"""The door of every fit: data is checked and becomes rows, before anything is summed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from lrml import _targets as check
from lrml._shown import shortened, shown
from lrml.core.arrays import Place, dtype_name, is_sparse, plain
from lrml.core.columns import Schema
from lrml.core.coordinates import road_of
from lrml.core.moments import Statistics, without_weightless
from lrml.core.rows import Mask, Rows
from lrml.estimators._kernels import Kernel, check_kernel_matrix
from lrml.estimators._parameters import Parameters
from lrml.estimators._warnings import warn_of_scales
from lrml.thresholds import Cut

# Share of a device's memory that rows may take; the rest is for what a fit makes of them.
_SHARE_OF_ROWS = 0.5


def check_features(estimator: Any, X: Any, *, reset: bool, precomputed: bool = False) -> Any:
    """Validate X as scikit-learn does; what it finds out about the columns is kept if ``reset``."""
    check.check_frame(X, "X")
    X = plain(X, "X")
    place = check.place_of(X, "X")
    if not place.is_host and place.xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must be real, got complex numbers. Pass their parts.")
    accepted = False if precomputed else ["csr", "csc"]
    types = [np.float64, np.float32] if place.is_host else [place.xp.float64, place.xp.float32]
    try:
        return validate_data(estimator, X, reset=reset, accept_sparse=accepted, dtype=types)
    except ValueError as error:
        _, _, text = str(error).partition("could not convert string to float: ")
        if not text:
            raise
        text = shortened(text.removeprefix("np.str_(").removesuffix(")"))
        raise ValueError(
            f"X must hold numbers, got the text {text}. Use lrml.TextTagger for texts, or make "
            "numbers of them, for example with TfidfVectorizer or OneHotEncoder."
        ) from None


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
    # scikit-learn's validation writes to the estimator it is given, so it gets a stand-in of the same name.
    seen = type(type(estimator).__name__, (BaseEstimator,), {})()
    kernel = None
    if params.kernel != "linear":
        kernel = Kernel(params.kernel, vars(params).get("gamma"), params.degree, params.coef0)
    precomputed = kernel is not None and kernel.is_precomputed
    X = check_features(seen, X, reset=True, precomputed=precomputed)
    home = Place.of(X)
    device: Place | None = vars(params).get("device")
    place = home if device is None else device
    if not home.is_host and place != home:
        raise ValueError(
            f"device must be that of X, or None, if X is an array of {home}, got that of "
            f"{'NumPy, the host' if place.is_host else place}. Pass device=None, or move X."
        )
    if precomputed:
        check_kernel_matrix(X)
    # Labels follow X; those of NumPy are checked before they are moved.
    y, sample_weight, observed = check.following(home, Y=y, sample_weight=sample_weight, observed=observed)
    Y, names, mask, flat = check.check_targets(
        y, params.targets, allow_unknown=True, observed=observed, allow_flat=allow_flat, place=home
    )
    if Y.shape[0] != X.shape[0]:
        raise ValueError(
            f"X and Y must have the same number of rows, got {X.shape[0]} and {Y.shape[0]}. "
            "Pass one row of Y for every row of X."
        )
    weights = check.check_sample_weight(sample_weight, X.shape[0], home)
    if not isinstance(params.threshold, Cut):
        check.check_threshold(params.threshold, Y.shape[1], params.loss.threshold)
    if kernel is not None and mask is not None:
        raise ValueError(
            f"kernel={shown(params.kernel)} needs to know all labels, got a Y with NaN or unobserved labels. "
            "Pass kernel='linear', for example on features made by sklearn.kernel_approximation.Nystroem."
        )
    if not precomputed:
        weighty, _, _ = without_weightless(X, X[:, :1], weights)
        warn_of_scales(weighty, getattr(seen, "feature_names_in_", None))
    schema = Schema(
        X.shape[1],
        Y.shape[1],
        feature_names=getattr(seen, "feature_names_in_", None),
        label_names=names,
        dtype=np.dtype(dtype_name(X)),
        sparse_features=is_sparse(X),
        sparse_labels=is_sparse(Y) or is_sparse(y),
        flat=flat,
        targets=params.targets,
    )
    X = X.tocsr() if is_sparse(X) else X
    rows = Rows(X, Y, mask, weights, schema=schema, kernel=kernel)
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
        mask = rows.mask
        return replace(
            rows,
            X=place.asarray(rows.X),
            Y=place.asarray(rows.Y),
            mask=None if mask is None else Mask(place.asarray(mask.pattern), mask.marks_known),
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
        raise check.needs_dispatch("X", given, "take model.to_numpy(), for NumPy arrays")
    remedy = "" if home.is_host else ", or take model.to_numpy() for NumPy arrays"
    raise ValueError(
        f"X must live where the model does, got X with {there} and a model with {home}. Move X{remedy}."
    )
