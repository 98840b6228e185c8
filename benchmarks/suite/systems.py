"""What a system is, the unit, and the systems of scikit-learn.

A system is made with ``quick``, then used as ``prepare(X, Y)`` (its own data format, off the clock),
``fit()``, ``scores(convert(X))``. A peer is imported when its system is made: what is not installed raises
ImportError there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from lrml.metrics import average_precision

RIDGE_ALPHAS = np.logspace(-3, 3, 12)
SVC_CS = np.logspace(-2, 1, 7)
LOGISTIC_CS = np.logspace(-1, 2, 7)
# A fit for each of very many labels takes long: there, fewer values around what is best on the other data.
MANY_LABELS = 500
SVC_CS_MANY = SVC_CS[1:5]
LOGISTIC_CS_MANY = LOGISTIC_CS[2:5]
HELD_OUT = 0.2


def as_it_is(A: Any) -> Any:
    return A


def as_dense(A: Any) -> np.ndarray:
    return np.ascontiguousarray(A.toarray() if sp.issparse(A) else A, dtype=np.float64)


def as_double(A: Any) -> Any:
    """Keep the storage, change the type.

    ``label_binarize`` of scikit-learn 1.9.1 casts the numbers of the labels to the type of Y. In bytes they
    wrap around after 256 labels, and the columns change places without a word.
    """
    return A.astype(np.float64)


def rank_unseen_last(S: np.ndarray, Y: Any, threshold: float) -> np.ndarray:
    """Give labels without a positive example in Y the lowest score; least squares would give them 0."""
    unseen = np.asarray(Y.sum(axis=0)).ravel() == 0
    if unseen.any():
        S = np.array(S)
        S[:, unseen] = min(float(S.min()), threshold) - 1
    return S


class System:
    """What the worker needs to know of a system; subclasses write ``_fit``, and ``_scores`` if they must.

    Attributes
    ----------
    name, package : str
        As in the tables; the distribution that must be installed.
    kind : {"linear peer", "tree peer", "paper", "ours"}
    threshold : float
        A label is predicted where its score is at least this.
    blas_threads : int or None
        None leaves BLAS its threads.
    convert : callable
        Brings a matrix into the form that suits this system best.
    candidates : int
        Pairs of a candidate and a split that were really fitted while tuning; 1 without tuning.
    nominal_candidates : int or None
        Grid × folds where a part of that was left out; None where nothing was.
    settings : dict
        What was asked for: grids, splits, and whatever is not a default.
    chosen : dict
        The parameters that tuning took.
    mean_decompositions : float or None
        Spectral decompositions for each model, where they are the work.
    """

    name = ""
    package = "scikit-learn"
    kind = "linear peer"
    threshold = 0.5
    blas_threads: int | None = None
    convert: Callable[[Any], Any] = staticmethod(as_it_is)

    def __init__(self, quick: bool = False) -> None:
        self.quick = quick
        self.candidates = 1
        self.nominal_candidates: int | None = None
        self.settings: dict[str, Any] = {}
        self.chosen: dict[str, Any] = {}
        self.mean_decompositions: float | None = None
        self.model: Any = None

    def prepare(self, X: Any, Y: Any) -> None:
        """Take the training data, sparse or dense as in the file."""
        self.X, self.Y = self.convert(X), self.convert(Y)

    def fit(self) -> None:
        """Fit on the prepared data, tuning included."""
        with self._threads():
            self._fit()

    def scores(self, X: Any) -> np.ndarray | None:
        """Return the scores of converted rows, or None where only time counts."""
        with self._threads():
            return self._scores(X)

    def _threads(self) -> AbstractContextManager[Any]:
        # Even a limit of None inspects all loaded libraries, which takes as long as Ridge on small data.
        return threadpool_limits(self.blas_threads) if self.blas_threads else nullcontext()

    def _fit(self) -> None:
        raise NotImplementedError

    def _scores(self, X: Any) -> np.ndarray | None:
        return self.model.decision_function(X)

    def _short(self, grid: np.ndarray) -> np.ndarray:
        """Return the grid, or every third value of it for a quick run."""
        return grid[::3] if self.quick else grid

    def _tune(self, parameter: str, grid: Iterable[float], fit: Callable[[Any, Any, float], Any]) -> None:
        """Choose from a grid by average precision on held-out rows, then fit on all rows."""
        grid = [float(value) for value in grid]
        X, X_held, Y, Y_held = train_test_split(self.X, self.Y, test_size=HELD_OUT, random_state=0)
        quality = {}
        for value in grid:
            self.model = fit(X, Y, value)
            S = rank_unseen_last(self._scores(X_held), Y, self.threshold)
            quality[value] = average_precision(Y_held, S)
        best = max(quality, key=quality.__getitem__)
        self.model = fit(self.X, self.Y, best)
        self.candidates, self.chosen = len(quality), {parameter: best}
        self.settings = {parameter: grid, "held out": HELD_OUT}


class UnitRidge(System):
    """The unit of time, Ridge(alpha=1) on dense double-precision data."""

    name = "Ridge"
    convert = staticmethod(as_dense)

    def _fit(self) -> None:
        self.model = Ridge(alpha=1.0).fit(self.X, self.Y)

    def _scores(self, X: Any) -> np.ndarray:
        return self.model.predict(X)


class TunedRidge(UnitRidge):
    """One fit for every alpha and one more, as a grid search makes them."""

    name = "Ridge, alpha tuned"

    def _fit(self) -> None:
        self._tune("alpha", self._short(RIDGE_ALPHAS), lambda X, Y, alpha: Ridge(alpha=alpha).fit(X, Y))


class LeaveOneOutRidge(UnitRidge):
    """Every alpha is judged by n models, which one decomposition stands for: they count as one candidate."""

    name = "RidgeCV, leave-one-out"

    def _fit(self) -> None:
        alphas = self._short(RIDGE_ALPHAS)
        self.model = RidgeCV(alphas).fit(self.X, self.Y)
        self.candidates = len(alphas)
        self.chosen = {"alpha": float(self.model.alpha_)}
        self.settings = {"alpha": alphas.tolist(), "held out": "one row at a time"}


class OneVsRest(System):
    """One model per label; several BLAS threads would only make such small fits wait for each other."""

    threshold = 0.0
    blas_threads = 1
    convert = staticmethod(as_double)
    grid: ClassVar[np.ndarray]
    grid_many: ClassVar[np.ndarray]

    def _fit(self) -> None:
        grid = self.grid if self.Y.shape[1] <= MANY_LABELS else self.grid_many
        self._tune("C", self._short(grid), self._fit_one)

    def _fit_one(self, X: Any, Y: Any, C: float) -> Any:
        return OneVsRestClassifier(self._binary(C)).fit(X, Y)

    def _binary(self, C: float) -> Any:
        raise NotImplementedError


class OneVsRestSVC(OneVsRest):
    """Squared hinge loss."""

    name = "one-vs-rest LinearSVC"
    grid, grid_many = SVC_CS, SVC_CS_MANY

    def _binary(self, C: float) -> Any:
        return LinearSVC(C=C, random_state=0)


class OneVsRestLogistic(OneVsRest):
    """Logistic loss."""

    name = "one-vs-rest LogisticRegression"
    grid, grid_many = LOGISTIC_CS, LOGISTIC_CS_MANY

    def _binary(self, C: float) -> Any:
        return LogisticRegression(C=C, max_iter=1000)
