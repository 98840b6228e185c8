"""The common start and end of every ``fit``: checked data, and a solution that is stored all at once."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from lrml import _targets as check
from lrml._progress import progress
from lrml._shown import shortened, shown
from lrml.blocks import Columns
from lrml.core import subspace
from lrml.core.arrays import HOST, Array, Place, dtype_name, is_host, is_sparse, namespace, plain, take
from lrml.core.kernels import LeftOut
from lrml.core.loss_problem import RowProblem
from lrml.core.losses import Loss, SquaredLoss
from lrml.core.moments import Statistics, extremes, without_weightless
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Mask, Rows, RowSums
from lrml.core.threads import one_blas_thread_if
from lrml.estimators import _size
from lrml.estimators._fitted import Fitted, model_nbytes
from lrml.estimators._kernels import Kernel, check_kernel_matrix
from lrml.estimators._parameters import ROADS, Parameters
from lrml.estimators._scores import SPARSE_COST
from lrml.estimators._space import KernelSpace, Space, estimated_spectrum, with_unseen
from lrml.solvers import SUCCESSES, Callback, Factors, History, IterationInfo, SeparableProblem, Status

_Float64 = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_Made = TypeVar("_Made")

# Up to this ratio between the ranges of features, all of them keep enough digits.
_WIDEST = 1e8
# Rounding error in the sums of weights of a label that all examples have.
_ROUNDING = 1e-12
# Up to so many multiplications in the sums, a second BLAS thread saves an estimated tenth of a fit at most.
_SMALL_PRODUCT = 30_000_000
# Up to this number of rows or features, a decomposition takes a few seconds.
_EXACT_UP_TO = 3000
# Share of a device's memory that rows may take; the rest is for what a fit makes of them.
_SHARE_OF_ROWS = 0.5


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Validated input of ``fit``, with moments and decompositions that several fits share, made once.

    On a device, everything lives there (`place`), in dense arrays; a model is brought back to its `home`,
    where X came from.
    """

    schema: Columns  # what validation has found out about the columns
    X: Any  # array or CSR array, Y too
    Y: Any  # 0 where a label is unknown
    mask: Mask | None  # which labels are known; None means all
    weights: Array | None
    loss: Loss
    targets: str
    kernel: Kernel | None = None  # None: inner products of the rows themselves
    summed_up: Statistics | None = None  # moments, if already known
    only_exact: bool = False  # whether a subspace will not do
    place: Place = HOST
    home: Place = HOST
    given: Any = None  # X at home, if it was moved
    _spaces: dict[Any, tuple[float, Space]] = field(default_factory=dict, init=False, repr=False)
    _made: dict[str, tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features (of rows for a kernel) and labels: the shape of the coefficients."""
        return self.X.shape[1 if self.kernel is None else 0], self.Y.shape[1]

    @cached_property
    def statistics(self) -> Statistics:
        """Moments of X and Y, computed on first use."""
        if self.summed_up is not None:
            return self.summed_up
        with one_blas_thread_if(math.prod(self.X.shape) * sum(self.shape) <= _SMALL_PRODUCT):
            return Statistics.from_arrays(self.X, self.Y, self.weights)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all rows."""
        return float(self.X.shape[0] if self.weights is None else namespace(self.weights).sum(self.weights))

    def positive_counts(self) -> Array:
        """How many rows, among those with weight, have each label."""
        place = self.place
        counted = place.ones(self.X.shape[0])
        if self.weights is not None:
            counted = place.asarray(self.weights > 0, "float64")
        if not place.is_host:
            return place.asarray(self.Y, "float64").T @ counted
        return np.asarray(self.Y.T @ counted, dtype=np.float64).ravel()

    def space(
        self,
        *,
        fit_intercept: bool,
        ridge: float = 0.0,
        road: str = "auto",
        bare: bool = False,
        extensible: bool = False,
        directions: int | None = None,
    ) -> Space:
        """Return the least-squares problem in spectral coordinates, with its means and unseen labels.

        It suffices for ridges from the given one on. On the compressed road, ``bare`` limits it to ridge
        regression with this ridge, and ``extensible`` says that the caller will extend it where needed. A
        solution that has a certain rank needs so many ``directions`` of label space at least.
        """
        road = self.road(road)
        kind: tuple[Any, ...] = (fit_intercept, road)
        if road == "compressed":
            kind += (ridge if bare else None, subspace.n_directions(self.Y.shape[1], directions))
        made_for, space = self._spaces.get(kind, (np.inf, None))
        if space is not None and made_for <= ridge:
            return space
        wanted: dict[str, Any] = {"fit_intercept": fit_intercept, "targets": self.targets}
        rows = (self.X, self.Y, self.weights)
        made_for = 0.0
        if self.kernel is not None:
            space = KernelSpace.of(self.kernel, *rows, **wanted, ridge=ridge)
            made_for = 0.0 if space.left_out == LeftOut() else ridge
        elif road == "compressed":
            made_for, rough = ridge, extensible and not bare
            self._check_directions(directions, bare=bare)
            asked = {"ridge": ridge, "bare": bare, "rough": rough, "directions": directions}
            space = self._compressed(**wanted, **asked)
        elif road == "dual":
            space = Space.from_rows(*rows, **wanted)
        else:
            space = Space.from_statistics(self.statistics.at(self.place), **wanted)
        if not extensible or road != "compressed":
            self._spaces[kind] = made_for, space
        return space

    def _compressed(self, **wanted: Any) -> Space:
        return Space.compressed(self.X, self.Y, self.weights, **wanted)

    def _check_directions(self, directions: int | None, *, bare: bool) -> None:
        """Refuse more directions of label space than there is room for."""
        (n, d), n_labels = self.X.shape, self.Y.shape[1]
        _size.check_directions((min(n, d), n_labels), directions, bare=bare, given=f"{n} rows, {d} features")

    def spectrum(self, *, fit_intercept: bool) -> SpectralProblem:
        """Return a problem for default strengths, which need its curvature only; an estimate on wide data."""
        if self.road() == "compressed":
            return estimated_spectrum(self.X, self.Y, self.weights, fit_intercept=fit_intercept)
        return self.space(fit_intercept=fit_intercept).problem

    def exactly(self) -> TrainingData:
        """Return the same data for what needs all directions, such as leave-one-out scores."""
        return replace(self, only_exact=True)

    def road(self, wanted: str = "auto") -> str:
        """Return where spectral coordinates come from: "primal" XᵀX, "dual" XXᵀ, or "compressed".

        Up to 3,000 rows or features, and on a device, it is the smaller of the two matrices. Beyond, a
        subspace takes over where its passes over the data cost less than half of the multiplications of a
        decomposition, or where the matrix does not fit into memory.
        """
        if self.kernel is not None:
            return "dual"
        if wanted in ROADS:
            return wanted
        n, d = self.X.shape
        exact, size = ("dual", n) if self.is_dual else ("primal", d)
        if self.only_exact or not self.place.is_host or (size <= _EXACT_UP_TO and _size.fits_in_memory(size)):
            return exact
        entries = SPARSE_COST * self.X.nnz if is_sparse(self.X) else self.X.size
        products = entries * max(1.0, entries / max(n, d)) if is_sparse(self.X) else entries * size
        dearer = 2.0 * subspace.cost(size, entries, self.Y.shape[1]) >= 10.0 * size**3 + products
        return exact if dearer and _size.fits_in_memory(size) else "compressed"

    def part(self, rows: npt.NDArray[np.int64]) -> TrainingData:
        """Return some of the rows, for fits that see plain arrays only and whose models stay with them."""
        X, Y = self.features(rows, rows), take(self.Y, rows)
        weights = None if self.weights is None else take(self.weights, rows)
        mask = None if self.mask is None else self.mask.select_rows(rows)
        schema = replace(self.schema, feature_names=None, n_features=X.shape[1])
        rows_only: dict[str, Any] = {"summed_up": None, "given": None, "home": Place.of(X)}
        return replace(self, schema=schema, X=X, Y=Y, weights=weights, mask=mask, **rows_only)

    @property
    def rows_given(self) -> Any:
        """X as it was given, perhaps sparse, where the model will live."""
        return self.X if self.given is None else self.given

    def features(self, rows: npt.NDArray[np.int64], fitted: npt.NDArray[np.int64]) -> Any:
        """Rows of X, as a model fitted on others needs them: of precomputed values, those with the others."""
        X = take(self.X, rows)
        return take(X, fitted, axis=1) if self.kernel is not None and self.kernel.is_precomputed else X

    @property
    def is_dual(self) -> bool:
        """Whether there are more features than rows, or a kernel."""
        n, d = self.X.shape
        return bool(d > n) or self.kernel is not None

    @property
    def model_dtype(self) -> np.dtype[Any]:
        """Type of a model's numbers: that of X, but dual coefficients may be large and cancel each other."""
        return np.dtype(dtype_name(self.X) if self.kernel is None else np.float64)

    def model_nbytes(self, rank: Any) -> Any:
        """Bytes of a model of this rank that is fitted on these rows; of several, if given an array."""
        keeps_rows = self.kernel is not None and not self.kernel.is_precomputed
        return model_nbytes(rank, self.shape, self.model_dtype, self.X if keeps_rows else None)

    @property
    def needs_moments_only(self) -> bool:
        """Whether the fit is one of least squares with all labels known."""
        return self.loss.name == "squared" and self.mask is None

    @property
    def n_passes(self) -> int | None:
        """How often rows were read that are not in memory; None if they are."""
        return None

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of every feature."""
        return extremes(self.X)

    @property
    def row_sums(self) -> RowSums:
        """The rows, as far as sums over them are needed only."""
        return self._rows_for_sums

    @property
    def _rows_for_sums(self) -> Rows:
        """The rows; on a device as they are, since sums are in double precision anyway."""
        return self.rows if self.place.is_host else Rows(self.X, self.Y, self.mask, self.weights)

    @property
    def rows(self) -> Rows:
        """The data for a fit that looks at every row."""
        if not self.place.is_host:
            return Rows(self.place.asarray(self.X, "float64"), self.Y, self.mask, self.weights)
        X = self.X.tocsr() if is_sparse(self.X) else self.X
        return Rows(X.astype(np.float64, copy=False), self.Y, self.mask, self.weights)

    def with_targets(self, made: Callable[..., Array], *arguments: Any) -> TrainingData:
        """Return least squares on the same rows, with made(Y, mask, *arguments) as targets.

        ``made`` works row by row and is importable by name.
        """
        Y = made(self.Y, self.mask, *arguments)
        schema = replace(self.schema, n_labels=Y.shape[1], label_names=None)
        plain: dict[str, Any] = {"mask": None, "schema": schema, "targets": "real", "summed_up": None}
        return replace(self, Y=Y, loss=SquaredLoss(), **plain)

    def once(self, kind: str, key: Any, make: Callable[[], _Made]) -> _Made:
        """Return what was made for the same key before, or make it; of every kind, the last one is kept."""
        if kind not in self._made or self._made[kind][0] != key:
            self._made.pop(kind, None)  # first, as it may be large
            self.keep(kind, key, make())
        made: _Made = self._made[kind][1]
        return made

    def keep(self, kind: str, key: Any, made: Any) -> None:
        """Keep something for `once`."""
        self._made[kind] = key, made

    def row_problem(self, used: Array, dtype: type[np.floating[Any]], *, fit_intercept: bool) -> RowProblem:
        """Return the problem of the labels in use (`sort_labels`), without a ridge; made once."""

        def make() -> RowProblem:
            rows = self._rows_for_sums.select_labels(used).with_precision(dtype)
            return RowProblem(rows, self.loss, fit_intercept=fit_intercept)

        return self.once("row problem", (dtype, fit_intercept), make)

    def separable_problem(
        self, used: Array, dtype: type[np.floating[Any]], *, fit_intercept: bool, dual: bool
    ) -> SeparableProblem:
        """Return the same for a solver that takes labels one by one."""

        def make() -> SeparableProblem:
            rows = replace(self.rows.select_labels(used), dtype=dtype)
            return SeparableProblem(rows, self.loss, fit_intercept=fit_intercept, dual=dual)

        return self.once("separable problem", (dtype, fit_intercept, dual), make)


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


def prepare(
    estimator: Any,
    params: Parameters,
    X: Any,
    y: Any,
    sample_weight: Any,
    observed: Any,
    *,
    allow_flat: bool = True,
) -> TrainingData:
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
    if not isinstance(params.threshold, str):
        check.check_threshold(params.threshold, Y.shape[1], params.loss.threshold)
    if kernel is not None and mask is not None:
        raise ValueError(
            f"kernel={shown(params.kernel)} needs to know all labels, got a Y with NaN or unobserved labels. "
            "Pass kernel='linear', for example on features made by sklearn.kernel_approximation.Nystroem."
        )
    if not precomputed:
        weighty, _, _ = without_weightless(X, X[:, :1], weights)
        warn_of_scales(weighty, getattr(seen, "feature_names_in_", None))
    kinds = is_sparse(X), is_sparse(Y) or is_sparse(y), flat
    dtype = np.dtype(dtype_name(X))
    schema = Columns(X.shape[1], Y.shape[1], getattr(seen, "feature_names_in_", None), names, dtype, *kinds)
    data = TrainingData(
        schema, X, Y, mask, weights, params.loss, params.targets, kernel, place=home, home=home
    )
    return data if place == home else _moved(data, place)


def _moved(data: TrainingData, place: Place) -> TrainingData:
    """Move rows to a device; only their sums, if the rows would not fit and the sums suffice."""
    data = replace(data, place=place)
    X, Y, mask, weights = data.X, data.Y, data.mask, data.weights
    needed = X.shape[0] * (X.shape[1] * X.dtype.itemsize + 8 * Y.shape[1])
    with place.explaining_errors(f"{X.shape[0]} rows, {X.shape[1]} features and {Y.shape[1]} labels"):
        if needed > _SHARE_OF_ROWS * place.memory:
            if data.needs_moments_only and data.road() == "primal":
                return replace(data, summed_up=Statistics.from_arrays(X, Y, weights, place=place))
            raise ValueError(
                f"rows must fit into {_SHARE_OF_ROWS:.0%} of the memory of the device ({place}, "
                f"{place.memory / 1e9:.1f} GB free) unless the squared loss is fitted to fewer features than "
                f"rows, got {X.shape[0]} rows, {X.shape[1]} features and {Y.shape[1]} labels, which take "
                f"{needed / 1e9:.1f} GB. Pass device=None, or fewer rows."
            )
        if mask is not None:
            mask = Mask(place.asarray(mask.pattern), mask.marks_known)
        weights = None if weights is None else place.asarray(weights)
        moved = {"X": place.asarray(X), "Y": place.asarray(Y), "mask": mask, "weights": weights}
        return replace(data, **moved, given=X)


def is_warm_start(estimator: Any, params: Parameters, data: TrainingData) -> bool:
    """Whether to start from the last fit; refuse if that had other features or labels."""
    fitted: Fitted | None = vars(estimator).get("fitted_")
    if fitted is None or not params.warm_start or fitted.kernel != data.kernel:
        return False
    expected = (fitted.n_labels, fitted.schema.n_features)
    got = (data.Y.shape[1], data.X.shape[1])
    if expected != got:
        raise ValueError(
            "warm_start needs the shape (labels, features) of the last fit, "
            f"{expected}, got {got}. Pass warm_start=False or a new estimator."
        )
    return True


@dataclass(frozen=True)
class ClosedForm:
    """The outcome of a fit without iterations."""

    objective: float
    rank: int
    status: Status = Status.EXACT
    residual: float = 0.0

    @property
    def history(self) -> History:
        """A single entry."""
        return History([IterationInfo(0, "closed form", self.objective, 0.0, self.rank, 0.0, 0.0)])


class Solution(NamedTuple):
    """A model in the original space, before it is stored."""

    factors: Factors
    intercept: Array
    unseen: Array
    outcome: Any  # status, objective, residual and history: a result of a solver, or ClosedForm


class SortedLabels(NamedTuple):
    """Which labels can be learnt from rows."""

    unseen: Array  # without a positive example, among those known
    used: Array  # those that only some examples have: the others need no coefficients
    constants: Array  # best scores of a model without features; zeros without intercept


def sort_labels(data: TrainingData, rows: RowSums, *, fit_intercept: bool) -> SortedLabels:
    """Set apart labels that no example has, or that all have if an intercept fits them without loss."""
    known, positive = rows.label_totals()
    xp = namespace(known)
    share = xp.where(known > 0, positive / xp.where(known > 0, known, 1.0), 0.0)
    if data.targets == "real":
        return SortedLabels(xp.zeros_like(known, dtype=xp.bool), known > 0, share * float(fit_intercept))
    share = xp.where(xp.abs(share - 1.0) <= _ROUNDING, 1.0, share)
    unseen = positive == 0
    if not fit_intercept:
        return SortedLabels(unseen, ~unseen, xp.zeros_like(share))
    return SortedLabels(unseen, ~unseen & (share < 1.0), data.loss.constant(share))


def with_used(some: Array, used: Array, others: Array) -> Array:
    """Return one row per label: the next one of ``some`` if the label is used, that of ``others`` if not."""
    xp = namespace(some)
    order = xp.cumulative_sum(xp.astype(used, xp.int64)) - 1
    rows = xp.take(some, xp.where(used, order, 0), axis=0)
    return xp.where(used if some.ndim == 1 else used[:, None], rows, others)


def nothing_to_learn(data: TrainingData, unseen: Array, constants: Array) -> Solution:
    """Return the outcome if no label needs coefficients."""
    n_features, n_labels = data.X.shape[1], unseen.shape[0]
    zeros = data.place.zeros
    factors = Factors(zeros((n_features, 0)), zeros(0), zeros((n_labels, 0)))
    return Solution(factors, with_unseen(constants, unseen, data.loss), unseen, ClosedForm(0.0, 0))


def record(data: TrainingData, solution: Solution, **numbers: Any) -> Fitted:
    """Return the record of a fit, in the type of X and where X came from; ``numbers`` are further fields."""
    home, dtype, outcome, kernel = data.home, data.model_dtype, solution.outcome, data.kernel
    found: dict[str, Any] = {
        "status": outcome.status.value,
        "converged": outcome.status in SUCCESSES,
        "objective": outcome.objective,
        "residual": outcome.residual,
        "n_iter": len(outcome.history) - 1,
        "history": outcome.history.as_dict(),
        "n_passes": data.n_passes,
    }
    return Fitted(
        schema=data.schema,
        loss_name=data.loss.name,
        factors=Factors(*(home.asarray(factor, dtype) for factor in solution.factors)),
        intercept=home.asarray(solution.intercept, dtype),
        unseen=home.asarray(solution.unseen),
        kernel=kernel,
        X_fit=None if kernel is None or kernel.is_precomputed else data.rows_given,
        **found | numbers,
    )


def warn_of_scales(X: Any, names: npt.NDArray[Any] | None = None) -> None:
    """Warn if some features vary so little, compared with others, that rounding may swamp them."""
    low, high = extremes(X)
    warn_of_ranges(0.5 * high - 0.5 * low, names)  # so that nothing overflows


def warn_of_ranges(ranges: Array, names: npt.NDArray[Any] | None = None) -> None:
    """Warn if some of these ranges of features are far smaller than others."""
    if not is_host(ranges):
        xp = namespace(ranges)
        if not bool(xp.any((ranges > 0) & (ranges < xp.max(ranges) / _WIDEST))):
            return
        ranges = HOST.asarray(ranges)
    ranges = np.asarray(ranges, dtype=np.float64)
    largest = int(np.argmax(ranges))
    lost = np.flatnonzero((ranges > 0) & (ranges < ranges[largest] / _WIDEST))
    if len(lost) == 0:
        return
    places = [*lost[:5].tolist(), largest]
    *few, beside = [shown(place if names is None else names[place]) for place in places]
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    warnings.warn(
        f"features should vary within a factor of {_WIDEST:.0e} of each other, got column(s) "
        f"{', '.join(few)}{more}, which vary up to {ranges[largest] / ranges[lost].min():.0e} times less "
        f"than column {beside}: rounding may decide about them. Scale X, for example with StandardScaler.",
        UserWarning,
        stacklevel=level_of_user(),
    )


def level_of_user() -> int:
    """Return the ``stacklevel`` of the line outside this package that called the fit."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lrml."):
        level, frame = level + 1, frame.f_back
    return level


