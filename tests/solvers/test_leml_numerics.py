"""The parts of LEML's solvers against dense algebra and finite differences."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from lrml.losses import LOSSES
from lrml.problem import SpectralProblem
from lrml.rows import Mask, Rows
from lrml.solvers import Status, leml
from lrml.statistics import Moments

N, D, L, K = 23, 7, 5, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) + 1.0
Y = (RNG.random((N, L)) < 0.4).astype(float)
KNOWN = RNG.random((N, L)) < 0.6
WEIGHTS = RNG.uniform(0.5, 2.0, N)
A, H, C = RNG.standard_normal((N, K)), RNG.standard_normal((L, K)), RNG.standard_normal(L)


def value_by_definition(loss, scores, known=None, weights=None):
    """Losses of each label, written out with the signs of the labels."""
    margins = (2 * Y - 1) * scores
    entries = {
        "squared": (Y - scores) ** 2,
        "logistic": np.logaddexp(0.0, -margins),
        "squared_hinge": np.maximum(1 - margins, 0) ** 2,
    }[loss]
    entries = entries * (1.0 if known is None else known)
    return (entries * (np.ones(N) if weights is None else weights)[:, None]).sum(axis=0)


def make_term(kind, loss, weights, *, sparse):
    labels = sp.csr_array(Y * KNOWN) if sparse else Y * KNOWN
    if kind == "squares":
        return leml.Squares(sp.csr_array(Y) if sparse else Y, weights), None
    if kind == "all":
        return leml.Blocks(Rows(X, sp.csr_array(Y) if sparse else Y, None, weights), LOSSES[loss]), None
    mask = Mask(sp.csr_array(KNOWN) if sparse else ~KNOWN, marks_known=sparse)
    rows = Rows(X, labels, mask, weights)
    if kind == "blocks":
        return leml.Blocks(rows, LOSSES[loss]), KNOWN
    return leml.Pairs(rows, LOSSES[loss], sp.csr_array(KNOWN)), KNOWN


CASES = [("squares", "squared")] + [
    (kind, loss) for kind in ("all", "blocks", "pairs") for loss in ("squared", "logistic", "squared_hinge")
]


@pytest.fixture(params=CASES, ids="-".join)
def case(request):
    return request.param


@pytest.fixture(params=[None, WEIGHTS], ids=["plain", "weighted"])
def weights(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["sparse", "dense"])
def term_and_value(request, case, weights):
    """A data term, and its value at given scores by definition."""
    kind, loss = case
    term, known = make_term(kind, loss, weights, sparse=request.param)
    return term, lambda scores: value_by_definition(loss, scores, known, weights)


def test_values_and_gradients(term_and_value):
    term, value = term_and_value
    here = term.evaluate(A, H, C)
    np.testing.assert_allclose(here.values, value(A @ H.T + C), rtol=1e-10)

    def at(point):
        parts = np.split(point, [A.size, A.size + H.size])
        return value(parts[0].reshape(A.shape) @ parts[1].reshape(H.shape).T + parts[2]).sum()

    slopes = approx_fprime(np.concatenate([A.ravel(), H.ravel(), C]), at, 1e-6)
    ours = np.concatenate([here.rows.ravel(), here.labels.ravel(), here.totals])
    np.testing.assert_allclose(ours, slopes, rtol=1e-3, atol=1e-3)


def test_products_with_the_hessian(term_and_value):
    """Central differences of the gradient, in random directions."""
    term, _ = term_and_value
    rng = np.random.default_rng(1)
    E, B, e = rng.standard_normal((N, K)), rng.standard_normal((L, K)), rng.standard_normal(L)
    curvature, h = term.curvature(A, H, C), 1e-6
    up, down = term.evaluate(A + h * E, H, C), term.evaluate(A - h * E, H, C)
    np.testing.assert_allclose(curvature.along_rows(E), (up.rows - down.rows) / (2 * h), rtol=1e-4, atol=1e-4)
    up, down = (term.evaluate(A, H + s * h * B, C + s * h * e) for s in (1, -1))
    of_H, of_c = curvature.along_labels(B, e)
    np.testing.assert_allclose(of_H, (up.labels - down.labels) / (2 * h), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_c, (up.totals - down.totals) / (2 * h), rtol=1e-4, atol=1e-4)


def test_mean_curvature_is_the_second_derivative_of_a_constant(term_and_value, weights):
    term, _ = term_and_value
    total = N if weights is None else weights.sum()
    _, of_c = term.curvature(A, H, C).along_labels(np.zeros((L, K)), np.ones(L))
    np.testing.assert_allclose(term.curvature(A, H, C).means, of_c / total, rtol=1e-5)


def test_curvatures_that_are_not_kept_give_the_same_products(monkeypatch):
    term, _ = make_term("blocks", "logistic", WEIGHTS, sparse=True)
    kept = term.curvature(A, H, C)
    monkeypatch.setattr("lrml.solvers.leml._terms._KEEP_BELOW", 0)
    made_again = term.curvature(A, H, C)
    np.testing.assert_array_equal(kept.along_rows(A), made_again.along_rows(A))
    np.testing.assert_array_equal(kept.along_labels(H, C)[0], made_again.along_labels(H, C)[0])


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_design_is_the_centred_matrix(center, make, weights):
    design = leml.Design(make(X), weights, center=center)
    w = np.ones(N) if weights is None else weights
    explicit = X - (w @ X / w.sum() if center else 0.0)
    B, M = RNG.standard_normal((D, K)), RNG.standard_normal((N, K))
    np.testing.assert_allclose(design.times(B), explicit @ B, atol=1e-12)
    np.testing.assert_allclose(design.transposed(M), explicit.T @ M, atol=1e-12)
    np.testing.assert_allclose(design.sandwich(lambda E: 3 * E, B), 3 * explicit.T @ explicit @ B, rtol=1e-3)
    np.testing.assert_allclose(design.spread, (w[:, None] * explicit**2).sum(axis=0), rtol=1e-10)
    scale, shifts = np.array([0.5, 1.0, 2.0]), np.full(K, 0.1)
    quotients = design.divider(scale, shifts)(B)
    np.testing.assert_allclose(quotients * (np.outer(design.spread, scale) + 0.1), B, rtol=1e-12)
    design.diagonalise()
    solution = design.divider(scale, shifts)(B)
    scatter = explicit.T @ (w[:, None] * explicit)
    np.testing.assert_allclose(scatter @ solution * scale + 0.1 * solution, B, atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 90.0, 1e5, 1e-12], ids=["plain", "off zero", "far from zero", "tiny"])
def test_sandwich_keeps_its_digits(shift):
    """Where single precision would not do, double is used."""
    dense = X * 1e-12 if shift == 1e-12 else X + shift
    design = leml.Design(sp.csr_array(dense), None, center=True)
    explicit = dense - dense.mean(axis=0)
    B = RNG.standard_normal((D, K))
    expected = explicit.T @ (explicit @ B)
    assert np.linalg.norm(design.sandwich(lambda E: E, B) - expected) <= 1e-3 * np.linalg.norm(expected)


def test_design_rejects_features_that_overflow():
    with pytest.raises(ValueError, match="squares of X must stay below 1e308"):
        leml.Design(np.full((3, 2), 1e200) * np.array([[1], [2], [3]]), None, center=True)


@pytest.mark.parametrize("by_row", [True, False])
def test_newton_direction_solves_to_its_accuracy(by_row):
    """Against a dense solve, in the norm of the preconditioned residual."""
    rng = np.random.default_rng(3)
    roots = rng.standard_normal((6, 4, 4))
    hessians = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(4)
    gradient = rng.standard_normal((6, 4))
    products = 0

    def product(D):
        nonlocal products
        products += 1
        return np.einsum("lij,lj->li", hessians, D)

    scale = 1 / np.einsum("lii->li", hessians)
    D = leml.newton_direction(gradient, product, lambda R: R * scale, by_row=by_row)
    residual = product(D) + gradient
    heights, first = (residual**2 * scale).sum(axis=1), (gradient**2 * scale).sum(axis=1)
    if not by_row:
        heights, first = heights.sum(), first.sum()
    assert np.all(heights <= 0.1**2 * first * (1 + 1e-9)) or products > 10
    assert np.sum(D * gradient) < 0
    if by_row:
        assert products <= 4 + 2  # conjugate gradients end after as many products as there are unknowns


def test_newton_direction_with_the_inverse_needs_one_product():
    gradient = RNG.standard_normal((L, K))
    calls = []
    D = leml.newton_direction(gradient, lambda D: calls.append(1) or 4.0 * D, lambda R: R / 4.0)
    np.testing.assert_allclose(D, -gradient / 4.0)
    assert len(calls) == 1


def test_newton_direction_at_a_stationary_point_stays():
    D = leml.newton_direction(np.zeros((L, K)), lambda D: D, lambda R: R, by_row=True)
    np.testing.assert_array_equal(D, 0)


def test_backtracking_shortens_only_the_steps_that_are_too_long():
    tried = []

    def trial(steps):
        tried.append(steps.copy())
        return np.array([(1 - steps[0]) ** 2, (1 - 6 * steps[1]) ** 2])

    leml.backtrack(trial, np.ones(2), np.array([-2.0, -12.0]))
    np.testing.assert_allclose(tried[-1], [1.0, 0.25])


def test_backtracking_uphill_ends_where_it_began():
    last = []
    leml.backtrack(lambda steps: last.append(steps) or 1 + steps, np.ones(3), np.full(3, -1.0))
    np.testing.assert_array_equal(last[-1], 0)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 4), st.integers(0, 10**6), st.floats(-6.0, 6.0))
def test_balance(rank, more_rows, more_labels, seed, log_scale):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((rank + more_rows, rank)) * 10**log_scale
    W = rng.standard_normal((rank + more_labels, rank))
    if seed % 3 == 0:
        Z[:, 0] = 0.0
    balanced = leml.balance(Z, W)
    size = np.linalg.norm(Z @ W.T)
    np.testing.assert_allclose(balanced.Z @ balanced.H.T, Z @ W.T, atol=1e-10 * size)
    for factor in (balanced.Z, balanced.H):
        np.testing.assert_allclose(factor.T @ factor, np.diag(balanced.sigma), atol=1e-10 * size)
    np.testing.assert_allclose(Z @ balanced.left, balanced.Z, atol=1e-5 * np.sqrt(size) + 1e-12)
    np.testing.assert_allclose(W @ balanced.right, balanced.H, atol=1e-5 * np.sqrt(size) + 1e-12)
    trace_norm = np.linalg.svd(Z @ W.T, compute_uv=False).sum()
    assert balanced.sigma.sum() == pytest.approx(trace_norm, rel=1e-9)
    assert 2 * balanced.sigma.sum() <= (np.sum(Z**2) + np.sum(W**2)) * (1 + 1e-12)


def test_resize_keeps_the_product_or_its_leading_part():
    balanced = leml.balance(RNG.standard_normal((D, K)), RNG.standard_normal((L, K)))
    random = np.random.RandomState(0)
    Z, W = leml.resize(balanced.Z, balanced.H, 5, random)
    assert Z.shape == (D, 5)
    np.testing.assert_allclose(Z @ W.T, balanced.Z @ balanced.H.T, atol=1e-12)
    assert np.all(np.linalg.norm(Z[:, K:], axis=0) > 0)
    Z, W = leml.resize(balanced.Z, balanced.H, 2, random)
    U, s, Vt = np.linalg.svd(balanced.Z @ balanced.H.T)
    np.testing.assert_allclose(Z @ W.T, (U[:, :2] * s[:2]) @ Vt[:2], atol=1e-10)


@pytest.mark.parametrize("marks_known", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_label_totals(marks_known, sparse, weights):
    pattern = KNOWN if marks_known else ~KNOWN
    mask = Mask(sp.csr_array(pattern) if sparse else pattern, marks_known)
    known, positive = Rows(X, Y * KNOWN, mask, weights).label_totals()
    w = np.ones(N) if weights is None else weights
    np.testing.assert_allclose(known, w @ KNOWN)
    np.testing.assert_allclose(positive, w @ (Y * KNOWN))


def test_data_term_depends_on_how_much_is_known():
    few, many = RNG.random((50, 8)) < 0.05, RNG.random((50, 8)) < 0.5
    squared, logistic = LOSSES["squared"], LOSSES["logistic"]
    zeros = np.zeros((50, 8))

    def choice(pattern, loss, **marks):
        mask = None if pattern is None else Mask(pattern, **marks)
        return type(leml.data_term(Rows(zeros, zeros, mask), loss))

    assert choice(None, squared) is leml.Squares
    assert choice(None, logistic) is leml.Blocks
    assert choice(many, squared) is leml.Blocks
    assert choice(sp.csr_array(few), logistic) is leml.Pairs
    assert choice(~few, squared, marks_known=False) is leml.Pairs
    assert choice(sp.csr_array(few), squared, marks_known=False) is leml.Blocks


def test_moments_are_preferred_where_they_are_cheap():
    few = np.zeros((2000, 100))
    wide = sp.csr_array((3000, 4000))
    for alpha in (0.0, 1.0):
        assert leml.prefers_moments(few, 14, 5, alpha)
        assert not leml.prefers_moments(wide, 100, 10, alpha)  # 10 · 4000³ operations for hardly any data
    assert not leml.prefers_moments(sp.csr_array((10, 5001)), 100, 10, 1.0)
    assert leml.prefers_moments(sp.csr_array((10, 5001)), 100, 10, 0.0)  # XXᵀ is small
    text = sp.random_array((2000, 9000), density=0.004, rng=np.random.default_rng(0))
    assert leml.prefers_moments(text, 100, 80, 0.0)  # a closed form in a subspace
    assert not leml.prefers_moments(text, 100, 80, 1.0)
    assert not leml.prefers_moments(text, 100, 2, 0.0)  # two columns are read faster than a hundred labels


def test_spectral_start_finds_the_leading_directions():
    design, term = leml.Design(X, WEIGHTS, center=True), leml.Squares(Y, WEIGHTS)
    mean = WEIGHTS @ Y / WEIGHTS.sum()
    Z, slope = leml.spectral_start(design, term, mean, 2, np.random.RandomState(0))
    explicit = X - WEIGHTS @ X / WEIGHTS.sum()
    U, s, _ = np.linalg.svd(2 * explicit.T @ (WEIGHTS[:, None] * (Y - mean)))
    assert slope == pytest.approx(s[0], rel=1e-10)  # there are no more directions than are looked at
    np.testing.assert_allclose(np.abs(U[:, :2].T @ (Z / np.linalg.norm(Z, axis=0))), np.eye(2), atol=1e-6)


@pytest.mark.parametrize(("d", "n_labels"), [(9, 4), (4, 9)])
def test_moment_sweeps_reach_a_stationary_point_of_the_dense_objective(d, n_labels):
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((40, d)), rng.standard_normal((40, n_labels))
    alpha, rank = 3.0, 2
    problem = SpectralProblem.from_moments(Moments(X.T @ X, X.T @ Y, float(np.sum(Y**2))))
    result = leml.solve_moments(problem, alpha, rank, leml.Limits(1000, 1e-10))
    assert result.status is Status.RESIDUAL_SMALL
    U, V = problem.restore(result.factors.U, result.factors.V)
    root = np.sqrt(result.factors.s)
    Z, W = U * root, V * root

    def objective(point):
        Z, W = point[: d * rank].reshape(d, rank), point[d * rank :].reshape(n_labels, rank)
        return np.sum((Y - X @ Z @ W.T) ** 2) + 0.5 * alpha * np.sum(point**2)

    point = np.concatenate([Z.ravel(), W.ravel()])
    assert result.objective == pytest.approx(objective(point), rel=1e-10)
    assert np.linalg.norm(approx_fprime(point, objective, 1e-6)) < 1e-3
    for _ in range(20):  # and no neighbour is better
        assert objective(point + 1e-2 * rng.standard_normal(point.shape)) > result.objective


@pytest.mark.parametrize("alpha", [0.0, 1e-9])
def test_without_penalty_the_rank_is_what_limits(alpha):
    """Reduced-rank regression, whose objective is known in closed form; alpha → 0 leads there."""
    rng = np.random.default_rng(6)
    X, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 5))
    problem = SpectralProblem.from_moments(Moments(X.T @ X, X.T @ Y, float(np.sum(Y**2))))
    fitted = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    best = np.sum(Y**2) - np.sum(np.linalg.svd(fitted, compute_uv=False)[:2] ** 2)
    result = leml.solve_moments(problem, alpha, 2, leml.Limits(2000, 1e-9))
    assert result.objective == pytest.approx(best, rel=1e-8)
    U, s, V = result.factors
    U, V = problem.restore(U, V)
    assert np.sum((Y - (X @ U * s) @ V.T) ** 2) == pytest.approx(best, rel=1e-6)
