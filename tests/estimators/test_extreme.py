"""Very many labels: nothing of the size d × L or L × L is made, and fits end where exact ones do."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA

from lrml import CPLST, LEML, LRML, PLST, MLFro, MLTrace
from lrml.core import subspace
from lrml.core.arrays import Place
from lrml.datasets import make_xmc
from roads import always, take_road


@pytest.fixture(scope="module", params=[(200, 300), (300, 200)], ids=["dual", "primal"])
def many_labels(request):
    """Return data with more labels than directions that a first subspace has, and the exact road."""
    dataset, _ = make_xmc(*request.param, 700, rank=8, cardinality=4.0, random_state=0)
    return dataset.X, dataset.Y, "dual" if request.param[0] < request.param[1] else "primal"


@pytest.mark.parametrize(("theta", "alpha", "ridge"), [(8, 5.0, 1.0), (0, 4.0, 0.3)])
def test_fits_end_at_the_exact_objective(many_labels, theta, alpha, ridge):
    X, Y, road = many_labels
    exact = LRML(theta, alpha, ridge=ridge, solver=road, tol=1e-6).fit(X, Y)
    found = LRML(theta, alpha, ridge=ridge, solver="compressed", tol=1e-6).fit(X, Y)
    excess = found.objective_ / exact.objective_ - 1
    assert abs(excess) < 1e-3
    if theta == 0:
        assert excess <= 1.1 * found.compression_gap_ + 1e-5
    assert found.compression_gap_ <= 5e-4


@pytest.mark.parametrize("alpha", [4.0, 2.0])
def test_directions_that_a_first_subspace_lacks_are_found(many_labels, monkeypatch, alpha):
    """A solution of rank 50 to 200, in a subspace that begins with 8 directions."""
    X, Y, road = many_labels
    monkeypatch.setattr(subspace, "COLUMNS", 8)
    monkeypatch.setattr(subspace, "_MORE_DIRECTIONS", 8)
    found = MLTrace(alpha, ridge=0.5, solver="compressed", tol=1e-6).fit(X, Y)
    exact = MLTrace(alpha, ridge=0.5, solver=road, tol=1e-6).fit(X, Y)
    assert exact.rank_ > 16
    assert -1e-6 < found.objective_ / exact.objective_ - 1 <= 1.1 * found.compression_gap_ + 1e-5
    assert found.compression_gap_ <= 5e-4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_weak_alpha_is_told_with_one_that_is_not(many_labels, monkeypatch):
    X, Y, _ = many_labels
    monkeypatch.setattr(subspace, "COLUMNS", 8)
    monkeypatch.setattr(subspace, "_MORE_DIRECTIONS", 8)
    monkeypatch.setattr(subspace, "_LEADING", 8)
    monkeypatch.setattr(subspace, "_MOST_LABELS", 16)
    model = LRML(2, 0.5, ridge=0.5, solver="compressed")
    with pytest.warns(UserWarning, match="alpha=0.5 ") as told:
        model.fit(X, Y)
    text = next(str(each.message) for each in told if "hundreds" in str(each.message))
    enough = float(text.removesuffix(".").rpartition(" ")[2])
    assert enough > 0.5
    model.set_params(alpha=1.1 * enough).fit(X, Y)  # without a warning


@pytest.mark.parametrize("make", [LEML, CPLST, PLST])
def test_a_small_rank_in_a_subspace_is_that_of_the_exact_road(many_labels, monkeypatch, make):
    X, Y, road = many_labels
    take_road(monkeypatch, always(road))
    exact = make(6, ridge=0.5).fit(X, Y)
    monkeypatch.undo()
    take_road(monkeypatch, always("compressed"))
    found = make(6, ridge=0.5).fit(X, Y)
    assert found.rank_ == exact.rank_ == 6
    assert found.compression_gap_ <= 5e-4
    assert found.objective_ == pytest.approx(exact.objective_, rel=1e-3)


def test_directions_of_very_many_labels_are_those_of_a_dense_decomposition():
    """PLST with Lanczos' method against the principal components of Y by scikit-learn."""
    dataset, _ = make_xmc(150, 60, 2500, rank=4, random_state=0)
    Y = dataset.Y.toarray().astype(float)
    found = PLST(3, ridge=1.0).fit(dataset.X, dataset.Y).components_
    expected = PCA(3, svd_solver="full").fit(Y).components_
    np.testing.assert_allclose(np.abs(np.sum(found * expected, axis=1)), 1.0, atol=1e-6)


@pytest.mark.parametrize("model", [LRML(0.2), LRML(50, 0.0), MLFro(), CPLST(0.2)], ids=repr)
def test_ranks_that_do_not_fit_into_memory_are_refused(monkeypatch, model):
    X = sp.eye_array(5000, 4000, format="csr")
    Y = sp.eye_array(5000, 3000, dtype=np.int64, format="csr")
    monkeypatch.setattr(Place, "memory", 5e7)
    with pytest.raises(ValueError, match="3000 labels"):
        model.fit(X, Y)


def test_no_matrix_with_a_row_for_every_label_and_a_column_for_every_label_or_feature():
    """2 GB for two sides of labels, 1.5 GB for one of features."""
    n, d, n_labels = 3_200, 12_000, 16_000
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 3, n)
    word, label = topic * 4000 + rng.integers(0, 400, n), topic * 5_000 + rng.integers(0, 100, n)
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
    assert peak < 5e8
    scores = model.decision_function(X[:200])
    expected = np.argsort(np.where(model.unseen_labels_, np.inf, -scores), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(top.labels, expected)
    np.testing.assert_array_equal(top.scores, np.take_along_axis(scores, expected, axis=1))
    assert sp.issparse(decided)
    np.testing.assert_array_equal(decided.toarray(), scores >= 0.5)
