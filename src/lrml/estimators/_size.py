"""What must fit into memory: decompositions, sums, subspaces."""

from __future__ import annotations

from typing import Any

from lrml.core import subspace
from lrml.core.arrays import HOST, Place


def check_size(data: Any, name: str, road: str = "auto") -> None:
    """Refuse more features and rows than the decomposition of a fit to `TrainingData` has room for."""
    n, d = data.X.shape
    road = data.road(road)
    size = n if road == "dual" else d
    if road == "compressed" and not data.place.is_host:
        raise ValueError(
            f"solver='compressed' works with NumPy arrays on the host, got a fit with {data.place}. Use "
            "solver='auto', or device=None."
        )
    if road == "compressed" or fits_in_memory(size, data.place):
        return
    present = (_memory() if data.place.is_host else data.place.memory) / 1e9
    matrix, side = ("XXᵀ", "n") if road == "dual" else ("XᵀX", "d")
    remedy = "Pass solver='auto', which works in a subspace then."
    if not data.place.is_host:
        remedy = "Pass NumPy arrays and device=None, for a fit in a subspace."
    if data.kernel is not None:
        matrix = "the kernel matrix"
        remedy = "Pass fewer rows, or kernel='linear' on features of sklearn.kernel_approximation.Nystroem."
    elif data.only_exact:
        remedy = "Pass fewer rows, or judge on folds: cv=5, or scikit-learn's cross_val_predict."
    raise ValueError(
        f"{name} decomposes {matrix}, so 24 {side}² bytes must fit into memory ({present:.0f} GB), got "
        f"n = {n} rows and d = {d} features, which take {24 * size**2 / 1e9:.0f} GB. {remedy}"
    )


def check_sums(n_folds: int, shape: tuple[int, int], name: str) -> None:
    """Refuse more columns than there is room for the sums of all folds, and for those of a block."""
    d, L = shape
    needed = 16 * (n_folds + 1) * d * (d + L)
    if needed > _memory():
        raise ValueError(
            f"{name} sums up every fold, so 16 ({n_folds} + 1) d (d + L) bytes must fit into memory "
            f"({_memory() / 1e9:.0f} GB), got d = {d} features and L = {L} labels, which take "
            f"{needed / 1e9:.0f} GB. Pass fewer folds or features."
        )


def check_directions(shape: tuple[int, int], directions: int | None, *, bare: bool, given: str) -> None:
    """Refuse more directions of label space than there is room for beside vectors of some size."""
    size, n_labels = shape
    needed = subspace.nbytes(size, n_labels, directions, bare=bare)
    more = subspace.n_directions(n_labels, directions) > subspace.n_directions(n_labels, None)
    if more and needed > _memory():
        raise ValueError(
            f"with {given} and {n_labels} labels, a solution must have so small a rank that its subspace "
            f"fits into memory ({_memory() / 1e9:.0f} GB), got a rank of {directions} or more, which takes "
            f"{needed / 1e9:.0f} GB. Pass a small theta or rank, as a count (such as 50). A ridge alone "
            "leaves the rank as it is: use LEML, or LRML with an alpha above 0."
        )


def sums_nbytes(shape: tuple[int, int], *, iterates: bool) -> int:
    """Bytes of the sums of all rows and of a solve, which are more than the sums of a block beside them.

    As measured: a solve keeps 3 d² + 5 dL numbers, and its acceleration 24 d min(d, L) if it iterates.
    """
    d, n_labels = shape
    return 8 * d * (3 * d + 5 * n_labels + iterates * 24 * min(d, n_labels))


def sums_fit_in_memory(shape: tuple[int, int], *, iterates: bool) -> bool:
    """Whether there is room for a fit from sums over rows."""
    return sums_nbytes(shape, iterates=iterates) <= _memory()


def fits_in_memory(size: int, place: Place = HOST) -> bool:
    """Whether there is room for a square matrix, its eigenvectors, and the work of the decomposition."""
    return 3 * 8 * size**2 <= (_memory() if place.is_host else place.memory)


def _memory() -> float:
    """Return the bytes of memory; infinity where the platform does not say."""
    return HOST.memory
