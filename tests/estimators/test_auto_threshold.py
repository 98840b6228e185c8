"""threshold="auto" of plain estimators: the best cut for scores of rows that a fit has not seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from lrml import CPLST, LEML, LRML, MLFro, MLFroCV, MLTrace
from lrml.model_selection import iterative_train_test_split
from lrml.thresholds import Cut, best_threshold
from roads import take_road

CLOSED = [
    LRML(theta=1, alpha=2.0, ridge=0.1),
    MLTrace(alpha=2.0),
    MLFro(1.0),
    CPLST(rank=2, ridge=0.1),
    MLFro(1.0, kernel="rbf", gamma=0.1),
]
HELD_OUT = [LEML(rank=2, loss="logistic"), MLFro(loss="logistic"), LRML(theta=1, ridge=0.5, loss="logistic")]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(80, 6, 4, seed=9, density=0.2)


def leaving_each_row_out(model, X, Y):
    rows = range(len(X))
    return np.vstack(
        [clone(model).fit(np.delete(X, i, 0), np.delete(Y, i, 0)).decision_function(X[[i]]) for i in rows]
    )


@pytest.mark.parametrize("scoring", ["f1_micro", "f1_macro", "hamming_loss"])
@pytest.mark.parametrize("per_label", [False, True])
def test_ridge_regression_gets_the_best_cut_of_real_leave_one_out_scores(data, scoring, per_label):
    X, Y = data
    asked = {"per_label": per_label, "prior": 2.0}
    cut, _ = best_threshold(Y, leaving_each_row_out(MLFro(1.0), X, Y), scoring, **asked)
    options = {"threshold": Cut(scoring, **asked)}
    model = MLFro(1.0, **options).fit(X, Y)
    np.testing.assert_allclose(model.threshold_, cut, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) >= model.threshold_)
    search = MLFroCV(MLFro(**options), alphas=[1.0]).fit(X, Y)
    np.testing.assert_allclose(search.threshold_, cut, atol=1e-5)


@pytest.mark.parametrize("model", CLOSED, ids=repr)
def test_closed_forms_use_their_leave_one_out_scores(data, model):
    X, Y = data
    plain = clone(model).fit(X, Y)
    expected = best_threshold(Y, model.leave_one_out_scores(X, Y)).cut
    fitted = clone(model).set_params(threshold="auto").fit(X, Y)
    assert fitted.threshold_ == pytest.approx(expected, abs=2e-3)
    assert abs(expected - 0.5) > 0.02
    np.testing.assert_array_equal(fitted.factors_.U, plain.factors_.U)  # nothing else has changed
    assert fitted.history_["objective"].tolist() == plain.history_["objective"].tolist()


@pytest.mark.parametrize("model", HELD_OUT, ids=repr)
def test_others_use_a_fifth_of_the_rows(data, model):
    X, Y = data
    calls = []
    fitted = clone(model).set_params(threshold="auto", callback=lambda info: calls.append(info.iteration))
    fitted.fit(X, Y)
    assert calls.count(0) == 1  # the second fit is nobody's business
    train, test, _, _ = iterative_train_test_split(np.arange(80), Y, test_size=0.2, random_state=0)
    scores = clone(model).fit(X[train], Y[train]).decision_function(X[test])
    natural = 0.0 if fitted.loss_ == "logistic" else 0.5
    assert fitted.threshold_ == pytest.approx(best_threshold(Y[test], scores, natural=natural).cut, abs=1e-6)
    np.testing.assert_array_equal(fitted.coef_, clone(model).fit(X, Y).coef_)


def test_a_subspace_holds_rows_out(make_problem, monkeypatch):
    X, Y = make_problem(200, 120, 2, seed=1)
    take_road(
        monkeypatch, lambda rows, wanted, usual: usual(rows, wanted) if rows.only_exact else "compressed"
    )
    model = MLFro(10.0, threshold="auto").fit(X, Y)
    assert model.compression_gap_ >= 0
    _, test, _, _ = iterative_train_test_split(np.arange(200), Y, test_size=0.2, random_state=0)
    train = np.setdiff1d(np.arange(200), test)
    scores = MLFro(10.0).fit(X[train], Y[train]).decision_function(X[test])
    assert model.threshold_ == pytest.approx(best_threshold(Y[test], scores).cut, abs=1e-6)


@pytest.mark.parametrize("model", [MLFro(), LEML(rank=1)], ids=repr)
def test_one_label_in_one_dimension(data, model):
    X, y = data[0], data[1][:, 0]
    column = clone(model).set_params(threshold="auto").fit(X, y[:, None])
    flat = clone(model).set_params(threshold="auto").fit(X, y)
    assert flat.threshold_ == column.threshold_
    np.testing.assert_array_equal(flat.predict(X), column.predict(X)[:, 0])
    np.testing.assert_array_equal(flat.predict(X), flat.decision_function(X) >= 0)


@pytest.mark.parametrize("model", [MLFro(), LEML(rank=1)], ids=repr)
def test_nothing_to_judge_by_means_the_natural_cut(model):
    X, Y = np.arange(12.0).reshape(6, 2) ** 2, np.zeros((6, 2), dtype=int)
    for rows in (6, 1):
        assert clone(model).set_params(threshold="auto").fit(X[:rows], Y[:rows]).threshold_ == 0.5


@pytest.mark.parametrize("model", [MLFro(10.0), MLFroCV()], ids=repr)
@pytest.mark.parametrize("given", [None, 0.3, [0.1, 0.2, 0.3, 0.4]])
def test_a_given_cut_is_told(data, model, given):
    X, Y = data[0], data[1][:, :4]
    inner = {"threshold": given} if isinstance(model, MLFro) else {"estimator": MLFro(threshold=given)}
    model = clone(model).set_params(**inner)
    assert not hasattr(model, "threshold_")
    np.testing.assert_array_equal(model.fit(X, Y).threshold_, 0.5 if given is None else given)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) >= model.threshold_)


def test_a_new_fit_forgets_it(data):
    model = MLFro(threshold="auto").fit(*data)
    assert model.set_params(threshold=0.4).fit(*data).threshold_ == 0.4
    with pytest.raises(ValueError, match="threshold='auto'"):
        model.set_params(threshold="auto").predict(data[0])
