"""Coordinates in which least squares is diagonal: the way there from rows or their sums, and back to a model.

A fit works in spectral coordinates W̃, of which there are at most min(n, d). They come by one of three roads:
"primal", the eigenvectors of XᵀX; "dual", those of XXᵀ, or of a kernel matrix, for more features than rows;
"compressed", a subspace, where both n and d are so large that neither matrix fits into memory or time. What a
basis vector stands for is its *lift*: itself, X_cᵀ times it, or a function behind a kernel.

With the coordinates X̃ of some rows, a solution left rightᵀ scores them as 1ȳᵀ + X̃ left (R right)ᵀ, R the
rotation of the labels, if the problem has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrml.core import subspace as span
from lrml.core.arrays import HOST, Array, Place, is_host, is_sparse, namespace, take
from lrml.core.kernels import LeftOut, centred_kernel, dual_coordinates, row_coordinates, row_kernel
from lrml.core.linalg import Factors, differ_widely
from lrml.core.losses import Loss, SquaredLoss
from lrml.core.moments import CentredRows, dense_product
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows

_Float64 = npt.NDArray[np.float64]

# Columns of features that are made at a time from dual vectors of a subspace.
_FEW_COLUMNS = 32


class Lift:
    """What a basis vector stands for: itself, a direction of feature space."""

    def rows_of(self, X: Any) -> Any:
        """Rows as the coefficients of a model meet them."""
        return X

    def model_side(self, left: Array) -> Array:
        """Left side of a solution in the space of the model, given that in the basis."""
        return left

    def factors(self, found: Factors) -> Factors:
        """Factors of a solution in the space of the model, given those in the basis."""
        return Factors(self.model_side(found.U), found.s, found.V)

    def inner(self, left: Array) -> Array:
        """Return what the basis is multiplied with, to give the coordinates of the left side of a model."""
        return left

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) Q."""
        rows = X if is_host(basis) else Place.of(basis).asarray(X, "float64")
        rotated = rows @ basis
        rotated -= x_mean @ basis
        return rotated


@dataclass(frozen=True, eq=False)
class DualLift(Lift):
    """Q = X_cᵀA for more features than rows, of which only the dual vectors A (n × r) are kept."""

    rows: CentredRows  # X_c

    def model_side(self, left: Array) -> Array:
        """Return X_cᵀ left, d × k."""
        return self.rows.X.T @ left - self.rows.x_offset[:, None] * namespace(left).sum(left, axis=0)

    def factors(self, found: Factors) -> Factors:
        """Decompose anew: of small eigenvalues, the columns of X_cᵀA are orthogonal to few digits only."""
        return Factors.of_sides(self.model_side(found.U) * found.s, found.V)

    def inner(self, left: Array) -> Array:
        """Return X_c left."""
        return self.rows.X @ left - self.rows.x_offset @ left

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) X_cᵀ A."""
        M, offset = self.rows.X, self.rows.x_offset
        X = X if is_host(offset) else Place.of(offset).asarray(X, "float64")
        products = dense_product(X, M.T) - (X @ offset)[:, None]
        products -= M @ x_mean - offset @ x_mean
        return products @ basis


class DualLiftOfSubspace(DualLift):
    """The same for dual vectors of a subspace, a few columns at a time: the result may be very large."""

    def model_side(self, left: Array) -> Array:
        """Return X_cᵀ left, d × k."""
        return _by_columns(len(self.rows.x_mean), left, super().model_side)

    def factors(self, found: Factors) -> Factors:
        """Return X_cᵀ U, whose columns are orthonormal by construction."""
        return Lift.factors(self, found)

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) X_cᵀ A."""
        plain, sides = super(DualLift, self).coordinates, super().model_side
        return _by_columns(X.shape[0], basis, lambda some: plain(X, sides(some), x_mean))


