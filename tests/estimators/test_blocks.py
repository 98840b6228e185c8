"""Fits from sums over blocks of rows: equal to fits to all rows, whatever the blocks."""

import pickle
import re
from functools import reduce

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import CPLST, LRML, LRMLCV, MLFro, MLFroCV, MLTrace, SpectralRegressor
from lrml.blocks import BlockError, Checkpoint
from lrml.core.moments import Statistics
from model_checks import blocks_of

MODELS = [
    LRML(2, 1.0, tol=1e-10),
    LRML(2, 1.0, fit_intercept=False, tol=1e-10),
    MLTrace(2.0, tol=1e-10),
    MLFro(0.5),
    CPLST(3, ridge=0.1),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((240, 9)) * np.geomspace(0.1, 10.0, 9) + 3.0
    Y = (X @ rng.standard_normal((9, 6)) + rng.standard_normal((240, 6)) > 4.0).astype(np.int64)
    return X, Y, rng.uniform(0.1, 2.0, 240)


def assert_same(model, other, tol=1e-10):
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=tol * scale)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=tol * scale * 50)
    assert model.objective_ == pytest.approx(other.objective_, rel=tol)
    assert model.rank_ == other.rank_


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_blocks_in_any_order_equal_all_rows(model, form, data):
    X, Y, w = data
    whole = clone(model).fit(form(X), form(Y), w)
    parts = [(form(x), form(y), v) for x, y, v in blocks_of(data, [1, 40, 190])]
    together = reduce(Statistics.absorb, (Statistics.from_arrays(*block) for block in parts))
    stepwise = clone(model)
    for x, y, v in reversed(parts):
        assert stepwise.partial_fit(x, y, sample_weight=v) is stepwise
    for other in (
        clone(model).fit_blocks(parts),
        clone(model).fit_blocks(iter(parts)),
        clone(model).fit_blocks(lambda: reversed(parts)),
        clone(model).fit_statistics(together),
        stepwise,
    ):
        assert_same(other, whole)
        assert other.statistics_.n_rows == 240
    assert sp.issparse(clone(model).fit_blocks(parts).predict(form(X))) == (form is sp.csr_array)


def test_sums_go_on_from_statistics_and_from_blocks(data):
    X, Y, _ = data
    whole = MLFro(1.0).fit(X, Y)
    head = Statistics.from_arrays(X[:90], Y[:90])
    kept = head.xx.copy()
    assert_same(MLFro(1.0).fit_statistics(head).partial_fit(X[90:], Y[90:]), whole)
    np.testing.assert_array_equal(head.xx, kept)
    assert_same(MLFro(1.0).fit_blocks([(X[:90], Y[:90])]).partial_fit(X[90:], Y[90:]), whole)
    assert_same(MLFro(1.0).fit(X[:90], Y[:90]).partial_fit(X[90:], Y[90:]), whole)
    refit = MLFro(1.0).partial_fit(X[:90], Y[:90]).fit(X, Y)
    assert not hasattr(refit, "statistics_")
    assert_same(refit, whole)


def test_names_and_classes_come_from_frames_and_from_the_caller(data):
    X, Y, _ = data
    A, B = pd.DataFrame(X, columns=[f"f{i}" for i in range(9)]), pd.DataFrame(Y, columns=list("abcdef"))
    model = LRML(2).fit_blocks([(A[:100], B[:100]), (A[100:], B[100:])])
    assert (list(model.classes_), list(model.feature_names_in_)) == (list(B), list(A))
    assert_same(model, LRML(2).fit(A, B))
    sums, names = Statistics.from_arrays(X, Y), list("uvwxyz")
    for named in (
        LRML(2).fit_blocks([(X, Y)], classes=names),
        LRML(2).partial_fit(X, Y, classes=names),
        LRML(2).fit_statistics(sums, classes=names),
    ):
        assert list(named.classes_) == names


