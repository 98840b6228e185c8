"""The report of a fitted model, and all bounds on real data."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from lrml import CPLST, LEML, LRML, MLFro, MLTrace
from lrml.theory import Spectrum, bound_report, local_bound, local_dual_bound

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
    report = bound_report(model.fit(X, Y), X, n_draws=30, n_local_draws=2, random_state=0)
    W = np.asarray(model.coef_).T
    sigma = np.linalg.svd(W, compute_uv=False)
    facts = report.facts
    assert facts["r"] == pytest.approx(np.sum((X @ W) ** 2) / 60)
    norms = [facts[f"{ball}_norm"] for ball in ("trace", "frobenius", "operator")]
    assert norms == pytest.approx([sigma.sum(), np.linalg.norm(W), sigma[0]])
    assert facts["tail_sum"] == pytest.approx(sigma[int(facts["theta"]) :].sum(), abs=1e-9)
    assert len(report.rows) == 13
    for row, line in zip(report.rows, str(report).splitlines()[3:], strict=True):
        assert sum(row["terms"].values()) == pytest.approx(row["value"])
        if row["holds_here"] and row["lower"] is not None:
            assert row["value"] >= row["lower"] - 5 * row["standard_error"]
            assert line.endswith("holds")
        assert line.startswith(row["bound"])


def rows_of(report):
    return {row["bound"].split(" at ")[0]: row for row in report.rows}


def test_values_are_those_of_the_formulas(problem):
    X, Y = problem
    model = LRML(2, 3.0).fit(X, Y)
    report = bound_report(model, X, n_local_draws=2, random_state=0)
    rows, sigma = rows_of(report), model.singular_values_
    s, size, r, tail = Spectrum.of(X).eigenvalues, np.linalg.norm(sigma), report.facts["r"], sigma[2:].sum()
    assert rows["global, frobenius ball"]["value"] == pytest.approx(size * math.sqrt(5 * s.sum() / 60))
    assert rows["printed, λ/√n"]["value"] == pytest.approx(sigma.sum() / math.sqrt(60))
    assert rows["local, dual"]["value"] == pytest.approx(local_dual_bound(s, 60, 5, r, radius=size).value)
    with_tail = local_bound(s, 60, 5, r, radius=size, theta=2, tail=tail).value
    assert rows["local with tail, split"]["value"] == pytest.approx(with_tail)
    head = float(np.linalg.norm(sigma**2)) / size * math.sqrt(2 / 60)
    terms = rows["printed, Theorem 3"]["terms"]
    assert terms == {"head": pytest.approx(head), "tail of W": pytest.approx(tail / math.sqrt(60))}
    reached = math.sqrt(np.linalg.norm(sigma**2)) / sigma.sum() * rows["global, trace ball"]["lower"]
    assert rows["printed, Theorem 3"]["lower"] == pytest.approx(reached)
    assert rows["Theorem 1"]["terms"]["complexity"] == pytest.approx(
        4 * math.sqrt(2) * min(row["value"] for name, row in rows.items() if name.startswith("global"))
    )


def test_verdicts_of_the_printed_bounds(problem):
    X, _ = problem
    # λ/√n holds for four labels and rows of norm below ½. W has rank one, and theta is 0.
    X, model = 0.499 * normalize(X), SimpleNamespace(coef_=np.ones((4, 1)) * np.eye(6)[:1], theta_=0)
    rows = rows_of(bound_report(model, X, n_local_draws=2, random_state=0))
    assert rows["printed, λ/√n"]["holds_here"]
    assert rows["printed, Theorem 3"]["lower"] == pytest.approx(rows["global, trace ball"]["lower"])
    rows = rows_of(bound_report(model, 1.01 * X, n_local_draws=2, random_state=0))
    assert not rows["printed, λ/√n"]["holds_here"]
    small = SimpleNamespace(coef_=[[0.5, 0.0], [0.0, 0.1]], theta_=0)
    rows = rows_of(bound_report(small, X[:, :2], n_local_draws=2, random_state=0))
    reached = (0.25**2 + 0.01**2) ** 0.25 / 0.6 * rows["global, trace ball"]["lower"]
    assert rows["printed, Theorem 3"]["lower"] == pytest.approx(reached)  # less than the tail sum


def test_models_that_cannot_be_judged_are_refused(problem):
    X, Y = problem
    with pytest.raises(ValueError, match="Call fit"):
        bound_report(LRML(), X)
    with pytest.raises(ValueError, match=r"5 features.*6"):
        bound_report(LRML(2, 3.0).fit(X, Y), X[:, :5])
    with pytest.raises(ValueError, match="lower alpha"):
        bound_report(MLTrace(1e9).fit(X, Y), X)