def _by_columns(n_rows: int, matrix: _Float64, make: Callable[[_Float64], _Float64]) -> _Float64:
    """Return make(matrix), made for a few columns at a time."""
    found = np.empty((n_rows, matrix.shape[1]))
    for start in range(0, matrix.shape[1], _FEW_COLUMNS):
        columns = slice(start, start + _FEW_COLUMNS)
        found[:, columns] = make(np.ascontiguousarray(matrix[:, columns]))
    return found


@dataclass(frozen=True, eq=False)
class KernelLift(Lift):
    """A model has dual coefficients a (n × L), and x the scores Σ_i k(x, x_i) a_i + b.

    Rows of kernel values with the training rows take the place of features: the coordinates of x are
    (k(x, ·) − x̄)ᵀ A, with x̄ the mean of the kernel values of the training rows.
    """

    kernel: Any
    X: Any
    left_out: LeftOut

    def rows_of(self, X: Any) -> Array:
        """Values k(x, x_i) for all training rows x_i."""
        return self.kernel(X, self.X)

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates, in blocks."""
        n_rows, step = X.shape[0], self.kernel.block_of(x_mean.shape[0])
        blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        parts = [
            super(KernelLift, self).coordinates(self.rows_of(X[rows, :]), basis, x_mean) for rows in blocks
        ]
        return namespace(*parts).concat(parts, axis=0)


_Floats = npt.NDArray[np.floating[Any]]

ROADS = ("primal", "dual", "compressed")
"""Ways into spectral coordinates that a user may ask for as a solver."""

SPARSE_COST = 6
"""Time of a multiplication in SciPy's sparse products over that in BLAS (mostly 6 to 9, on one core)."""

# Up to this number of rows or features, a decomposition takes a few seconds.
_EXACT_UP_TO = 3000
# Sparse features of very different scales go through XᵀX, which keeps more digits, up to this number.
_MOST_WIDE_FEATURES = 5000
# Kernel values have larger rounding errors than sums: in 400 random problems with repeated rows, eigenvalues
# that should be 0 were up to 1.4 n · eps · max(λ₁, largest value).
_KERNEL_ROUNDING = 4
# Smaller objectives, over ‖Y‖², are not told from 0 in a subspace.
_LEAST_OBJECTIVE = 1e-8
# Random combinations of labels that stand for all of them where only the usual ridge is asked for.
_N_MIXES = 32


def with_unseen(intercept: Array, unseen: Array, loss: Loss) -> Array:
    """Give labels without a positive example a score below those of real candidates."""
    xp = namespace(intercept)
    return xp.where(unseen, xp.full_like(intercept, loss.unseen_score), intercept)


