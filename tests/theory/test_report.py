"""The report of a fitted model, and all bounds on real data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from lrml import CPLST, LEML, LRML, MLFro, MLTrace
from lrml.theory import (
    Spectrum,
    bound_report,
    global_bound,
    global_complexity,
    local_bound,
    local_complexity,
    local_dual_bound,
    printed_local_bound,
    printed_trace_bound,
)

MODELS = [LRML(2, 3.0), MLTrace(3.0), MLFro(1.0), CPLST(2), LEML(2, 1.0)]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * np.exp(-np.arange(6) / 3)
    scores = X @ rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    return X, (scores > 0).astype(float)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_terms_add_up_and_proved_bounds_cover_what_was_measured(model, problem):
    X, Y = problem
    model.fit(X, Y)
    report = bound_report(model, X, n_draws=30, random_state=0)
    W = np.asarray(model.coef_).T
    sigma = np.linalg.svd(W, compute_uv=False)
    facts = report.facts
    assert facts["r"] == pytest.approx(np.sum((X @ W) ** 2) / 60)
    assert facts["trace_norm"] == pytest.approx(sigma.sum())
    assert facts["frobenius_norm"] == pytest.approx(np.linalg.norm(W))
    assert facts["tail_sum"] == pytest.approx(sigma[int(facts["theta"]) :].sum(), abs=1e-9)
    assert len(report.rows) == 12
    for row in report.rows:
        assert sum(row["terms"].values()) == pytest.approx(row["value"])
        if row["holds_here"] and row["lower"] is not None:
            assert row["value"] >= row["lower"] - 5 * row["standard_error"]
        assert row["bound"] in str(report)


def test_values_are_those_of_the_functions(problem):
    X, Y = problem
    model = LRML(2, 3.0).fit(X, Y)
    report = bound_report(model, X, random_state=0)
    rows = {row["bound"].split(" at ")[0]: row for row in report.rows}
    s, size, sigma = Spectrum.of(X).eigenvalues, report.facts["frobenius_norm"], model.singular_values_
    r = report.facts["r"]
    assert rows["global, trace ball"]["value"] == global_bound(s, 60, 5, radius=sigma.sum()).value
    assert rows["local, dual"]["value"] == pytest.approx(local_dual_bound(s, 60, 5, r, radius=size).value)
    tail = float(sigma[2:].sum())
    with_tail = local_bound(s, 60, 5, r, radius=size, theta=2, tail=tail).value
    assert rows["local with tail, split"]["value"] == pytest.approx(with_tail)
    head = float(np.linalg.norm(sigma**2)) / size * math.sqrt(2 / 60)
    assert rows["printed, Theorem 3"]["terms"]["head"] == pytest.approx(head)
    assert rows["printed, Theorem 3"]["terms"]["tail of W"] == pytest.approx(tail / math.sqrt(60))
    again = bound_report(model, X, theta=0)
    assert again.facts["tail_sum"] == pytest.approx(sigma.sum())


def test_a_model_with_coefficients_only_will_do(problem):
    X, Y = problem
    model = LRML(2, 3.0).fit(X, Y)

    class Plain:
        coef_ = model.coef_
        theta_ = 2

    ours, plain = bound_report(model, X), bound_report(Plain(), X)
    assert [row["value"] for row in plain.rows] == pytest.approx([row["value"] for row in ours.rows])


def test_a_seed_repeats_a_report_and_none_does_not(problem):
    X, Y = problem
    model = LRML(2, 3.0).fit(X, Y)
    assert str(bound_report(model, X, random_state=3)) == str(bound_report(model, X, random_state=3))
    assert str(bound_report(model, X)) != str(bound_report(model, X))


def test_errors_name_rule_value_and_remedy(problem):
    X, Y = problem
    with pytest.raises(ValueError, match="estimator must be fitted"):
        bound_report(LRML(), X)
    with pytest.raises(ValueError, match="X must have the 6 features of the model, got 5"):
        bound_report(LRML(2, 3.0).fit(X, Y), X[:, :5])
    with pytest.raises(ValueError, match="the model must not be zero"):
        bound_report(MLTrace(1e9).fit(X, Y), X)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["yeast", "corel5k", "bibtex", "delicious"])
def test_bounds_on_real_data_are_never_below_monte_carlo(name, mulan):
    X, Y = mulan(name).train
    X, n_labels = X[:600], Y.shape[1]
    spectrum = Spectrum.of(X)
    s, n = spectrum.eigenvalues, spectrum.n_examples
    for ball in ("trace", "frobenius"):
        found = global_complexity(X, n_labels, ball=ball, n_draws=4, random_state=0)
        assert global_bound(s, n, n_labels, ball=ball).value >= found.mean - 5 * found.standard_error
    r = 0.1 * s[0]
    found = local_complexity(spectrum, n_labels, r, n_draws=4, random_state=0)
    dual, split = local_dual_bound(s, n, n_labels, r), local_bound(s, n, n_labels, r)
    assert found.upper.mean - 5 * found.upper.standard_error <= dual.value <= split.value * (1 + 1e-9)


@pytest.mark.real_data
def test_printed_bounds_fail_on_yeast_with_rows_of_norm_one(mulan):
    X, Y = mulan("yeast").train
    X = normalize(X)
    n, n_labels = Y.shape
    trace = global_complexity(X, n_labels, n_draws=10, random_state=0)
    assert trace.mean - 3 * trace.standard_error > printed_trace_bound(n).value
    # Members √r uvᵀ of rank one alone, which every reading of Theorem 3 admits, exceed it.
    reached = math.sqrt(0.1) * (trace.mean - 3 * trace.standard_error)
    assert reached > printed_local_bound(np.zeros(5), n, 0.1, 5).value
