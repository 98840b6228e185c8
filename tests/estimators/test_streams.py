"""Fits that read blocks in several passes: equal to fits to all rows, whatever the blocks."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import LRML, MLFro, MLTrace
from lrml.blocks import BlockError, LocalBlocks
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


def test_a_warm_start_saves_passes(data):
    blocks = cut(data, 50, 100)
    model = LRML(1, 2.0, ridge=0.1, loss="logistic", tol=1e-9, warm_start=True).fit_blocks(blocks)
    cold = model.n_passes_
    assert pickle.loads(pickle.dumps(model)).n_passes_ == cold
    assert model.fit_blocks(blocks).n_passes_ < 0.5 * cold
    assert not hasattr(model.fit(*data), "n_passes_")


# Bad input


@pytest.mark.parametrize("model", [MLFro(1.0, loss="logistic"), LRML(1, 1.0)], ids=["loss", "unknown labels"])
def test_an_iterator_can_be_read_once_only(model, unknown):
    with pytest.raises(ValueError, match=READ_ONCE):
        model.fit_blocks(iter(cut(unknown, 50)))
    assert not hasattr(model, "coef_")


class Stored:
    """An object that always returns the same iterator."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        return self.iterator


@pytest.mark.parametrize(
    "hide", [Stored, lambda iterator: lambda: iterator, LocalBlocks], ids=["object", "function", "source"]
)
def test_an_iterator_in_disguise_is_read_whole_once(hide, data):
    blocks = hide(iter(cut(data, 50, 100)))
    model = LRML(1, 1.0)
    if isinstance(blocks, LocalBlocks):
        assert blocks.columns.n_labels == data[1].shape[1]  # reads the first block
    assert model.fit_blocks(blocks).statistics_.n_rows == len(data[0])
    if isinstance(blocks, LocalBlocks):
        with pytest.raises(ValueError, match=READ_ONCE):
            model.fit_blocks(blocks)
    with pytest.raises(ValueError, match=READ_ONCE):
        clone(model).set_params(loss="logistic").fit_blocks(hide(iter(cut(data, 50, 100))))


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


# What travels


class Wire(LocalBlocks):
    """Blocks behind a wire: arguments and results are pickled, and counted."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.sent, self.back = [], []

    def sum(self, part, *arguments, checkpoint=None):
        packed = pickle.dumps((part, arguments))
        self.sent.append(len(packed))
        part, arguments = pickle.loads(packed)
        found = pickle.dumps(super().sum(part, *arguments))
        self.back.append(len(found))
        return pickle.loads(found)


def test_a_round_sends_coefficients_and_gets_slopes_back():
    rng = np.random.default_rng(0)
    d, n_labels = 120, 150
    X = rng.standard_normal((300, d))
    Y = X @ rng.standard_normal((d, 3)) @ rng.standard_normal((3, n_labels)) > 5.0
    model = LRML(2, 30.0, ridge=1.0, loss="logistic", tol=1e-3)
    # `checked` copies the source, but not the lists.
    wire = Wire([(X[:200], Y[:200]), (X[200:], Y[200:])])
    found = model.fit_blocks(wire)
    assert len(wire.sent) == found.n_passes_
    assert_same(found, LRML(2, 30.0, ridge=1.0, loss="logistic", tol=1e-3).fit(X, Y), 1e-4, 0.05)
    room = 2_000  # for names and shapes
    assert wire.sent[-1] <= 8 * (d * n_labels + n_labels) + room
    assert wire.back[-1] <= 8 * (d * n_labels + 2 * n_labels + 1) + room
    assert wire.back[0] <= 8 * (d * d + 4 * d + 2 * n_labels) + room


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


def test_a_subspace_of_columns_that_single_precision_cannot_hold():
    """The objective was up to 36 times too large, without a warning."""
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 800), density=0.05, rng=rng).toarray()
    Y = (X @ rng.normal(size=(800, 5)) > 0.3).astype(int)
    X[:, 1::2] += 1e4
    exact = LRML(1, 1.0, ridge=10.0, fit_intercept=False).fit(X, Y)
    found = clone(exact).set_params(solver="compressed").fit_blocks([(X[:90], Y[:90]), (X[90:], Y[90:])])
    tail = np.linalg.svd(found.coef_, compute_uv=False)[1:]
    reached = ((Y - found.decision_function(X)) ** 2).sum() + tail.sum() + 10.0 * (found.coef_**2).sum()
    # The problem is not convex: another path may end a little lower.
    assert 0.98 < reached / exact.objective_ < 1.003
    assert found.objective_ == pytest.approx(reached, rel=0.01)  # large sums that cancel leave few digits
    assert found.compression_gap_ < 1e-3


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


def test_labels_count_where_sums_must_fit_into_memory(monkeypatch):
    """XᵀX of 60 features takes nothing; XᵀY and the solve with 1,500 labels do."""
    rng = np.random.default_rng(3)
    topic = rng.integers(0, 3, (200, 1))
    X = 1.0 * (rng.random((200, 60)) < np.where(np.arange(60) % 3 == topic, 0.3, 0.02))
    Y = 1.0 * (rng.random((200, 1500)) < np.where(np.arange(1500) % 3 == topic, 0.2, 0.01))
    model, blocks = LRML(2, 40.0, ridge=1.0, tol=1e-6), cut((X, Y, np.ones(200)), 70, 130)
    once = clone(model).fit_blocks(blocks)
    assert not hasattr(once, "n_passes_")
    memory = 4_000_000  # less than 8 · 60 · (3 · 60 + 5 · 1500 + 24 · 60)
    monkeypatch.setattr(Place, "memory", memory)
    passes = clone(model).fit_blocks(blocks)
    assert passes.n_passes_ > 10
    assert passes.objective_ == pytest.approx(once.objective_, rel=5e-4)


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


def test_unknown_labels_of_data_that_is_not_so_wide_are_read_by_rows(unknown):
    by_rows = LRML(1, 2.0, ridge=0.1, tol=1e-9)
    found = clone(by_rows).set_params(solver="compressed").fit_blocks(cut(unknown, 60))
    assert_same(found, by_rows.fit(*unknown))
