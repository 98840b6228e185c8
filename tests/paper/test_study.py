"""The study: its conditions, its tests of significance, and what its page shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from forking import quick_workers
from lrml._significance import holm
from lrml.datasets import load_yeast
from lrml.paper import make_plan, reproduce
from lrml.paper._cells import Result
from lrml.paper._study import _labels, _planted
from lrml.paper._study_page import BEST, lead_of, leads, study_figures, study_numbers

PLANTED = {"n_features": 30, "n_targets": 20, "n_test": 50, "signal": 0.5, "n_rows": 40}


def condition(axis: str, level: Any) -> tuple[Any, ...]:
    return _labels(load_yeast(), {"axis": axis, "level": level}, np.random.default_rng(0))


def test_conditions_touch_training_rows_only() -> None:
    (X, Y), (_, Y_test) = load_yeast().train, load_yeast().test
    hidden, noise = condition("hidden", 0.6)[1], condition("noise", 0.3)[1]
    assert ((hidden == 1) <= (Y == 1)).all()
    assert hidden.sum() == pytest.approx(0.4 * Y.sum(), rel=0.05)
    assert ((noise == 1) & (Y == 0)).sum() > 0.1 * Y.sum()
    assert noise.sum() <= Y.sum()
    for axis in ("hidden", "noise", "rows"):
        np.testing.assert_array_equal(condition(axis, 0.3)[3], Y_test)
    rows = condition("rows", 0.1)
    assert rows[0].shape == (150, X.shape[1])
    assert [part.shape[1] for part in condition("labels", 0.5)[1::2]] == [7, 7]


@pytest.mark.parametrize(
    ("axis", "level", "rank"), [("rank", 3, 3), ("phase", [25, 2], 2), ("decay", 1.0, 20)]
)
def test_a_planted_truth_has_the_rank_and_the_signal_it_says(axis: str, level: Any, rank: int) -> None:
    cell = {"planted": PLANTED, "axis": axis, "level": level}
    X, Y, X_test, truth = _planted(None, cell, np.random.default_rng(0))
    assert (len(X), Y.shape[1], X_test.shape) == (25 if axis == "phase" else 40, 20, (50, 30))
    W = np.linalg.lstsq(X_test, truth, rcond=None)[0]
    assert np.linalg.matrix_rank(W, tol=1e-8) == rank
    assert np.mean((W**2).sum(0)) == pytest.approx(0.5)  # variance of XW over that of the noise, which is 1
    if axis == "decay":
        sigma = np.linalg.svd(W, compute_uv=False)
        np.testing.assert_allclose(sigma / sigma[0], 1.0 / np.arange(1, 21))


def test_a_lead_is_tested_over_seeds_and_rows() -> None:
    random = np.random.default_rng(0)
    d = random.standard_normal((6, 80)) + random.standard_normal(80) + 0.1
    seeds = stats.ttest_1samp(d.mean(1), 0.0)
    mean, error, p_value = lead_of(d, False, 0.0)
    assert (mean, p_value) == pytest.approx((d.mean(), seeds.pvalue))
    rows = stats.ttest_1samp(d[0], 0.0)
    assert lead_of(d[:1], False, 0.0)[2] == pytest.approx(rows.pvalue)
    both = np.hypot(error, stats.sem(d.mean(0)))
    assert lead_of(d, True, 0.0)[1] == pytest.approx(both)
    assert p_value < lead_of(d, False, 0.5)[2]  # draws that overlap say less
    assert lead_of(np.zeros((3, 9)), True, 0.0) == (0.0, 0.0, 1.0)
    holes = np.where(random.random(d.shape) < 0.3, np.nan, d)
    holes[:, 0] = np.nan
    assert all(np.isfinite(lead_of(holes, True, 0.0)))


def test_a_penalty_beats_ridge_when_there_is_nothing_between_them() -> None:
    """With equal methods a test at 5 % finds a difference in 5 % of the draws."""
    random = np.random.default_rng(1)
    draws = random.standard_normal((2000, 5, 1)) + random.standard_normal((2000, 5, 40))
    rate = np.mean([lead_of(d, False, 0.0)[2] < 0.05 for d in draws])
    assert rate == pytest.approx(0.05, abs=0.015)


def result(dataset: str, level: float, seed: int, gains: dict[str, float], n_labels: int = 3) -> Result:
    cell = {
        "kind": "study",
        "part": "labels",
        "dataset": dataset,
        "axis": "rows",
        "level": level,
        "seed": seed,
    }
    random = np.random.default_rng(seed)
    base = 0.5 + 0.01 * random.standard_normal(30)
    arrays = {"MLFro/ap": base} | {
        f"{method}/ap": base + gain + 0.001 * random.standard_normal(30) for method, gain in gains.items()
    }
    members = [
        {"method": method, "space": "predictions", "theta": None, "arrays": {"ap": f"{method}/ap"}}
        | {"metrics": {}, "chosen": {}}
        for method in ("MLFro", *gains)
    ]
    values = {"members": members, "shape": [50, 4, n_labels], "search_seconds": 1.0}
    return Result(cell, values, arrays)


def test_leads_are_per_cents_of_ridge_and_corrected_for_their_number() -> None:
    gains = {"LRML": 0.05, "CPLST": -0.1, "MLTrace": 0.0}
    results = [result("yeast", level, seed, gains) for level in (1.0, 0.3) for seed in range(4)]
    results += [result("emotions", 0.3, seed, gains, n_labels=1) for seed in range(4)]
    found = leads(results)
    assert set(found["dataset"]) == {"yeast"}  # one label cannot be ranked
    lead = found.groupby("method")["lead"].mean()
    assert lead[BEST] == pytest.approx(10.0, abs=0.2)
    assert lead["CPLST"] == pytest.approx(-20.0, abs=0.2)
    assert list(found["p_holm"]) == pytest.approx(holm(found["p_value"].tolist()))
    assert set(found[found["method"] == "CPLST"]["mark"]) == {"∘"}
    (_, *rows) = study_numbers(found)
    assert rows[0][:4] == (f"{BEST}: data with labels", "2", "2", "0")
    whole, along = study_figures(found)
    (axes,) = whole["draw"]().axes
    handles, names = axes.get_legend_handles_labels()
    dot = dict(zip(names, handles, strict=True))[BEST].lines[0].get_xdata()
    own = found[(found["method"] == BEST) & (found["level"] == "1.0")]["lead"]
    np.testing.assert_allclose(np.asarray(dot, float), own)
    (axes,) = along["draw"]().axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["30 %", "100 %"]
    assert along["command"] == "lrml study --datasets yeast"


def test_the_page_of_a_reduced_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_workers(monkeypatch)
    plan = make_plan("study", ["planted"], None, 2)
    small = {"n_features": 12, "n_targets": 8, "n_test": 60}
    cells = [cell for cell in plan.cells if cell["axis"] == "rank" and cell["level"] in (1, 5)]
    cells = [cell | {"thetas": [1, 4], "planted": cell["planted"] | small} for cell in cells]
    content, written = reproduce(plan._replace(cells=cells), tmp_path, n_workers=1)
    assert content["title"] == "When low rank pays"
    assert [figure["id"] for figure in content["figures"]] == ["planted-rank"]
    (leads_table,) = (table for table in content["tables"] if table["id"] == "leads")
    low = [row for row in leads_table["rows"] if row["level"] == "1" and row["method"] == BEST]
    assert low[0]["lead"] > 20.0  # a truth of rank one is what it is for
    assert "<code>lrml study --datasets planted</code>" in written[-1].read_text("utf-8")
    again, _ = reproduce(
        plan._replace(cells=cells), tmp_path, n_workers=1, tell=lambda *_: pytest.fail("again")
    )
    assert json.dumps(again["tables"]) == json.dumps(content["tables"])
