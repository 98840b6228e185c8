"""What the sweeps need from the data: losses and derivatives, given the n × k matrix A instead of X.

Three data terms: `Squares` for the squared loss with all labels known, `Pairs` if few labels are known,
`Blocks` otherwise. On a device there are no sparse matrices: few known labels are a case of `Blocks` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import Array, Place, is_host, is_sparse, namespace, row_dots
from lrml.losses import Loss
from lrml.rows import Block, Mask, Rows

# Products with a matrix of fewer nonzeros are faster in CSR.
_SPARSE_BELOW = 0.1
# Second derivatives are kept between the steps of conjugate gradients up to 64 MiB, made again beyond that.
# On a device, where Y is dense and takes at least as much room, they are always kept.
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

    values: Array
    rows: Array
    labels: Array
    totals: Array

    @cached_property
    def total(self) -> float:
        """The loss of all labels."""
        return float(namespace(self.values).sum(self.values))

    def through(self, left: Array, right: Array) -> Evaluation:
        """Return the same for factors that are multiplied by these matrices, with the same scores."""
        return Evaluation(self.values, self.rows @ right, self.labels @ left, self.totals)


class Curvature(NamedTuple):
    """The second derivatives C_il = w_i d²ℓ/ds²_il at a point (0 where unknown), as linear maps.

    ``means`` holds Σ_i C_il / Σ_i w_i for each label. ``along_rows`` maps E (n × k), in either precision, to
    (C ∘ EHᵀ)H: the Hessian with respect to A. ``along_labels`` maps D and e to SᵀA and Sᵀ1 with
    S = C ∘ (ADᵀ + 1eᵀ): the Hessian with respect to H and c.
    """

    means: Array
    along_rows: Callable[[Array], Array]
    along_labels: Callable[[Array, Array], tuple[Array, Array]]


class DataTerm(Protocol):
    """A loss summed over the known labels of all examples."""

    def evaluate(self, A: Array, H: Array, c: Array) -> Evaluation:
        """Evaluate at the scores AHᵀ + 1cᵀ."""

    def curvature(self, A: Array, H: Array, c: Array) -> Curvature:
        """Return the second derivatives at these scores."""


def data_term(rows: Rows, loss: Loss) -> DataTerm:
    """Choose how the losses are summed."""
    if rows.mask is None:
        return Squares(rows.Y, rows.weights) if loss.name == "squared" else Blocks(rows, loss)
    if not is_host(rows.Y):
        return Blocks(rows, loss)
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

    def __init__(self, Y: Any, weights: Array | None = None) -> None:
        place = Place.of(Y)
        few = is_sparse(Y) or (place.is_host and np.count_nonzero(Y) < _SPARSE_BELOW * Y.size)
        self.Y = sp.csr_array(Y, dtype=np.float64) if few else place.asarray(Y, "float64")
        self.weights = place.ones(Y.shape[0]) if weights is None else weights
        self.total = float(place.xp.sum(self.weights))
        squares = self.Y.multiply(self.Y) if few else self.Y**2
        self.sums, self.squares = (matrix.T @ self.weights for matrix in (self.Y, squares))

    def evaluate(self, A: Array, H: Array, c: Array) -> Evaluation:
        """Expand the square, so that no scores are needed."""
        xp = namespace(A)
        weighted = self.weights[:, None] * A
        gram, sums = A.T @ weighted, xp.sum(weighted, axis=0)
        products = self.Y.T @ weighted  # YᵀWA
        fitted = H @ gram
        mean = H @ sums
        values = row_dots(fitted - 2.0 * products, H)
        values += c * (2.0 * (mean - self.sums) + self.total * c) + self.squares
        rows = A @ (H.T @ H)
        rows += c @ H
        rows -= self.Y @ H
        rows *= 2.0 * self.weights[:, None]
        return Evaluation(
            xp.maximum(values, 0.0),
            rows,
            2.0 * (fitted + c[:, None] * sums - products),
            2.0 * (mean + self.total * c - self.sums),
        )

    def curvature(self, A: Array, H: Array, c: Array) -> Curvature:
        """C_il = 2w_i: products with k × k matrices."""
        xp = namespace(A)
        doubled = 2.0 * self.weights[:, None]
        weighted, label_gram = doubled * A, H.T @ H
        gram, sums, total = A.T @ weighted, xp.sum(weighted, axis=0), 2.0 * self.total

        def along_rows(E: Array) -> Array:
            product = E @ xp.astype(label_gram, E.dtype, copy=False)
            # NumPy alone multiplies by the weights in double precision here.
            product *= doubled if is_host(E) else xp.astype(doubled, E.dtype, copy=False)
            return product

        def along_labels(D: Array, e: Array) -> tuple[Array, Array]:
            return D @ gram + e[:, None] * sums, D @ sums + total * e

        return Curvature(2.0 * xp.ones_like(c), along_rows, along_labels)


class Blocks:
    """Σ w_i ℓ(y_il, s_il) over the known labels, block by block; an evaluation costs O(nLk).

    X is not used. Values and gradients are in double precision, products with the Hessian in single: the
    conjugate gradients that use them are inexact anyway, and twice as fast.
    """

    def __init__(self, rows: Rows, loss: Loss) -> None:
        self.rows, self.loss = rows, loss

    def _at(self, A: Array, dtype: type[np.floating]) -> Rows:
        """Rows with A in place of X: a block then brings its part of A along."""
        A = Place.of(A).asarray(A, dtype)
        return Rows(A, self.rows.Y, self.rows.mask, self.rows.weights, dtype)

    def evaluate(self, A: Array, H: Array, c: Array) -> Evaluation:
        """Evaluate in one pass."""
        xp = namespace(A)
        values, totals = xp.zeros_like(c), xp.zeros_like(c)
        of_rows, of_labels = xp.empty_like(A), xp.zeros_like(H)

        def scores(block: Block) -> Array:
            products = block.X @ H.T
            products += c
            return products

        for block in self._at(A, np.float64).blocks():
            terms = block.terms(self.loss, scores(block))
            values += xp.sum(terms.values, axis=0)
            totals += xp.sum(terms.slopes, axis=0)
            of_rows[block.rows, :] = terms.slopes @ H
            of_labels += terms.slopes.T @ block.X
        return Evaluation(values, of_rows, of_labels, totals)

    def curvature(self, A: Array, H: Array, c: Array) -> Curvature:
        """Return the second derivatives, stored if there are not too many."""
        xp = namespace(A)
        H32, c32 = xp.astype(H, xp.float32), xp.astype(c, xp.float32)
        rows = self._at(A, np.float32)

        def curved() -> Iterator[tuple[slice, Array]]:
            for block in rows.blocks():
                yield block.rows, block.terms(self.loss, block.X @ H32.T + c32).curvatures

        few = A.shape[0] * H.shape[0] <= _KEEP_BELOW or not is_host(A)
        kept = list(curved()) if few else None
        means = xp.zeros_like(c)
        for _, C in kept or curved():
            means += xp.sum(C, axis=0, dtype=xp.float64)
        means /= self.rows.total_weight

        def along_rows(E: Array) -> Array:
            out, E32 = xp.empty_like(E), xp.astype(E, xp.float32, copy=False)
            for part, C in kept or curved():
                products = E32[part, :] @ H32.T
                products *= C
                out[part, :] = xp.astype(products @ H32, E.dtype, copy=False)
            return out

        def along_labels(D: Array, e: Array) -> tuple[Array, Array]:
            D32, e32 = xp.astype(D, xp.float32), xp.astype(e, xp.float32)
            of_H, of_c = xp.zeros_like(D), xp.zeros_like(e)
            for part, C in kept or curved():
                A32 = rows.X[part, :]
                products = A32 @ D32.T
                products += e32
                products *= C
                of_H += products.T @ A32
                of_c += xp.sum(products, axis=0, dtype=xp.float64)
            return of_H, of_c

        return Curvature(means, along_rows, along_labels)


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

    def _matrix(self, values: Array) -> sp.csr_array:
        """Return the n × L matrix with one value at each pair."""
        return sp.csr_array((values, self._columns, self._indptr), shape=self._shape)

    def _products(self, A: Array, H: Array) -> Array:
        """a_i · h_l at each pair."""
        out = np.empty(len(self._columns))
        step = max(1, _CHUNK // A.shape[1])
        for start in range(0, len(out), step):
            part = slice(start, start + step)
            np.einsum("pk,pk->p", A[self._row_numbers[part]], H[self._columns[part]], out=out[part])
        return out

    def _by_label(self, values: Array) -> Array:
        """Sum of the values of each label."""
        sums = np.bincount(self._columns, weights=values, minlength=self._shape[1])
        return sums.astype(np.float64, copy=False)

    def _terms(self, A: Array, H: Array, c: Array) -> tuple[Array, ...]:
        terms = self.loss.terms(self._y, self._products(A, H) + c[self._columns])
        return tuple(terms) if self._w is None else tuple(part * self._w for part in terms)

    def evaluate(self, A: Array, H: Array, c: Array) -> Evaluation:
        """Evaluate at the pairs."""
        values, slopes, _ = self._terms(A, H, c)
        G = self._matrix(slopes)
        return Evaluation(self._by_label(values), G @ H, G.T @ A, self._by_label(slopes))

    def curvature(self, A: Array, H: Array, c: Array) -> Curvature:
        """Return the second derivatives, one number for each pair."""
        C = self._terms(A, H, c)[2]

        def along_rows(E: Array) -> Array:
            product: Array = self._matrix(C * self._products(E, H)) @ H
            return product

        def along_labels(D: Array, e: Array) -> tuple[Array, Array]:
            S = C * (self._products(A, D) + e[self._columns])
            return self._matrix(S).T @ A, self._by_label(S)

        return Curvature(self._by_label(C) / self._total, along_rows, along_labels)


def _labels_at(Y: Any, known: sp.csr_array, row_numbers: npt.NDArray[Any]) -> Array:
    """Labels at the known pairs, in their order."""
    if not is_sparse(Y):
        return np.asarray(Y[row_numbers, known.indices], dtype=np.float64)
    # 2 + y at every known pair: no entry of the sum can vanish, and none of Y lies elsewhere.
    marks = sp.csr_array((np.full(known.nnz, 2.0), known.indices, known.indptr), shape=known.shape)
    labels: Array = sp.csr_array(marks + Y).data - 2.0
    return labels
