"""Checks at the door: what is wrong is named, with its place and value, before any data is summed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import lrml.estimators as public
from lrml import LRML
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators import lrml_path
from lrml.solvers import Alternating

N, D, L = 40, 6, 4

# Values that are wrong whatever the data. A parameter that is not in this table fails the tests.
BAD = {
    "alpha": [-1.0, "a", None, np.nan, True, 10**400],
    "alpha_ratio": [0.0, 1.0, "a", -1],
    "alphas": [[], [1.0, -1.0], "strong", [np.nan]],
    "calibrate": ["platt", 1, True, ["sigmoid"]],
    "callback": [3, "print"],
    "coef0": ["a", None, np.nan, np.inf, True],
    "cv": [1, 0, 1.0, -0.5, "five", True, np.nan, np.array(3)],
    "estimator": ["LRML", 3, Ridge()],
    "device": ["gpu9", "cuda:99", "mps:7", "", 3, True],
    "degree": [-1, "a", None, np.nan, True],
    "fit_intercept": ["no", None, 1],
    "gammas": [[], 0, [1.0, -1.0], ["scale"], [np.nan], np.inf, True],
    "gamma": [0, 0.0, -1.0, "scale", np.nan, np.inf, True],
    "kernel": ["gauss", None, 3, ["rbf"]],
    "loss": ["hinge", None, 3],
    "max_rank": [0, -1, 0.0, 1.5, "all", True],
    "penalty": [3, "MCP", TailSum],
    "prune": [0, -1, 2.5, "all", True],
    "max_iter": [0, -1, 2.5, "many", True],
    "n_alphas": [0, 2.5, "a", True],
    "random_state": ["x", -1, 0.5],
    "rank": [0, -1, 0.0, 1.5, "all", None, True],
    "ranks": [[], [0], [1.5], ["a"], "all"],
    "ridge": [-1.0, "a", None, np.inf, 1e308],
    "ridges": [[], -1.0, [np.nan], "a", 1e308],
    "rule": ["least", "smaller", None, 3, ["smallest"]],
    "scoring": [
        *("exact", 3, [], ["f1_micro", "f1_micro"], np.array([])),
        *("precision_at_0", "top-1", "precision_at_01", ""),
    ],
    "solver": ["typo", None, 3, Alternating],
    "space": ["scores", 3, True],
    "target_weights": ["a", 1.0, [1.0, 0.0], [[1.0]], [np.inf]],
    "theta": [-1, 1.5, -0.5, np.nan, "many", None, True],
    "thetas": [[], [-1], [1.5], ["a"], "half"],
    "threshold": [True, "half", "0.5", [b"1"], ["1"], 1j, np.nan, [[0.5]], [], {}, 10**400],
    "tol": [-1.0, "a", np.nan, True],
    "verbose": ["a", -1, 0.5, None],
    "warm_start": ["no", 1, None],
}
# Values that are wrong for 40 rows, 6 features and 4 labels.
BAD_FOR_THE_SHAPE = {
    "cv": [N + 1, [([0], [N])], [], [1]],
    "max_rank": [5],
    "rank": [5],
    "ranks": [[1, 5]],
    "scoring": ["precision_at_5", ["f1_micro", "precision_at_9"]],
    "target_weights": [[1.0] * 5],
    "theta": [5],
    "thetas": [[0, 5]],
    "threshold": [[0.5, 0.5], [0.5] * 5],
}
ESTIMATORS = {
    name: kind
    for name in public.__all__
    if hasattr(kind := getattr(public, name), "get_params") and name != "LowRankModel"
}
EVERY = pytest.mark.parametrize("kind", ESTIMATORS.values(), ids=ESTIMATORS)


@pytest.fixture
def never_summed(monkeypatch):
    """Whoever sums or decomposes rows fails the test."""

    def refuse(*args, **kwargs):
        pytest.fail("the data was summed before all was checked")

    for place, name in (
        (Statistics, "from_arrays"),
        (SpectralProblem, "from_moments"),
        (SpectralProblem, "from_coordinates"),
        (Rows, "sum"),
    ):
        monkeypatch.setattr(place, name, refuse)


class Unread:
    """Data that nobody may look at."""

    def __getattr__(self, name):
        pytest.fail(f"the data was asked for its {name} before the parameters were checked")

    def __array__(self, *args, **kwargs):
        pytest.fail("the data was read before the parameters were checked")


def assert_names(error, parameter, value):
    """The message has the parameter (one of several as "theta", say) and the value."""
    message = str(error)
    assert parameter in message or parameter.removesuffix("s") in message
    received = value[-1] if isinstance(value, list) and value else value
    assert f"{received!r}"[:10] in message or f"{received}"[:10] in message or "none" in message
    assert message.endswith(".")
    assert len(message) < 400


def wrong_values(kind, table):
    """Bad values of the parameters of an estimator, but for None where that is the default."""
    for parameter, default in kind().get_params().items():
        for value in table.get(parameter, ()):
            if not (value is None and default is None):
                yield parameter, value


# Parameters


def test_every_parameter_has_bad_values():
    assert len(ESTIMATORS) == 12
    for kind in ESTIMATORS.values():
        assert set(kind().get_params()) <= set(BAD)
    assert set(inspect.signature(lrml_path).parameters) - {"X", "Y", "sample_weight"} <= set(BAD)


@EVERY
def test_bad_values_are_refused_before_the_data_is_read(never_summed, kind):
    for parameter, value in wrong_values(kind, BAD):
        with pytest.raises((TypeError, ValueError)) as caught:
            kind(**{parameter: value}).fit(Unread(), Unread())
        assert_names(caught.value, parameter, value)


@EVERY
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_what_depends_on_the_shape_is_refused_before_the_data_is_summed(
    never_summed, make_problem, kind, loss
):
    X, Y = make_problem(N, D, L)
    for parameter, value in wrong_values(kind, BAD_FOR_THE_SHAPE):
        params = {parameter: value} | ({"loss": loss} if "loss" in kind().get_params() else {})
        with pytest.raises((TypeError, ValueError), match=r"\d|cv"):
            kind(**params).fit(X, Y)


@EVERY
def test_choices_that_do_not_go_together(never_summed, kind):
    has, no_labels = kind().get_params(), ("label_ranking_average_precision", "precision_at_1", "f1_micro")
    pairs = [
        ({"kernel": "rbf", "loss": "logistic"}, "logistic"),
        ({"loss": "logistic", "solver": "pg"}, "solver"),
        ({"loss": "squared_hinge", "solver": Alternating()}, "solver"),
        *(({"kernel": "rbf", "solver": road}, "solver") for road in ("primal", "dual", "compressed")),
        *(({"scoring": name}, name) for name in no_labels if kind._targets == "real"),
        ({"scoring": "f1"}, "scoring"),
    ]
    for params, named in pairs:
        if params.keys() <= has.keys():
            with pytest.raises(ValueError, match=named):
                kind(**params).fit(Unread(), Unread())


@pytest.mark.parametrize("name", ["LRML", "MLTrace"])
def test_solvers_for_unknown_labels(never_summed, make_problem, name):
    X, Y = make_problem(N, D, L)
    with pytest.raises(ValueError, match=r"solver.* 'pg'"):
        ESTIMATORS[name](solver="pg").fit(X, Y, observed=np.arange(N * L).reshape(N, L) > 3)


def test_paths_check_their_parameters_first(never_summed, make_problem):
    for parameter in inspect.signature(lrml_path).parameters:
        for value in BAD.get(parameter, ()):
            with pytest.raises((TypeError, ValueError)) as caught:
                lrml_path(Unread(), Unread(), **{parameter: value})
            assert_names(caught.value, parameter, value)
    with pytest.raises(ValueError, match=r"theta.*5"):
        lrml_path(*make_problem(N, D, L), 5)


# Data


@dataclass(frozen=True)
class Bad:
    """Data that must be refused: where, and what the message must show of it."""

    says: tuple[str, ...]
    X: Any = None
    Y: Any = None
    weights: Any = None
    params: dict[str, Any] = field(default_factory=dict)

    def arguments(self, X, Y):
        return (X if self.X is None else self.X(X)), (Y if self.Y is None else self.Y(Y)), self.weights


def put(value, dtype=float, form=np.asarray):
    """Return a function that copies a matrix and sets one entry."""

    def change(matrix):
        matrix = matrix.astype(dtype)
        matrix[2, 1] = value
        return form(matrix)

    return change


def repeated_entry(Y):
    """A CSR matrix that stores two ones for the same cell, whose value is 2."""
    rows, columns = np.nonzero(Y)
    counts = np.bincount(np.r_[rows, rows[0]], minlength=len(Y))
    return sp.csr_array(
        (np.ones(len(rows) + 1), np.r_[columns[0], columns], np.r_[0, np.cumsum(counts)]), shape=Y.shape
    )


TWICE = ["a", "b", "c", "b"]
TEXTS = (list, np.array, lambda X: np.array(X, dtype=object), pd.DataFrame, pl.Series)
BAD_DATA = {
    "NaN": Bad(("X", "NaN"), X=put(np.nan)),
    "infinity": Bad(("X", "infinity"), X=put(-np.inf)),
    "sparse NaN": Bad(("X", "NaN"), X=put(np.nan, form=sp.csr_array)),
    "masked X": Bad(("X", "masked"), X=lambda X: np.ma.masked_array(X, X > 1)),
    "NaN in a frame": Bad(("X", "NaN"), X=put(np.nan, form=pd.DataFrame)),
    "complex X": Bad(("Complex",), X=lambda X: X + 1j),
    **{
        f"texts {i}": Bad(("X", "'a red fox'", "TextTagger"), X=lambda X, m=make: m(["a red fox"] * len(X)))
        for i, make in enumerate(TEXTS)
    },
    "lazy X": Bad(("X", "LazyFrame", "collect()"), X=lambda X: pl.DataFrame(X).lazy()),
    "1-D X": Bad(("2D", "1D"), X=lambda X: X[:, 0]),
    "3-D X": Bad(("dim 3",), X=lambda X: X[:, :, None]),
    "no rows": Bad(("0 sample(s)",), X=lambda X: X[:0], Y=lambda Y: Y[:0]),
    "no features": Bad(("0 feature(s)",), X=lambda X: X[:, :0]),
    "fewer rows than Y": Bad(("X", "Y", f"{N - 1}", f"{N}"), X=lambda X: X[:-1]),
    "repeated features": Bad(("X", "'b'", "2 times"), X=lambda X: pd.DataFrame(X[:, :4], columns=TWICE)),
    "all unknown": Bad(("label",), Y=lambda Y: np.full(Y.shape, np.nan)),
    "infinite labels": Bad(("Y", "inf"), Y=put(np.inf)),
    "2": Bad(("Y", "0 and 1", "2"), Y=put(2, int)),
    "-1": Bad(("Y", "0 and 1", "-1"), Y=put(-1, int)),
    "a half": Bad(("Y", "0 and 1", "0.5"), Y=put(0.5)),
    "sparse 2": Bad(("Y", "0 and 1", "2"), Y=put(2, form=sp.csc_array)),
    "the same sparse entry twice": Bad(("Y", "0 and 1", "2"), Y=repeated_entry),
    "None": Bad(("None",), Y=lambda Y: None),
    "three classes": Bad(("3", "[0, 1, 2]"), Y=lambda Y: np.arange(len(Y)) % 3),
    "one class": Bad(("1", "['a']"), Y=lambda Y: ["a"] * len(Y)),
    "many classes": Bad((f"{N}", "'n0', 'n1'"), Y=lambda Y: [f"n{i}" for i in range(len(Y))]),
    "no order": Bad(("str", "int"), Y=lambda Y: np.array([1, "a"] * (len(Y) // 2), dtype=object)),
    "texts and None": Bad(("str", "None"), Y=lambda Y: np.array(["a", None] * (len(Y) // 2), dtype=object)),
    "lazy Y": Bad(("Y", "LazyFrame", "collect()"), Y=lambda Y: pl.DataFrame(np.asarray(Y)).lazy()),
    "3-D Y": Bad((f"({N}, {L}, 1)",), Y=lambda Y: Y[:, :, None]),
    "sparse 1-D": Bad((f"({N},)",), Y=lambda Y: sp.coo_array(Y[:, 0])),
    "lists of labels": Bad(("MultiLabelBinarizer",), Y=lambda Y: [np.flatnonzero(y).tolist() for y in Y]),
    "strings": Bad(("Y", "'yes'"), Y=lambda Y: np.where(Y, "yes", "no")),
    "complex Y": Bad(("Complex",), Y=lambda Y: Y + 0j),
    "complex sparse Y": Bad(("Complex",), Y=lambda Y: sp.csr_array(Y + 0j)),
    "no labels": Bad(("Y", "column"), Y=lambda Y: Y[:, :0]),
    "repeated labels": Bad(("Y", "'b'", "2 times"), Y=lambda Y: pd.DataFrame(Y, columns=TWICE)),
    **{
        f"weights {shape}": Bad(("sample_weight", f"({N},)", shown), weights=weights)
        for shape, shown, weights in (
            ("too short", f"({N - 1},)", np.ones(N - 1)),
            ("2-D", f"({N}, 1)", np.ones((N, 1))),
            ("a number", "()", 2.0),
        )
    },
    **{
        f"weight {value}": Bad(("sample_weight", str(value)), weights=np.r_[value, np.ones(N - 1)])
        for value in (-1.0, np.nan, np.inf)
    },
    "tiny weights": Bad(("sample_weight", "1e-101"), weights=np.full(N, 1e-101)),
    "no weight": Bad(("sample_weight", "0.0"), weights=np.zeros(N)),
    "complex weights": Bad(("sample_weight", "1.+1.j"), weights=np.full(N, 1 + 1j)),
    "masked weights": Bad(
        ("sample_weight", "masked"), weights=np.ma.masked_array(np.ones(N), np.arange(N) < 1)
    ),
    "weights of text": Bad(("sample_weight", "'heavy'"), weights=["heavy"] * N),
}


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(N, D, L, seed=11)


@pytest.fixture(scope="module")
def named(data):
    """A fitted model that knows the names of its columns."""
    X, Y = data
    return LRML(2, 0.5).fit(pd.DataFrame(X, columns=list("abcdef")), pd.DataFrame(Y, columns=list("rgbk")))


def assert_shows(error, fragments):
    missing = [fragment for fragment in fragments if fragment not in str(error)]
    assert not missing, f"{missing} not in: {error}"
    assert "np.str_(" not in str(error), error


@pytest.mark.parametrize("case", BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_is_named_and_leaves_the_estimator_as_it_was(case, data, named, fitted):
    X, Y, weights = case.arguments(*data)
    fresh, model = LRML(2, 0.5, **case.params), LRML(2, 0.5).fit(*data)
    state, scores = fitted(model), model.decision_function(data[0])
    for estimator in (fresh, model.set_params(**case.params)):
        with pytest.raises((ValueError, TypeError)) as caught:
            estimator.fit(X, Y, sample_weight=weights)
        assert_shows(caught.value, case.says)
    assert fitted(fresh) == {}
    assert fitted(model) == state
    again = model.set_params(**LRML(2, 0.5).get_params()).decision_function(data[0])
    np.testing.assert_array_equal(again, scores)


@EVERY
def test_every_estimator_passes_the_door(kind, data, fitted):
    X, Y = data
    fresh = kind()
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    for bad, weights in (((put(np.nan)(X), Y), None), ((X, put(np.inf)(Y)), None), ((X, Y), np.zeros(N))):
        with pytest.raises(ValueError, match=r"X.*NaN|Y holds inf|sample_weight"):
            fresh.fit(*bad, sample_weight=weights)
    assert fitted(fresh) == {}


def test_a_failing_callback_and_a_wrong_warm_start_leave_the_estimator_as_it_was(data, fitted):
    def fail(info):
        raise RuntimeError("no more")

    X, Y = data
    model, fresh = LRML(2, 0.5).fit(X, Y), LRML(callback=fail)
    state = fitted(model)
    for estimator in (fresh, clone(model).set_params(callback=fail)):
        with pytest.raises(RuntimeError, match="no more"):
            estimator.fit(X, Y)
        assert fitted(estimator) == {}
    for A, B in ((X[:, :-1], Y), (X, Y[:, :-1])):
        with pytest.raises(ValueError, match="warm_start") as caught:
            model.set_params(warm_start=True).fit(A, B)
        assert_shows(caught.value, (f"{D} features and {L}", f"{A.shape[1]} and {B.shape[1]}"))
    assert fitted(model) == state


def test_names_that_only_look_alike_are_different(data):
    columns = [1, "1", 2, "2"]
    model = LRML().fit(data[0], pd.DataFrame(data[1], columns=pd.Index(columns, dtype=object)))
    assert model.classes_.tolist() == columns


# Prediction

FORMS = (np.asarray, sp.csr_array)
PREDICTIONS = {
    "decision_function": lambda model, X: model.decision_function(X),
    "predict": lambda model, X: model.predict(X),
    "predict_top_k": lambda model, X: model.predict_top_k(X, 2),
    "score": lambda model, X: model.score(X, np.ones((X.shape[0], L), dtype=int)),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("call", PREDICTIONS.values(), ids=PREDICTIONS)
def test_prediction_wants_the_features_of_the_fit(call, named, data, fitted):
    X, state = pd.DataFrame(data[0], columns=list("abcdef")), fitted(named)
    with pytest.raises(NotFittedError):
        call(LRML(), data[0])
    refusals = [
        (np.zeros((3, D - 1)), ("5 features", "6 features")),
        (np.zeros((3, D + 1)), ("7 features", "6 features")),
        (X[list("bacdef")], ("order",)),
        (X.set_axis(list("abcdez"), axis=1), ("- z", "- f")),
        (X.set_axis(list("abcdee"), axis=1), ("X", "'e'", "2 times")),
        (pl.DataFrame(data[0], schema=list("fabcde")), ("order",)),
        *((put(bad, form=form)(data[0]), ("X",)) for bad in (np.nan, np.inf) for form in FORMS),
    ]
    for bad, says in refusals:
        with pytest.raises(ValueError, match=r".") as caught:
            call(named, bad)
        assert_shows(caught.value, says)
    assert fitted(named) == state


def test_prediction_and_scores_check_what_they_are_given(data, named):
    X, Y = data
    model, frame = LRML().fit(X, Y), pd.DataFrame(X, columns=list("abcdef"))
    for k in (0, -1, L + 1, 2.5, 2.0, "3", True):
        with pytest.raises((TypeError, ValueError), match="k") as caught:
            model.predict_top_k(X, k)
        assert_shows(caught.value, (f"{k!r}", f"{L}"))
    for labels in (Y[:0], Y[:-1], Y[:, :2], 2 * Y):
        with pytest.raises(ValueError, match=r"label|shape|0 and 1|rows"):
            model.score(X, labels)
    with pytest.raises(ValueError, match="threshold"):
        model.set_params(threshold=[0.5, 0.5]).predict(X)
    tags = pd.DataFrame(Y, columns=list("rgbk"))
    assert named.score(frame, tags) == named.score(frame, Y)
    with pytest.raises(ValueError, match=r"'k'.*'r'"):
        named.score(frame, tags[tags.columns[::-1]])