def test_a_flat_y_may_have_any_two_classes(data):
    X, Y, _ = data
    y = np.where(Y[:, 0] == 1, "yes", "no")
    whole = MLFro(1.0).fit(X, y)
    order = np.argsort(y, kind="stable")  # the first block has one class only
    parts = [(X[rows], y[rows]) for rows in np.array_split(order, 4)]
    stepwise = MLFro(1.0).partial_fit(X, y)
    for model in (MLFro(1.0).fit_blocks(parts, classes=["no", "yes"]), stepwise):
        assert_same(model, whole)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    assert stepwise.score(X, y) == whole.score(X, y)
    assert SpectralRegressor(alpha=0.0, ridge=1.0).partial_fit(X, X[:, 0]).predict(X).shape == (240,)
    # Later blocks may have one class only, the first must have both.
    assert list(MLFro(1.0).fit_blocks([(X[[0, -1]], ["no", "yes"]), *parts]).classes_) == ["no", "yes"]
    refused(lambda: MLFro(1.0).fit_blocks(parts), "classes=")
    with pytest.raises(BlockError, match=r"block 0.*'maybe'"):
        MLFro().fit_blocks([(X[:2], np.array(["no", "maybe"]))], classes=["no", "yes"])


@pytest.mark.parametrize("seconds", [0, 30])
@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError, BlockError])
def test_whatever_ends_a_run_it_goes_on_and_ends_with_the_same_bits(end, seconds, data, tmp_path):
    parts, path = blocks_of(data, [20, 60, 80, 130, 200]), tmp_path / "sums.npz"

    def stream():
        yield from parts[:3]
        raise end("no", 3)

    with pytest.raises(end) as caught:
        LRML(2).fit_blocks(stream(), checkpoint=Checkpoint(path, seconds=seconds))
    notes = getattr(caught.value, "__notes__", [])
    assert (len(notes), all("block 3" in note for note in notes)) == (end is not KeyboardInterrupt, True)
    so_far, whole = Checkpoint(path).start().total, LRML(2).fit_blocks(parts)
    assert Checkpoint(path).start().n_blocks == 3
    assert_same(LRML(2).fit_statistics(so_far), LRML(2).fit_blocks(parts[:3]))
    again = LRML(2).fit_blocks(iter(parts), checkpoint=path)
    assert again.statistics_.xx.tobytes() == whole.statistics_.xx.tobytes()
    assert again.coef_.tobytes() == whole.coef_.tobytes()
    X, Y, w = parts[0]
    for other in ((X, 1 - Y, w), (X, Y), (X[:, ::-1].copy(), Y, w)):
        with pytest.raises(ValueError, match=r"sums\.npz"):
            LRML(2).fit_blocks([other, *parts[1:]], checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_does_not_end_a_fit(data, tmp_path):
    path, parts = tmp_path / "sums.npz", blocks_of(data, [50, 100, 150])

    def stream(may_write_in_the_end):
        yield parts[0]
        path.unlink()
        path.mkdir()  # in the way, as a full disk would be
        yield from parts[1:]
        if may_write_in_the_end:
            path.rmdir()

    for writes in (False, True):
        with pytest.warns(RuntimeWarning, match=r"sums\.npz") as warned:
            model = LRML(2).fit_blocks(stream(writes), checkpoint=Checkpoint(path, seconds=0))
        assert len(warned) == 1
        assert np.array_equal(model.coef_, LRML(2).fit_blocks(parts).coef_)
        if not writes:
            path.rmdir()
    assert Checkpoint(path).start().n_blocks == 4


def test_a_place_that_is_none_for_a_checkpoint(data, tmp_path):
    for place in (5, [tmp_path]):
        refused(lambda place=place: LRML(2).fit_blocks([data], checkpoint=place), "path of a file")
    with pytest.raises(IsADirectoryError, match="folder"):
        LRML(2).fit_blocks([data], checkpoint=tmp_path)
    with pytest.raises(OSError, match="nowhere"):
        LRML(2).fit_blocks([data], checkpoint=tmp_path / "nowhere" / "sums.npz")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ValueError, match="text") as error:
        LRML(2).fit_blocks([data], checkpoint=tmp_path / "text")
    assert "pickle" not in str(error.value)


