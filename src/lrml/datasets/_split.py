"""A training set and a test set in two files."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lrml.datasets._formats import READ_FORMATS, format_of, read_dataset, sidecar_path
from lrml.datasets._record import MultiLabelDataset, NumberedNames

_MARK = re.compile(r"[-_.]train$", re.IGNORECASE)
_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def read_split(
    train: str | os.PathLike[str],
    test: str | os.PathLike[str],
    *,
    format: str | None = None,
    name: str | None = None,
    **options: Any,
) -> MultiLabelDataset:
    r"""Read a dataset whose training set and test set are two files.

    Parameters
    ----------
    train, test : path-like
        The files, as for `read_dataset`.
    format : {"arff", "xmc", "svmlight", "csv", "parquet"}, default=None
        Format of both; None takes it from the suffix of each.
    name : str, default=None
        Name of the dataset; None takes that of the training set, without ``-train`` at the end.
    **options
        Passed to the reader, for both files.

    Returns
    -------
    MultiLabelDataset
        The rows of the training set, then those of the test set, with ``n_train`` between them.

    Raises
    ------
    ValueError
        If the files have different features or labels, apart from the cases below.

    See Also
    --------
    MultiLabelDataset.from_split : The same for two datasets.

    Notes
    -----
    Two kinds of files say only which columns occur in them; they are joined by number or by name:

    - **svmlight** files without a sidecar: there are as many features and labels as the highest number in
      either file says. Features are counted from 0 if the index 0 occurs in either file.
    - **tables with a column that lists labels**: the labels are those of both files, sorted by code points,
      or by size if all of them are integers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import read_split
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train, test = pathlib.Path(folder, "toy-train.svm"), pathlib.Path(folder, "toy-test.svm")
    ...     _ = train.write_text("0,2 1:0.5 4:1\n1 2:2\n")
    ...     _ = test.write_text("0 5:1\n")
    ...     read_split(train, test)
    <MultiLabelDataset toy: X (3, 5) sparse, Y (3, 3) sparse, train 2 / test 1>
    """
    kinds = {format_of(path, format, READ_FORMATS) for path in (train, test)}
    bare = not any(sidecar_path(path).is_file() for path in (train, test))
    if kinds == {"svmlight"} and bare:
        parts = _read_svmlight(train, test, options)
        parts = _widened(*parts)
    else:
        parts = [read_dataset(path, format=format, **options) for path in (train, test)]
        if options.get("label_column") is not None:
            parts = _with_all_labels(*parts)
    return MultiLabelDataset.from_split(*parts, name=_MARK.sub("", parts[0].name) if name is None else name)


def _read_svmlight(
    train: str | os.PathLike[str], test: str | os.PathLike[str], options: dict[str, Any]
) -> list[MultiLabelDataset]:
    """Read both files, with features counted from 0 in both or in none."""
    parts = [read_dataset(path, format="svmlight", **options) for path in (train, test)]
    bases = [part.feature_names.start for part in parts if isinstance(part.feature_names, NumberedNames)]
    if bases[0] != bases[1]:  # so zero_based="auto": only one of the files has the index 0
        shared = options | {"zero_based": True}
        place = bases.index(1)
        parts[place] = read_dataset((train, test)[place], format="svmlight", **shared)
    return parts


def _widened(train: MultiLabelDataset, test: MultiLabelDataset) -> list[MultiLabelDataset]:
    """Give both parts the larger number of features and of labels; their columns have numbers, no names."""
    d, n_labels = np.maximum(train.shape, test.shape)[1:].tolist()
    features = max(train.feature_names, test.feature_names, key=len)
    labels = max(train.label_names, test.label_names, key=len)
    return [
        replace(
            part,
            X=_with_columns(part.X, np.arange(part.shape[1]), d),
            Y=_with_columns(part.Y, np.arange(part.shape[2]), n_labels),
            feature_names=features,
            label_names=labels,
        )
        for part in (train, test)
    ]


def _with_all_labels(train: MultiLabelDataset, test: MultiLabelDataset) -> list[MultiLabelDataset]:
    """Give both parts the labels of both."""
    union = {*train.label_names, *test.label_names}
    by_size = all(_INTEGER.fullmatch(label) for label in union)
    labels = sorted(union, key=int) if by_size else sorted(union)
    column = {label: place for place, label in enumerate(labels)}
    return [
        replace(
            part,
            Y=_with_columns(part.Y, np.array([column[label] for label in part.label_names]), len(labels)),
            label_names=labels,
        )
        for part in (train, test)
    ]


def _with_columns(matrix: Any, columns: Any, width: int) -> sparse.csr_array:
    """Return a sparse matrix of another width, with its columns at the places given."""
    indices = columns[matrix.indices].astype(matrix.indices.dtype)
    moved = sparse.csr_array((matrix.data, indices, matrix.indptr), (matrix.shape[0], width))
    moved.sort_indices()
    return moved
