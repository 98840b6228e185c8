"""The toolbox for large matrices against dense decompositions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lrml.core.linalg import tall_svd
from lrml.core.moments import CentredRows
from lrml.core.operators import NormalOperator, leading_directions, powered, solve_shifted


def weighted_rows(seed, dual):
    """Return an operator, and the rows that it stands for, centred and weighted."""
    rng = np.random.default_rng(seed)
    shape = (50, 80) if dual else (80, 50)
    X = sp.random_array(shape, density=0.2, rng=rng, format="csr")
    Y, w = (rng.random((shape[0], 4)) < 0.3).astype(float), rng.uniform(0.1, 2.0, shape[0])
    root = np.sqrt(w)[:, None]
    dense, targets = (root * (M - np.average(M, axis=0, weights=w)) for M in (X.toarray(), Y))
    return NormalOperator(CentredRows.of(X, sp.csr_array(Y), w), np.float64), dense, targets


@given(st.integers(0, 10**6), st.booleans())
def test_products_are_those_with_centred_rows(seed, dual):
    operator, X, Y = weighted_rows(seed, dual)
    rng = np.random.default_rng(seed)
    A, B, V = (rng.standard_normal(size) for size in ((len(X), 3), (50, 3), (4, 2)))
    matrix, cross = (X @ X.T, X @ X.T @ Y) if dual else (X.T @ X, X.T @ Y)
    product, along = operator.apply_and_cross(B)
    for found, expected in [
        (operator.backward(A), X.T @ A),
        (operator.apply_wide(B), matrix @ B),
        (product, matrix @ B),
        (along, B.T @ cross),
        (operator.cross(B), B.T @ cross),
        (operator.right_sides(V), (Y if dual else X.T @ Y) @ V),
    ]:
        np.testing.assert_allclose(found, expected, atol=1e-10)


@given(st.integers(0, 10**6), st.booleans(), st.floats(0.01, 10.0))
def test_shifted_systems_are_solved(seed, dual, shift):
    operator, X, _ = weighted_rows(seed, dual)
    matrix = X @ X.T if dual else X.T @ X
    B = np.random.default_rng(seed).standard_normal((50, 3))
    leading = leading_directions(operator.apply_wide, 50, 10, np.float64)
    values = np.linalg.eigvalsh(matrix)[::-1]
    assert np.all(leading.values <= values[: len(leading.values)] * (1 + 1e-9))
    shifts = shift * np.array([1.0, 10.0, 0.3])
    A = solve_shifted(operator, B, shifts, leading, 1e-9, max_steps=500)
    np.testing.assert_allclose(matrix @ A + shifts * A, B, atol=1e-6)


def test_powers_turn_a_block_towards_leading_eigenvectors():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    matrix = (Q * 0.5 ** np.arange(30)) @ Q.T
    found = powered(lambda B: matrix @ B, rng.standard_normal((30, 4)), 40)
    np.testing.assert_allclose(found @ found.T, Q[:, :4] @ Q[:, :4].T, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(60, 9), (9, 60), (8, 8)])
def test_thin_svd_of_matrices_with_small_singular_values(dtype, shape):
    rng = np.random.default_rng(1)
    W = rng.standard_normal((shape[0], 7)) * 10.0 ** -np.arange(7)
    W = (W @ rng.standard_normal((7, shape[1]))).astype(dtype)
    U, s, V = tall_svd(W)
    np.testing.assert_allclose(s, np.linalg.svd(W.astype(np.float64))[1][: len(s)], atol=1e-9 * s[0])
    np.testing.assert_allclose((U * s) @ V.T, W, atol=1e-9 * s[0])
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-6)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-6)
    assert tall_svd(np.zeros_like(W))[1].size == 0
