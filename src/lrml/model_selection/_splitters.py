"""Stratified splits of multi-label data in scikit-learn's manner."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from lrml._arrays import is_sparse
from lrml._checks import check_flag
from lrml._targets import check_targets
from lrml.model_selection._stratify import assign_subsets


class MultilabelStratifiedKFold(BaseCrossValidator):  # type: ignore[misc]  # scikit-learn has no type stubs
    """Cross-validation folds that keep the proportion of every label.

    Iterative stratification [1]_: the label with the fewest rows left is served first, because a rare label
    has the least room, and each of its rows goes to the fold that lacks most of this label. Use it as `cv`
    of ``cross_validate`` or ``GridSearchCV``; of the two only ``GridSearchCV`` takes a sparse y.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of rows.
    shuffle : bool, default=True
        Whether chance decides all that the algorithm leaves open: which of the rows that have a label go
        where, and ties between labels and between folds. False takes rows, labels and folds in their order.
    random_state : int, RandomState instance or None, default=None
        Seed of these choices. Pass an int for the same folds at every call of ``split``; None is the only
        value allowed without `shuffle`.

    See Also
    --------
    iterative_train_test_split : One split into a training and a test set.

    Notes
    -----
    What is guaranteed: the test sets are not empty and each row is in just one of them. If no row has more
    than one label, the counts of each label and the sizes of the folds differ by at most one, as in
    ``StratifiedKFold``. If rows have several labels, the rarest label differs by at most one. Other labels
    and the sizes come close, but no bound holds: labels go before sizes. Rows without a label are dealt out
    last, to even out the sizes.

    ``split`` takes time proportional to the number of ones in Y, and a sparse Y stays sparse.

    References
    ----------
    .. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas. On the Stratification of Multi-label Data. ECML PKDD 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml.model_selection import MultilabelStratifiedKFold
    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0]])
    >>> folds = MultilabelStratifiedKFold(2, random_state=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in folds.split(Y, Y)]
    [[2, 1], [2, 1]]
    >>> folds
    MultilabelStratifiedKFold(n_splits=2, random_state=0, shuffle=True)
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None) -> None:
        if not _is_integer(n_splits) or n_splits < 2:
            raise ValueError(
                f"n_splits must be an int of at least 2, got {n_splits!r}. Use 5, or "
                "iterative_train_test_split for a single split."
            )
        if not check_flag("shuffle", shuffle) and random_state is not None:
            raise ValueError(
                f"random_state must be None without shuffle, where it changes nothing, got {random_state!r}. "
                "Pass shuffle=True or leave random_state out."
            )
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self, X: Any, y: Any, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Generate the row numbers of training and test set, fold by fold.

        Parameters
        ----------
        X : array, sparse matrix, frame or list with n rows
            Only its length counts.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels. NaN, an unknown label, counts as 0.
        groups : None
            Ignored, with a warning; here for compatibility.

        Yields
        ------
        train, test : ndarray
            Row numbers, ascending.
        """
        if groups is not None:
            warnings.warn(
                f"groups must be None: {type(self).__name__} does not keep groups together, and ignores "
                "them. Use GroupKFold where groups matter more than labels.",
                UserWarning,
                stacklevel=2,
            )
        Y = _label_matrix(y)
        _check_same_length([X, Y])
        if self.n_splits > Y.shape[0]:
            raise ValueError(
                f"n_splits must be at most the number of rows, {Y.shape[0]}, got {self.n_splits}. "
                "Lower n_splits or pass more rows."
            )
        random = check_random_state(self.random_state) if self.shuffle else None
        folds = assign_subsets(Y, np.ones(self.n_splits, dtype=np.int64), random)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits


def iterative_train_test_split(
    X: Any, Y: Any, *arrays: Any, test_size: float | int = 0.25, random_state: Any = None
) -> list[Any]:
    """Split rows into a training and a test set that keep the proportion of every label.

    Parameters
    ----------
    X : array, sparse matrix, pandas or polars frame, or list, with n rows
        Features.
    Y : array, sparse matrix or frame of shape (n, L)
        0/1 labels. NaN, an unknown label, counts as 0 for the split.
    *arrays : arrays, sparse matrices, frames or lists with n rows
        Whatever else goes with the rows, such as weights.
    test_size : float or int, default=0.25
        A float in (0, 1) is the share of the test set, rounded up to whole rows; an int is the number of
        its rows. The size comes close to this; labels go before sizes.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same split at every call.

    Returns
    -------
    list
        ``X_train, X_test, Y_train, Y_test, ...``: the order of scikit-learn's ``train_test_split``.
        scikit-multilearn's function of this name returns ``X_train, Y_train, X_test, Y_test``. Each part is
        of the type that came in (sparse matrices as CSR), with the rows in their order.

    See Also
    --------
    MultilabelStratifiedKFold : The same for cross-validation.

    Notes
    -----
    Iterative stratification [1]_ with one addition. If a fourth of the rows are for testing, a label with one
    row is wanted 0.75 times for training and 0.25 times for testing, so all such labels end up in the
    training set; if every row has a rare label, nothing is left for the test set. Here, where both parts want
    a label equally often once that is rounded up, a part that is full yields to one that is not. With parts
    of equal size this changes nothing. Neither part is ever empty.

    References
    ----------
    .. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas. On the Stratification of Multi-label Data. ECML PKDD 2011.

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> from lrml.model_selection import iterative_train_test_split
    >>> yeast = load_yeast()
    >>> X_train, X_test, Y_train, Y_test = iterative_train_test_split(yeast.X, yeast.Y, random_state=0)
    >>> int(Y_test[:, 13].sum()), int(yeast.Y[:, 13].sum())  # the rarest label
    (9, 34)
    """
    labels = _label_matrix(Y)
    everything = [X, Y, *arrays]
    _check_same_length(everything)
    n = labels.shape[0]
    n_test = _count_test_rows(test_size, n)
    shares = np.array([n - n_test, n_test], dtype=np.int64)
    subsets = assign_subsets(labels, shares, check_random_state(random_state))
    parts = [np.flatnonzero(subsets == part) for part in (0, 1)]
    return [take_rows(array, rows) for array in everything for rows in parts]


def take_rows(array: Any, rows: NDArray[np.int64]) -> Any:
    """Return some rows of an array, sparse matrix, frame, series or sequence, as the same type."""
    if is_sparse(array):
        return array.tocsr()[rows]
    if hasattr(array, "iloc"):  # pandas
        return array.iloc[rows]
    if hasattr(array, "shape"):  # NumPy, polars and others that index rows by an array
        return array[rows]
    return [array[row] for row in rows.tolist()]


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _label_matrix(Y: Any) -> sparse.csr_array:
    """Return 0/1 labels as a CSR matrix that stores the ones only; unknown ones are not among them."""
    if Y is None:
        raise ValueError("y must be a label matrix, it decides on the split, got None. Pass the labels.")
    values = check_targets(Y, "real", allow_unknown=True).values
    stored = values.data if is_sparse(values) else values
    strange = stored[(stored != 0) & (stored != 1)]
    if strange.size:
        raise ValueError(
            f"Y must hold only 0 and 1 to be stratified, got {strange.flat[0]!s}. "
            "Encode the labels with MultiLabelBinarizer, or use KFold for other targets."
        )
    matrix = sparse.csr_array(values, copy=True) if is_sparse(values) else sparse.csr_array(values != 0)
    matrix.eliminate_zeros()
    return matrix


def _check_same_length(arrays: list[Any]) -> None:
    for array in arrays:
        if not (getattr(array, "shape", ()) or hasattr(array, "__len__")):
            raise TypeError(
                f"each array must have one row per example, got {array!r}. "
                "Pass test_size and random_state by name, as in test_size=0.3."
            )
    lengths = [array.shape[0] if hasattr(array, "shape") else len(array) for array in arrays]
    if len(set(lengths)) > 1:
        listed = ", ".join(map(str, lengths))
        raise ValueError(
            f"all arrays must have the same number of rows, got {listed}. Pass one row of each per example."
        )


def _count_test_rows(test_size: Any, n: int) -> int:
    """Return the number of test rows that leaves at least one row on either side."""
    if n < 2:
        raise ValueError(f"a split needs at least 2 rows, got {n}. Pass more rows.")
    if _is_integer(test_size):
        if not 0 < test_size < n:
            raise ValueError(
                f"an int test_size must be in [1, {n - 1}], to leave a row for training, got {test_size}. "
                "Choose a count in that range, or a share such as 0.25."
            )
        return int(test_size)
    share = float(test_size) if isinstance(test_size, float | np.floating) else math.nan
    if not 0 < share < 1:
        raise ValueError(
            f"test_size must be a float in (0, 1), a share, or an int, a count, got {test_size!r}. Use 0.25."
        )
    return min(math.ceil(share * n), n - 1)
