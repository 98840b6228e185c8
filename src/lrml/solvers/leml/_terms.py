"""What the sweeps need from the data: losses and derivatives, given the n × k matrix A instead of X.

Three data terms: `Squares` for the squared loss with all labels known, `Pairs` if few labels are known,
`Blocks` otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import is_sparse
from lrml.losses import Floats, Loss
from lrml.rows import Block, Mask, Rows
from lrml.solvers.leml._factors import Float64

# Products with a matrix of fewer nonzeros are faster in CSR.
_SPARSE_BELOW = 0.1
# Second derivatives are kept between the steps of conjugate gradients up to 64 MiB, made again beyond that.
_KEEP_BELOW = 1 << 24
# Rows of A and H are gathered for this many numbers at a time: 16 MiB.
_CHUNK = 1 << 21
# Scores at single pairs cost more than in blocks: from this share of known labels on, blocks are faster.
_PAIRS_BELOW = 0.1


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The summed loss at scores S = AHᵀ + 1cᵀ, and its gradient G_il = w_i dℓ/ds_il (0 where unknown).

    ``values`` has the loss of each label; ``rows``, ``labels`` and ``totals`` are GH, GᵀA and Gᵀ1, the
    gradients with respect to A, H and c.
    """

    values: Float64
    rows: Float64
    labels: Float64
    totals: Float64

    def through(self, left: Float64, right: Float64) -> Evaluation:
        """Return the same for factors that are multiplied by these matrices, with the same scores."""
        return Evaluation(self.values, self.rows @ right, self.labels @ left, self.totals)


class Curvature(NamedTuple):
    """The second derivatives C_il = w_i d²ℓ/ds²_il at a point (0 where unknown), as linear maps.

    ``means`` holds Σ_i C_il / Σ_i w_i for each label. ``along_rows`` maps E (n × k), in either precision, to
    (C ∘ EHᵀ)H: the Hessian with respect to A. ``along_labels`` maps D and e to SᵀA and Sᵀ1 with
    S = C ∘ (ADᵀ + 1eᵀ): the Hessian with respect to H and c.
    """

    means: Float64
    along_rows: Callable[[Floats], Floats]
    along_labels: Callable[[Float64, Float64], tuple[Float64, Float64]]


