"""Predictions and metrics of a fitted model, block by block on a cluster."""

# mypy: allow-untyped-calls
# Dask has few annotations.

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from dask.delayed import Delayed, delayed
from distributed import Client
from sklearn.utils.validation import check_is_fitted

from lrml._arrays import is_sparse
from lrml._ranking import LabelCounts, check_k, check_labelled_scores, check_threshold, ratio
from lrml._shown import shown
from lrml._targets import check_label_names
from lrml.blocks import RowBlock
from lrml.engines._cluster import literal
from lrml.engines._sources import DaskBlocks, as_blocks, row_chunks
from lrml.estimators import TopK
from lrml.metrics import row_measures


def predict(model: Any, X: Any) -> Any:
    """Labels of every row, as ``model.predict`` gives them, as a lazy Dask array.

    Parameters
    ----------
    model : fitted estimator
        Sent once, however many blocks there are.
    X : dask.array.Array, dask.dataframe.DataFrame or sequence of Delayed
        Rows, in any number of blocks; those of Delayed objects are arrays, sparse matrices or frames.

    Returns
    -------
    dask.array.Array of shape (n, L), or (n,) if the model was fitted on a 1-D y
        With a chunk per block, sparse if the model was fitted on a sparse Y.
    """
    flat, sparse = _is_flat(model), bool(model.sparse_output_)
    if getattr(model, "targets", "binary") == "real":
        return _lazily(model, X, "predict", _score_type(model, X))
    meta: Any = np.empty((0,) if flat else (0, 0), dtype=model.classes_.dtype if flat else np.int64)
    return _lazily(model, X, "predict", sp.csr_array(meta) if sparse and not flat else meta)


def decision_function(model: Any, X: Any) -> Any:
    """Scores of every row and label, as ``model.decision_function`` gives them, as a lazy Dask array.

    Parameters
    ----------
    model, X
        As in `predict`.

    Returns
    -------
    dask.array.Array of shape (n, L), or (n,) if the model was fitted on a 1-D y
    """
    return _lazily(model, X, "decision_function", _score_type(model, X))


def predict_top_k(model: Any, X: Any, k: int | None = None) -> TopK:
    """Return the k best labels of every row, best first, and their scores, as two lazy Dask arrays.

    Compute both at once, ``dask.compute(*top)``: scores are then made once. A metric takes
    ``TopK(*dask.compute(*top), top.classes)``.

    Parameters
    ----------
    model, X
        As in `predict`.
    k : int, optional
        min(5, L) by default.
    """
    n_labels = len(model.intercept_)
    k = min(5, n_labels) if k is None else check_k(k, n_labels, "k")
    chunks, n_rows = _chunks(X)
    sent = literal(model)
    best = [delayed(_answer)(sent, chunk, "predict_top_k", k) for chunk in chunks]
    metas = np.empty((0, k), dtype=model.classes_.dtype), _score_type(model, X)
    labels, scores = (_stacked([pair[i] for pair in best], n_rows, k, metas[i]) for i in range(2))
    return TopK(labels, scores, model.classes_)


def _answer(model: Any, chunk: Any, method: str, *arguments: Any) -> Any:
    answer = getattr(model, method)
    if not hasattr(chunk, "shape") or chunk.shape[0]:
        return answer(chunk, *arguments)
    found = answer(_zero_row(chunk), *arguments)  # models refuse to answer for no row
    return tuple(part[:0] for part in found) if isinstance(found, tuple) else found[:0]


def _zero_row(chunk: Any) -> Any:
    """Return a row of zeros like those that an array, sparse matrix or frame without rows would have."""
    shape = (1, chunk.shape[1])
    if is_sparse(chunk):
        return type(chunk)(shape, dtype=chunk.dtype)
    if hasattr(chunk, "columns"):
        return type(chunk)(np.zeros(shape), columns=chunk.columns).astype(chunk.dtypes)
    return np.zeros(shape, dtype=chunk.dtype)


def _is_flat(model: Any) -> bool:
    check_is_fitted(model)
    return bool(getattr(model, "flat_output_", False))


def _score_type(model: Any, X: Any) -> npt.NDArray[Any]:
    """Return an empty array of the type that scores will have, as far as the type of X is known."""
    dtype = getattr(X, "dtype", np.float64)
    dtype = dtype if dtype == np.float32 else np.float64
    return np.empty((0,) if _is_flat(model) else (0, 0), dtype=np.result_type(dtype, model.intercept_.dtype))


def _lazily(model: Any, X: Any, method: str, meta: Any) -> Any:
    chunks, n_rows = _chunks(X)
    sent = literal(model)
    answers = [delayed(_answer)(sent, chunk, method) for chunk in chunks]
    return _stacked(answers, n_rows, None if meta.ndim == 1 else len(model.intercept_), meta)


def _chunks(X: Any) -> tuple[list[Delayed], Iterable[float]]:
    """Return rows as Delayed objects, and how many there are in each; NaN if that is not known."""
    if isinstance(X, list | tuple) and X and all(isinstance(chunk, Delayed) for chunk in X):
        return list(X), [math.nan] * len(X)
    if not (hasattr(X, "chunks") or hasattr(X, "to_delayed")):
        raise TypeError(
            f"X must be a Dask array or dataframe or a list of Delayed objects, got {shown(X)}. For data in "
            "memory, call the method of the model."
        )
    chunks = row_chunks(X)
    return chunks, X.chunks[0] if hasattr(X, "chunks") else [math.nan] * len(chunks)


