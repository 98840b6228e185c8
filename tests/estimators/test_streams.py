"""Fits that read blocks in several passes: equal to fits to all rows, whatever the blocks."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import LRML, MLFro, MLTrace
from lrml.blocks import BlockError
from lrml.core.arrays import Place

READ_ONCE = r"iterator.*once"
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
MODELS = [
    LRML(1, 1.0, ridge=0.3, loss="squared_hinge", fit_intercept=False, tol=1e-7),
    MLTrace(1.0, ridge=0.1, loss="logistic", tol=1e-9),
    MLFro(0.5, loss="logistic", tol=1e-12),
    LRML("auto", 2.0, tol=1e-9),  # with unknown labels
    LRML(2, 1.0, loss="logistic"),  # in single precision
    LRML(1, 1.0, ridge=0.0, loss="logistic", tol=1e-7),  # compared with a start without the penalty
]


@pytest.fixture(scope="module")
def data():
    """Features off centre, labels with one that never occurs and one that is always there, and weights."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 7)) * np.geomspace(0.5, 4.0, 7)
    X[rng.random(X.shape) < 0.3] = 0.0
    Y = (X @ rng.standard_normal((7, 6)) + 2 * rng.standard_normal((150, 6)) > 1.0).astype(float)
    Y[:, 2], Y[:, 4] = 0.0, 1.0
    return X, Y, rng.uniform(0.1, 2.0, 150)


@pytest.fixture(scope="module")
def unknown(data):
    """The same with unknown labels in every block but the first."""
    X, Y, w = data
    hidden = np.random.default_rng(4).random(Y.shape) < 0.3
    hidden[:20] = False
    return X, np.where(hidden, np.nan, Y), w


def cut(data, *edges):
    return list(zip(*(np.split(part, edges) for part in data), strict=True))


def assert_same(model, other, objective=1e-9, coefficients=1e-5):
    assert model.objective_ == pytest.approx(other.objective_, rel=objective)
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=coefficients * scale)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=20 * coefficients * scale)
    np.testing.assert_array_equal(model.unseen_labels_, other.unseen_labels_)
    assert model.rank_ == other.rank_


@pytest.mark.parametrize("model", MODELS, ids=repr)
@FORMS
def test_passes_over_blocks_equal_a_fit_to_all_rows(model, form, unknown):
    X, Y, w = unknown
    whole = clone(model).fit(form(X), form(Y), w)
    found = clone(model).fit_blocks([(form(x), form(y), v) for x, y, v in cut(unknown, 20, 21, 90)])
    assert_same(found, whole, *((1e-6, 3e-3) if model.tol is None else ()))
    assert found.n_passes_ > found.n_iter_ > 1
    assert found.status_ == whole.status_
    assert found.sparse_output_ == whole.sparse_output_ == (form is sp.csr_array)
    if isinstance(model, MLTrace):
        assert found.gap_ == pytest.approx(whole.gap_, rel=0.05, abs=1e-12)
    if isinstance(model, LRML):
        assert found.theta_ == whole.theta_
        assert found.ridge_ == pytest.approx(whole.ridge_, rel=1e-9)  # the default one suits the rows


# Bad input


@pytest.mark.parametrize("model", [MLFro(1.0, loss="logistic"), LRML(1, 1.0)], ids=["loss", "unknown labels"])
def test_an_iterator_can_be_read_once_only(model, unknown):
    with pytest.raises(ValueError, match=READ_ONCE):
        model.fit_blocks(iter(cut(unknown, 50)))
    assert not hasattr(model, "coef_")


class TurnsBad:
    """Blocks of which the last has NaN in the third pass."""

    def __init__(self, blocks):
        self.blocks, self.count = blocks, 0

    def __call__(self):
        self.count += 1
        X, *rest = self.blocks[-1]
        bad = X.copy()
        bad[5, 2] = np.nan
        return iter([*self.blocks[:-1], (bad if self.count == 4 else X, *rest)])


def test_a_block_that_turns_bad_in_a_later_pass_is_named(data):
    model = LRML(1, 1.0, loss="logistic")
    with pytest.raises(BlockError, match=r"block 2, row 85: .*NaN") as caught:
        model.fit_blocks(TurnsBad(cut(data, 30, 80)))
    assert (caught.value.block, caught.value.row, caught.value.sums) == (2, 85, None)
    assert not hasattr(model, "coef_")


# Wide data, least squares


@pytest.fixture(scope="module")
def wide():
    """More features than rows, one of them far from zero, and weights, some of which are 0."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((90, 400)) * (rng.random((90, 400)) < 0.2)
    X[:, 7] = 50.0 + rng.standard_normal(90)
    Y = (X[:, 10:50] @ rng.standard_normal((40, 8)) + rng.standard_normal((90, 8)) > 1.0).astype(float)
    Y[:, 5] = 0.0
    return X, Y, rng.uniform(0.5, 2.0, 90) * (rng.random(90) < 0.9)


WIDE = [
    LRML(1, 3.0, ridge=1.0, tol=1e-8),
    LRML(1, 3.0, ridge=1.0, fit_intercept=False, tol=1e-8),
    LRML("auto", 3.0, ridge=1.0, tol=1e-8),
    MLTrace(3.0, ridge=1.0, tol=1e-8),
]


@pytest.mark.parametrize("model", WIDE, ids=repr)
@FORMS
def test_wide_data_in_a_subspace_equal_the_dual_solution(model, form, wide):
    X, Y, w = wide
    exact = clone(model).set_params(solver="dual").fit(form(X), form(Y), w)
    blocks = [(form(x), form(y), v) for x, y, v in cut(wide, 1, 30, 31, 70)]
    found = clone(model).set_params(solver="compressed").fit_blocks(blocks)
    # With fewer rows than leading directions the subspace has them all, up to single precision.
    assert_same(found, exact, 1e-6, 1e-3)
    assert found.compression_gap_ < 1e-4
    assert found.n_passes_ < 40
    assert isinstance(model, MLTrace) or found.theta_ == exact.theta_


def test_without_room_for_the_moments_a_ridge_regression_is_found_in_a_subspace(wide, monkeypatch):
    X, Y, w = wide
    exact = MLFro(1.0).fit(X, Y, w)
    monkeypatch.setattr(Place, "memory", 2.25e6)  # less than 24 · 400²
    found = MLFro(1.0).fit_blocks(cut(wide, 50))
    assert_same(found, exact, 1e-6, 1e-3)
    with pytest.raises(ValueError, match="d = 400 "):
        MLFro(1.0, loss="logistic").fit_blocks(cut(wide, 50))
    unknown = np.where(np.arange(720).reshape(90, 8) == 700, np.nan, Y)
    with pytest.raises(ValueError, match="d = 400 "):
        MLFro(1.0).fit_blocks(cut((X, unknown, w), 50))


@pytest.mark.parametrize("model", [LRML(0.9, 40.0), LRML(2, 0.0), MLFro(1.0)], ids=repr)
def test_a_rank_that_does_not_fit_into_memory_is_refused_after_one_look(model, monkeypatch):
    reads = []

    def blocks():
        reads.append(1)
        yield sp.eye_array(600, format="csr"), sp.eye_array(600, 1500, dtype=np.int64, format="csr")

    monkeypatch.setattr(Place, "memory", 25e6)
    with pytest.raises(ValueError, match="1500 labels"):
        model.fit_blocks(blocks)
    assert len(reads) <= 2  # the first block, for its shape, and one look at all