class RidgeRegressions(NamedTuple):
    """A solution in spectral coordinates, as ridge regressions of the columns of Y right, perhaps shrunk.

    ::

        W = left diag(shrunk) rightᵀ,    left_j = (Λ + ridge + extra_j)⁻¹ XᵀY right_j

    Attributes
    ----------
    left : array of shape (r, k)
    right : array of shape (m, k), optional
        Orthonormal columns; None stands for the identity.
    ridge : float
    extra : array of shape (k,), optional
        None stands for zeros, that is, a ridge only.
    shrunk : array of shape (k,), optional
        By a penalty on the predictions; None stands for ones.
    """

    left: Array
    right: Array | None
    ridge: float
    extra: Array | None = None
    shrunk: Array | None = None

    @property
    def sides(self) -> tuple[Array, Array | None]:
        """Return A and B with W = A Bᵀ; None stands for the identity."""
        return self.left if self.shrunk is None else self.left * self.shrunk, self.right


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A problem in spectral coordinates, and the maps between them and the space of the model."""

    problem: SpectralProblem  # without a ridge; its features are the basis
    y_mean: Array  # zeros without an intercept
    unseen: Array  # labels without a positive example; none if the targets are real
    x_mean: Array  # zeros without an intercept
    lift: Lift = Lift()  # noqa: RUF009  # it has no state
    subspace: span.Subspace | None = None

    @property
    def basis(self) -> Array:
        """Basis vectors, as the lift takes them."""
        return self.problem.features

    def of_rows(self, X: Any) -> Array:
        """Rows of X in spectral coordinates."""
        return self.lift.coordinates(X, self.basis, self.x_mean)

    def of_own_rows(self, rows: Rows, numbers: npt.NDArray[np.int64]) -> Array:
        """Return some training rows; of dual vectors, if all weights are 1, X̃ = P Λ^(1/2) = A Λ."""
        if type(self.lift) is Lift or self.subspace is not None or rows.weights is not None:
            return self.of_rows(take(rows.X, numbers))
        return take(self.basis, numbers) * self.problem.rows

    def inside(self, left: Array) -> Array:
        """Left side of a model (d × k) in spectral coordinates, Qᵀ left."""
        found: Array = self.basis.T @ self.lift.inner(left)
        return found

    def compress(self, U: Array, s: Array, V: Array) -> Array:
        """Coefficients U diag(s) Vᵀ in spectral coordinates, W̃ = QᵀWR."""
        labels = self.problem.labels
        inside: Array = self.inside(U * s) @ (V if labels is None else labels.T @ V).T
        return inside

    def sides(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Return A (d × k) and B (L × k), with coefficients A Bᵀ, for a solution left rightᵀ."""
        A, B = self.problem.restore(left, right)
        return self.lift.model_side(A), B

    def intercept(self, left: Array, right: Array) -> Array:
        """Return the intercepts that go with the coefficients left rightᵀ, left d × k and right L × k.

        A scale belongs to the right side, which is smaller.
        """
        return with_unseen(self.y_mean - right @ (self.x_mean @ left), self.unseen, SquaredLoss())

    def kernel_gap(self, ridge: float, objective: float) -> float | None:
        """Bound what directions that were left out of a kernel matrix cost, over the objective."""
        if not isinstance(self.lift, KernelLift):
            return None
        return self.lift.left_out.rise(ridge, objective) / objective if objective > 0 else 0.0

    # Subspaces

    def within(self, subspace: span.Subspace) -> Coordinates:
        """Return the coordinates of a larger subspace."""
        problem = SpectralProblem.from_coordinates(subspace.coordinates, self.problem.target)
        return replace(self, problem=problem, subspace=subspace)

    def unit_of_gaps(self, objective: float) -> float:
        """Return the objective; or, if a perfect fit leaves only rounding, a small share of ‖Y‖²."""
        return max(objective, _LEAST_OBJECTIVE * self.problem.target) or 1.0

    def missed(self, solution: RidgeRegressions, alpha: float | None, enough: float) -> span.Found:
        """Return what the subspace costs a solution, and vectors to add if that is more than enough.

        ``alpha`` is the slope of the penalty at zero; None if the rank is given.
        """
        assert self.subspace is not None
        extra = np.zeros(solution.left.shape[1]) if solution.extra is None else solution.extra
        right, shifts = _turned(self.problem.labels, solution.right), solution.ridge + extra
        return self.subspace.gap(solution.left, right, shifts, alpha, solution.ridge, enough)

    def carried_to(self, larger: Coordinates, solution: RidgeRegressions) -> _Float64:
        """Return a solution in the coordinates of a larger subspace."""
        assert self.subspace is not None
        assert larger.subspace is not None
        left = larger.subspace.inside(self.subspace.basis @ solution.left)
        right, labels = _turned(self.problem.labels, solution.right), larger.problem.labels
        if right is None:
            return left if labels is None else left @ labels
        start: _Float64 = left @ (right if labels is None else labels.T @ right).T
        return start

    def without_subspace(self) -> Coordinates:
        """Return coordinates that still map solutions back: a wide model needs the memory of the others."""
        if self.subspace is None:
            return self
        return replace(self, problem=replace(self.problem, features=np.zeros((0, 0))), subspace=None)

    def along_slopes(self, slopes: _Floats, weights: _Float64 | None) -> Coordinates:
        """Add X̂ᵀS for slopes S of a loss (n × k)."""
        assert self.subspace is not None
        return self.within(self.subspace.extended(self.subspace.from_rows(_weighing(slopes, weights))))

    def outside(self, slopes: _Floats, weights: _Float64 | None) -> _Float64:
        """Return the inner products of X̂ᵀS, as far as it lies outside, for slopes S of a loss."""
        assert self.subspace is not None
        return self.subspace.outside(_weighing(slopes, weights))


