"""What `lrml.theory` takes and returns: numbers, records, the principal axes of X, and random signs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import is_sparse, to_host
from lrml.core.checks import check_choice, check_integer, check_number
from lrml.core.linalg import descending_eigh

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Signs = Literal["entry", "example"]
Ball = Literal["frobenius", "trace", "operator"]

_BLOCK_BYTES = 2**25  # of signs or of products, as float64


_POSITIVE = partial(check_number, above=True)
_CHECKS: dict[str, Any] = {
    "n_examples": check_integer,
    "n_labels": check_integer,
    "n_draws": partial(check_integer, least=2),
    "theta": partial(check_integer, least=0),
    "radius": _POSITIVE,
    "r": _POSITIVE,
    "tail": lambda name, value: math.inf if value == math.inf else check_number(name, value),
    "ridge": check_number,
    "delta": partial(_POSITIVE, below=1.0),
}


def checked(**given: Any) -> Any:
    """Return numbers as a tuple, each checked by the rule for its name."""
    return tuple(_CHECKS[name](name, value) for name, value in given.items())


def rows_of(X: Any) -> Any:
    """Return X as a CSR or a dense array of finite float64."""
    from sklearn.utils import check_array  # noqa: PLC0415 - bounds from eigenvalues need no scikit-learn

    rows: Any = check_array(to_host(X), accept_sparse="csr", dtype=np.float64, input_name="X")
    return sp.csr_array(rows) if is_sparse(rows) else rows


def descending(eigenvalues: Any) -> Vector:
    """Return eigenvalues in descending order."""
    values = np.sort(np.asarray(to_host(eigenvalues), dtype=np.float64))[::-1]
    if values.ndim != 1 or not np.all(np.isfinite(values) & (values >= 0)):
        raise ValueError(f"eigenvalues are {eigenvalues!r:.80}. Pass finite numbers of at least 0, in a row.")
    return values


class MonteCarlo(NamedTuple):
    """Mean of independent draws, and its standard error."""

    mean: float
    standard_error: float
    n_draws: int

    @classmethod
    def of(cls, draws: Any) -> MonteCarlo:
        return cls(float(np.mean(draws)), float(np.std(draws, ddof=1)) / math.sqrt(len(draws)), len(draws))


class LocalComplexity(NamedTuple):
    """A local complexity, between values at members of the class and values that bound all of them."""

    lower: MonteCarlo
    upper: MonteCarlo


@dataclass(frozen=True)
class Bound:
    """An upper bound that is a sum of named terms; ``head_size`` axes of the data are in its head, if any."""

    terms: Mapping[str, float]
    head_size: int | None = None

    @property
    def value(self) -> float:
        """Sum of the terms."""
        return float(sum(self.terms.values()))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Principal axes of X: the eigenvalues of S = XᵀX/n and what turns XᵀΣ/n into their coordinates."""

    eigenvalues: Vector  # positive, descending; about the origin, not about the mean
    sides: Matrix  # eigenvectors of XXᵀ/n if X is wide, of S otherwise
    rows: Any  # X, dense or CSR

    @classmethod
    def of(cls, X: Any) -> Spectrum:
        """Decompose the smaller second-moment matrix of X; a `Spectrum` is returned as it is."""
        if isinstance(X, Spectrum):
            return X
        rows = rows_of(X)
        n, d = rows.shape
        gram: Any = (rows @ rows.T if d > n else rows.T @ rows) / n
        values, vectors = descending_eigh(gram.toarray() if is_sparse(rows) else gram)
        kept = values > values[0] * max(n, d) * np.finfo(np.float64).eps
        return cls(values[kept], vectors[:, kept], rows)

    @classmethod
    def of_predictions(cls, X: Any, ridge: float = 0.0) -> Spectrum:
        """Return the axes in which W has the norms and singular values of its predictions, X̃W/√n.

        X̃ = [X; √ridge I]. The coefficients there are (S + ρ)^½ UᵀW, ρ = ridge/n, and the eigenvalues
        s_j/(s_j + ρ): without a ridge all are 1.
        """
        spectrum = cls.of(X)
        moments = spectrum.eigenvalues + checked(ridge=ridge)[0] / spectrum.n_examples
        sides = spectrum.sides if spectrum._is_wide else spectrum.sides / np.sqrt(moments)
        return cls(spectrum.eigenvalues / moments, sides, spectrum.rows)

    @property
    def n_examples(self) -> int:
        """Number of rows of X."""
        return int(self.rows.shape[0])

    @property
    def _is_wide(self) -> bool:
        return bool(self.rows.shape[1] > self.n_examples)

    def coordinates(self, signs: Matrix) -> Matrix:
        """Return UᵀXᵀΣ/n (k × columns), U the eigenvectors of S.

        Where only the eigenvectors P of XXᵀ/n are known, X = P diag(√(n s)) Uᵀ gives diag(√(s/n)) PᵀΣ.
        """
        if self._is_wide:
            return np.asarray(np.sqrt(self.eigenvalues / self.n_examples)[:, None] * (self.sides.T @ signs))
        return np.asarray(self.sides.T @ (self.rows.T @ signs) / self.n_examples)


def sign_products(X: Any, n_labels: int, signs: Signs, n_draws: int, random_state: Any) -> Iterator[Matrix]:
    """Draw sign matrices Σ and yield XᵀΣ/n, in the axes of a `Spectrum`, in stacks of bounded size.

    If all columns of Σ are the same, one is drawn, and √L makes up for the rest: up to a rotation of the
    labels, which no norm sees, that is the same matrix.
    """
    check_choice("signs", signs, get_args(Signs))
    labels, draws = checked(n_labels=n_labels, n_draws=n_draws)
    in_axes = isinstance(X, Spectrum)
    shape = X.rows.shape if in_axes else X.shape
    columns = 1 if signs == "example" else labels
    rng = np.random.default_rng(random_state)
    per_block = max(1, _BLOCK_BYTES // (8 * columns * max(shape)))
    for first in range(0, draws, per_block):
        block = shape[0], columns * min(per_block, draws - first)
        size = math.prod(block)
        noise = rng.integers(0, 256, size=-(-size // 8), dtype=np.uint8)  # eight signs from every byte
        drawn = np.unpackbits(noise, count=size).reshape(block).astype(np.float64) * 2 - 1
        products = X.coordinates(drawn) if in_axes else X.T @ drawn / shape[0]
        stack = np.moveaxis(products.reshape(len(products), -1, columns), 1, 0)
        yield math.sqrt(labels / columns) * stack
