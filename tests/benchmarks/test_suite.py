"""The parts of `benchmarks/suite` that decide what a table says."""

from importlib import import_module
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ttest_rel

SUITE = Path(__file__).parents[2] / "benchmarks" / "suite"


PROGRAMS = sorted(path.stem for path in SUITE.parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_find_what_they_import(name, monkeypatch):
    if name == "gpu":
        pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(SUITE.parent))
    assert callable(run_path(str(SUITE.parent / f"{name}.py"), run_name=name)["main"])


@pytest.fixture
def suite(monkeypatch):
    monkeypatch.syspath_prepend(str(SUITE))
    return import_module


def test_the_standard_error_is_that_of_the_paired_t_test(suite):
    rng = np.random.default_rng(0)
    reference = rng.random(200)
    values = reference + rng.normal(0.01, 0.1, 200)
    difference, error = suite("report").paired_difference(values, reference)
    assert difference / error == pytest.approx(ttest_rel(values, reference).statistic)


def test_a_row_without_a_value_is_left_out_of_the_comparison(suite):
    values, reference = np.array([0.5, np.nan, 0.9, 0.4]), np.array([0.4, np.nan, 0.6, 0.2])
    difference, error = suite("report").paired_difference(values, reference)
    assert difference == pytest.approx(0.2)
    assert error == pytest.approx(0.1 / np.sqrt(3))


def test_the_reference_is_the_best_linear_peer_neither_a_tree_nor_ours(suite):
    kinds = {
        "a": ("linear peer", 0.5),
        "b": ("linear peer", 0.6),
        "tree": ("tree peer", 0.8),
        "we": ("ours", 0.9),
    }
    records = [
        {"system": name, "kind": kind, "metrics": {"average_precision": mean}}
        for name, (kind, mean) in kinds.items()
    ]
    records.append({"system": "absent", "kind": "linear peer", "left_out": "why"})
    suite("report").add_comparison(records, {name: np.full(3, mean) for name, (_, mean) in kinds.items()})
    assert {record.get("compared_with") for record in records[:-1]} == {"b"}
    assert records[3]["ap_difference"] == pytest.approx(0.3)
    versus = {peer: found["difference"] for peer, found in records[3]["ap_versus"].items()}
    assert versus == pytest.approx({"a": 0.4, "b": 0.3})
    assert "compared_with" not in records[-1]


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_unseen_labels_rank_below_every_score_and_the_threshold(suite, storage):
    Y = storage(np.array([[1, 0, 0], [0, 0, 1]], dtype=np.uint8))
    S = np.array([[0.2, 0.0, -3.0], [0.4, 0.9, 0.1]])
    ranked = suite("systems").rank_unseen_last(S, Y, 0.0)
    assert (ranked[:, 1] < -3.0).all()
    np.testing.assert_array_equal(ranked[:, [0, 2]], S[:, [0, 2]])


def test_scores_of_a_tree_search_put_labels_that_were_not_reached_last(suite):
    S = suite("peers").table([[(2, 0.9), (0, 0.1)], []], 3)
    np.testing.assert_array_equal(S, [[0.1, -1, 0.9], [-1, -1, -1]])


def test_the_unit_is_always_selected(suite):
    selected = suite("registry").selected
    assert selected(["Ridge", "RidgeCV", "PLT", "LRMLCV"], ["plt"]) == ["Ridge", "PLT"]
    assert selected(["Ridge", "PLT"], [""]) == ["Ridge", "PLT"]


def test_a_tuned_system_takes_the_best_of_its_grid_and_fits_all_rows(suite):
    systems = suite("systems")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5))
    Y = (X @ rng.normal(size=(5, 4)) > 0).astype(np.uint8)
    system = systems.TunedRidge()
    system.prepare(X, Y)
    system._tune("alpha", [1e9, 1e-3], lambda X, Y, alpha: systems.Ridge(alpha=alpha).fit(X, Y))
    assert (system.candidates, system.chosen) == (2, {"alpha": 1e-3})
    np.testing.assert_allclose(system.scores(X), systems.Ridge(alpha=1e-3).fit(X, Y).predict(X))


def test_requirements_and_the_reason_of_a_failure(suite):
    install = suite("install")
    lines = install.requirements("# peers\nhimalaya>=0.4,<0.5  # ridge\n\nscikit-learn\n")
    assert [install.name_of(line) for line in lines] == ["himalaya", "scikit-learn"]
    assert install.reason_of("WARNING: x\nERROR: no wheel\nhint") == "ERROR: no wheel"
    assert install.reason_of("") == "no message"


