"""What `lrml.theory` takes and returns: checks, records, the principal axes of X, and random signs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import as_matrix, descending_eigh, is_sparse, to_host
from lrml._checks import check_choice, is_integer, is_real
from lrml._shown import shown

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Signs = Literal["entry", "example"]
Ball = Literal["frobenius", "trace", "operator"]

_BLOCK_BYTES = 2**25  # of signs or of products, as float64

# The least value of a count, and what to do about a wrong one.
_COUNTS = {
    "n_examples": (1, "Pass the number of rows of X."),
    "n_labels": (1, "Pass the number of columns of Y."),
    "n_draws": (2, "Two draws are the least that have a standard error."),
    "theta": (0, "Use 0 for the trace norm."),
    "head_size": (0, "Leave it out for the best one."),
}
_POSITIVE = {
    "radius": "Use 1.0 for the unit ball.",
    "r": "Pass the mean square of the scores, ‖XW‖²_F/n.",
    "delta": "Use 0.05 for a probability of 95 %.",
}


def check_rows(X: Any) -> Any:
    """Return X as CSR or as a dense array of finite float64, with at least one row and one column."""
    matrix = as_matrix(to_host(X))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"X must be 2-D with at least one row and one column, got shape {matrix.shape}. "
            "Pass examples as rows."
        )
    matrix = sp.csr_array(matrix, dtype=np.float64) if is_sparse(matrix) else matrix.astype(np.float64)
    if not np.all(np.isfinite(np.asarray(matrix.data if is_sparse(matrix) else matrix))):
        raise ValueError("X must be finite, got NaN or infinity. Impute or drop those values.")
    return matrix


def check_class(ball: Any, signs: Any) -> None:
    """Refuse an unknown norm or reading of the signs."""
    check_choice("ball", ball, get_args(Ball))
    check_choice("signs", signs, get_args(Signs))


def check_count(name: str, value: Any) -> int:
    """Return an int that is large enough for its name."""
    least, remedy = _COUNTS[name]
    if not is_integer(value) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {shown(value)}. {remedy}")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    if not is_real(value) or not (math.isfinite(value) and value > 0):
        remedy = _POSITIVE.get(name, "Use 1.0.")
        raise ValueError(f"{name} must be a finite number above 0, got {shown(value)}. {remedy}")
    return float(value)


def check_eigenvalues(eigenvalues: Any) -> Vector:
    """Return eigenvalues of a second-moment matrix in descending order."""
    values = np.sort(np.asarray(to_host(eigenvalues), dtype=np.float64))[::-1]
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values)) or values[-1] < 0:
        raise ValueError(
            f"eigenvalues must be 1-D, finite and not negative, got {shown(eigenvalues)}. "
            "Take them from Spectrum.of(X).eigenvalues."
        )
    return values


@dataclass(frozen=True)
class MonteCarlo:
    """Mean of independent draws.

    Parameters
    ----------
    mean : float
    standard_error : float
        Standard deviation of the draws (with n_draws − 1) over √n_draws.
    n_draws : int
    """

    mean: float
    standard_error: float
    n_draws: int

    @classmethod
    def of(cls, draws: Vector) -> MonteCarlo:
        """Return mean and standard error of at least two draws."""
        error = float(np.std(draws, ddof=1)) / float(np.sqrt(draws.size))
        return cls(float(np.mean(draws)), error, int(draws.size))


@dataclass(frozen=True)
class Bound:
    """An upper bound that is a sum of terms.

    Parameters
    ----------
    terms : mapping of str to float
        What each part contributes; the bound is their sum.
    head_size : int or None
        Number of axes in the head, if the data were split along their principal axes.

    Examples
    --------
    >>> Bound({"head": 1.0, "tail": 0.5}).value
    1.5
    """

    terms: Mapping[str, float]
    head_size: int | None = None

    @property
    def value(self) -> float:
        """Sum of the terms."""
        return float(sum(self.terms.values()))


@dataclass(frozen=True)
class LocalComplexity:
    """A local complexity between two Monte-Carlo estimates over the same signs.

    Parameters
    ----------
    lower, upper : MonteCarlo
        Values at members of the class that were found, and of a dual problem that bounds all members.
    """

    lower: MonteCarlo
    upper: MonteCarlo


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Principal axes of X: the eigenvalues of S = XᵀX/n and what turns XᵀΣ/n into their coordinates.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        Positive eigenvalues of S (about the origin, not about the mean), descending; k ≤ min(n, d).
    n_examples : int
    sides : array of shape (n, k) or (d, k)
        Eigenvectors of XXᵀ/n if X is wide, of S otherwise.
    rows : array or CSR array of shape (n, d)
        X; a sparse one stays sparse.
    """

    eigenvalues: Vector
    n_examples: int
    sides: Matrix
    rows: Any

    @classmethod
    def of(cls, X: Any) -> Spectrum:
        """Decompose the smaller second-moment matrix of X.

        Examples
        --------
        >>> Spectrum.of([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
        [2.0, 0.5]
        """
        rows = check_rows(X)
        n, d = rows.shape
        gram = (rows @ rows.T if d > n else rows.T @ rows) / n
        values, vectors = descending_eigh(gram.toarray() if is_sparse(gram) else gram)
        positive = values > values[0] * max(n, d) * np.finfo(np.float64).eps
        return cls(values[positive], n, vectors[:, positive], rows)

    def coordinates(self, signs: Matrix) -> Matrix:
        """Return UᵀXᵀΣ/n (k × columns), U the eigenvectors of S.

        Where only the eigenvectors P of XXᵀ/n are known, X = P diag(√(n s)) Uᵀ gives diag(√(s/n)) PᵀΣ.
        """
        if self.rows.shape[1] > self.n_examples:
            return np.asarray(np.sqrt(self.eigenvalues / self.n_examples)[:, None] * (self.sides.T @ signs))
        return np.asarray(self.sides.T @ (self.rows.T @ signs) / self.n_examples)


def sign_blocks(
    n_rows: int, n_columns: int, width: int, n_draws: int, rng: np.random.Generator
) -> Iterator[Matrix]:
    """Draw n_draws sign matrices of shape (n_rows, n_columns), side by side in blocks of bounded size.

    ``width`` is the number of rows of the largest matrix that a block is multiplied with or into.
    """
    per_block = max(1, _BLOCK_BYTES // (8 * n_columns * max(n_rows, width)))
    for first in range(0, n_draws, per_block):
        shape = n_rows, n_columns * min(per_block, n_draws - first)
        count = math.prod(shape)
        noise = rng.integers(0, 256, size=-(-count // 8), dtype=np.uint8)  # eight signs from every byte
        yield np.unpackbits(noise, count=count).reshape(shape).astype(np.float64) * 2 - 1
