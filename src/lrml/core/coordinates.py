"""Coordinates in which least squares is diagonal: from rows, their sums or a kernel, and back to a model.

A fit works in spectral coordinates W̃, of which there are at most min(n, d). They come by one of three roads:
"primal", the eigenvectors of XᵀX; "dual", those of XXᵀ, or of a kernel matrix, for more features than rows;
"compressed", a subspace, where both n and d are so large that neither matrix fits into memory or time. What a
basis vector stands for is its *lift*: itself, X_cᵀ times it, or a function behind a kernel.

With the coordinates X̃ of some rows, a solution left rightᵀ scores them as 1ȳᵀ + X̃ left (R right)ᵀ, R the
rotation of the labels, if the problem has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lrml.core import subspace as span
from lrml.core.arrays import HOST, Array, Place, is_host, is_sparse, namespace, take
from lrml.core.dual import LeftOut, dual_coordinates, row_coordinates, row_kernel
from lrml.core.linalg import Factors, differ_widely
from lrml.core.losses import Loss, SquaredLoss
from lrml.core.moments import CentredRows, dense_product
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows

_Float64 = npt.NDArray[np.float64]
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
# Random combinations of labels that stand for all of them where only the usual ridge is asked for.
_N_MIXES = 32
# Columns of features that are made at a time from dual vectors of a subspace.
_FEW_COLUMNS = 32


def with_unseen(intercept: Array, unseen: Array, loss: Loss) -> Array:
    """Give labels without a positive example a score below those of real candidates."""
    xp = namespace(intercept)
    return xp.where(unseen, xp.full_like(intercept, loss.unseen_score), intercept)


class RidgeRegressions(NamedTuple):
    """A solution in spectral coordinates, as ridge regressions of the columns of Y right, perhaps shrunk.

    ::

        W = left diag(shrunk) rightᵀ,    left_j = (Λ + ridge + extra_j)⁻¹ XᵀY right_j
    """

    left: Array  # r × k
    right: Array | None  # m × k, orthonormal columns; None stands for the identity
    ridge: float
    extra: Array | None = None  # (k,); None stands for zeros, that is, a ridge only
    shrunk: Array | None = None  # (k,), by a penalty on the predictions; None stands for ones

    @property
    def sides(self) -> tuple[Array, Array | None]:
        """Return A and B with W = A Bᵀ; None stands for the identity."""
        return self.left if self.shrunk is None else self.left * self.shrunk, self.right


class Lift:
    """What a basis vector stands for, and the ways to a model and back: itself, a direction of features."""

    def model_side(self, left: Array) -> Array:
        """Left side of a solution in the space of the model, given that in the basis."""
        return left

    def factors(self, found: Factors) -> Factors:
        """Factors of a solution in the space of the model, given those in the basis."""
        return found

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
    """Q = X_cᵀA for more features than rows, of which only the dual vectors A (n × r) are kept.

    In a subspace (``is_wide``), where Q would be very large, it is made for a few columns at a time.
    """

    rows: CentredRows  # X_c
    is_wide: bool = False

    def model_side(self, left: Array) -> Array:
        """Return X_cᵀ left, d × k."""
        if self.is_wide:
            return _by_columns(len(self.rows.x_mean), left, replace(self, is_wide=False).model_side)
        return self.rows.X.T @ left - self.rows.x_offset[:, None] * namespace(left).sum(left, axis=0)

    def factors(self, found: Factors) -> Factors:
        """Decompose anew: of small eigenvalues, the columns of X_cᵀA are orthogonal to few digits only.

        In a subspace they are orthonormal by construction.
        """
        if self.is_wide:
            return found._replace(U=self.model_side(found.U))
        return Factors.of_sides(self.model_side(found.U) * found.s, found.V)

    def inner(self, left: Array) -> Array:
        """Return X_c left."""
        return self.rows.X @ left - self.rows.x_offset @ left

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) X_cᵀ A."""
        M, offset = self.rows.X, self.rows.x_offset
        if self.is_wide:
            plain, narrow = super().coordinates, replace(self, is_wide=False)
            return _by_columns(X.shape[0], basis, lambda some: plain(X, narrow.model_side(some), x_mean))
        X = X if is_host(offset) else Place.of(offset).asarray(X, "float64")
        products = dense_product(X, M.T) - (X @ offset)[:, None]
        products -= M @ x_mean - offset @ x_mean
        return products @ basis


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

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates, in blocks."""
        n_rows, step, plain = X.shape[0], self.kernel.block_of(x_mean.shape[0]), super().coordinates
        blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        parts = [plain(self.kernel(X[rows, :], self.X), basis, x_mean) for rows in blocks]
        return namespace(*parts).concat(parts, axis=0)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A problem in spectral coordinates, and the maps between them and the space of the model."""

    problem: SpectralProblem  # without a ridge; its features are the basis
    y_mean: Array  # zeros without an intercept
    unseen: Array  # labels without a positive example; none if the targets are real
    x_mean: Array  # zeros without an intercept
    lift: Lift = Lift()  # noqa: RUF009  # it has no state
    subspace: Any = None  # on the compressed road

    @classmethod
    def of(cls, rows: Rows, sums: Any, fit_intercept: bool, problem: SpectralProblem, *more: Any) -> Self:
        """Return the coordinates of rows with the means that ``sums`` has; no intercept meets any."""
        used, unseen = float(fit_intercept), (sums.y_mean == 0) & (rows.schema.targets == "binary")
        return cls(problem, used * sums.y_mean, unseen, used * sums.x_mean, *more)

    @property
    def basis(self) -> Array:
        """Basis vectors, as the lift takes them."""
        return self.problem.features

    @property
    def is_plain(self) -> bool:
        """Whether a basis vector stands for itself."""
        return type(self.lift) is Lift

    def of_rows(self, X: Any) -> Array:
        """Rows of X in spectral coordinates."""
        return self.lift.coordinates(X, self.basis, self.x_mean)

    def of_own_rows(self, rows: Rows, numbers: npt.NDArray[np.int64]) -> Array:
        """Return some training rows; of dual vectors, if all weights are 1, X̃ = P Λ^(1/2) = A Λ."""
        if self.is_plain or self.subspace is not None or rows.weights is not None:
            return self.of_rows(take(rows.X, numbers))
        return take(self.basis, numbers) * self.problem.rows

    def inside(self, left: Array) -> Array:
        """Left side of a model (d × k) in spectral coordinates, Qᵀ left."""
        found: Array = self.basis.T @ self.lift.inner(left)
        return found

    def model(self, found: Factors) -> tuple[Factors, Array]:
        """Return factors and intercepts of a model, given the factors of its coefficients in the basis."""
        U, s, V = self.lift.factors(found)
        intercept = self.y_mean - (V * s) @ (self.x_mean @ U)
        return Factors(U, s, V), with_unseen(intercept, self.unseen, SquaredLoss())

    def kernel_gap(self, ridge: float, objective: float) -> float:
        """Bound what directions that were left out of a kernel matrix cost, over the objective."""
        assert isinstance(self.lift, KernelLift)
        return self.lift.left_out.rise(ridge, objective) / objective if objective > 0 else 0.0

    # Subspaces

    def extended(self, further: _Floats) -> Coordinates:
        """Return the coordinates of a larger subspace: with these vectors, as its gap finds them."""
        subspace = self.subspace.extended(further)
        problem = SpectralProblem.from_coordinates(subspace.coordinates, self.problem.target)
        return replace(self, problem=problem, subspace=subspace)

    def carry(self, left: Array, larger: Coordinates) -> Any:
        """Return the left side of a solution in the coordinates of a larger subspace."""
        return larger.subspace.inside(self.subspace.basis @ left)


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
    if wanted == "compressed" and not rows.place.is_host:
        raise ValueError(
            f"solver='compressed' works with NumPy arrays on the host, and this fit with {rows.place}. Use "
            "solver='auto', or device=None."
        )
    if wanted in ROADS:
        return wanted
    n, d, n_labels = rows.shape
    exact, size = ("dual", n) if d > n else ("primal", d)
    if rows.only_exact or size <= _EXACT_UP_TO or not rows.place.is_host:
        return exact
    entries = SPARSE_COST * rows.X.nnz if is_sparse(rows.X) else rows.X.size
    products = entries * max(1.0, entries / max(n, d)) if is_sparse(rows.X) else entries * size
    dearer = 2.0 * span.cost(size, entries, n_labels) >= 10.0 * size**3 + products
    return exact if dearer and 24.0 * size**2 <= HOST.memory else "compressed"