def test_the_report_has_one_row_per_finished_cell_and_every_reason(suite):
    times = dict.fromkeys(("fit_ratio", "fit_seconds", "ratio_per_candidate"), 2.0)
    finished = {"dataset": "d", "system": "path", **times, "candidates": 20, "predict_ratio": None}
    finished |= {"nominal_candidates": 25, "kind": "ours", "mean_decompositions": 3.0}
    finished |= {"peak_bytes": None, "chosen": {}, "settings": {"C": [0.1, 10.0], "cv": 0.2}}
    content = {
        "machine": {"python": "3", "cores": 2, "versions": {"omikuji": None}},
        "quick": False,
        "datasets_left_out": {"e": "no network"},
        "records": [
            finished,
            {"dataset": "d", "system": "tree", "kind": "tree peer", "left_out": "no wheel"},
        ],
    }
    text = suite("report").markdown(content)
    assert "omikuji (absent)" in text
    assert "Left out: tree. no wheel" in text
    assert "Left out: e. no network" in text
    assert "| 20 of 25 |" in text
    assert "- path: C (0.1 10), cv 0.2" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 3
    assert len({line.count("|") for line in table}) == 1


def test_many_labels_make_the_grid_of_one_vs_rest_short(suite, monkeypatch):
    systems = suite("systems")
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(40, 3)), (rng.random((40, 4)) < 0.5).astype(np.uint8)
    system = systems.OneVsRestLogistic()
    system.prepare(X, Y)
    system.fit()
    assert system.settings["C"] == pytest.approx([0.1, 10**-0.5, 1, 10**0.5, 10, 10**1.5, 100])
    monkeypatch.setattr(systems, "MANY_LABELS", 3)
    system.fit()
    assert system.settings["C"] == pytest.approx([1, 10**0.5, 10])
    assert system.candidates == 3


def test_models_are_counted_as_fitted_not_as_asked_for(suite):
    ours = suite("ours")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 6))
    Y = (X @ rng.normal(size=(6, 5)) > 0).astype(np.uint8)
    system = ours.SameGridAsPath(quick=True)
    system.prepare(X, Y)
    system.fit()
    scores = [system.model.cv_results_[f"split{split}_test_score"] for split in range(5)]
    assert system.candidates == np.isfinite(scores).sum()
    assert system.nominal_candidates == np.size(scores)
    path = ours.Path(quick=True)
    path.prepare(X, Y)
    path.fit()
    assert path.candidates == len(scores[0])  # both have the same grid


def record(system, kind, precision, per_model, **more):
    tops = {"precision_at_1": precision, "precision_at_3": precision, "precision_at_5": precision}
    times = {"ratio_per_candidate": per_model, "seconds_per_candidate": per_model, "fit_ratio": 30.0}
    metrics = {"average_precision": precision, **tops}
    return {"system": system, "kind": kind, "metrics": metrics, "candidates": 12} | times | more


@pytest.fixture
def cells():
    """Records of one dataset on which LRMLCV is between its two peers."""
    versus = {"RidgeCV, leave-one-out": (0.001, 0.0004), "Ridge": (-0.002, 0.0005)}
    versus = {
        peer: dict(zip(("difference", "standard_error"), pair, strict=True)) for peer, pair in versus.items()
    }
    better = {peer: found | {"difference": 0.003} for peer, found in versus.items()}
    path = {"mean_decompositions": 8.1, "fit_ratio": 8.0, "nominal_candidates": 100}
    return [
        record("Ridge", "linear peer", 0.602, 1.0, candidates=1),
        record("lrml_path 5×20", "ours", 0, 0.1, **path),
        record("LRMLCV 5×20, 5 folds", "ours", 0.5, 0.9, nominal_candidates=500),
        record("LRMLCV", "ours", 0.600, 0.8, ap_versus=versus),
        record("LRMLCV logistic", "ours", 0.605, 9.0, ap_versus=better),
        record("RidgeCV, leave-one-out", "linear peer", 0.599, 0.85),
        {"system": "himalaya RidgeCV", "kind": "linear peer", "left_out": "no wheel"},
    ]


def test_the_claims_about_bibtex_follow_from_the_records(suite, cells):
    found = suite("claims").claims("bibtex", cells)
    # 8 ≤ 10 Ridge fits; 8.1 > 8; 30 / 8 ≤ 6; 0.002 below Ridge, within 0.003; 0.8 < 0.85 < 0.9
    assert [claim.holds for claim in found] == [True, False, True, False, True, True, False]
    assert "+0.0010 ± 0.0004 from RidgeCV" in str(found[3])
    assert "-0.0020 ± 0.0005 from Ridge (untuned)" in str(found[3])
    assert str(found[1]).startswith("- **does not hold**")
    about_every_peer = [claim for claim in found if "(without himalaya RidgeCV, left out)" in claim.text]
    assert about_every_peer == found[3:]


def test_the_claims_about_delicious_take_the_better_loss(suite, cells):
    found = suite("claims").claims("delicious", cells)
    assert [claim.holds for claim in found] == [True, False, True, True, True, True, False]
    assert "LRMLCV logistic, 0.6050" in found[4].numbers


def test_a_claim_about_a_cell_that_is_missing_is_not_measured(suite, cells):
    found = suite("claims").claims("bibtex", [cells[0], cells[-1]])
    assert {claim.holds for claim in found} == {None}
    assert "not measured" in str(found[0])


def test_equal_average_precision_is_at_or_above(suite, cells):
    for found in cells[3]["ap_versus"].values():
        found["difference"] = 0.0
    assert suite("claims").claims("bibtex", cells)[3].holds