def _stacked(answers: list[Delayed], n_rows: Iterable[float], width: int | None, meta: Any) -> Any:
    shapes = ((rows,) if width is None else (rows, width) for rows in n_rows)
    return da.concatenate(
        [da.from_delayed(answer, shape, meta=meta) for answer, shape in zip(answers, shapes, strict=True)],
        allow_unknown_chunksizes=True,
    )


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    ks: Iterable[int] | None = None,
    threshold: npt.ArrayLike = 0.5,
    client: Client | str | None = None,
) -> dict[str, float]:
    """Compute all metrics of `lrml.metrics.evaluate` in one round of the cluster.

    Parameters
    ----------
    model : fitted estimator
    X, y, client
        As in `fit`; all labels must be known.
    ks, threshold
        As in `lrml.metrics.evaluate`.

    Returns
    -------
    dict
        Means by name, those of `lrml.metrics.evaluate` up to rounding.
    """
    check_is_fitted(model)
    with as_blocks(X, y, client=client) as source:
        means = _means(model, source, ks, threshold)
    return {name: _defined(name, mean) for name, mean in means.items()}


def _means(
    model: Any, source: DaskBlocks, ks: Iterable[int] | None, threshold: npt.ArrayLike
) -> dict[str, float]:
    """Return all metrics, NaN where no row has a value."""
    depths = None if ks is None else list(ks)
    sums, counts, labels = source.sum(_measures, _for_arrays(model, source), depths, threshold)
    names = row_measures(labels.shape[1], depths, np.asarray(threshold))
    total = LabelCounts(*labels)
    means = dict(zip(names, ratio(sums, counts).tolist(), strict=True))
    return means | {"micro_f1": total.micro_f1, "macro_f1": total.macro_f1}


def _defined(name: str, mean: float) -> float:
    if math.isnan(mean):
        raise ValueError(f"{name} needs at least one row on which it has a value, got none. Check y.")
    return mean


def score(model: Any, X: Any, y: Any = None, *, client: Client | str | None = None) -> float:
    """Return what ``model.score`` returns: average precision; R² of real targets; accuracy of a 1-D y.

    Parameters
    ----------
    model : fitted estimator
    X, y, client
        As in `fit`; all labels must be known.
    """
    flat = _is_flat(model)
    real = getattr(model, "targets", "binary") == "real"
    with as_blocks(X, y, client=client) as source:
        if real:
            return _r_squared(model, source.checked(targets="real"))
        if flat:
            return _accuracy(model, source.checked(classes=model.classes_))
        return _defined("average_precision", _means(model, source, [], 0.5)["average_precision"])


def _r_squared(model: Any, source: DaskBlocks) -> float:
    count, totals = source.sum(_target_sums)
    residual, spread = source.sum(_squared_errors, _for_arrays(model, source), totals / count)
    # As in scikit-learn: a constant target counts 1 if it is met, and 0 otherwise.
    share = residual / np.where(spread > 0, spread, 1.0)
    share[spread == 0] = residual[spread == 0] > 0
    return float(np.mean(1.0 - share))


def _accuracy(model: Any, source: DaskBlocks) -> float:
    right, count = source.sum(_right_classes, _for_arrays(model, source))
    return right / count


def _for_arrays(model: Any, source: DaskBlocks) -> Any:
    """Return a model that takes blocks, which are arrays: names of columns are checked here, once."""
    columns = source.columns
    check_label_names(columns.label_names, model.classes_)
    expected, got = getattr(model, "feature_names_in_", None), columns.feature_names
    if expected is not None and got is not None and list(expected) != list(got):
        raise ValueError(
            f"the features must be named and ordered as in fit, {shown(list(expected)[:3])} …, got "
            f"{shown(list(got)[:3])} …. Reorder the columns."
        )
    bare = copy(model)
    vars(bare).pop("feature_names_in_", None)
    return bare


def _measures(
    block: RowBlock, model: Any, ks: list[int] | None, threshold: npt.ArrayLike
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return sums of the metrics, the numbers of rows on which they have a value, and counts of labels."""
    data = check_labelled_scores(block.Y, model.decision_function(block.X))
    cut = check_threshold(threshold, data)
    measures = row_measures(data.n_labels, ks, cut).values()
    sums, counts = np.zeros(len(measures)), np.zeros(len(measures), dtype=np.intp)
    labels = np.zeros((len(LabelCounts._fields), data.n_labels), dtype=np.intp)
    for rows in data.blocks():
        values = np.array([measure(rows) for measure in measures])
        sums += np.nansum(values, axis=1)
        counts += np.count_nonzero(~np.isnan(values), axis=1)
        labels += LabelCounts.of(rows.relevant, rows.scores >= cut)
    return sums, counts, labels


def _target_sums(block: RowBlock) -> tuple[int, npt.NDArray[np.float64]]:
    return len(block), np.asarray(block.Y.sum(axis=0), dtype=np.float64).ravel()


def _squared_errors(
    block: RowBlock, model: Any, mean: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return sums, for each target, of squared residuals and of squares about the mean."""
    Y = block.Y.toarray() if is_sparse(block.Y) else block.Y
    residual = Y - model.predict(block.X).reshape(Y.shape)
    return np.sum(residual**2, axis=0), np.sum((Y - mean) ** 2, axis=0)


def _right_classes(block: RowBlock, model: Any) -> tuple[int, int]:
    positive = model.predict(block.X) == model.classes_[1]
    return int(np.count_nonzero(positive == (np.ravel(block.Y) == 1))), len(block)