@pytest.mark.parametrize("place", ["before", "within", "after"])
def test_a_signal_while_sums_are_added_leaves_no_wrong_checkpoint(place, data, tmp_path, monkeypatch):
    parts, path, calls = blocks_of(data, [20, 60, 80, 130, 200]), tmp_path / "sums.npz", []
    absorb = Statistics.absorb

    def interrupted(self, other):
        calls.append(place)
        if len(calls) < 3:
            return absorb(self, other)
        if place == "within":
            self.xx[0] += 1.0
        elif place == "after":
            absorb(self, other)
        raise KeyboardInterrupt

    monkeypatch.setattr(Statistics, "absorb", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MLFro(1.0).fit_blocks(parts, checkpoint=path)
    monkeypatch.undo()
    again, whole = MLFro(1.0).fit_blocks(parts, checkpoint=path), MLFro(1.0).fit_blocks(parts)
    assert again.statistics_.xx.tobytes() == whole.statistics_.xx.tobytes()


def refused(call, shown):
    """A refusal that shows something; of a method that is not there, its cause does."""
    with pytest.raises((ValueError, TypeError, AttributeError)) as caught:
        call()
    assert re.search(shown, f"{caught.value} {caught.value.__cause__}"), caught.value


def test_what_sums_do_not_tell_is_refused(data, tmp_path):
    X, Y, _ = data
    unknown, path = np.where(Y > 0, np.nan, Y), tmp_path / "sums.npz"
    for params, shown in (
        ({"loss": "logistic"}, "loss"),
        ({"kernel": "rbf"}, "kernel"),
        ({"threshold": "auto"}, "threshold"),
        ({"threshold": [0.5, 0.5]}, "6"),
        ({"solver": "dual"}, "solver"),
        ({"theta": -1}, "theta"),
    ):
        model = LRML(2).set_params(**params)
        refused(lambda asked=model: asked.partial_fit(X, Y), shown)
        refused(lambda asked=model: asked.fit_statistics(Statistics.from_arrays(X, Y)), shown)
        if "loss" not in params:
            refused(lambda asked=model: asked.fit_blocks([(X, Y)]), shown)
    for model, labels in (
        (LRML(2, loss="logistic"), Y),
        (LRML(2, solver="compressed"), Y),
        (LRML(2), unknown),
    ):
        refused(lambda asked=model, y=labels: asked.fit_blocks([(X, y)], checkpoint=path), r"sums\.npz")
    refused(lambda: LRML(2).fit_statistics((X, Y)), "tuple")
    refused(lambda: LRML(2).fit_statistics(Statistics.from_arrays(X, Y), classes=["a"]), "1 .*6")
    refused(lambda: LRMLCV().partial_fit(X, Y), "LRMLCV")


def test_further_rows_must_suit_the_first(data):
    X, Y, _ = data
    named, fitted = pd.DataFrame(Y, columns=list("abcdef")), LRML(2).fit(X, Y)
    loaded, dual = pickle.loads(pickle.dumps(fitted)), LRML(2, 1.0, solver="dual").fit(X, Y)
    for model in (LRML(2).partial_fit(X, Y), fitted):
        refused(lambda asked=model: asked.partial_fit(X, Y[:, :5]), "block 1 .* 5 .* 6")
    refused(lambda: fitted.partial_fit(X[:, :5], Y), "5 features.* 9")
    refused(lambda: loaded.partial_fit(X, Y), "statistics_")
    refused(lambda: dual.set_params(solver="auto").partial_fit(X, Y), "XᵀX")
    refused(lambda: LRML(2).partial_fit(X, Y, classes=list("abcde")), "6 labels.* 5")
    refused(lambda: LRML(2).partial_fit(X, named).partial_fit(X, named[list("abcdfe")]), "'f'.*'e'")


def test_a_checkpoint_of_other_sums_is_refused(data, tmp_path):
    MLFroCV(alphas=[1.0]).fit_blocks([data], checkpoint=tmp_path / "search.npz")
    refused(lambda: Checkpoint(tmp_path / "search.npz").start(), "of a search")
