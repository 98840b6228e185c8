"""Checks of what `lrml.theory` takes, the principal axes of X, and blocks of random signs."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from lrml._arrays import as_matrix, descending_eigh, is_sparse
from lrml._shown import shown
from lrml.theory._records import Matrix, Vector

Signs = Literal["entry", "example"]
Ball = Literal["frobenius", "trace", "operator"]
BALLS = ("frobenius", "trace", "operator")
SIGNS = ("entry", "example")

_BLOCK_BYTES = 2**25  # of signs or of products, as float64


def check_rows(X: Any) -> Any:
    """Return X as CSR or as a dense array of finite float64, with at least one row and one column."""
    matrix = as_matrix(X)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"X must be 2-D with at least one row and one column, got shape {matrix.shape}. "
            "Pass examples as rows."
        )
    matrix = sp.csr_array(matrix, dtype=np.float64) if is_sparse(matrix) else matrix.astype(np.float64)
    if not np.all(np.isfinite(np.asarray(matrix.data if is_sparse(matrix) else matrix))):
        raise ValueError("X must be finite, got NaN or infinity. Impute or drop those values.")
    return matrix


def check_count(name: str, value: Any, least: int, remedy: str) -> int:
    """Return an int that is at least ``least``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {shown(value)}. {remedy}")
    return int(value)


def check_positive(name: str, value: Any, remedy: str) -> float:
    """Return a finite number above 0."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {shown(value)}. {remedy}")
    return float(value)


def check_eigenvalues(eigenvalues: Any) -> Vector:
    """Return eigenvalues of a second-moment matrix in descending order."""
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values)) or values[-1] < 0:
        raise ValueError(
            f"eigenvalues must be 1-D, finite and not negative, got {shown(eigenvalues)}. "
            "Take them from Spectrum.of(X).eigenvalues."
        )
    return values


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Principal axes of X: the eigenvalues of S = XᵀX/n and what turns XᵀΣ/n into their coordinates.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        Positive eigenvalues of S (about the origin, not about the mean), descending; k ≤ min(n, d).
    n_examples : int
    sides : array of shape (n, k) or (d, k)
        Eigenvectors of XXᵀ/n if X is wide, of S otherwise. A matrix of side min(n, d) is decomposed; a sparse
        X stays sparse.
    rows : array or CSR array of shape (n, d)
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

    @property
    def is_wide(self) -> bool:
        """Whether ``sides`` belongs to the examples rather than to the features."""
        return bool(self.rows.shape[1] > self.n_examples)

    def coordinates(self, signs: Matrix) -> Matrix:
        """Return UᵀXᵀΣ/n (k × columns), U the eigenvectors of S.

        Where only the eigenvectors P of XXᵀ/n are known, X = P diag(√(n s)) Uᵀ gives diag(√(s/n)) PᵀΣ.
        """
        if self.is_wide:
            return np.asarray(np.sqrt(self.eigenvalues / self.n_examples)[:, None] * (self.sides.T @ signs))
        return np.asarray(self.sides.T @ (self.rows.T @ signs) / self.n_examples)


def sign_blocks(
    n_rows: int, n_columns: int, width: int, n_draws: int, rng: np.random.Generator
) -> Iterator[Matrix]:
    """Draw n_draws sign matrices of shape (n_rows, n_columns), side by side in blocks of bounded size.

    ``width`` is the number of rows of the largest matrix that a block is multiplied with or into.
    """
    per_draw = 8 * n_columns * max(n_rows, width)
    per_block = max(1, _BLOCK_BYTES // per_draw)
    for first in range(0, n_draws, per_block):
        yield random_signs((n_rows, n_columns * min(per_block, n_draws - first)), rng)


def random_signs(shape: tuple[int, int], rng: np.random.Generator) -> Matrix:
    """Draw independent uniform signs, eight from every random byte."""
    count = math.prod(shape)
    noise = rng.integers(0, 256, size=-(-count // 8), dtype=np.uint8)
    return np.unpackbits(noise, count=count).reshape(shape).astype(np.float64) * 2 - 1
