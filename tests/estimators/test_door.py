"""Checks at the door: every estimator × every parameter × bad values, before any data is read."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
import pytest

import lrml.estimators as public
from lrml.core.moments import Statistics
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators import lrml_path, ml_fro_path
from lrml.solvers import Alternating

# Values that are wrong whatever the data. A parameter that is not in this table fails the tests.
BAD = {
    "abandon": ["no", None, 1],
    "alpha": [-1.0, "a", None, np.nan, True, 10**400],
    "alpha_ratio": [0.0, 1.0, "a", -1],
    "alphas": [[], [1.0, -1.0], "strong", [np.nan]],
    "callback": [3, "print"],
    "coef0": ["a", None, np.nan, np.inf, True],
    "cv": [1, 0, 1.0, -0.5, "five", True, np.nan, np.array(3)],
    "device": ["gpu9", "cuda:99", "", 3, True],
    "degree": [-1, "a", None, np.nan, True],
    "fit_intercept": ["no", None, 1],
    "gammas": [[], 0, [1.0, -1.0], ["scale"], [np.nan], np.inf, True],
    "gamma": [0, 0.0, -1.0, "scale", np.nan, np.inf, True],
    "kernel": ["gauss", None, 3, ["rbf"]],
    "loss": ["hinge", None, 3],
    "max_iter": [0, -1, 2.5, "many", True],
    "n_alphas": [0, 2.5, "a", True],
    "random_state": ["x", -1, 0.5],
    "rank": [0, -1, 0.0, 1.5, "all", None, True],
    "ranks": [[], [0], [1.5], ["a"], "all"],
    "ridge": [-1.0, "a", None, np.inf],
    "ridges": [[], -1.0, [np.nan], "a"],
    "rule": ["least", "smaller", None, 3, ["smallest"]],
    "scoring": [
        "exact",
        3,
        [],
        ["micro_f1", "micro_f1"],
        "precision_at_0",
        "neg_log_loss",
        "top-1",
        "precision_at_01",
        "",
    ],
    "solver": ["typo", None, 3, Alternating],
    "targets": ["multi", None, 0],
    "theta": [-1, 1.5, -0.5, "many", None, True],
    "thetas": [[], [-1], [1.5], ["a"], "half"],
    "threshold": ["half", "0.5", np.nan, [[0.5]], [], {}, 10**400],
    "threshold_per_label": ["no", 1, None],
    "threshold_scoring": ["f1", None],
    "tol": [-1.0, "a", np.nan, True],
    "verbose": ["a", -1, 0.5, None],
    "warm_start": ["no", 1, None],
}
# Values that are wrong for 40 rows, 6 features and 4 labels.
BAD_FOR_THE_SHAPE = {
    "cv": [41, [([0], [40])], [], [1]],
    "rank": [5],
    "ranks": [[1, 5]],
    "scoring": ["precision_at_5", ["micro_f1", "precision_at_9"]],
    "theta": [5],
    "thetas": [[0, 5]],
    "threshold": [[0.5, 0.5], [0.5] * 5],
}
WITH_LOSS = ["LRML", "MLTrace", "MLFro", "LEML", "LRMLCV", "MLTraceCV", "MLFroCV", "LEMLCV"]
WITH_KERNEL = ["LRML", "MLTrace", "MLFro", "CPLST", "PLST", "LRMLCV", "MLTraceCV", "MLFroCV", "CPLSTCV"]
SEARCHES = ["LRMLCV", "MLTraceCV", "MLFroCV", "CPLSTCV", "LEMLCV"]
# Choices that do not go together.
BAD_PAIRS = [
    *((name, {"kernel": "rbf", "loss": "logistic"}, "kernel='rbf' needs loss='squared', got loss='logistic'")
      for name in WITH_KERNEL if name in WITH_LOSS),
    ("LRML", {"loss": "logistic", "solver": "pg"}, "solver must be one of 'auto', 'apg'"),
    ("MLTrace", {"loss": "squared_hinge", "solver": Alternating()}, "solver must be one of 'auto', 'apg'"),
    *((name, {"loss": "logistic", "targets": "real"}, "needs loss='squared'") for name in WITH_LOSS),
    *((name, {"targets": "real", "scoring": metric}, "must be made for real values")
      for metric in ("average_precision", "precision_at_1") for name in SEARCHES),
    *((name, {"targets": "real", "threshold": "auto"}, "threshold='auto' needs targets='binary'")
      for name in (*SEARCHES, "LRML", "MLTrace", "MLFro", "LEML", "CPLST", "PLST")),
    ("MLFroCV", {"targets": "real", "scoring": "f1_micro"}, "scoring must suit targets='real'"),
    ("MLFroCV", {"scoring": "f1"}, "scoring must suit targets='binary'"),
]  # fmt: skip

ESTIMATORS = {
    name: kind
    for name in public.__all__
    if hasattr(kind := getattr(public, name), "get_params") and name != "LowRankModel"
}
FUNCTIONS = [lrml_path, public.alpha_max, ml_fro_path]
DATA = {"X", "Y", "statistics", "sample_weight"}


def cases(table: dict[str, list[object]]) -> Iterator[object]:
    for name, kind in ESTIMATORS.items():
        for parameter, default in kind().get_params().items():
            for value in table.get(parameter, ()):
                if value is None and default is None:
                    continue
                yield pytest.param(kind, parameter, value, id=f"{name}-{parameter}-{value!r}")


@pytest.fixture
def never_summed(monkeypatch):
    """Whoever sums, decomposes or prepares rows fails the test."""

    def refuse(*args, **kwargs):
        pytest.fail("the data was summed before the parameters were checked")

    monkeypatch.setattr(Statistics, "from_arrays", refuse)
    monkeypatch.setattr(SpectralProblem, "from_moments", refuse)
    monkeypatch.setattr(SpectralProblem, "from_coordinates", refuse)
    monkeypatch.setattr(Rows, "sum", refuse)


class Unread:
    """Data that nobody may look at."""

    def __getattr__(self, name):
        pytest.fail(f"the data was asked for its {name} before the parameters were checked")

    def __array__(self, *args, **kwargs):
        pytest.fail("the data was read before the parameters were checked")


def test_every_parameter_has_bad_values():
    assert len(ESTIMATORS) == 11
    for kind in ESTIMATORS.values():
        assert set(kind().get_params()) <= set(BAD)
    for function in FUNCTIONS:
        assert set(inspect.signature(function).parameters) - DATA <= set(BAD)


def assert_says_what_is_wrong(error, parameter, value):
    """The message names the parameter (one of several as "theta", say), the value and a remedy."""
    message = str(error)
    assert parameter in message or parameter.removesuffix("s") in message
    received = value[-1] if isinstance(value, list) and value else value
    assert f"{received!r}"[:10] in message or f"{received}"[:10] in message or "got none" in message
    assert message.count(".") >= 1
    assert message.rstrip().endswith(".")


@pytest.mark.parametrize(("kind", "parameter", "value"), list(cases(BAD)))
def test_bad_values_are_refused_before_the_data_is_read(never_summed, kind, parameter, value):
    with pytest.raises((TypeError, ValueError)) as caught:
        kind(**{parameter: value}).fit(Unread(), Unread())
    assert_says_what_is_wrong(caught.value, parameter, value)


@pytest.mark.parametrize(("kind", "parameter", "value"), list(cases(BAD_FOR_THE_SHAPE)))
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_what_depends_on_the_shape_is_refused_before_the_data_is_summed(
    never_summed, make_problem, kind, parameter, value, loss
):
    params = {parameter: value} | ({"loss": loss} if "loss" in kind().get_params() else {})
    with pytest.raises((TypeError, ValueError)):
        kind(**params).fit(*make_problem(40, 6, 4))


@pytest.mark.parametrize(("name", "params", "message"), BAD_PAIRS)
def test_choices_that_do_not_go_together(never_summed, name, params, message):
    with pytest.raises(ValueError, match=message):
        ESTIMATORS[name](**params).fit(Unread(), Unread())


@pytest.mark.parametrize("name", ["LRML", "MLTrace"])
def test_solvers_for_unknown_labels(never_summed, make_problem, name):
    X, Y = make_problem(40, 6, 4)
    with pytest.raises(ValueError, match="solver must be one of 'auto', 'apg'"):
        ESTIMATORS[name](solver="pg").fit(X, Y, observed=np.arange(160).reshape(40, 4) > 3)


def function_cases() -> Iterator[object]:
    for function in FUNCTIONS:
        for parameter in inspect.signature(function).parameters:
            for value in BAD.get(parameter, ()):
                yield pytest.param(
                    function, parameter, value, id=f"{function.__name__}-{parameter}-{value!r}"
                )


@pytest.mark.parametrize(("function", "parameter", "value"), list(function_cases()))
def test_paths_check_their_parameters_first(never_summed, function, parameter, value):
    if function is ml_fro_path and value == []:
        pytest.skip("a path of no models is empty")
    names = inspect.signature(function).parameters
    given = {name: Unread() for name in ("X", "Y", "statistics") if name in names}
    if function is ml_fro_path and parameter != "alphas":
        given["alphas"] = [1.0]
    with pytest.raises((TypeError, ValueError)) as caught:
        function(**given, **{parameter: value})
    assert_says_what_is_wrong(caught.value, parameter, value)


@pytest.mark.parametrize("function", [lrml_path, public.alpha_max])
def test_paths_check_theta_before_they_sum(never_summed, make_problem, function):
    with pytest.raises(ValueError, match=r"theta must be in \[0, 4\]"):
        function(*make_problem(40, 6, 4), 5)
