"""Fits in a subspace end where exact ones do, and know what they miss; also with very many labels."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml import CPLST, LEML, LRML, MLFro
from lrml.core.moments import Statistics
from model_checks import WEIGHTS
from roads import take_road

# Every kind of weights, with and without an intercept.
SETTINGS = pytest.mark.parametrize(
    ("weights", "fit_intercept"),
    [("unweighted", True), ("weighted", False), ("some without weight", True)],
)
SHAPES = pytest.mark.parametrize("shape", [(300, 700), (700, 300)], ids=["wide", "tall"])
MARGINS = pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])


def text_like(n=300, d=700, n_labels=20, *, seed=0, dense=False):
    """Sparse rows of unit length whose labels follow a few hidden topics."""
    rng = np.random.default_rng(seed)
    topics = rng.random((12, d)) ** 8
    mixture = rng.dirichlet(np.full(12, 0.2), n)
    X = rng.poisson(0.6 * mixture @ topics).astype(float)
    X[np.arange(n), rng.integers(0, d, n)] += 1.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = (rng.random((n, n_labels)) < 0.6 * mixture @ (rng.random((12, n_labels)) ** 4)).astype(np.int64)
    return (X if dense else sp.csr_array(X)), Y


def refuse(*args, **kwargs):
    pytest.fail("a Gram matrix was made")


@pytest.fixture
def always_compressed(monkeypatch):
    """Take the compressed road whatever the size."""

    def compressed(rows, wanted, usual):
        free = wanted == "auto" and not (rows.only_exact or rows.only_sums)
        return "compressed" if free else usual(rows, wanted)

    take_road(monkeypatch, compressed)


@pytest.fixture
def no_gram_matrix(monkeypatch):
    monkeypatch.setattr(Statistics, "from_arrays", refuse)
    monkeypatch.setattr("lrml.core.coordinates.row_kernel", refuse)


# A subspace, least squares


@SETTINGS
@SHAPES
def test_compressed_fits_end_at_the_exact_objective(
    no_gram_matrix, monkeypatch, shape, fit_intercept, weights
):
    X, Y = text_like(*shape)
    w = WEIGHTS[weights](shape[0])
    penalties = [(0, 1.0, 0.0), (4, 1.0, 0.1), (4, 3.0, 0.5), (0, 0.5, 1.0)]
    models = [LRML(*head, ridge=ridge, fit_intercept=fit_intercept, tol=1e-8) for *head, ridge in penalties]
    for model in models:
        model.set_params(solver="compressed").fit(X, Y, w)
    monkeypatch.undo()
    for found in models:
        exact = clone(found).set_params(solver="auto").fit(X, Y, w)
        assert not hasattr(exact, "compression_gap_")
        excess = found.objective_ / exact.objective_ - 1
        assert excess < 1e-3
        if found.theta == 0:  # convex: the certificate bounds what the subspace costs
            assert -1e-7 < excess <= found.compression_gap_ + 1e-7
        U, s, V = found.factors_
        np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-6)
        scores = X @ (U * s) @ V.T + found.intercept_
        np.testing.assert_allclose(found.decision_function(X), scores, atol=1e-8)


@pytest.mark.parametrize("model", [MLFro(1e-9), CPLST(5, ridge=1e-9), LEML(5, ridge=1e-9)], ids=repr)
def test_a_subspace_that_cannot_be_good_enough_warns(always_compressed, model):
    """Least squares without a ridge and with features of very different scales."""
    X, Y = text_like(400, 300)
    scaled = sp.csr_array(X @ sp.diags_array(np.geomspace(1e-2, 1e4, 300)))
    with pytest.warns(ConvergenceWarning, match="subspace"):
        model.fit(scaled, Y)


@pytest.mark.parametrize(("shape", "fit_intercept"), [((30, 50), True), ((50, 30), False), ((1, 5), True)])
@pytest.mark.parametrize("values", ["zero", "constant", "sparse zero", "some"])
def test_little_to_learn(values, fit_intercept, shape):
    """Neither constant features, nor a penalty that leaves nothing, stop a fit by any road."""
    X, Y = text_like(*shape, 4)
    constants = {
        "zero": np.zeros(shape),
        "constant": np.full(shape, 1 / 3),
        "sparse zero": sp.csr_array(shape),
    }
    X = constants.get(values, X)
    for theta, alpha, ridge in [(0, 1e9, 0.0), (0, 0.0, 0.0), (1, 1.0, 0.1), (0, 0.3, 1e9)]:
        settings = {"ridge": ridge, "fit_intercept": fit_intercept}
        primal, *others = (
            LRML(theta, alpha, solver=road, **settings) for road in ("primal", "dual", "compressed")
        )
        primal.fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for found in others:
                found.fit(X, Y)
                assert found.objective_ == pytest.approx(primal.objective_, rel=1e-3, abs=1e-8)
                assert np.isfinite(found.coef_).all()


# A subspace, other losses


@pytest.mark.parametrize(
    ("shape", "scale", "weighted", "theta", "alpha", "ridge"),
    [
        ((240, 400), 1.0, False, 0, 2.0, 0.1),
        ((400, 240), 30.0, True, 3, 0.1, 0.05),
        ((240, 400), 1.0, True, 3, 1.0, 0.3),
    ],
    ids=["wide", "tall", "wide, weighted"],
)
@MARGINS
def test_the_certificate_of_other_losses_is_true(
    monkeypatch, loss, theta, alpha, ridge, scale, weighted, shape
):
    """A subspace of few directions costs no more than it says, and a fit that it costs much warns."""
    X, Y = text_like(*shape, 10)
    X, alpha, ridge = scale * X, scale * alpha, scale**2 * ridge  # the same problem
    w = np.random.default_rng(1).choice([0.0, 0.5, 2.0], shape[0]) if weighted else None
    model = LRML(theta, alpha, ridge=ridge, loss=loss, tol=1e-7)
    exact = clone(model).set_params(solver="primal").fit(X, Y, w)
    monkeypatch.setattr("lrml.core.subspace._LEADING", 2)
    gaps = []
    for most_extensions in (0, 1, 16):
        monkeypatch.setattr("lrml.estimators._fit._MOST_EXTENSIONS", most_extensions)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = clone(model).set_params(solver="compressed").fit(X, Y, w)
        gaps.append(found.compression_gap_)
        assert -1e-5 < found.objective_ / exact.objective_ - 1 <= found.compression_gap_ + 1e-5
        assert found.converged_ == (found.compression_gap_ <= 2e-3)
        assert found.converged_ or "subspace" in str(caught[-1].message)
    assert gaps[0] >= gaps[1] >= gaps[2]
    assert gaps[2] <= 1e-3


# Very many labels


def test_no_matrix_with_a_row_for_every_label_and_a_column_for_every_label_or_feature():
    """288 MB for two sides of labels, 216 MB for one of features."""
    n, d, n_labels = 1_600, 4_500, 6_000
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 3, n)
    word, label = topic * 1_500 + rng.integers(0, 400, n), topic * 2_000 + rng.integers(0, 100, n)
    X = sp.csr_array((np.ones(n), (np.arange(n), word)), shape=(n, d))
    Y = sp.csr_array((np.ones(n, dtype=np.int64), (np.arange(n), label)), shape=(n, n_labels))
    tracemalloc.start()
    try:
        model = LRML(2, 40.0, ridge=1.0, tol=1e-2).fit(X, Y)
        top = model.predict_top_k(X[:200], 3)
        decided = model.predict(X[:200])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2e8
    scores = model.decision_function(X[:200])
    expected = np.argsort(np.where(model.unseen_labels_, np.inf, -scores), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(top.labels, expected)
    np.testing.assert_array_equal(top.scores, np.take_along_axis(scores, expected, axis=1))
    assert sp.issparse(decided)
    np.testing.assert_array_equal(decided.toarray(), scores >= 0.5)