class DataTerm(Protocol):
    """A loss summed over the known labels of all examples."""

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Evaluate at the scores AHᵀ + 1cᵀ."""

    def curvature(self, A: Float64, H: Float64, c: Float64) -> Curvature:
        """Return the second derivatives at these scores."""


def data_term(rows: Rows, loss: Loss) -> DataTerm:
    """Choose how the losses are summed."""
    if rows.mask is None:
        return Squares(rows.Y, rows.weights) if loss.name == "squared" else Blocks(rows, loss)
    pattern = rows.mask.pattern
    marked = pattern.nnz if is_sparse(pattern) else np.count_nonzero(pattern)
    share = marked / (pattern.shape[0] * pattern.shape[1])
    if (share if rows.mask.marks_known else 1.0 - share) < _PAIRS_BELOW:
        return Pairs(rows, loss, _known(rows.mask))
    return Blocks(rows, loss)


def _known(mask: Mask) -> sp.csr_array:
    """Return the pattern of the known labels, which are few."""
    pattern = mask.pattern
    if mask.marks_known:
        return sp.csr_array(pattern)
    return sp.csr_array(~(pattern.toarray() if is_sparse(pattern) else pattern))


class Squares:
    """Σ w_i (y_il − s_il)² through k × k matrices; an evaluation costs O(nk² + nnz(Y) k)."""

    def __init__(self, Y: Any, weights: Float64 | None = None) -> None:
        few = is_sparse(Y) or np.count_nonzero(Y) < _SPARSE_BELOW * Y.size
        make: Any = sp.csr_array if few else np.asarray
        self.Y = make(Y, dtype=np.float64)
        self.weights = np.ones(Y.shape[0]) if weights is None else weights
        self.total = float(self.weights.sum())
        squares = self.Y.multiply(self.Y) if few else self.Y**2
        self.sums, self.squares = (np.asarray(matrix.T @ self.weights) for matrix in (self.Y, squares))

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Expand the square, so that no scores are needed."""
        weighted = self.weights[:, None] * A
        gram, sums = A.T @ weighted, weighted.sum(axis=0)
        products = np.asarray(self.Y.T @ weighted)  # YᵀWA
        fitted = H @ gram
        mean = H @ sums
        values = np.einsum("lk,lk->l", fitted - 2.0 * products, H)
        values += c * (2.0 * (mean - self.sums) + self.total * c) + self.squares
        rows = A @ (H.T @ H)
        rows += c @ H
        rows -= self.Y @ H
        rows *= 2.0 * self.weights[:, None]
        return Evaluation(
            np.maximum(values, 0.0),
            rows,
            2.0 * (fitted + np.outer(c, sums) - products),
            2.0 * (mean + self.total * c - self.sums),
        )

    def curvature(self, A: Float64, H: Float64, c: Float64) -> Curvature:
        """C_il = 2w_i: products with k × k matrices."""
        doubled = 2.0 * self.weights[:, None]
        weighted, label_gram = doubled * A, H.T @ H
        gram, sums, total = A.T @ weighted, weighted.sum(axis=0), 2.0 * self.total

        def along_rows(E: Floats) -> Floats:
            product: Floats = E @ label_gram.astype(E.dtype)
            product *= doubled
            return product

        def along_labels(D: Float64, e: Float64) -> tuple[Float64, Float64]:
            return D @ gram + np.outer(e, sums), D @ sums + total * e

        return Curvature(np.full(len(H), 2.0), along_rows, along_labels)