def _turned(labels: _Float64 | None, right: _Float64 | None) -> _Float64 | None:
    """Return labels right, where None stands for the identity."""
    if labels is None or right is None:
        return right if labels is None else labels
    turned: _Float64 = labels @ right
    return turned


def _weighing(slopes: _Floats, weights: _Float64 | None) -> _Floats:
    """Return D^(−1/2) S without the rows of no weight, as X_cᵀS = X̂ᵀ D^(−1/2) S."""
    if weights is None:
        return slopes
    some = weights > 0
    return np.asarray(slopes[some] / np.sqrt(weights[some])[:, None])


# The roads


def road_of(rows: Rows, wanted: str = "auto") -> str:
    """Return where spectral coordinates come from: "primal", "dual" or "compressed".

    Up to 3,000 rows or features, and on a device, it is the smaller of the two matrices. Beyond, a subspace
    takes over where its passes over the data cost less than half of the multiplications of a decomposition,
    or where the matrix does not fit into memory.
    """
    if rows.only_sums:
        return "primal"
    if rows.kernel is not None:
        return "dual"
    if rows.n_passes is not None:
        return "compressed" if rows.all_known else "primal"  # all sums at once need no passes
    if wanted in ROADS:
        return wanted
    n, d, n_labels = rows.shape
    exact, size = ("dual", n) if d > n else ("primal", d)
    small = size <= _EXACT_UP_TO and fits_in_memory(size)
    if rows.only_exact or not rows.place.is_host or small:
        return exact
    entries = SPARSE_COST * rows.X.nnz if is_sparse(rows.X) else rows.X.size
    products = entries * max(1.0, entries / max(n, d)) if is_sparse(rows.X) else entries * size
    dearer = 2.0 * span.cost(size, entries, n_labels) >= 10.0 * size**3 + products
    return exact if dearer and fits_in_memory(size) else "compressed"


def fits_in_memory(size: int, place: Place = HOST) -> bool:
    """Whether there is room for a square matrix, its eigenvectors, and the work of the decomposition."""
    return 3 * 8 * size**2 <= place.memory


def check_size(
    rows: Rows, name: str, wanted: str = "auto", *, directions: int | None = None, bare: bool = False
) -> None:
    """Refuse what there is no room for: a decomposition, or more directions of label space than usual."""
    n, d, n_labels = rows.shape
    road, place = road_of(rows, wanted), rows.place
    if road == "compressed" and not place.is_host:
        raise ValueError(
            f"solver='compressed' works with NumPy arrays on the host, got a fit with {place}. Use "
            "solver='auto', or device=None."
        )
    if road == "compressed":
        needed = span.nbytes(d if rows.n_passes else min(n, d), n_labels, directions, bare=bare)
        more = span.n_directions(n_labels, directions) > span.n_directions(n_labels, None)
        if more and needed > place.memory:
            raise ValueError(
                f"a solution of rank {directions} or more for {n_labels} labels takes a subspace of "
                f"{needed / 1e9:.0f} GB, but memory has {place.memory / 1e9:.0f} GB. Pass a small theta or "
                "rank, as a count (such as 50). A ridge alone leaves the rank as it is: use LEML, or LRML "
                "with an alpha above 0."
            )
        return
    size, matrix = (n, "XXᵀ") if road == "dual" else (d, "XᵀX")
    if fits_in_memory(size, place):
        return
    remedy = "Pass solver='auto', which works in a subspace then."
    if not place.is_host:
        remedy = "Pass NumPy arrays and device=None, for a fit in a subspace."
    elif rows.kernel is not None:
        remedy = "Pass fewer rows, or kernel='linear' on features of sklearn.kernel_approximation.Nystroem."
    elif rows.only_exact:
        remedy = "Pass fewer rows, or judge on folds: cv=5, or scikit-learn's cross_val_predict."
    raise ValueError(
        f"{name} decomposes {matrix if rows.kernel is None else 'the kernel matrix'} of n = {n} rows and d = "
        f"{d} features, which takes {24 * size**2 / 1e9:.0f} GB of {place.memory / 1e9:.0f} GB of memory. "
        f"{remedy}"
    )


