"""Bad input: the message names the rule, the value and the remedy, and the estimator stays as it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from lrml import LRML

N, D, L = 30, 6, 4


@dataclass(frozen=True)
class Bad:
    """A call of ``fit`` that must fail: what differs from a good one, and what the message must say."""

    says: tuple[str, ...]
    X: Any = None
    Y: Any = None
    weights: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    error: type[Exception] = ValueError

    def arguments(self, X, Y):
        return (X if self.X is None else self.X(X)), (Y if self.Y is None else self.Y(Y)), self.weights


def put(value, row=2, column=1, dtype=float):
    """Return a function that copies a matrix and sets one entry."""

    def change(matrix):
        matrix = matrix.astype(dtype)
        matrix[row, column] = value
        return matrix

    return change


def with_params(says, error=ValueError, **params):
    return Bad(says=says, params=params, error=error)


def repeated_entry(Y):
    """A CSR matrix that stores two ones for the same cell, whose value is 2."""
    rows, columns = np.nonzero(Y)
    counts = np.bincount(np.r_[rows, rows[0]], minlength=len(Y))
    return sp.csr_array(
        (np.ones(len(rows) + 1), np.r_[columns[0], columns], np.r_[0, np.cumsum(counts)]), shape=Y.shape
    )


NAMES_TWICE = ["a", "b", "c", "b"]
BINARY = "targets='real'"

BAD_X = {
    "NaN": Bad(("Input X contains NaN", "imputer"), X=put(np.nan)),
    "infinity": Bad(("Input X contains infinity",), X=put(np.inf)),
    "minus infinity": Bad(("Input X contains infinity",), X=put(-np.inf)),
    "NaN in float32": Bad(("Input X contains NaN",), X=put(np.nan, dtype=np.float32)),
    "sparse NaN": Bad(("Input X contains NaN",), X=lambda X: sp.csr_array(put(np.nan)(X))),
    "sparse infinity": Bad(("Input X contains infinity",), X=lambda X: sp.csc_array(put(np.inf)(X))),
    "NaN in a frame": Bad(("Input X contains NaN",), X=lambda X: pd.DataFrame(put(np.nan)(X))),
    "complex": Bad(("Complex data not supported",), X=lambda X: X + 1j),
    "complex sparse": Bad(("Complex data not supported",), X=lambda X: sp.csr_array(X + 1j)),
    "strings": Bad(("X must hold numbers", "'high'", "TextTagger"), X=lambda X: np.full(X.shape, "high")),
    **{
        f"texts {i}": Bad(
            ("X must hold numbers", "'a red fox'", "TextTagger"),
            X=lambda X, make=make: make(["a red fox"] * len(X)),
        )
        for i, make in enumerate(
            (list, np.array, lambda X: np.array(X, dtype=object), pd.Series, pd.DataFrame, pl.Series)
        )
    },
    "lazy frame": Bad(
        ("X must be", "LazyFrame", "X.collect()"), X=lambda X: pl.DataFrame(X).lazy(), error=TypeError
    ),
    "1-D": Bad(("Expected 2D array, got 1D array", "Reshape"), X=lambda X: X[:, 0]),
    "3-D": Bad(("dim 3",), X=lambda X: X[:, :, None]),
    "no rows": Bad(("0 sample(s)", "minimum of 1"), X=lambda X: X[:0], Y=lambda Y: Y[:0]),
    "no features": Bad(("0 feature(s)", "minimum of 1"), X=lambda X: X[:, :0]),
    "fewer rows than Y": Bad(("same number of rows", f"{N - 1} and {N}", "Pass"), X=lambda X: X[:-1]),
    "repeated names": Bad(
        ("columns of X", "different names", "'b'", "2 times", "Rename"),
        X=lambda X: pd.DataFrame(X[:, :4], columns=NAMES_TWICE),
    ),
}
BAD_Y = {
    "all NaN": Bad(("some label must be known", "drop"), Y=lambda Y: np.full(Y.shape, np.nan)),
    "infinity": Bad(("Y contains infinity", "finite", "drop"), Y=put(np.inf)),
    "2": Bad(("only 0 and 1", "got 2", BINARY), Y=put(2, dtype=int)),
    "-1": Bad(("only 0 and 1", "got -1", BINARY), Y=put(-1, dtype=int)),
    "a half": Bad(("only 0 and 1", "0.5", BINARY), Y=put(0.5)),
    "sparse 2": Bad(("only 0 and 1", "got 2", BINARY), Y=lambda Y: sp.csc_array(put(2)(Y))),
    "the same sparse entry twice": Bad(("only 0 and 1", "got 2", BINARY), Y=repeated_entry),
    "None": Bad(("requires y", "None", "Pass a label matrix"), Y=lambda Y: None),
    "1-D, three classes": Bad(
        ("two classes", "got 3 (0, 1, 2)", "OneVsRest"), Y=lambda Y: np.arange(len(Y)) % 3
    ),
    "1-D, one class": Bad(("two classes", "got 1 ('a')", "MultiLabelBinarizer"), Y=lambda Y: ["a"] * len(Y)),
    "1-D, many names": Bad(
        ("two classes", f"got {N} ('n0', 'n1', 'n10', …)"), Y=lambda Y: [f"n{i}" for i in range(len(Y))]
    ),
    "1-D, continuous": Bad(("two classes", "continuous value 0.5", BINARY), Y=lambda Y: Y[:, 0] + 0.5),
    "1-D, without order": Bad(
        ("two classes", "no order", "only text"), Y=lambda Y: np.array([1, "a"] * (len(Y) // 2), dtype=object)
    ),
    "1-D, infinity": Bad(("Y contains infinity",), Y=lambda Y: np.full(len(Y), np.inf)),
    "1-D, complex": Bad(("Complex", "real"), Y=lambda Y: Y[:, 0] + 0j),
    "lazy frame": Bad(
        ("Y must be", "LazyFrame", "Y.collect()"),
        Y=lambda Y: pl.DataFrame(np.asarray(Y)).lazy(),
        error=TypeError,
    ),
    "3-D": Bad(("2-D", f"({N}, {L}, 1)"), Y=lambda Y: Y[:, :, None]),
    "sparse 1-D": Bad(("2-D", f"({N},)"), Y=lambda Y: sp.coo_array(Y[:, 0])),
    "lists of labels": Bad(
        ("2-D", "MultiLabelBinarizer"), Y=lambda Y: [np.flatnonzero(row).tolist() for row in Y]
    ),
    "sets of labels": Bad(("2-D", "MultiLabelBinarizer"), Y=lambda Y: [set(np.flatnonzero(y)) for y in Y]),
    "strings": Bad(
        ("must hold numbers", "'no'", "MultiLabelBinarizer"), Y=lambda Y: np.where(Y, "yes", "no")
    ),
    "strings in a frame": Bad(
        ("must hold numbers", "'no'", "MultiLabelBinarizer"),
        Y=lambda Y: pd.DataFrame(np.where(Y, "yes", "no")),
    ),
    "complex": Bad(("Complex", "real"), Y=lambda Y: Y + 0j),
    "complex sparse": Bad(("Complex", "real"), Y=lambda Y: sp.csr_array(Y + 0j)),
    "complex sparse, real targets": Bad(
        ("Complex", "real"), Y=lambda Y: sp.csr_array(Y * 1j), params={"targets": "real"}
    ),
    "no labels": Bad(("at least one label", "got 0", "one column per label"), Y=lambda Y: Y[:, :0]),
    "fewer rows than X": Bad(("same number of rows", f"{N} and {N - 1}", "Pass"), Y=lambda Y: Y[:-1]),
    "repeated names": Bad(
        ("columns of Y", "different names", "'b'", "2 times", "Rename"),
        Y=lambda Y: pd.DataFrame(Y, columns=NAMES_TWICE),
    ),
    "repeated names, counted": Bad(
        ("'a' 2 times",), Y=lambda Y: pd.DataFrame(np.c_[Y, Y[:, :1]], columns=["a", "a", "b", "b", "b"])
    ),
}
BAD_WEIGHTS = {
    "too short": Bad(("sample_weight", f"({N},)", f"({N - 1},)", "Pass"), weights=np.ones(N - 1)),
    "2-D": Bad(("sample_weight", f"({N},)", f"({N}, 1)", "Pass"), weights=np.ones((N, 1))),
    "a number": Bad(("sample_weight", f"({N},)", "()", "Pass"), weights=2.0),
    "negative": Bad(("sample_weight", "not negative", "-1.0", "Drop"), weights=np.r_[-1.0, np.ones(N - 1)]),
    "NaN": Bad(("sample_weight", "finite", "nan", "Drop"), weights=np.r_[np.nan, np.ones(N - 1)]),
    "infinity": Bad(("sample_weight", "finite", "inf", "Drop"), weights=np.r_[np.inf, np.ones(N - 1)]),
    "all zero": Bad(("sample_weight", "not all zero", "0.0 to 0.0", "Drop"), weights=np.zeros(N)),
    "strings": Bad(("sample_weight", "number", "'heavy'"), weights=["heavy"] * N),
}
BAD_PARAMS = {
    "theta above min(d, L)": with_params((f"[0, {L}]", "got 5", "fraction"), theta=5),
    "theta negative": with_params(("at least 0", "got -1", "Choose"), theta=-1),
    "theta float above 1": with_params(("[0, 1]", "got 1.5", "Pass an int"), theta=1.5),
    "theta float negative": with_params(("[0, 1]", "got -0.5", "Pass an int"), theta=-0.5),
    "theta NaN": with_params(("[0, 1]", "got nan", "Pass an int"), theta=np.nan),
    "theta string": with_params(("theta must be an int", "'many'", "Pass"), TypeError, theta="many"),
    "theta bool": with_params(("theta must be an int", "True", "Pass"), TypeError, theta=True),
    **{
        f"{name} {value}": with_params(
            (f"{name} must be finite and at least 0", f"got {value}", "Pass"), **{name: value}
        )
        for name in ("alpha", "ridge", "tol")
        for value in (-1.0, np.nan, np.inf)
    },
    **{
        f"{name} {value!r}": with_params(
            (f"{name} must be a number", f"got {value!r}", "Pass"), TypeError, **{name: value}
        )
        for name in ("alpha", "ridge", "tol")
        for value in ("1", True)
    },
    "unknown solver": with_params(("'auto', 'apg', 'pg', 'paper'", "'sgd'", "Use 'auto'"), solver="sgd"),
    "solver None": with_params(("solver must be", "None", "'auto'"), (TypeError, ValueError), solver=None),
    "solver a number": with_params(("solver must be", "3", "'auto'"), (TypeError, ValueError), solver=3),
    **{
        f"max_iter {value!r}": with_params(
            ("max_iter must be an int of at least 1", f"got {value!r}"), max_iter=value
        )
        for value in (0, -1, 2.5, "many", True)
    },
    "threshold too long": with_params(
        ("one per label (4)", "[0.5, 0.5, 0.5, 0.5, 0.5]", "Use"), threshold=[0.5] * 5
    ),
    "threshold 2-D": with_params(("one per label", "Use"), threshold=np.full((1, L), 0.5)),
    "threshold NaN": with_params(("finite", "nan", "Use"), threshold=np.nan),
    "threshold string": with_params(
        ("threshold must be", "'half'", "Use"), (TypeError, ValueError), threshold="half"
    ),
    "unknown targets": with_params(("'binary', 'real'", "'multiclass'", "Use"), targets="multiclass"),
}
BAD_FITS = [
    pytest.param(case, id=f"{group}: {name}")
    for group, cases in {
        "X": BAD_X,
        "Y": BAD_Y,
        "sample_weight": BAD_WEIGHTS,
        "parameter": BAD_PARAMS,
    }.items()
    for name, case in cases.items()
]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(N, D, L, seed=11)


@pytest.fixture
def model(data):
    X, Y = data
    return LRML(theta=2, alpha=0.5).fit(
        pd.DataFrame(X, columns=list("abcdef")), pd.DataFrame(Y, columns=["red", "green", "blue", "grey"])
    )


def assert_message(error, fragments):
    missing = [fragment for fragment in fragments if fragment not in str(error)]
    assert not missing, f"{missing} not in: {error}"
    assert "np.str_(" not in str(error), error


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_fit_leaves_an_unfitted_estimator_unfitted(case, data, fitted):
    estimator = LRML(**case.params)
    before = estimator.get_params()
    X, Y, weights = case.arguments(*data)
    with pytest.raises(case.error) as caught:
        estimator.fit(X, Y, sample_weight=weights)
    assert_message(caught.value, case.says)
    assert fitted(estimator) == {}
    assert all(value is before[name] for name, value in estimator.get_params().items())


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_fit_leaves_a_fitted_estimator_as_it_was(case, data, model, fitted):
    names = pd.DataFrame(data[0], columns=list("abcdef"))
    state, good = fitted(model), {name: model.get_params()[name] for name in case.params}
    scores, decisions = model.decision_function(names), model.predict(names)
    X, Y, weights = case.arguments(*data)
    with pytest.raises(case.error):
        model.set_params(**case.params).fit(X, Y, sample_weight=weights)
    assert fitted(model) == state
    model.set_params(**good)
    np.testing.assert_array_equal(model.decision_function(names), scores)
    np.testing.assert_array_equal(model.predict(names), decisions)


def test_exception_in_a_callback_leaves_the_estimator_as_it_was(data, model, fitted):
    def fail(info):
        raise RuntimeError("no more")

    state = fitted(model)
    with pytest.raises(RuntimeError, match="no more"):
        model.set_params(callback=fail).fit(*data)
    assert fitted(model) == state
    fresh = LRML(callback=fail)
    with pytest.raises(RuntimeError, match="no more"):
        fresh.fit(*data)
    assert fitted(fresh) == {}


@pytest.mark.parametrize("shape", [(D - 1, L), (D, L - 1)], ids=["features", "labels"])
def test_warm_start_needs_the_shape_of_the_last_fit(data, model, fitted, shape):
    X, Y = data
    state = fitted(model)
    with pytest.raises(ValueError, match="warm_start") as caught:
        model.set_params(warm_start=True).fit(X[:, : shape[0]], Y[:, : shape[1]])
    assert_message(caught.value, (str((L, D)), str(shape[::-1]), "warm_start=False"))
    assert fitted(model) == state


def test_real_targets_accept_any_finite_number(data):
    X, Y = data
    targets = np.where(Y, 2.0, -0.5)
    model = LRML(theta=1.0, alpha=1.0, targets="real").fit(X, targets)
    A = np.c_[X, np.ones(N)]
    np.testing.assert_allclose(model.predict(X), A @ np.linalg.lstsq(A, targets, rcond=None)[0], atol=1e-10)


def test_names_that_only_look_alike_are_different(data):
    X, Y = data
    columns = [1, "1", 2, "2"]
    model = LRML().fit(X, pd.DataFrame(Y, columns=pd.Index(columns, dtype=object)))
    assert model.classes_.tolist() == columns


# Prediction

PREDICTIONS = {
    "decision_function": lambda model, X: model.decision_function(X),
    "predict": lambda model, X: model.predict(X),
    "predict_top_k": lambda model, X: model.predict_top_k(X, 2),
    "score": lambda model, X: model.score(X, np.ones((X.shape[0], L), dtype=int)),
}


@pytest.fixture(params=PREDICTIONS)
def call(request):
    return PREDICTIONS[request.param]


def test_prediction_needs_a_fit(call, data):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call(LRML(), data[0])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("columns", [D - 1, D + 1])
def test_prediction_wants_as_many_features_as_the_fit(call, model, columns):
    X = np.zeros((3, columns))
    with pytest.raises(ValueError, match=f"X has {columns} features, but LRML is expecting {D} features"):
        call(model, X)


def test_prediction_wants_the_features_in_the_same_order(call, model, data):
    X = pd.DataFrame(data[0], columns=list("abcdef"))
    with pytest.raises(ValueError, match="same order as they were in fit"):
        call(model, X[list("bacdef")])


def test_prediction_wants_the_features_of_the_fit(call, model, data):
    X = pd.DataFrame(data[0], columns=list("abcdez"))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- z.*yet now missing:\n- f"):
        call(model, X)


def test_prediction_rejects_repeated_names(call, model, data):
    X = pd.DataFrame(data[0], columns=list("abcdee"))
    with pytest.raises(ValueError, match="columns of X must have different names") as caught:
        call(model, X)
    assert_message(caught.value, ("'e'", "2 times", "Rename"))


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_prediction_rejects_what_is_not_finite(call, data, bad, form):
    X, Y = data
    with pytest.raises(ValueError, match="Input X contains"):
        call(LRML().fit(X, Y), form(put(bad)(X)))


def test_failed_prediction_changes_nothing(call, model, data, fitted):
    state = fitted(model)
    with pytest.raises(ValueError, match="feature names should match"):
        call(model, pd.DataFrame(data[0][:, :3], columns=list("abc")))
    assert fitted(model) == state


@pytest.mark.parametrize("k", [0, -1, L + 1, 2.5, 2.0, "3", True], ids=repr)
def test_k_is_a_count_of_labels(model, data, k):
    with pytest.raises((TypeError, ValueError)) as caught:
        model.predict_top_k(pd.DataFrame(data[0], columns=list("abcdef")), k)
    assert_message(caught.value, (f"k is {k!r}", "labels", f"1 to {L}"))


def test_threshold_is_checked_again_in_predict(data):
    X, Y = data
    model = LRML().fit(X, Y).set_params(threshold=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"one per label \(4\), got \[0.5, 0.5\]"):
        model.predict(X)


@pytest.mark.parametrize("rows", [0, N - 1])
def test_score_wants_a_row_of_labels_for_every_row(data, rows):
    X, Y = data
    with pytest.raises(ValueError, match="have the shapes"):
        LRML().fit(X, Y).score(X, Y[:rows])


def test_score_wants_the_labels_of_the_fit(data):
    X, Y = data
    with pytest.raises(ValueError, match="label"):
        LRML().fit(X, Y).score(X, Y[:, :2])
    with pytest.raises(ValueError, match="only 0 and 1"):
        LRML().fit(X, Y).score(X, 2 * Y)


def test_polars_names_out_of_order(data):
    X = pl.DataFrame(data[0], schema=list("abcdef"))
    model = LRML().fit(X, data[1])
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(X.select(list("fabcde")))


@pytest.mark.parametrize("name", ["fit_intercept", "warm_start"])
def test_flags_are_bools(data, name):
    with pytest.raises(TypeError, match=f"{name} must be True or False, got 'no'"):
        LRML(**{name: "no"}).fit(*data)


def test_callback_is_callable(data):
    with pytest.raises(TypeError, match="callback must be callable or None, got 3"):
        LRML(callback=3).fit(*data)


def test_score_minds_the_names_of_the_labels(data):
    X, Y = data
    tags = pd.DataFrame(np.asarray(Y), columns=[f"tag {j}" for j in range(L)])
    model = LRML().fit(X, tags)
    assert model.score(X, tags) == model.score(X, Y)
    with pytest.raises(ValueError, match=r"ordered as in fit, got 'tag 3' where 'tag 0' was\. Reorder"):
        model.score(X, tags[tags.columns[::-1]])