class Blocks:
    """Σ w_i ℓ(y_il, s_il) over the known labels, block by block; an evaluation costs O(nLk).

    X is not used. Values and gradients are in double precision, products with the Hessian in single: the
    conjugate gradients that use them are inexact anyway, and twice as fast.
    """

    def __init__(self, rows: Rows, loss: Loss) -> None:
        self.rows, self.loss = rows, loss

    def _at(self, A: Floats, dtype: type[np.floating]) -> Rows:
        """Rows with A in place of X: a block then brings its part of A along."""
        return Rows(A.astype(dtype, copy=False), self.rows.Y, self.rows.mask, self.rows.weights, dtype)

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Evaluate in one pass."""
        n_labels, rank = H.shape
        values, totals = np.zeros(n_labels), np.zeros(n_labels)
        of_rows, of_labels = np.empty((len(A), rank)), np.zeros((n_labels, rank))

        def scores(block: Block) -> Floats:
            products: Floats = block.X @ H.T
            products += c
            return products

        for block, terms in self._at(A, np.float64).losses(self.loss, scores):
            values += terms.values.sum(axis=0)
            totals += terms.slopes.sum(axis=0)
            of_rows[block.rows] = terms.slopes @ H
            of_labels += terms.slopes.T @ block.X
        return Evaluation(values, of_rows, of_labels, totals)

    def curvature(self, A: Float64, H: Float64, c: Float64) -> Curvature:
        """Return the second derivatives, stored if there are not too many."""
        H32, c32 = H.astype(np.float32), c.astype(np.float32)
        rows = self._at(A, np.float32)

        def curved() -> Iterator[tuple[slice, Floats]]:
            for block, terms in rows.losses(self.loss, lambda block: block.X @ H32.T + c32):
                yield block.rows, terms.curvatures

        kept = list(curved()) if len(A) * len(H) <= _KEEP_BELOW else None
        sums = sum(C.sum(axis=0, dtype=np.float64) for _, C in kept or curved())

        def along_rows(E: Floats) -> Floats:
            out, E32 = np.empty_like(E), E.astype(np.float32, copy=False)
            for part, C in kept or curved():
                products = E32[part] @ H32.T
                products *= C
                out[part] = products @ H32
            return out

        def along_labels(D: Float64, e: Float64) -> tuple[Float64, Float64]:
            D32, e32 = D.astype(np.float32), e.astype(np.float32)
            of_H, of_c = np.zeros(D.shape), np.zeros(len(e))
            for part, C in kept or curved():
                products = rows.X[part] @ D32.T
                products += e32
                products *= C
                of_H += products.T @ rows.X[part]
                of_c += products.sum(axis=0, dtype=np.float64)
            return of_H, of_c

        return Curvature(np.asarray(sums) / self.rows.total_weight, along_rows, along_labels)


class Pairs:
    """Σ w_i ℓ(y_il, s_il) over the pairs that the CSR array ``known`` stores; an evaluation costs O(k) each.

    Neither X nor the values stored in ``known`` are used.
    """

    def __init__(self, rows: Rows, loss: Loss, known: sp.csr_array) -> None:
        self.loss = loss
        known.sum_duplicates()
        self._shape, self._indptr, self._columns = known.shape, known.indptr, known.indices
        self._row_numbers: npt.NDArray[Any] = np.repeat(np.arange(known.shape[0]), np.diff(known.indptr))
        self._y = _labels_at(rows.Y, known, self._row_numbers)
        self._w = None if rows.weights is None else rows.weights[self._row_numbers]
        self._total = rows.total_weight

    def _matrix(self, values: Floats) -> sp.csr_array:
        """Return the n × L matrix with one value at each pair."""
        return sp.csr_array((values, self._columns, self._indptr), shape=self._shape)

    def _products(self, A: Floats, H: Float64) -> Float64:
        """a_i · h_l at each pair."""
        out = np.empty(len(self._columns))
        step = max(1, _CHUNK // A.shape[1])
        for start in range(0, len(out), step):
            part = slice(start, start + step)
            np.einsum("pk,pk->p", A[self._row_numbers[part]], H[self._columns[part]], out=out[part])
        return out

    def _by_label(self, values: Floats) -> Float64:
        """Sum of the values of each label."""
        sums = np.bincount(self._columns, weights=values, minlength=self._shape[1])
        return sums.astype(np.float64, copy=False)

    def _terms(self, A: Float64, H: Float64, c: Float64) -> tuple[Floats, ...]:
        terms = self.loss.terms(self._y, self._products(A, H) + c[self._columns])
        return tuple(terms) if self._w is None else tuple(part * self._w for part in terms)

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Evaluate at the pairs."""
        values, slopes, _ = self._terms(A, H, c)
        G = self._matrix(slopes)
        return Evaluation(self._by_label(values), G @ H, G.T @ A, self._by_label(slopes))

    def curvature(self, A: Float64, H: Float64, c: Float64) -> Curvature:
        """Return the second derivatives, one number for each pair."""
        C = self._terms(A, H, c)[2]

        def along_rows(E: Floats) -> Floats:
            product: Floats = self._matrix(C * self._products(E, H)) @ H
            return product

        def along_labels(D: Float64, e: Float64) -> tuple[Float64, Float64]:
            S = C * (self._products(A, D) + e[self._columns])
            return self._matrix(S).T @ A, self._by_label(S)

        return Curvature(self._by_label(C) / self._total, along_rows, along_labels)


def _labels_at(Y: Any, known: sp.csr_array, row_numbers: npt.NDArray[Any]) -> Float64:
    """Labels at the known pairs, in their order."""
    if not is_sparse(Y):
        return np.asarray(Y[row_numbers, known.indices], dtype=np.float64)
    # 2 + y at every known pair: no entry of the sum can vanish, and none of Y lies elsewhere.
    marks = sp.csr_array((np.full(known.nnz, 2.0), known.indices, known.indptr), shape=known.shape)
    labels: Float64 = sp.csr_array(marks + Y).data - 2.0
    return labels
