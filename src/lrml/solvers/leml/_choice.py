"""Which way to fit, and which data term, from sizes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lrml._arrays import is_sparse
from lrml.losses import Loss
from lrml.rows import Mask, Rows
from lrml.solvers.leml._blocks import Blocks
from lrml.solvers.leml._design import Design
from lrml.solvers.leml._pairs import Pairs
from lrml.solvers.leml._squares import Squares
from lrml.solvers.leml._terms import DataTerm

# Up to here a d × d Gram matrix and its decomposition take no time worth asking; up to there it takes 200 MB.
_FEW_FEATURES, _MOST_FEATURES = 500, 5000
# An eigendecomposition takes about 10 d³ operations at the speed of BLAS; operations on nonzeros are slower.
_EIGEN, _SLOWDOWN = 10, 10
# A fit by rows takes about this many products with a Hessian; a preconditioner may cost this many.
_PRODUCTS, _PRODUCTS_FOR_A_BASIS = 100, 20
# Scores at single pairs cost more than a block of them: from this share of known labels on blocks are faster.
_PAIRS_BELOW = 0.1


def _features_cost(X: Any, rank: int) -> float:
    """Operations of a product of X and one of Xᵀ with k columns."""
    return 4.0 * rank * float(_SLOWDOWN * X.nnz if is_sparse(X) else X.size)


def _gram_cost(X: Any) -> float:
    """Operations that give the d × d Gram matrix and its eigenvectors."""
    n, d = X.shape
    products = _SLOWDOWN * X.nnz**2 / n if is_sparse(X) else n * d**2
    return float(products) + _EIGEN * float(d) ** 3


def prefers_moments(X: Any, n_labels: int, rank: int) -> bool:
    """Whether a fit of least squares with all labels known should go through the second moments."""
    n, d = X.shape
    if d <= _FEW_FEATURES or d > _MOST_FEATURES:
        return bool(d <= _FEW_FEATURES)
    by_rows = _PRODUCTS * (_features_cost(X, rank) + 4.0 * n * rank**2)
    return bool(_gram_cost(X) + float(d) ** 2 * n_labels <= by_rows)


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


def precondition(design: Design, X: Any, n_labels: int, rank: int) -> None:
    """Decompose the scatter matrix of X where that is cheap in comparison with the fit."""
    product = _features_cost(X, rank) + 4.0 * X.shape[0] * rank * n_labels
    if X.shape[1] <= _MOST_FEATURES and _gram_cost(X) <= _PRODUCTS_FOR_A_BASIS * product:
        design.diagonalise()