def coordinates_of(
    rows: Rows,
    *,
    fit_intercept: bool,
    ridge: float = 0.0,
    road: str = "auto",
    bare: bool = False,
    extensible: bool = False,
    directions: int | None = None,
) -> Coordinates:
    """Return the coordinates of rows, made once; they suffice for ridges from the given one on.

    On the compressed road, ``bare`` limits them to ridge regression with this ridge, and ``extensible`` says
    that the caller will extend them where needed. A solution that has a certain rank needs so many
    ``directions`` of label space at least.
    """
    road = road_of(rows, road)
    key: tuple[Any, ...] = (fit_intercept, road)
    if road == "compressed":
        key += (ridge if bare else None, span.n_directions(rows.shape[2], directions))
    made_for, found = rows.spaces.get(key, (np.inf, None))
    if found is not None and made_for <= ridge:
        kept: Coordinates = found
        return kept
    made_for = 0.0
    if rows.kernel is not None:
        found, is_whole = _of_kernel(rows, ridge, fit_intercept)
        made_for = 0.0 if is_whole else ridge
    elif road == "compressed":
        made_for, centred = ridge, rows.centred(fit_intercept)
        asked: dict[str, Any] = {"bare": bare, "rough": extensible and not bare, "directions": directions}
        found = in_subspace(
            span.Subspace.for_ridges(centred, ridge, **asked), *_means(rows, centred, fit_intercept)
        )
    elif road == "dual":
        found = _of_rows(rows, fit_intercept)
    else:
        found = _of_sums(rows, fit_intercept)
    if not extensible or road != "compressed":
        rows.spaces[key] = made_for, found
    return found


def _means(rows: Rows, found: Any, fit_intercept: bool) -> tuple[Array, Array, Array]:
    """Return the means of the labels as a model meets them, which labels are unseen, and those of X."""
    used, unseen = float(fit_intercept), (found.y_mean == 0) & (rows.schema.targets == "binary")
    return used * found.y_mean, unseen, used * found.x_mean


def _of_sums(rows: Rows, fit_intercept: bool) -> Coordinates:
    """Decompose XᵀX."""
    sums = rows.statistics.at(rows.place)
    moments = sums.moments(fit_intercept=fit_intercept)
    return Coordinates(SpectralProblem.from_moments(moments), *_means(rows, sums, fit_intercept))


def _of_rows(rows: Rows, fit_intercept: bool) -> Coordinates:
    """Decompose XXᵀ (n × n) instead of XᵀX, or X itself if features differ much in scale."""
    centred = rows.centred(True)
    scatter, X = centred.scatter, rows.X
    lengths = scatter if fit_intercept else scatter + centred.weight * centred.x_mean**2
    wide = differ_widely(scatter, lengths)
    if wide and is_sparse(X) and X.shape[1] <= _MOST_WIDE_FEATURES:
        return _of_sums(rows, fit_intercept)
    means = _means(rows, centred, fit_intercept)
    if not fit_intercept:
        centred = rows.centred(False)
    if wide and not is_sparse(X):
        return Coordinates(SpectralProblem.from_coordinates(row_coordinates(centred), centred.yy), *means)
    found, _ = dual_coordinates(row_kernel(centred), centred, max(X.shape))
    return Coordinates(SpectralProblem.from_coordinates(found, centred.yy), *means, DualLift(centred))


