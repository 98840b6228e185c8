"""The record that every dataset reader returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._names import NumberedNames
from lrml.datasets._record_checks import (
    FeatureMatrix,
    LabelMatrix,
    check_binary,
    check_matrix,
    check_names,
    check_no_infinity,
    check_same_names,
    check_unknown,
    kind,
    stack,
)


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelDataset:
    """A multi-label dataset: features, labels, names, the original split and where it came from.

    Parameters
    ----------
    name : str
        Short name of the dataset.
    X : ndarray or csr_array of shape (n, d), float64
        Features, one row per example. NaN is a missing value; in a sparse matrix what is not stored is 0.
    Y : ndarray or csr_array of shape (n, L), int8 or uint8
        Labels, 1 where a label applies and 0 elsewhere.
    feature_names : sequence of str, length d
        Names of the columns of `X`; stored as a tuple, unless it is a `NumberedNames`.
    label_names : sequence of str, length L
        Names of the columns of `Y`; stored likewise.
    n_train : int or None, default=None
        The rows are ordered: the first `n_train` are the training set, the others the test set.
        None means that the dataset has no split.
    provenance : str, default=""
        Where the numbers come from, for people to read.
    unknown : csr_array of shape (n, L), bool, or None, default=None
        True where it is not known whether a label applies; `Y` is 0 there. None means that all is known.

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
    Two records compare equal only if they are the same object: comparing arrays element by element
    behind ``==`` would be slow and, for floats, rarely what is meant.

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
    feature_names: Sequence[str]
    label_names: Sequence[str]
    n_train: int | None = None
    provenance: str = ""
    unknown: sparse.csr_array | None = None

    def __post_init__(self) -> None:
        check_matrix("X", self.X, (np.float64,))
        check_matrix("Y", self.Y, (np.int8, np.uint8))
        check_no_infinity(self.X)
        check_binary(self.Y)
        if self.unknown is not None:
            check_unknown(self.unknown, self.Y)
        n, n_label_rows = self.X.shape[0], self.Y.shape[0]
        if n != n_label_rows:
            raise ValueError(
                f"X and Y must have the same number of rows, got {n} and {n_label_rows}. "
                "Pass one row of Y for each row of X."
            )
        for field, columns in (("feature_names", self.X.shape[1]), ("label_names", self.Y.shape[1])):
            names = getattr(self, field)
            if not isinstance(names, NumberedNames):
                names = tuple(names)
                object.__setattr__(self, field, names)
            check_names(field, names, columns)
        if self.n_train is not None and not 0 < self.n_train < n:
            raise ValueError(
                f"n_train must leave at least one training and one test row, so lie in [1, {n - 1}], "
                f"got {self.n_train}. Pass None for a dataset without a split."
            )

    def __repr__(self) -> str:
        parts = [f"{key} {m.shape} {kind(m)}" for key, m in (("X", self.X), ("Y", self.Y))]
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
            Two datasets with the same features and labels, in the same order and storage. A split that
            they may carry themselves is forgotten.
        name : str, default=None
            Name of the result; None takes the name of `train`.

        Returns
        -------
        MultiLabelDataset
            The rows of `train`, then those of `test`, with ``n_train`` between them.
        """
        check_same_names("features", train.feature_names, test.feature_names)
        check_same_names("labels", train.label_names, test.label_names)
        sources = dict.fromkeys(part.provenance for part in (train, test) if part.provenance)
        return cls(
            name=train.name if name is None else name,
            X=stack("X", train.X, test.X),
            Y=stack("Y", train.Y, test.Y),
            feature_names=train.feature_names,
            label_names=train.label_names,
            n_train=train.shape[0],
            provenance="; ".join(sources),
            unknown=_stack_unknown(train, test),
        )


def check_dataset(dataset: object) -> None:
    """Refuse what is not a record, such as a name or a tuple of arrays."""
    if not isinstance(dataset, MultiLabelDataset):
        raise TypeError(
            f"dataset must be a MultiLabelDataset, got {type(dataset).__name__}. "
            "Read one with read_dataset or fetch_mulan, or make one: MultiLabelDataset(name, X, Y, ...)."
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


def _stack_unknown(train: MultiLabelDataset, test: MultiLabelDataset) -> sparse.csr_array | None:
    if train.unknown is None and test.unknown is None:
        return None
    blocks = [
        sparse.csr_array(part.Y.shape, dtype=np.bool_) if part.unknown is None else part.unknown
        for part in (train, test)
    ]
    stacked: sparse.csr_array = sparse.vstack(blocks, format="csr")
    return stacked
