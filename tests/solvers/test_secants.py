"""The compact L-BFGS model against the textbook recursion and dense solves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrml.core.quadratic import Beyond, SpectralProblem
from lrml.solvers.proximal_newton import Secants


def textbook(diagonal, pairs):
    """B after the BFGS updates by these pairs, the oldest first."""
    B = np.diag(diagonal)
    for s, y in pairs:
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y)
    return B


def make(seed, n_labels, size, n_pairs, memory):
    """Secants, their diagonals, and the dense matrices that they stand for; some labels rest now and then."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((n_labels, size, size))
    hessians = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(size)
    diagonal = rng.uniform(0.5, 2.0, (n_labels, size))
    secants, kept = Secants((n_labels, memory, size)), [[] for _ in range(n_labels)]
    for _ in range(n_pairs):
        steps = rng.standard_normal((n_labels, size)) * rng.choice([1e-9, 1.0, 1e6])
        steps[rng.random(n_labels) < 0.2] = 0.0
        changes = np.einsum("lij,lj->li", hessians, steps)
        secants.add(steps, changes, diagonal)
        for pairs, s, y in zip(kept, steps, changes, strict=True):
            pairs.append((s, y))
    last = [[pair for pair in pairs[-memory:] if pair[0].any()] for pairs in kept]
    dense = [textbook(*one) for one in zip(diagonal, last, strict=True)]
    return secants.model(diagonal), dense, rng


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(3, 9), st.integers(0, 7), st.integers(1, 3))
def test_product_and_solve_are_those_of_the_textbook_matrix(seed, n_labels, size, n_pairs, memory):
    """So the secant condition of the newest pair holds exactly."""
    matrix, dense, rng = make(seed, n_labels, size, n_pairs, memory)
    E = rng.standard_normal((n_labels, size))
    scale = max(np.linalg.norm(B, 2) for B in dense)
    expected = np.stack([B @ e for B, e in zip(dense, E, strict=True)])
    np.testing.assert_allclose(matrix.product(E), expected, rtol=1e-7, atol=1e-8 * scale)
    solved = matrix.solve(E)
    back = np.stack([B @ e for B, e in zip(dense, solved, strict=True)])
    np.testing.assert_allclose(back, E, rtol=1e-6, atol=1e-6 * np.abs(solved).max() * scale)


def test_pairs_without_curvature_are_left_out():
    """A flat loss shows none, and rounding may even make it negative."""
    secants, diagonal = Secants((3, 6, 4)), np.ones((3, 4))
    steps = np.ones((3, 4))
    secants.add(steps, np.stack([np.zeros(4), -1e-9 * np.ones(4), 2.0 * np.ones(4)]), diagonal)
    product = secants.model(diagonal).product(steps)
    np.testing.assert_allclose(product, [[1.0] * 4, [1.0] * 4, [2.0] * 4], rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("refinements", [0, 2, 40])
def test_a_quadratic_with_a_correction(seed, refinements):
    """Slopes are differences, the minimum that is claimed is the value there, and with enough conjugate
    gradient steps least squares on either side solve the dense equations.
    """
    rng = np.random.default_rng(seed)
    r, m, k = 7, 5, 3
    root = 0.3 * rng.standard_normal((r * m, 3))
    bend = root @ root.T
    rows, columns, cross = rng.uniform(0.5, 2, r), rng.uniform(0.5, 2, m), rng.standard_normal((r, m))
    beyond = Beyond(
        lambda W: (bend @ W.ravel()).reshape(r, m), rng.standard_normal((r, m)), refinements, accuracy=1e-12
    )
    model = SpectralProblem(rows, cross, 3.0, ridge=0.2, columns=columns, beyond=beyond)
    hessian = np.diag(2 * model.curvature.ravel()) + bend
    V, U = (np.linalg.qr(rng.standard_normal((side, k)))[0] for side in (m, r))
    weights = rng.uniform(0.1, 1.0, k)
    R, least = model.solve_left(V, weights)
    assert least == pytest.approx(model.value(R @ V.T) + float(np.sum(weights * R**2)), rel=1e-10)
    W, D = rng.standard_normal((2, r, m))
    assert model.value(W + D) - model.value(W) == pytest.approx(
        np.vdot(model.gradient(W), D) + 0.5 * D.ravel() @ hessian @ D.ravel(), rel=1e-10
    )
    if refinements < 40:
        return
    downhill = -model.gradient(np.zeros((r, m))).ravel()
    for basis, extra, found in (
        (np.kron(np.eye(r), V), np.tile(weights, r), R),
        (np.kron(U, np.eye(m)), np.repeat(weights, m), model.solve_right(U, weights)),
    ):
        dense = basis.T @ hessian @ basis + 2 * np.diag(extra)
        np.testing.assert_allclose(found.ravel(), np.linalg.solve(dense, basis.T @ downhill), rtol=1e-7)
