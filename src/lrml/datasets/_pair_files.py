"""Datasets from and to files of labels and ``index:value`` pairs, with their sidecars."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lrml._files import OutputError, atomic_file
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import compressor, stem
from lrml.datasets._record import FeatureMatrix, LabelMatrix, MultiLabelDataset
from lrml.datasets._sidecar import Sidecar, encode_sidecar, entries, may_be_dense, sidecar_path
from lrml.datasets._sidecar_fields import REMEDY, Names

_ROWS_AT_ONCE = 256  # enough to share the overhead of a block, few enough to keep memory flat
_VALUES_AT_ONCE = 1 << 20  # the same for wide dense rows


def assemble(
    path: str | os.PathLike[str],
    sidecar: Sidecar | None,
    X: sparse.csr_array,
    Y: sparse.csr_array,
    names: tuple[Names, Names],
    name: str | None,
    sha256: str,
) -> MultiLabelDataset:
    """Make a dataset of what was read from a file and its sidecar.

    Parameters
    ----------
    path : path-like
        The data file.
    sidecar : Sidecar or None
        Its sidecar, of the same shape.
    X, Y : csr_array
        What the file holds, with -0.0 as an explicit entry of `X`.
    names : tuple
        Names of the features and of the labels.
    name : str or None
        Name of the dataset; None takes that of the sidecar or of the file.
    sha256 : str
        The hash of the bytes of the data file; only used if there is a sidecar.

    Returns
    -------
    MultiLabelDataset
        The dataset.

    Raises
    ------
    DatasetFormatError
        If the sidecar does not agree with the data.
    """
    feature_names, label_names = names
    if sidecar is None:
        X.eliminate_zeros()
        given = stem(path) if name is None else name
        return MultiLabelDataset(given, X, Y, feature_names, label_names, provenance=Path(path).name)
    sidecar.check_sha256(sha256)
    Y = Y.astype(np.dtype(sidecar.label_dtype))
    try:
        return MultiLabelDataset(
            name=sidecar.name if name is None else name,
            X=_to_array("X", X, sidecar) if sidecar.dense_features else _without_zeros(X),
            Y=_to_array("Y", Y, sidecar) if sidecar.dense_labels else Y,
            feature_names=feature_names,
            label_names=label_names,
            n_train=sidecar.n_train,
            provenance=sidecar.provenance,
            unknown=_unknown(sidecar),
        )
    except DatasetFormatError:
        raise
    except ValueError as error:  # the rules of the record, which only the sidecar can still break
        raise DatasetFormatError(f"{sidecar.path}: {error} {REMEDY}") from error


def _without_zeros(X: sparse.csr_array) -> sparse.csr_array:
    X.eliminate_zeros()
    return X


def _to_array(key: str, matrix: sparse.csr_array, sidecar: Sidecar) -> Any:
    if not may_be_dense(matrix):
        rule = f"{key} must only be dense if it is small or has enough non-zero values"
        got = Words(f"{entries(matrix)} values in shape {matrix.shape}")
        raise DatasetFormatError.at(sidecar.path, None, rule, got, REMEDY)
    array = np.zeros(matrix.shape, matrix.dtype)
    # Not toarray(), which adds to zeros and so forgets the sign of -0.0.
    array[np.repeat(np.arange(len(array)), np.diff(matrix.indptr)), matrix.indices] = matrix.data
    return array


def _unknown(sidecar: Sidecar) -> sparse.csr_array | None:
    if sidecar.unknown is None:
        return None
    cells = np.array(sidecar.unknown, np.int32).reshape(-1, 2)
    shape = (sidecar.shape[0], sidecar.shape[2])
    return sparse.csr_array((np.ones(len(cells), np.bool_), (cells[:, 0], cells[:, 1])), shape)


def write_files(path: str | os.PathLike[str], blocks: Iterable[bytes], sidecar: dict[str, Any]) -> None:
    """Write a data file and its sidecar, of which the fields are given: both, or none.

    Both are complete under temporary names before the first is renamed. The name of the data file says
    whether it is compressed. Should the second renaming fail, an older sidecar is removed, as it would
    describe another file.
    """
    place = sidecar_path(path)
    digest = hashlib.sha256()
    moved = False
    try:
        with atomic_file(place) as staged:
            with atomic_file(path) as stream:
                with compressor(path, stream) as out:
                    for block in blocks:
                        digest.update(block)
                        out.write(block)
                staged.write(encode_sidecar(sidecar, digest.hexdigest()))
                staged.flush()
            moved = True
    except OutputError as error:
        if not moved:
            raise
        with suppress(OSError):
            place.unlink()
        raise OutputError(
            f"{error} The data file is there, but has lost its names and split until then."
        ) from error


def row_lines(dataset: MultiLabelDataset, first: int, empty: str) -> Iterator[bytes]:
    """Yield the rows of a dataset as text, in blocks.

    Parameters
    ----------
    dataset : MultiLabelDataset
        What to write.
    first : int
        The index of the first feature.
    empty : str
        How to write a row without labels and pairs.

    Yields
    ------
    bytes
        Some lines, each with its line end.
    """
    n, d, n_labels = dataset.shape
    step = min(_ROWS_AT_ONCE, max(1, _VALUES_AT_ONCE // max(d, n_labels)))
    if sparse.issparse(dataset.X) and sparse.issparse(dataset.Y):
        step = _ROWS_AT_ONCE
    for start in range(0, n, step):
        _, labels, label_ends = _block(dataset.Y, start, start + step)
        values, columns, ends = _block(dataset.X, start, start + step)
        texts = [f"{j + first}:{repr(x).removesuffix('.0')}" for j, x in zip(columns, values, strict=True)]
        lines = []
        for i in range(len(ends) - 1):
            ids = ",".join(map(str, labels[label_ends[i] : label_ends[i + 1]]))
            line = f"{ids} {' '.join(texts[ends[i] : ends[i + 1]])}".rstrip()
            lines.append(line or empty)
        yield "\n".join([*lines, ""]).encode("ascii")


def _block(
    matrix: FeatureMatrix | LabelMatrix, start: int, stop: int
) -> tuple[list[Any], list[int], list[int]]:
    """Return values, columns and row ends of what is written of some rows: not 0, but -0.0 of arrays."""
    if isinstance(matrix, sparse.csr_array):
        rows: sparse.csr_array = matrix[start:stop].copy()
        rows.eliminate_zeros()
        return rows.data.tolist(), rows.indices.tolist(), rows.indptr.tolist()
    block = matrix[start:stop]
    keep = (block != 0) | np.signbit(block)
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(keep, axis=1))])
    return block[keep].tolist(), np.nonzero(keep)[1].tolist(), ends.tolist()