def warn_unless_converged(outcome: Any) -> None:
    """Warn as scikit-learn does, with the remedy that the status names."""
    if outcome.status in (Status.MAX_ITER, Status.GAP_OPEN):
        gap = outcome.history.entries[-1].gap
        reached = f"estimated gap {gap:.1e}" if np.isfinite(gap) else f"residual {outcome.residual:.1e}"
        message = f"{outcome.status.value} ({reached} after {len(outcome.history) - 1} iterations)"
        warnings.warn(message, ConvergenceWarning, stacklevel=level_of_user())


def warn_of_subspace(model: Any, gap: float, most: float, ridge: float | None = None) -> dict[str, Any]:
    """Warn if a subspace costs more than this share of the objective; return attributes that say so.

    ``ridge`` is the one in use, if that is not the parameter.
    """
    if gap <= most:
        return {}
    params = model.get_params()
    strength = "ridge" if "ridge" in params else "alpha"
    now = params[strength] if ridge is None else ridge
    other = ", or pass solver='primal' or 'dual', which take more memory" if "solver" in params else ""
    warnings.warn(
        f"a fit in a subspace should end within {most:.1%} of the exact objective, got an estimated "
        f"distance of {gap:.1%}. Raise {strength} (now {now:g}; searches such as LRMLCV find one), scale X"
        f"{other}.",
        ConvergenceWarning,
        stacklevel=level_of_user(),
    )
    return {"converged": False, "status": Status.SUBSPACE_POOR.value}


def warn_of_weakness(alpha: float, found: subspace.Found) -> None:
    """Warn, before the long work, if so weak a penalty lets very many directions of label space in."""
    if found.further is None or found.enough_alpha is None:
        return
    warnings.warn(
        "alpha should keep most directions of label space out if there are very many, got "
        f"alpha={alpha:g}, which lets hundreds of them in: the fit may take very long. Raise alpha to about "
        f"{found.enough_alpha:.2g}.",
        UserWarning,
        stacklevel=level_of_user(),
    )


@contextmanager
def solver_progress(
    verbose: int, max_iter: int, callback: Callback | None, name: str = "LRML"
) -> Iterator[Callback | None]:
    """Yield a callback that shows progress (``verbose`` > 0) and then calls ``callback``."""
    if not verbose:
        yield callback
        return
    with progress(name, "iterations", at_most=True) as shown_progress:

        def report(info: IterationInfo) -> bool | None:
            residual = f"residual {info.residual:.1e}, " if np.isfinite(info.residual) else ""  # unknown yet
            words = f"objective {info.objective:.6g}, {residual}rank {info.rank}"
            shown_progress.update(info.iteration, max_iter, words)
            return callback(info) if callback is not None else None

        yield report
