"""Unknown labels, as the estimators treat them: nothing under them counts, and saying so helps."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

from lrml import LRML, MLFro, MLTrace
from lrml.core.losses import LOSSES
from lrml.datasets import make_low_rank_multilabel
from lrml.metrics import average_precision
from lrml.model_selection import MultilabelStratifiedKFold

EACH = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 5, 4, seed=3)


@pytest.fixture(scope="module")
def known():
    known = np.random.default_rng(8).random((60, 4)) < 0.7
    known[:3] = True
    return known


def ways_to_say(Y, known):
    holes = np.where(known, Y, np.nan)
    yield holes, None
    yield sp.csr_array(holes), None
    yield Y, known
    yield Y, sp.csr_array(known)
    yield sp.csr_array(Y), known
    yield sp.csr_array(np.where(known, Y, 7.0)), sp.csc_array(known)
    yield np.where(known, Y, -np.inf), known


@EACH
@pytest.mark.parametrize("theta", [0, 1, 4])
def test_all_ways_to_say_what_is_known_give_the_same_model(data, known, loss, theta):
    X, Y = data
    first, *others = (
        LRML(theta, 1.0, loss=loss, tol=1e-3).fit(X, labels, observed=observed)
        for labels, observed in ways_to_say(Y, known)
    )
    assert np.abs(first.coef_).max() > 0.05
    for other in others:
        np.testing.assert_allclose(other.coef_, first.coef_, atol=1e-10)
        np.testing.assert_allclose(other.intercept_, first.intercept_, atol=1e-10)
    blind = LRML(theta, 1.0, loss=loss, tol=1e-3).fit(X, np.where(known, Y, 0))
    assert not np.allclose(blind.coef_, first.coef_, rtol=0.05)


@EACH
def test_all_observed_is_no_mask_bit_for_bit(data, loss):
    X, Y = data
    full = np.ones(Y.shape, dtype=bool)
    plain = LRML(1, 1.0, loss=loss).fit(X, Y)
    for observed in (full, sp.csr_array(full)):
        model = LRML(1, 1.0, loss=loss).fit(X, Y, observed=observed)
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.intercept_, plain.intercept_)
        assert model.history_["phase"].tolist() == plain.history_["phase"].tolist()


def test_one_unknown_label_of_a_row_without_weight_is_the_fit_by_moments(data):
    """By rows and by moments: two code paths, one optimum."""
    X, Y = data
    holes = Y.astype(float)
    holes[0, 0] = np.nan
    weights = np.r_[0.0, np.ones(59)]
    by_rows = MLTrace(2.0, tol=1e-16).fit(X, holes, sample_weight=weights)
    by_moments = MLTrace(2.0, tol=1e-12).fit(X[1:], Y[1:])
    assert by_rows.gap_ < 1e-7
    assert by_moments.gap_ <= 1e-12
    np.testing.assert_allclose(by_rows.coef_, by_moments.coef_, atol=1e-6)
    assert by_rows.objective_ == pytest.approx(by_moments.objective_, rel=1e-10)


@pytest.mark.parametrize("model", [LRML(3, 3.0), MLTrace(3.0), MLTrace(2.0, loss="logistic")], ids=repr)
def test_the_mask_helps_to_predict_hidden_labels(model):
    """Half of the labels of a planted model of low rank are hidden; 0 in their place is a lie."""
    hidden, truth = make_low_rank_multilabel(400, 20, 15, rank=3, cardinality=4, missing=0.5, random_state=0)
    Y, unknown = truth.Y_clean.toarray(), hidden.unknown.toarray()
    scores = {}
    for name, observed in (("mask", ~unknown), ("zeros", None)):
        model.fit(hidden.X, hidden.Y, observed=observed)
        ranked = np.where(unknown, model.decision_function(hidden.X), -1e6)  # hidden labels compete
        rows = (Y * unknown).any(axis=1)
        scores[name] = average_precision((Y * unknown)[rows], ranked[rows])
    assert scores["mask"] > scores["zeros"] + 0.01


@EACH
def test_a_label_without_a_known_entry_is_unseen(data, known, loss):
    X, Y = data
    observed = known.copy()
    observed[:, 2] = False
    model = LRML(1, 1.0, loss=loss).fit(X, Y, observed=observed)
    assert model.unseen_labels_.tolist() == [False, False, True, False]
    assert not model.coef_[2].any()
    assert model.intercept_[2] == LOSSES[loss].unseen_score
    rest = LRML(1, 1.0, loss=loss).fit(X, np.delete(Y, 2, axis=1), observed=np.delete(observed, 2, axis=1))
    np.testing.assert_allclose(np.delete(model.coef_, 2, axis=0), rest.coef_, atol=1e-6)


@EACH
def test_a_row_without_a_known_label_only_helps_to_centre(data, loss):
    X, Y = data
    observed = np.ones(Y.shape, dtype=bool)
    observed[:10] = False
    model = MLFro(1.0, loss=loss, tol=1e-18).fit(X, Y, observed=observed)
    rest = MLFro(1.0, loss=loss, tol=1e-18).fit(X[10:], Y[10:])
    np.testing.assert_allclose(model.coef_, rest.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, rest.intercept_, atol=1e-5)


@EACH
def test_no_positive_example_at_all(data, loss):
    X, Y = data
    holes = np.zeros(Y.shape)
    holes[:, 0] = np.nan
    holes[::3, 1] = np.nan
    model = LRML(1, 1.0, loss=loss).fit(X, holes)
    assert model.unseen_labels_.all()
    assert not model.coef_.any()
    assert not model.predict(X).any()
    assert (model.rank_, model.n_iter_, model.objective_) == (0, 0, 0.0)


@EACH
def test_known_only_in_rows_without_weight(data, loss, fitted):
    X, Y = data
    observed = np.zeros(Y.shape, dtype=bool)
    observed[0] = True
    model = LRML(loss=loss)
    with pytest.raises(ValueError, match=r"known in a row with a positive weight.*sample_weight"):
        model.fit(X, Y, sample_weight=np.r_[0.0, np.ones(59)], observed=observed)
    assert fitted(model) == {}


def test_real_targets_that_are_not_all_known(data, known):
    """Adding a constant moves the intercept, multiplying multiplies all; the tolerance means the same."""
    X, Y = data
    targets = X @ np.random.default_rng(0).standard_normal((5, 4)) + 0.1 * Y
    fit = {"theta": 1, "targets": "real", "tol": 1e-8}
    plain = LRML(alpha=2.0, **fit).fit(X, targets, observed=known)
    for c, offset in ((1.0, 1e4), (1e-8, 0.0), (1e6, -1e9)):
        model = LRML(alpha=2.0 * c, **fit).fit(X, c * targets + offset, observed=known)
        np.testing.assert_allclose(model.coef_ / c, plain.coef_, atol=1e-5)
        np.testing.assert_allclose((model.intercept_ - offset) / c, plain.intercept_, atol=1e-4)
        assert model.n_iter_ <= plain.n_iter_ + 2


def test_score_ranks_the_known_labels_only():
    X, Y = np.eye(3), np.array([[1.0, 0.0, np.nan], [np.nan, 1.0, 0.0], [0.0, np.nan, 1.0]])
    model = MLFro(0.1).fit(X, np.nan_to_num(Y))
    scores = model.decision_function(X)
    known = ~np.isnan(Y)
    # By hand: with two known labels, the precision is 1 if the positive one is first and 1/2 if not.
    is_first = [s[k & (y == 1)][0] > s[k & (y == 0)][0] for s, y, k in zip(scores, Y, known, strict=True)]
    expected = np.where(is_first, 1.0, 0.5)
    assert model.score(X, Y) == pytest.approx(np.mean(expected))
    raised = np.array([0.0, 5.0, 0.0])
    model.fitted_ = replace(model.fitted_, intercept=raised)  # a high score in an unknown place does no harm
    assert model.score(X[2:], Y[2:]) == 1.0
    assert model.score(X[:1], Y[:1]) == 0.5


def test_a_grid_search_with_unknown_labels(make_problem):
    X, Y = make_problem(60, 5, 4, seed=1)
    Y = np.where(np.random.default_rng(0).random(Y.shape) < 0.3, np.nan, Y)
    search = GridSearchCV(MLFro(), {"alpha": [0.1, 1.0, 1e6]}, cv=MultilabelStratifiedKFold(3)).fit(X, Y)
    assert search.best_params_["alpha"] < 1e6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