def _of_kernel(rows: Rows, ridge: float, fit_intercept: bool) -> tuple[Coordinates, bool]:
    """Decompose the kernel matrix of all rows, at least as far as this ridge, or a larger one, needs it.

    Rows without weight get dual coefficients of zero. Also tell whether no direction was left out.
    """
    K = rows.kernel.matrix(rows.X)
    place = Place.of(K)
    xp, n = place.xp, K.shape[0]
    largest = max(float(xp.max(K)), -float(xp.min(K)))
    no_features = place.zeros((n, 0))
    centred = CentredRows.of(no_features, rows.Y, rows.weights)
    y_mean, unseen, _ = _means(rows, centred, fit_intercept)
    means = place.zeros(n)
    if fit_intercept:
        K, means = centred_kernel(K, centred.weights)
    else:
        centred = centred.uncentred(no_features, rows.Y)
    found, left_out = dual_coordinates(K, centred, _KERNEL_ROUNDING * n, largest, ridge)
    del K
    if fit_intercept:
        # Dual vectors add up to 0 but for rounding, which the constant part of a kernel would magnify.
        dual, share = found.features, centred.weights / centred.weight
        dual -= share[:, None] * xp.sum(dual, axis=0)
    lift = KernelLift(rows.kernel, rows.X, left_out)
    problem = SpectralProblem.from_coordinates(found, centred.yy)
    return Coordinates(problem, y_mean, unseen, means, lift), left_out == LeftOut()


def in_subspace(subspace: span.Subspace, y_mean: Array, unseen: Array, x_mean: Array) -> Coordinates:
    """Return the coordinates of a subspace."""
    problem = SpectralProblem.from_coordinates(subspace.coordinates, subspace.rows.yy)
    lift = Lift()
    if subspace.is_dual and isinstance(subspace.rows, CentredRows):
        lift = DualLiftOfSubspace(subspace.rows)
    return Coordinates(problem, y_mean, unseen, x_mean, lift, subspace)


def spanned_by_slopes(rows: Rows, slopes: Iterable[_Floats], *, fit_intercept: bool) -> Coordinates:
    """Return the coordinates in the span of X̂ᵀS for slopes S (n × L) of a loss, which include the weights."""
    centred = rows.centred(fit_intercept)
    found = span.Subspace.of_vectors(centred, (_weighing(part, rows.weights) for part in slopes))
    return in_subspace(found, *_means(rows, centred, fit_intercept))


def spectrum_of(rows: Rows, *, fit_intercept: bool) -> SpectralProblem:
    """Return a problem for default strengths, which have no need of solutions.

    On wide data it has roughly the right eigenvalues, and random combinations in place of many labels.
    """
    if road_of(rows) != "compressed":
        return coordinates_of(rows, fit_intercept=fit_intercept).problem
    return rows.kept("spectrum", fit_intercept, lambda: _estimated(rows, fit_intercept))


def _estimated(rows: Rows, fit_intercept: bool) -> SpectralProblem:
    """Add the other eigenvalues to those of a subspace, where nothing is learnt, each as their mean."""
    Y = rows.filled(rows.label_means) if rows.mask is not None else rows.Y
    if Y.shape[1] > _N_MIXES:
        Y = np.asarray(Y @ np.random.default_rng(0).choice([-1.0, 1.0], (Y.shape[1], _N_MIXES)))
    centred = replace(rows, Y=Y, mask=None, sums=None).centred(fit_intercept)
    values, cross = (found := span.Subspace.for_ridges(centred)).eigenvalues, found.cross
    others = min(rows.shape[:2]) - len(values)
    rest = max(float(centred.scatter.sum()) - float(values.sum()), 0.0) / max(others, 1)
    rest = max(rest, float(np.finfo(np.float32).eps * values[0]))
    place = int(np.count_nonzero(values >= rest))
    values = np.insert(values, place, np.full(others, rest))
    cross = np.insert(cross, place, np.zeros((others, 1)), axis=0)
    return SpectralProblem(values, cross, centred.yy)
