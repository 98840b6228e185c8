"""What a fit has found: one immutable record, from which predictions, files and public attributes are read.

A model scores a row x by x W + b with W = U diag(s) Vᵀ, or W itself with few entries, if it is pruned; with a
kernel, by k(x, X_fit) W + b. Which form W has is known here and in `_scores`, nowhere else. Scores come in
blocks of rows (and of labels, if there are very many), so the n × L scores never exist at once unless asked
for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import (
    Array,
    Place,
    at_home,
    dtype_name,
    is_host,
    is_sparse,
    map_in_threads,
    namespace,
    to_numpy,
)
from lrml.core.linalg import Factors
from lrml.core.losses import LOSSES, LogisticLoss, Loss
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema
from lrml.estimators._calibration import Calibration
from lrml.estimators._kernels import Kernel
from lrml.estimators._pruning import blocks_of, largest
from lrml.estimators._scores import Parts, Scorer, Scores, best_of_parts

_Result = TypeVar("_Result")
# Up to this number, coefficients are kept beside their factors, which saves time in predictions.
_MOST_COEFFICIENTS = 1 << 24
# Scores of one block of rows: 2 MiB of float64, so that they and their results stay near the cache; on a
# device enough to keep it busy, few enough for a sort of them to fit into a gigabyte.
_BLOCK_SCORES, _DEVICE_BLOCK_SCORES = 1 << 18, 1 << 23
# Rows of a block at least, if there are so many labels that they come in blocks too.
_LEAST_ROWS = 64


class Sums(NamedTuple):
    """Second moments of the rows of a fit, to which ``partial_fit`` adds."""

    statistics: Statistics
    n_blocks: int
    lasting: bool  # whether pickles have them: not those of a fit to all rows


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, with everything that was found out about it: None where a fit has no such thing."""

    schema: Schema  # names and numbers of features and labels, and the form of Y
    loss_name: str
    intercept: Array
    unseen: Array  # labels without a positive example
    status: str
    converged: bool
    objective: float
    residual: float
    n_iter: int
    history: dict[str, npt.NDArray[Any]]
    factors: Any = None  # `Factors`, W = U diag(s) Vᵀ; of a kernel the dual coefficients
    weights: Any = None  # W itself (d × L), without factors: a CSR array of a pruned model, dense in a search
    kernel: Kernel | None = None
    X_fit: Any = None  # of a kernel: the training rows unless they were precomputed
    theta: int | None = None
    alpha: float | None = None
    space: str | None = None
    ridge: Any = None  # of `SpectralRegressor` perhaps one for each target
    gap: float | None = None
    compression_gap: float | None = None
    kernel_gap: float | None = None
    n_passes: int | None = None
    cut: Any = None  # the threshold that ``threshold="auto"`` has chosen
    calibration: Calibration | None = None  # what makes probabilities of scores, if asked for
    sums: Sums | None = None

    @property
    def loss(self) -> Loss:
        """The loss of the fit."""
        return LOSSES[self.loss_name]

    @property
    def has_probabilities(self) -> bool:
        """Whether scores have probabilities: calibrated ones, or those of the logistic loss."""
        return self.calibration is not None or self.loss_name == "logistic"

    def probability(self, scores: Scores, labels: Any = slice(None)) -> Scores:
        """Return the probabilities of scores of some labels, a slice or numbers; of all by default."""
        if self.calibration is not None:
            return self.calibration.probability(scores, labels)
        return LogisticLoss().probability(scores)

    @property
    def rank(self) -> int | None:
        """Number of positive singular values; of a pruned model, nobody knows."""
        return None if self.factors is None else int(self.factors.s.shape[0])

    @property
    def n_weights(self) -> int | None:
        """Number of coefficients that are kept, of a pruned model."""
        return None if self.weights is None else int(self.weights.nnz)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of W: features, or training rows of a kernel; and labels."""
        W = self.weights if self.factors is None else self.factors.U
        return int(W.shape[0]), self.n_labels

    @property
    def n_labels(self) -> int:
        """Number of labels L."""
        return int(self.intercept.shape[0])

    @property
    def place(self) -> Place:
        """Where the model lives."""
        return Place.of(self.intercept)

    @property
    def classes(self) -> Array:
        """Label names, on the host; or numbers, where the model lives, as scikit-learn has them."""
        names = self.schema.label_names
        names = np.arange(self.n_labels) if names is None else names
        return self.place.asarray(names) if names.dtype.kind in "biuf" else names

    @cached_property
    def _coef(self) -> Array | None:
        """Wᵀ (L × d), kept unless it is large."""
        if self.factors is None or math.prod(self.shape) > _MOST_COEFFICIENTS:
            return None
        U, s, V = (self.place.asarray(factor, "float64") for factor in self.factors)
        return in_order(self.place.asarray((V * s) @ U.T, dtype_name(self.intercept)))

    @property
    def product(self) -> Any:
        """Wᵀ (L × d), made on demand if it is large; sparse if it is pruned."""
        if self.factors is None:
            return self.weights.T.tocsr()
        U, s, V = self.factors
        return in_order((V * s) @ U.T) if self._coef is None else self._coef

    def matrices(self) -> list[Any]:
        """Matrices by which features become scores: W, or its factors if these have fewer numbers."""
        if self.factors is None:
            return [self.weights]
        U, s, V = self.factors
        by_factors = len(s) * sum(self.shape) < math.prod(self.shape)
        return [U * s, V.T] if by_factors else [self.product.T]

    def column(self, label: int) -> Array:
        """Coefficients of one label."""
        if self.factors is None:
            return self.weights[:, [label]].toarray()[:, 0]
        U, s, V = self.factors
        return U @ (s * V[label])

    @property
    def label_vectors(self) -> Any:
        """Labels as rows whose inner products are those of their coefficients: V diag(s), or a sparse Wᵀ."""
        if self.factors is None:
            return self.product.astype(np.float64)
        return np.asarray(self.factors.V, np.float64) * np.asarray(self.factors.s, np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes of what scores need: see `model_nbytes`; of a pruned model those of sparse arrays."""
        dtype = np.dtype(dtype_name(self.intercept))
        if self.factors is None:
            return int(model_nbytes(0, self.shape, dtype, self.weights))
        return int(model_nbytes(self.rank, self.shape, dtype, self.X_fit))

    def pruned(
        self, n_weights: int | None = None, loss: float | None = None, threshold: float | None = None
    ) -> Self:
        """Return the same model with the largest coefficients only: see `LowRankModel.pruned`."""
        if self.factors is None:
            blocks = partial(blocks_of, self.weights)
        else:
            U, s, V = self.factors
            blocks = partial(blocks_of, U, right=(V * s).T)
        kept = largest(blocks, self.shape, n_weights, loss, threshold)
        return replace(self, factors=None, weights=kept, sums=None)

    def in_precision(self, dtype: str | None) -> Self:
        """Return the same model with coefficients of this type; raise FloatingPointError if some overflow."""
        if dtype in (None, dtype_name(self.intercept)):
            return self
        with np.errstate(over="raise"):
            return replace(
                self,
                schema=replace(self.schema, dtype=np.dtype(dtype)),
                factors=self.factors and Factors(*(part.astype(dtype) for part in self.factors)),
                weights=None if self.weights is None else self.weights.astype(dtype),
                intercept=self.intercept.astype(dtype),
            )

    def named(self, features: Any = None, labels: Any = None) -> Self:
        """Return the same model with other names of features and labels."""
        given = {"feature_names": features, "label_names": labels}
        changed: Any = {name: value for name, value in given.items() if value is not None}
        return replace(self, schema=replace(self.schema, **changed))

    def _at_home(self, known: dict[int, Any]) -> Self:
        """Return the same model in NumPy's arrays, see `lrml.core.arrays.at_home`."""
        return replace(self, **at_home(self.__getstate__(), known))

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.sums is not None and not self.sums.lasting:
            state["sums"] = None  # a model that was fitted at once stays as small as its factors
        return dict(at_home(state))

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nothing in it changes, and Python would copy as pickle does, which brings arrays home

    # Scores

    def map_scores(self, function: Callable[[slice, Parts], _Result], X: Any) -> Iterator[_Result]:
        """Apply a function to blocks of rows and their scores; yield the results in order.

        The blocks, and so the last digits of the scores, depend neither on the caller nor on the number of
        threads. On a device they are larger and come one by one.
        """
        X = X.tocsr() if is_sparse(X) else X
        on_host = is_host(X)
        size = _BLOCK_SCORES if on_host else _DEVICE_BLOCK_SCORES
        n_rows, n_labels = X.shape[0], self.n_labels
        step, width = max(1, size // n_labels), n_labels
        kernel = self.kernel
        if kernel is None:
            W: Any = self.weights if self.factors is None else self.factors
            scorer = Scorer.of(X, W, self._coef, self.intercept)
        else:
            U, s, V = self.factors
            scorer = Scorer(U, (V * s).T, self.intercept)
        if (scorer.second is not None or self.factors is None) and step < _LEAST_ROWS:
            step, width = _LEAST_ROWS, max(1, size // _LEAST_ROWS)
        if kernel is not None:
            n_fit = self.shape[0]
            step = min(step, kernel.block_of(n_fit) if on_host else max(1, size // n_fit))
        blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]

        def work(rows: slice) -> _Result:
            with np.errstate(over="ignore", invalid="ignore"):  # both end in what `_finite` refuses
                block = X[rows, :] if kernel is None else kernel(X[rows, :], self.X_fit)
                return function(rows, _finite(rows, scorer.parts(block, width)))

        # A kernel that is a user's function need not be safe in several threads.
        threadable = on_host and (kernel is None or isinstance(kernel.metric, str))
        # Beside few blocks, BLAS uses its own threads, which may outnumber them.
        one_by_one = len(blocks) < 8 or not threadable
        return map(work, blocks) if one_by_one else map_in_threads(work, blocks)

    def filled(self, function: Callable[[slice, Scores], Array], X: Any, dtype: Any) -> Any:
        """Apply a function to labels and their scores, entry by entry; return an n × L array."""
        answers = empty(X, self.n_labels, dtype)
        xp, on_host = namespace(answers), is_host(answers)

        def fill(rows: slice, parts: Parts) -> None:
            for labels, scores in parts:
                found = function(labels, scores)
                answers[rows, labels] = found if on_host else xp.astype(found, answers.dtype, copy=False)

        for _ in self.map_scores(fill, X):
            pass
        return answers

    def decided(self, X: Any, cut: npt.NDArray[np.float64], *, sparse: bool) -> Any:
        """Return 1 where a score reaches its cut and 0 elsewhere; as a CSR array, if wanted, on the host."""
        place = Place.of(X)
        cuts = place.asarray(np.broadcast_to(cut, (self.n_labels,)))
        if not (sparse and place.is_host):
            return self.filled(lambda labels, scores: scores >= cuts[labels], X, place.xp.int64)

        def decide(_: slice, parts: Parts) -> Any:
            found = [sp.csr_array(scores >= cuts[labels], dtype=np.int64) for labels, scores in parts]
            return sp.hstack(found, format="csr")

        return sp.vstack(list(self.map_scores(decide, X)), format="csr")

    def scores(self, X: Any) -> Scores:
        """Scores of all rows and labels, n × L."""
        return self.filled(lambda _, block: block, X, self.score_type(X))

    def score_type(self, X: Any) -> Any:
        """Type of the scores of X."""
        return namespace(self.intercept).result_type(X.dtype, self.intercept.dtype)

    def top(self, X: Any, k: int) -> tuple[Array, Scores]:
        """Columns and scores of the k best labels of every row, best first; unseen labels come last."""
        columns, best = empty(X, k, namespace(self.intercept).int64), empty(X, k, self.score_type(X))
        unseen = Place.of(X).asarray(self.unseen)

        def rank(rows: slice, parts: Parts) -> None:
            columns[rows, :], best[rows, :] = best_of_parts(parts, unseen, k)

        for _ in self.map_scores(rank, X):
            pass
        return columns, best

    def class_of(self, columns: Array) -> Array:
        """Classes of column numbers: on their device if they are numbers, or else on the host."""
        classes = self.classes
        if is_host(columns) or (is_host(classes) and classes.dtype.kind not in "biuf"):
            return classes[to_numpy(columns)]
        place = Place.of(columns)
        chosen = place.xp.take(place.asarray(classes), place.xp.reshape(columns, (-1,)))
        return place.xp.reshape(chosen, columns.shape)


def of_fit(name: str, unless_pruned: str = "") -> Any:
    """Return a public attribute that is read from the record of the fit, if that has it."""

    def read(model: Any) -> Any:
        fitted = found = vars(model).get("fitted_")
        for part in name.split("."):
            found = None if found is None else getattr(found, part)
        if found is None:
            remedy = (fitted is not None and unless_pruned) or "Call fit first"
            raise AttributeError(
                f"this {type(model).__name__} has no {name.partition('.')[0]} of a fit. {remedy}."
            )
        return found

    return property(read)


class Start(NamedTuple):
    """Coefficients left rightᵀ and intercepts to begin with, in the space of the model or in coordinates."""

    left: Array
    right: Any  # None stands for the identity
    intercept: Array = None

    @classmethod
    def of(cls, fitted: Fitted, rows: Rows) -> Start | None:
        """Return the last fit, where the rows are; not with a kernel: its coefficients belong to rows.

        What a pruned model has left out would have to be found again, so it is no start either.
        """
        if rows.kernel is not None or fitted.factors is None:
            return None
        U, s, V = (rows.place.asarray(factor, "float64") for factor in fitted.factors)
        return cls(U * s, V, rows.place.asarray(fitted.intercept, "float64"))


def _finite(rows: slice, parts: Parts) -> Parts:
    """Pass on scores that are finite; raise OverflowError at others."""
    for labels, scores in parts:
        xp = namespace(scores)
        # A sum is quicker than a look at every score. It may overflow itself, which asks for that look.
        if not math.isfinite(float(xp.sum(scores))) and not xp.all(xp.isfinite(scores)):
            finite = to_numpy(xp.all(xp.isfinite(scores), axis=1))
            raise OverflowError(
                f"scores must be finite, got others in row {rows.start + int(finite.argmin())} (counted from "
                f"0): with its numbers they are beyond what {dtype_name(scores)} can hold. Scale the "
                "features, or leave out rows that cannot be right."
            )
        yield labels, scores


def model_nbytes(rank: Any, shape: tuple[int, int], dtype: npt.DTypeLike, rows: Any = None) -> Any:
    """Bytes that scores need: (min(k (d + L + 1), d L) + L) · itemsize, and the training rows of a kernel.

    The factors have k (d + L + 1) numbers; d is the number of training rows for a kernel. Several ranks give
    an array.
    """
    d, n_labels = shape
    numbers = np.minimum(np.asarray(rank) * (d + n_labels + 1), d * n_labels) + n_labels
    parts = () if rows is None else (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    of_rows = sum(math.prod(part.shape) * np.dtype(dtype_name(part)).itemsize for part in parts)
    found = numbers * np.dtype(dtype).itemsize + of_rows
    return int(found) if np.ndim(rank) == 0 else found


def empty(X: Any, width: int, dtype: Any) -> Array:
    """Return an array for answers, with a row for each of X, where X is."""
    place = Place.of(X)
    return place.xp.empty((X.shape[0], width), dtype=dtype, device=place.device)


def in_order(product: Array) -> Array:
    """Return a product in C order, as the next product of a sparse matrix needs it."""
    return np.ascontiguousarray(product) if is_host(product) else product
