"""The svmlight / LIBSVM format with several labels per row."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Literal

import numpy as np

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import Row, chunks, numbered_lines
from lrml.datasets._pair_files import assemble, row_lines, write_files
from lrml.datasets._pairs import BLANKS, MOST_COLUMNS, NUMBER_LABEL, Limits, PairRows
from lrml.datasets._record import MultiLabelDataset, NumberedNames
from lrml.datasets._sidecar import Sidecar, read_sidecar, sidecar_fields


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    name: str | None = None,
) -> MultiLabelDataset:
    r"""Read a multi-label dataset in the svmlight / LIBSVM format.

    A row is ``l1,l2,... index:value index:value ... # comment``. Labels are integers from 0; ``3.0`` is read
    as 3. A row without labels starts with a space or with its first pair. Blank lines and comments are
    skipped.

    Parameters
    ----------
    path : path-like
        The file; it is read line by line. ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    n_features, n_labels : int, default=None
        The numbers of features and labels; None takes those of the sidecar, if `write_svmlight` has written
        one, else the highest index and label that occur. Pass them for a test set, which may lack some.
    zero_based : bool or "auto", default="auto"
        Whether features are counted from 0, not from 1. "auto" follows the sidecar, else it is true if the
        index 0 occurs, as in scikit-learn.
    name : str, default=None
        Name of the dataset; None takes that of the sidecar, or the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset, with sparse matrices unless the sidecar says otherwise. Without a sidecar, columns are
        named by their numbers in the file: ``feature1``, ... (``feature0``, ... if zero-based) and
        ``label0``, ... The value ``nan`` is a missing value. A written 0 is not stored.

    Raises
    ------
    DatasetFormatError
        If a file breaks a rule of its format, with the line, or if the sidecar does not belong to the file.

    See Also
    --------
    write_svmlight : The counterpart.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toy.svm")
    ...     _ = path.write_text("0,2 1:0.5 4:1  # a comment\n 2:2\n")
    ...     toy = read_svmlight(path)
    >>> toy
    <MultiLabelDataset toy: X (2, 4) sparse, Y (2, 3) sparse, no split>
    >>> toy.feature_names[0]
    'feature1'
    """
    n_features, n_labels = _checked("n_features", n_features), _checked("n_labels", n_labels)
    if not (isinstance(zero_based, bool) or zero_based == "auto"):
        raise ValueError(f'zero_based must be True, False or "auto", got {zero_based!r}. Pass one of them.')
    sidecar = read_sidecar(path, "svmlight")
    if sidecar is not None:
        zero_based = _agreed(sidecar, n_features, n_labels, zero_based)
    first = 1 if zero_based is False else 0
    most = MOST_COLUMNS if n_features is None else n_features
    limits = Limits(
        path,
        NUMBER_LABEL,
        first=first,
        features=most + (0 if zero_based is True else 1),
        labels=MOST_COLUMNS if n_labels is None else n_labels,
    )
    rows = PairRows(limits)
    digest = hashlib.sha256()
    for chunk in chunks(_significant_lines(numbered_lines(path, None if sidecar is None else digest))):
        rows.add(chunk)
    base = int(rows.lowest != 0) if zero_based == "auto" else first
    d, labels = _widths(path, rows, base, sidecar, n_features, n_labels)
    X, Y = rows.matrices(d, labels, base)
    feature_names = (sidecar and sidecar.feature_names) or NumberedNames("feature", d, base)
    label_names = (sidecar and sidecar.label_names) or NumberedNames("label", labels)
    return assemble(path, sidecar, X, Y, (feature_names, label_names), name, digest.hexdigest())


def write_svmlight(
    dataset: MultiLabelDataset, path: str | os.PathLike[str], *, zero_based: bool = False
) -> None:
    """Write a dataset in the svmlight / LIBSVM format.

    Values are written with as few digits as give the same number back. What the format cannot hold (shape,
    names, split, provenance, unknown labels, dense storage) goes to a second file, ``<path>.meta.json``,
    which `read_svmlight` takes into account; other programs may ignore it. Both files are written, or none.

    Parameters
    ----------
    dataset : MultiLabelDataset
        What to write. A sparse matrix is never made dense; its explicit zeros are left out. The payload of a
        NaN is not kept. A row without labels and features is written as a 0 of the first feature, as
        readers of this format skip blank lines.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are compressed.
    zero_based : bool, default=False
        Whether to count features from 0, not from 1.

    Raises
    ------
    ValueError
        If the format cannot hold the dataset: a dimension is 2**31 or more, a name is not valid Unicode, or
        an array of more than 128 MiB is nearly all zeros and should be sparse.
    OutputError
        If the files cannot be written.

    See Also
    --------
    read_svmlight : The counterpart.
    """
    if not isinstance(zero_based, bool):
        raise ValueError(f"zero_based must be True or False, got {shown(zero_based)}. Pass one of them.")
    first = 0 if zero_based else 1
    fields = sidecar_fields(dataset, "svmlight", first, zero_based)
    write_files(path, row_lines(dataset, first, empty=f" {first}:0"), fields)


def _significant_lines(lines: Iterator[Row]) -> Iterator[Row]:
    """Leave out comments and blank lines."""
    for number, line in lines:
        text = line.partition(b"#")[0].strip(BLANKS)
        if text:
            yield number, text


def _checked(key: str, count: object) -> int | None:
    if count is None:
        return None
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 0 < count <= MOST_COLUMNS:
        raise ValueError(
            f"{key} must be None or an integer in [1, {MOST_COLUMNS}], got {shown(count)}. "
            "Pass None to take what occurs in the file."
        )
    return int(count)


def _agreed(sidecar: Sidecar, n_features: int | None, n_labels: int | None, zero_based: bool | str) -> bool:
    """Check the arguments against the sidecar; return whether features are counted from 0."""
    _, d, labels = sidecar.shape
    for key, stored, wanted in (("d of shape", d, n_features), ("L of shape", labels, n_labels)):
        if wanted is not None:
            sidecar.check(key, stored, wanted)
    if zero_based != "auto":
        sidecar.check("zero_based", sidecar.zero_based, zero_based)
    return sidecar.zero_based


def _widths(
    path: str | os.PathLike[str],
    rows: PairRows,
    base: int,
    sidecar: Sidecar | None,
    n_features: int | None,
    n_labels: int | None,
) -> tuple[int, int]:
    """Return the numbers of features and labels."""
    if not rows.n_rows:
        remedy = "Check that the file is complete."
        raise DatasetFormatError.at(path, None, "the file must have a row", Words("none"), remedy)
    d = 0 if rows.highest is None else rows.highest + 1 - base
    labels = rows.highest_label + 1
    if sidecar is not None:
        n, stored_d, stored_labels = sidecar.shape
        agrees = n == rows.n_rows and d <= stored_d and labels <= stored_labels
        found = f"{rows.n_rows} rows and at least {d} features and {labels} labels"
        sidecar.check("shape", list(sidecar.shape), found, agrees)
        return stored_d, stored_labels
    if d > (n_features or MOST_COLUMNS):  # could not be seen before the base was known
        rule = f"an index must lie in [0, {(n_features or MOST_COLUMNS) - 1}], as features are counted from 0"
        remedy = "Give a larger n_features, or say by zero_based that there should be no index 0."
        raise DatasetFormatError.at(path, rows.highest_line, rule, rows.highest, remedy)
    for key, count, wanted in (("n_features", d, n_features), ("n_labels", labels, n_labels)):
        if not (count or wanted):
            rule = f"the file must have some {key.removeprefix('n_')}"
            raise DatasetFormatError.at(path, None, rule, Words("none"), f"Give {key} if this is meant.")
    return n_features or d, n_labels or labels
