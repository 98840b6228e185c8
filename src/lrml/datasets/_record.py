"""The record that every dataset reader returns, and the names of columns that have none of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown

FeatureMatrix: TypeAlias = "NDArray[np.float64] | sparse.csr_array"
LabelMatrix: TypeAlias = "NDArray[np.int8] | NDArray[np.uint8] | sparse.csr_array"


class NumberedNames(Sequence[str]):
    """The names ``prefix0``, ``prefix1``, ... without storing them.

    Files such as those of the Extreme Classification repository number their features and labels, up to
    millions of them; a tuple of strings would take more memory than the data.

    Parameters
    ----------
    prefix : str
        What comes before the number.
    count : int
        How many names.
    start : int, default=0
        The first number.

    Examples
    --------
    >>> from lrml.datasets import NumberedNames
    >>> names = NumberedNames("label", 1_000_000)
    >>> names[-1], names[:2], len(names)
    ('label999999', ('label0', 'label1'), 1000000)
    """

    def __init__(self, prefix: str, count: int, start: int = 0) -> None:
        self._prefix = prefix
        self._numbers = range(start, start + count)

    @property
    def prefix(self) -> str:
        """What comes before the number."""
        return self._prefix

    @property
    def start(self) -> int:
        """The first number."""
        return self._numbers.start

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(f"{self._prefix}{number}" for number in self._numbers[index])
        return f"{self._prefix}{self._numbers[index]}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumberedNames):
            return NotImplemented
        return (self._prefix, self._numbers) == (other._prefix, other._numbers)

    def __hash__(self) -> int:
        return hash((self._prefix, self._numbers))

    def __repr__(self) -> str:
        numbers = self._numbers
        return f"NumberedNames({self._prefix!r}, {len(numbers)}, start={numbers.start})"


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelDataset:
    """A multi-label dataset: features, labels, names, the original split and where it came from.

    Parameters
    ----------
    name : str
        Short name of the dataset.
    X : array-like or sparse matrix of shape (n, d)
        Features, one row per example. NaN is a missing value; in a sparse matrix, entries not stored are 0.
        Stored as an array, or a csr_array with sorted indices, of float64; d may be 0, for labels alone.
    Y : array-like or sparse matrix of shape (n, L)
        Labels, 1 (or True) where a label applies and 0 elsewhere. Stored likewise, as uint8, or int8 if it
        comes so.
    feature_names : sequence of str, length d, default=None
        Names of the columns of `X`; stored as a tuple, unless it is a `NumberedNames`. None takes the columns
        of a frame, or numbers them: ``feature0``, ...
    label_names : sequence of str, length L, default=None
        Names of the columns of `Y`; likewise, ``label0``, ...
    n_train : int or None, default=None
        The rows are ordered: the first `n_train` are the training set, the others the test set.
        None means that the dataset has no split.
    provenance : str, default=""
        Where the numbers come from, for people to read.
    unknown : csr_array of shape (n, L), bool, or None, default=None
        True where a label is unknown; `Y` is 0 there. None means that all labels are known.

    Attributes
    ----------
    shape : tuple of int
        Number of examples, of features and of labels: ``(n, d, L)``.
    targets : ndarray or csr_array of shape (n, L)
        `Y`, with NaN where a label is unknown.
    observed : ndarray of shape (n, L), bool, or None
        The complement of `unknown`; None if all labels are known.
    train, test : tuple
        Rows of `X` and of `targets`, as ``X_train, Y_train = dataset.train``.

    Notes
    -----
    Two records compare equal only if they are the same object: an ``==`` of arrays element by element would
    be slow and, for floats, rarely what is meant.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml.datasets import MultiLabelDataset
    >>> toy = MultiLabelDataset(
    ...     name="toy",
    ...     X=np.eye(3),
    ...     Y=np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8),
    ...     feature_names=["a", "b", "c"],
    ...     label_names=["red", "round"],
    ...     n_train=2,
    ... )
    >>> toy
    <MultiLabelDataset toy: X (3, 3) dense, Y (3, 2) dense, train 2 / test 1>
    >>> X_test, Y_test = toy.test
    >>> Y_test
    array([[1, 1]], dtype=uint8)
    """

    name: str
    X: FeatureMatrix
    Y: LabelMatrix
    feature_names: Sequence[str] = None  # type: ignore[assignment]  # always names once it is made
    label_names: Sequence[str] = None  # type: ignore[assignment]
    n_train: int | None = None
    provenance: str = ""
    unknown: sparse.csr_array | None = None

    def __post_init__(self) -> None:
        columns = {"feature_names": _columns_of(self.X), "label_names": _columns_of(self.Y)}
        object.__setattr__(self, "X", _to_matrix("X", self.X, (np.float64,)))
        labels = _to_matrix("Y", self.Y, (np.int8, np.uint8, np.bool_, np.int64, np.float64))
        _check_values(self.X, labels)
        kept = labels.dtype in (np.int8, np.uint8)
        object.__setattr__(self, "Y", labels if kept else labels.astype(np.uint8))
        if self.unknown is not None:
            _check_unknown(self.unknown, self.Y)
        n, n_label_rows = self.X.shape[0], self.Y.shape[0]
        if n != n_label_rows:
            raise ValueError(
                f"X and Y must have the same number of rows, got {n} and {n_label_rows}. "
                "Pass one row of Y for each row of X."
            )
        for field, width in (("feature_names", self.X.shape[1]), ("label_names", self.Y.shape[1])):
            names = getattr(self, field)
            if names is None:
                names = columns[field] or NumberedNames(field.removesuffix("_names"), width)
                object.__setattr__(self, field, names)
            if not isinstance(names, NumberedNames):
                names = tuple(names)
                object.__setattr__(self, field, names)
            _check_names(field, names, width)
        if self.n_train is not None and not 0 < self.n_train < n:
            raise ValueError(
                f"n_train must leave at least one training and one test row, so lie in [1, {n - 1}], "
                f"got {self.n_train}. Pass None for a dataset without a split."
            )

    def __repr__(self) -> str:
        parts = [f"{key} {m.shape} {_kind(m)}" for key, m in (("X", self.X), ("Y", self.Y))]
        if self.n_train is None:
            parts.append("no split")
        else:
            parts.append(f"train {self.n_train} / test {self.shape[0] - self.n_train}")
        return f"<MultiLabelDataset {self.name}: {', '.join(parts)}>"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of examples, of features and of labels: ``(n, d, L)``."""
        return self.X.shape[0], self.X.shape[1], self.Y.shape[1]

    @property
    def train(self) -> tuple[FeatureMatrix, Any]:
        """Features and targets of the training set.

        The labels are rows of `Y`, of the same dtype, if all of them are known; else float64, with NaN where
        a label is unknown, as ``fit`` takes them.
        """
        return self._rows(slice(None, self._split()))

    @property
    def test(self) -> tuple[FeatureMatrix, Any]:
        """Features and targets of the test set, in the form of `train`."""
        return self._rows(slice(self._split(), None))

    @property
    def targets(self) -> Any:
        """Labels with NaN where they are unknown, as ``fit`` takes them; `Y` itself if all are known."""
        return _marked(self.Y, self.unknown)

    @property
    def observed(self) -> NDArray[np.bool_] | None:
        """True where it is known whether a label applies, as an array; None if all labels are known."""
        return None if self.unknown is None else ~self.unknown.toarray()

    def _rows(self, rows: slice) -> tuple[FeatureMatrix, Any]:
        unknown = None if self.unknown is None else self.unknown[rows]
        return self.X[rows], _marked(self.Y[rows], unknown)

    def _split(self) -> int:
        if self.n_train is None:
            raise ValueError(
                f"train and test need a dataset with a split, got n_train=None for {shown(self.name)}. "
                "Use X and Y, or split them with lrml.model_selection.iterative_train_test_split."
            )
        return self.n_train

    @classmethod
    def from_split(
        cls, train: MultiLabelDataset, test: MultiLabelDataset, *, name: str | None = None
    ) -> MultiLabelDataset:
        """Join a training set and a test set that were read from separate files.

        Parameters
        ----------
        train, test : MultiLabelDataset
            Two datasets with the same features and labels, in the same order and storage. Their own splits,
            if any, are dropped.
        name : str, default=None
            Name of the result; None takes the name of `train`.

        Returns
        -------
        MultiLabelDataset
            The rows of `train`, then those of `test`, with ``n_train`` between them.
        """
        _check_same_names("features", train.feature_names, test.feature_names)
        _check_same_names("labels", train.label_names, test.label_names)
        sources = dict.fromkeys(part.provenance for part in (train, test) if part.provenance)
        marks = [
            sparse.csr_array(part.Y.shape, dtype=np.bool_) if part.unknown is None else part.unknown
            for part in (train, test)
        ]
        known = train.unknown is None and test.unknown is None
        return cls(
            name=train.name if name is None else name,
            X=_stack("X", train.X, test.X),
            Y=_stack("Y", train.Y, test.Y),
            feature_names=train.feature_names,
            label_names=train.label_names,
            n_train=train.shape[0],
            provenance="; ".join(sources),
            unknown=None if known else _stack("unknown", *marks),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some rows of a dataset that is read block by block; what `iter_blocks` yields.

    Attributes
    ----------
    X : ndarray or csr_array of shape (rows, d), float64
        Features; NaN is a missing value.
    Y : ndarray or csr_array of shape (rows, L), uint8 or int8, or None
        Labels, 1 where a label applies; None if the file has none, or does not say how many.
    feature_names : sequence of str
        Names of the columns of `X`, the same object in all blocks.
    label_names : sequence of str or None
        Names of the columns of `Y`.
    first_row : int
        The number of the first row, counted from 0.
    unknown : csr_array of shape (rows, L), bool, or None
        True where a label is unknown; None if all labels are known.
    targets : ndarray, csr_array or None
        `Y`, with NaN where a label is unknown.
    """

    X: FeatureMatrix
    Y: LabelMatrix | None
    feature_names: Sequence[str]
    label_names: Sequence[str] | None
    first_row: int
    unknown: sparse.csr_array | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        labels = "no labels" if self.Y is None else f"Y {self.Y.shape} {_kind(self.Y)}"
        return f"<Block from row {self.first_row}: X {self.X.shape} {_kind(self.X)}, {labels}>"

    @property
    def targets(self) -> Any:
        """Labels with NaN where they are unknown; `Y` itself if all are known."""
        return None if self.Y is None else _marked(self.Y, self.unknown)


def check_dataset(dataset: object) -> None:
    """Refuse what is not a record, such as a name or a tuple of arrays."""
    if not isinstance(dataset, MultiLabelDataset):
        raise TypeError(
            f"dataset must be a MultiLabelDataset, got {type(dataset).__name__}. "
            "Read one with read_dataset or fetch_mulan, or make one: MultiLabelDataset(name, X, Y, ...)."
        )


def check_has_features(dataset: MultiLabelDataset) -> None:
    """Refuse labels alone, which no file format of ours can hold."""
    if not dataset.shape[1]:
        raise ValueError(
            f"a dataset must have a feature to be written, got X of shape {dataset.X.shape}. "
            "Write Y by other means, for example numpy.savetxt."
        )


def _marked(Y: LabelMatrix, unknown: sparse.csr_array | None) -> Any:
    """Return labels with NaN where they are unknown; the same labels if none is."""
    if unknown is None or not unknown.count_nonzero():
        return Y
    cells: tuple[NDArray[np.int32], NDArray[np.int32]] = unknown.nonzero()  # not what is stored as False
    if isinstance(Y, np.ndarray):
        marked = Y.astype(np.float64)
        marked[cells] = np.nan
        return marked
    holes = sparse.csr_array((np.full(len(cells[0]), np.nan), cells), Y.shape)
    return sparse.csr_array(Y.astype(np.float64) + holes)


def _kind(matrix: FeatureMatrix | LabelMatrix) -> str:
    return "sparse" if sparse.issparse(matrix) else "dense"


def _columns_of(matrix: object) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame, if they are texts."""
    names = tuple(getattr(matrix, "columns", ())) if type(matrix).__name__ != "LazyFrame" else ()
    return names if names and all(isinstance(name, str) for name in names) else None


def _to_matrix(key: str, matrix: Any, dtypes: tuple[type, ...]) -> Any:
    """Return an array, or a csr_array in canonical form, of one of the dtypes; else of the last."""
    if type(matrix).__name__ == "LazyFrame":
        raise ValueError(
            f"{key} must hold numbers, got a LazyFrame, which has computed none yet. Pass {key}.collect()."
        )
    found: Any = matrix
    if sparse.issparse(matrix) and not isinstance(matrix, sparse.csr_array):
        rows = found.tocsr()
        found = sparse.csr_array((rows.data, rows.indices, rows.indptr), rows.shape)
    if not sparse.issparse(found) and not isinstance(found, np.ndarray):
        with suppress(ValueError, TypeError):  # rows of different lengths; shown below as what they are
            found = np.asarray(matrix)
    if not isinstance(found, np.ndarray | sparse.csr_array) or found.ndim != 2:
        shape = getattr(found, "shape", None)
        raise ValueError(
            f"{key} must be a two-dimensional array or sparse matrix, got {type(matrix).__name__} of shape "
            f"{shape}. Pass one row for each example, all of the same length."
        )
    if found.dtype not in dtypes:
        if found.dtype.kind not in "biuf":
            raise ValueError(
                f"{key} must hold numbers, got dtype {found.dtype}. Encode it as numbers; texts with "
                "tags are for lrml.datasets.read_texts and lrml.TextTagger."
            )
        found = found.astype(dtypes[-1])
    if 0 in found.shape and not (key == "X" and found.shape[0]):
        raise ValueError(
            f"{key} must have at least one row and one column, got shape {found.shape}. "
            "Check that the source of the data is complete."
        )
    # Duplicates would falsify nnz and the 0/1 check of Y.
    if isinstance(found, sparse.csr_array) and not found.has_canonical_format:
        found = found.copy()  # the caller's matrix stays as it is
        found.sum_duplicates()
    return found


def _check_values(X: FeatureMatrix, Y: LabelMatrix) -> None:
    if np.any(np.isinf(X.data if isinstance(X, sparse.csr_array) else X)):
        raise ValueError(
            "X must hold finite numbers, or NaN for a missing value, got infinity. Replace it by a number."
        )
    values = Y.data if isinstance(Y, sparse.csr_array) else Y
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        raise ValueError(
            f"Y must hold only 0 and 1, got {wrong.flat[0]}. Write 1 where a label applies and 0 elsewhere."
        )


def _check_unknown(unknown: object, Y: LabelMatrix) -> None:
    if not (
        isinstance(unknown, sparse.csr_array)
        and unknown.dtype == np.bool_
        and unknown.shape == Y.shape
        and unknown.has_canonical_format
    ):
        raise ValueError(
            f"unknown must be a csr_array of bool of shape {Y.shape}, like Y, without duplicates, got "
            f"{type(unknown).__name__} of dtype {getattr(unknown, 'dtype', None)} and shape "
            f"{getattr(unknown, 'shape', None)}. Pass None if all labels are known."
        )
    labels: sparse.csr_array = sparse.csr_array(Y).astype(np.bool_)
    both = int(unknown.multiply(labels).count_nonzero())
    if both:
        raise ValueError(
            f"Y must be 0 where it is unknown whether a label applies, got 1 in {both} such places. "
            "Clear Y there, or the mark."
        )


def _check_names(field: str, names: Sequence[str], columns: int) -> None:
    if len(names) != columns:
        raise ValueError(
            f"{field} must name each of the {columns} columns, got {len(names)} names. "
            "Pass one name per column."
        )
    if isinstance(names, tuple) and len(set(names)) != columns:
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(
            f"{field} must be unique, got {shown(twice)} more than once. Rename one of the columns."
        )


def _check_same_names(what: str, train: Sequence[str], test: Sequence[str]) -> None:
    if len(train) != len(test):
        raise ValueError(
            f"train and test must have the same {what}, got {len(train)} and {len(test)}. "
            "Check that both come from one dataset."
        )
    if isinstance(train, NumberedNames) and train == test:
        return
    for column, (left, right) in enumerate(zip(train, test, strict=True)):
        if left != right:
            raise ValueError(
                f"train and test must have the same {what} in the same order, got {shown(left)} and "
                f"{shown(right)} in column {column}. Check that both come from one dataset."
            )


def _stack(key: str, train: Any, test: Any) -> Any:
    if _kind(train) != _kind(test) or train.dtype != test.dtype:
        raise ValueError(
            f"{key} of train and test must be stored alike, got {_kind(train)} {train.dtype} and "
            f"{_kind(test)} {test.dtype}. Convert one of them first."
        )
    if isinstance(train, np.ndarray):
        return np.vstack([train, test])
    blocks: list[sparse.csr_array] = [train, test]
    return sparse.vstack(blocks, format="csr")
