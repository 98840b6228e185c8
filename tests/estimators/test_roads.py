"""More features than rows: XXᵀ instead of XᵀX; which road is taken, and what there is no room for."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import CPLST, LEML, LRML, MLFro, MLFroCV, MLTrace
from lrml.core.arrays import Place
from lrml.core.coordinates import road_of
from lrml.core.rows import Rows
from model_checks import WEIGHTS
from roads import always, take_road


def wide_problem(n=24, d=60, n_labels=5, *, seed=0, sparse=False, far=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1.0, 0.1, d)
    if sparse:
        X[rng.random((n, d)) < 0.7] = 0.0
    if far:
        X[:, :3] = 1e4 + rng.standard_normal((n, 3))
    Y = (rng.random((n, n_labels)) < 0.4).astype(np.int64)
    return (sp.csr_array(X) if sparse else X), Y


def hardly_any(n_rows, n_features):
    places = np.arange(3000)
    X = sp.csr_array((np.ones(3000), (places, places % 50)), shape=(n_rows, n_features))
    return X, sp.csr_array((np.ones(3000, dtype=np.int64), (places, places % 2)), shape=(n_rows, 2))


def refuse(*args, **kwargs):
    pytest.fail("a Gram matrix was made")


# XXᵀ instead of XᵀX

MODELS = {
    "LRML": LRML(2, 2.0, ridge=0.1, tol=1e-12),
    "LRML, no intercept": LRML(2, 2.0, ridge=0.1, fit_intercept=False, tol=1e-12),
    "MLTrace": MLTrace(2.0, ridge=0.1, tol=1e-12),
    "MLFro": MLFro(0.3),
    "CPLST": CPLST(3, ridge=0.1),
    "LEML": LEML(3, 1.0, tol=1e-10),
}


@pytest.mark.parametrize(
    ("weights", "form"),
    [
        ("unweighted", {}),
        ("weighted", {"sparse": True}),
        ("some without weight", {"far": True}),
        ("some without weight", {"sparse": True, "far": True}),
    ],
    ids=str,
)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_dual_and_primal_agree(monkeypatch, model, form, weights):
    X, Y = wide_problem(**form)
    w = WEIGHTS[weights](len(Y))
    dual = clone(model).fit(X, Y, w)
    take_road(monkeypatch, always("primal"))
    expected = clone(model).fit(X, Y, w)
    # At an exact fit the objective is 0, up to rounding.
    assert dual.objective_ == pytest.approx(expected.objective_, rel=1e-9, abs=1e-9)
    assert dual.rank_ == expected.rank_
    np.testing.assert_allclose(dual.coef_, expected.coef_, atol=1e-7)
    np.testing.assert_allclose(dual.singular_values_, expected.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(dual.decision_function(X), expected.decision_function(X), atol=1e-6)
    U, s, V = dual.factors_
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-9)
    np.testing.assert_allclose((V * s) @ U.T, dual.coef_, atol=1e-9)


def test_squares_beyond_all_numbers_are_refused():
    X, Y = wide_problem(4, 9, 2)
    for factor in (1e160, 1e-170):
        for form in (np.asarray, sp.csr_array):
            with pytest.raises(ValueError, match="squares of X"):
                LRML(1, 1.0).fit(form(X * factor), Y)
    rng = np.random.default_rng(0)
    for scale, shape in ((1e-20, (60, 90)), (1e20, (90, 60)), (1e150, (90, 60))):
        rows, labels = rng.random(shape), (rng.random((shape[0], 3)) < 0.3).astype(int)
        for form in (np.asarray, sp.csr_array):
            with pytest.raises(ValueError, match="eigenvalue"):
                LRML(1, ridge=1.0, solver="compressed").fit(form(scale * rows), labels)


# Which road, and what there is no room for


def test_which_road_is_taken(monkeypatch):
    def road(n, d, n_labels=20, nonzeros=50, **more):
        places = np.arange(nonzeros * n) % d
        X = sp.csr_array((np.ones(nonzeros * n), places, np.arange(n + 1) * nonzeros), (n, d))
        return road_of(Rows(X, sp.csr_array((n, n_labels)), **more))

    assert road(2000, 50_000) == "dual"
    assert road(50_000, 2000) == "primal"
    assert road(15_000, 50_000) == road(50_000, 15_000) == "compressed"
    assert road(15_000, 50_000, only_exact=True) == "dual"
    # Few rows beyond the limit, and very many labels: a decomposition is cheaper.
    assert road(3100, 200_000, n_labels=500, nonzeros=2000) == "dual"
    monkeypatch.setattr(Place, "memory", 1e8)
    assert road(3100, 200_000, n_labels=500, nonzeros=2000) == "compressed"


@pytest.mark.parametrize("make", [LRML, MLTrace, MLFro, CPLST, LEML])
def test_no_size_is_refused(make, monkeypatch):
    """Neither Gram matrix has room, 288 and 800 MB: only what is in the data takes some."""
    memory = 1e8
    monkeypatch.setattr(Place, "memory", memory)
    X, Y = hardly_any(6000, 10_000)
    tracemalloc.start()
    try:
        model = make().fit(X, Y)
        assert tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()
    assert model.predict_top_k(X[:10], k=1).labels.shape == (10, 1)


def test_what_has_no_room_is_refused_with_its_size(monkeypatch):
    X = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 1, 2])), shape=(1_000_000, 10_000_000))
    for solver, size in (("dual", "n = 1000000"), ("primal", "d = 10000000")):
        with pytest.raises(ValueError, match=f"{size} "):
            LRML(solver=solver).fit(X, np.eye(1_000_000, 2, dtype=int))
    X, Y = wide_problem()
    monkeypatch.setattr(Place, "memory", 100)
    monkeypatch.setattr("lrml.core.coordinates._EXACT_UP_TO", 10)
    monkeypatch.setattr("lrml.estimators._kernels.pairwise_kernels", refuse)  # nothing may be computed
    for model, size in (
        (MLFroCV(MLFro(kernel="rbf")), "n = 24"),
        (LRML(loss="logistic", solver="primal"), "d = 60"),
        (LRML(kernel="rbf"), "n = 24"),
    ):
        with pytest.raises(ValueError, match=f"{size} "):
            model.fit(X, Y)