def check_room(rows: Rows, road: str, directions: int = 0, shifts: int = 1) -> None:
    """Refuse what there is no room for: a decomposition, or more directions of label space than usual."""
    (n, d, n_labels), place = rows.shape, rows.place
    size = n if road == "dual" else d
    needed, what = 24.0 * size**2, f"decomposing the {road} matrix"
    remedy = "solver='auto' on the host works in a subspace, without leave-one-out scores (use cv=5)."
    if rows.kernel is not None:
        remedy = "Pass fewer rows, or kernel='linear' on features of sklearn.kernel_approximation.Nystroem."
    if road == "compressed":
        if directions <= span.n_directions(n_labels, None):
            return
        size = d if rows.n_passes else min(n, d)
        needed, what = 24.0 * shifts * directions * (size + min(n_labels, size)), f"rank {directions}"
        remedy = "Pass a small theta or rank, as a count. A ridge alone leaves the rank as it is: use LEML."
    if needed > place.memory:
        raise ValueError(
            f"{what} for n = {n} rows, d = {d} features and {n_labels} labels takes {needed / 1e9:.0f} GB of "
            f"{place.memory / 1e9:.0f} GB of memory. {remedy}"
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
    key: tuple[Any, ...] = ("coordinates", fit_intercept, road)
    width = 0
    if road == "compressed":
        width = span.n_directions(rows.shape[2], directions)
        key += (ridge if bare else None, width)
    made_for, found = rows.cache.get(key, (np.inf, None))
    if found is not None and made_for <= ridge:
        kept: Coordinates = found
        return kept
    made_for = 0.0
    if rows.n_passes is not None or max(rows.shape) > _EXACT_UP_TO:
        check_room(rows, road, width, 1 if bare else 3)
    if rows.kernel is not None:
        found = _of_kernel(rows, ridge, fit_intercept)
        made_for = 0.0 if found.kernel_gap(ridge, 1.0) == 0.0 else ridge
    elif road == "compressed":
        made_for, centred = ridge, rows.centred(fit_intercept)
        asked: dict[str, Any] = {"bare": bare, "rough": extensible and not bare, "directions": directions}
        found = _of_subspace(rows, span.Subspace.for_ridges(centred, ridge, **asked), fit_intercept)
    else:
        found = (_of_rows if road == "dual" else _of_sums)(rows, fit_intercept)
    if not extensible or road != "compressed":
        rows.cache[key] = made_for, found
    return found


def _of_sums(rows: Rows, fit_intercept: bool) -> Coordinates:
    """Decompose XᵀX."""
    sums = rows.statistics if rows.place.is_host else rows.statistics.at(rows.place)
    problem = SpectralProblem.from_moments(sums.moments(fit_intercept=fit_intercept))
    return Coordinates.of(rows, sums, fit_intercept, problem)


def _of_rows(rows: Rows, fit_intercept: bool) -> Coordinates:
    """Decompose XXᵀ (n × n) instead of XᵀX, or X itself if features differ much in scale."""
    centred = rows.centred(True)
    scatter, X = centred.scatter, rows.X
    lengths = scatter if fit_intercept else scatter + centred.weight * centred.x_mean**2
    wide = differ_widely(lengths)
    if wide and is_sparse(X) and X.shape[1] <= _MOST_WIDE_FEATURES:
        return _of_sums(rows, fit_intercept)
    if not fit_intercept:
        centred = rows.centred(False)
    if wide and not is_sparse(X):
        found, lift = row_coordinates(centred), Lift()
    else:
        found, lift = dual_coordinates(row_kernel(centred), centred, max(X.shape))[0], DualLift(centred)
    problem = SpectralProblem.from_coordinates(found, centred.yy)
    return Coordinates.of(rows, centred, fit_intercept, problem, lift)


def _of_kernel(rows: Rows, ridge: float, fit_intercept: bool) -> Coordinates:
    """Decompose the kernel matrix of all rows, at least as far as this ridge, or a larger one, needs it.

    It is centred as if its rows were, K_c = C K Cᵀ with C = I − 1wᵀ/Σw. Rows without weight get dual
    coefficients of zero.
    """
    K = rows.kernel.matrix(rows.X)
    place = Place.of(K)
    xp, n = place.xp, K.shape[0]
    largest = max(float(xp.max(K)), -float(xp.min(K)))
    no_features = place.zeros((n, 0))
    centred = CentredRows.of(no_features, rows.Y, rows.weights)
    share = centred.weights / centred.weight
    means = K @ share
    if fit_intercept:
        K -= means[:, None]
        K -= means
        K += share @ means
    else:
        centred = centred.uncentred(no_features, rows.Y)
    found, left_out = dual_coordinates(K, centred, _KERNEL_ROUNDING * n, largest, ridge)
    del K
    if fit_intercept:
        # Dual vectors add up to 0 but for rounding, which the constant part of a kernel would magnify.
        dual = found.features
        dual -= share[:, None] * xp.sum(dual, axis=0)
    problem = SpectralProblem.from_coordinates(found, centred.yy)
    lift = KernelLift(rows.kernel, rows.X, left_out)
    return Coordinates.of(rows, replace(centred, x_mean=means), fit_intercept, problem, lift)


def _of_subspace(rows: Rows, subspace: span.Subspace, fit_intercept: bool) -> Coordinates:
    problem = SpectralProblem.from_coordinates(subspace.coordinates, subspace.rows.yy)
    lift = DualLift(subspace.rows, is_wide=True) if subspace.is_dual else Lift()
    return Coordinates.of(rows, subspace.rows, fit_intercept, problem, lift, subspace)


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
