"""Figures of the summary as plain data, against closed forms and the raw records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from experiments.records import Run, every_model
from lrml.experiments import published_table2

MATRIX = np.array([[2.0, 1.0, 2.0, 1.0], [1.0, 1.0, np.nan, 2.0], [1.0, 1.0, 2.0, np.nan]])


def floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from floats(item)


def assert_plain(figure: dict[str, Any]) -> None:
    """JSON can hold it, its lists fit together, and no number has more than ten digits."""
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
    assert all(value == float(f"{value:.10g}") for value in floats(figure))
    assert set(figure) - {"finding"} == {"id", "title", "caption", "alt", "columns", "panels"}
    for panel in figure["panels"]:
        for series in panel.get("series", ()):
            lengths = {len(series[key]) for key in ("x", "y", "low", "high") if series[key] is not None}
            assert len(lengths) == 1


def by_name(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {series["name"]: series for series in panel["series"]}


@pytest.fixture(scope="module")
def completion() -> dict[str, Any]:
    run = Run()
    run.add_completion()
    return run.figures([])["figure1"]


def test_figure1_marks_the_minima_that_are_known(completion: dict[str, Any]) -> None:
    assert_plain(completion)
    assert [panel["kind"] for panel in completion["panels"]] == ["surface", "contour"] * 2
    trace, tail = ([panel["marks"][0][key] for key in "xyz"] for panel in completion["panels"][1::2])
    np.testing.assert_allclose(trace, [1.8392, 1.4271, 6.4538], atol=6e-5)
    np.testing.assert_allclose(tail, [2.0, 2.0, 0.0], atol=1e-6)
    for said in ("(1.8392, 1.4271)", "5.1247, 1.0341, 0.2950", "(1.8377, 1.4248)", "5.3549, 1.1512, 0:"):
        assert said in completion["caption"]


def test_figure1_trace_norm_is_stationary_at_its_mark(completion: dict[str, Any]) -> None:
    mark = completion["panels"][0]["marks"][0]
    M = MATRIX.copy()
    M[1, 2], M[2, 3] = mark["x"], mark["y"]
    U, _, Vt = np.linalg.svd(M, full_matrices=False)
    gradient = U @ Vt  # of the trace norm, where no singular value is zero
    np.testing.assert_allclose(gradient[[1, 2], [2, 3]], 0.0, atol=1e-5)


def test_figure1_heights_are_of_the_right_completion(completion: dict[str, Any]) -> None:
    row, column = 7, 31  # far from the diagonal: an exchange of the axes would show
    M = MATRIX.copy()
    M[1, 2] = completion["panels"][0]["x"]["values"][column]
    M[2, 3] = completion["panels"][0]["y"]["values"][row]
    sigma = np.sqrt(np.linalg.eigvalsh(M @ M.T))
    for panel, expected in zip(completion["panels"], [sigma.sum()] * 2 + [sigma.min()] * 2, strict=True):
        assert panel["z"]["values"][row][column] == pytest.approx(expected, abs=1e-8)
        assert min(map(min, panel["z"]["values"])) >= panel["marks"][0]["z"] - 1e-6


def norms_run(datasets: Sequence[str], lrml: Sequence[float], trace: float, frobenius: float) -> Run:
    """Make a run whose LRML has the given levels at 5, 10, 20, 40, 60 and 80 %."""
    run = Run()
    for dataset in datasets:
        for percent, level in zip((5, 10, 20, 40, 60, 80), lrml, strict=True):
            run.add_model(dataset, "paper", "LRML", percent, level)
        run.add_model(dataset, "paper", "MLTrace", None, trace)
        run.add_model(dataset, "paper", "MLFro", None, frobenius)
    return run


RISING = (0.3, 0.4, 0.5, 0.55, 0.6, 0.59)


def test_figure2_shows_means_and_spreads_of_the_records() -> None:
    run = norms_run(["corel5k"], RISING, 0.58, 0.4)
    for record in run.records:
        record["result"]["metrics"]["average_precision"] += 0.01 * record["payload"]["seed"]
    figure = run.figures(["corel5k"])["figure2"]
    assert_plain(figure)
    assert figure["id"] == "figure2"
    series = by_name(figure["panels"][0])
    lrml, trace = series["LRML"], series["ML-trace"]
    assert lrml["x"] == pytest.approx([100 * theta / 374 for theta in (19, 37, 75, 150, 224, 299)])
    assert lrml["y"] == pytest.approx(np.add(RISING, 0.01))
    assert lrml["low"] == pytest.approx(np.add(RISING, 0.01 - np.std([0, 0.01, 0.02])))
    assert lrml["high"] == pytest.approx(np.add(RISING, 0.01 + np.std([0, 0.01, 0.02])))
    for name, method in (("ML-trace", "MLTrace"), ("ML-Fro", "MLFro")):
        found = run.all(["corel5k"]).of_method("corel5k", "paper", method, None)
        assert found is not None
        assert series[name]["y"] == pytest.approx([found.mean("average_precision")] * 2)
    assert trace["x"] == [lrml["x"][0], lrml["x"][-1]]
    assert (lrml["style"], trace["style"], series["ML-Fro"]["style"]) == ("line", "dashed", "dotted")


def test_figure2_draws_shares_that_are_the_same_theta_once() -> None:
    run = norms_run(["yeast", "delicious"], [0.5] * 6, 0.5, 0.5)
    figure = run.figures(["yeast", "delicious"])["figure2"]
    yeast, delicious = (by_name(panel)["LRML"]["x"] for panel in figure["panels"])
    assert yeast == pytest.approx([100 * theta / 14 for theta in (1, 3, 6, 8, 11)])
    assert delicious == pytest.approx([100 * theta / 983 for theta in (49, 98, 197, 393, 500)])
    assert "On yeast and delicious some of the shares" in figure["caption"]


def test_figure2_leaves_out_what_is_not_there() -> None:
    run = norms_run(["corel5k"], RISING, 0.58, 0.4)
    figure = run.figures(["yeast", "corel5k", "bibtex"])["figure2"]
    assert [panel["title"] for panel in figure["panels"]] == ["corel5k (374 labels)"]
    assert run.figures(["corel5k"], without=["fig2"]) == {}
    assert Run().figures(["corel5k"]) == {}


def test_figure2_lives_with_failures() -> None:
    run = norms_run(["corel5k"], RISING, 0.58, 0.4)
    for record in run.records:
        payload = record["payload"]
        lost = payload["method"] == "MLFro" or (payload["theta"] == 75 and payload["seed"] > 0)
        if lost or payload["theta"] == 19:
            record.update(status="failed", result={})
    figure = run.figures(["corel5k"])["figure2"]
    assert_plain(figure)
    series = by_name(figure["panels"][0])
    assert list(series) == ["LRML", "ML-trace"]
    assert series["LRML"]["y"] == pytest.approx([None, *RISING[1:]])
    assert "over 1 or 3 seeds" in figure["caption"]


def add_curves(
    run: Run, theta: int, alpha: float, default: list[float], stop: int, slow: list[float]
) -> None:
    payload = {
        "kind": "convergence",
        "dataset": "yeast",
        "theta": theta,
        "alpha": alpha,
        "steps": len(slow) - 1,
    }
    curves = [
        {"method": "default solver", "objective": default, "residual": 1e-8, "stop": stop},
        {"method": "Algorithm 1, gamma = 1.01", "objective": slow, "residual": 0.5, "stop": None},
        {"method": "Algorithm 1, gamma = 1", "objective": slow, "residual": 0.1, "stop": None},
    ]
    run.add(f"convergence-yeast-{theta}-{alpha:g}", payload | {"tol": 1e-7}, {"curves": curves})


def test_figure3_is_the_excess_over_the_best_objective() -> None:
    run = Run()
    add_curves(run, 6, 10.0, [150.0, 110.0, 100.0, 101.0, 100.0, 100.0], 3, [200.0, 160.0, 120.0])
    add_curves(run, 3, 10.0, [150.0, 110.0], 1, [200.0, 160.0, 100.0])
    (figure,) = run.figures(["yeast"]).values()
    assert_plain(figure)
    assert figure["id"] == "figure3"
    assert [panel["title"] for panel in figure["panels"]] == ["theta = 3 of 14", "theta = 6 of 14"]
    other, series = (by_name(panel) for panel in figure["panels"])
    # The dip to the floor is null; the curve ends where it stays there.
    assert series["default solver"]["x"] == [1, 2, 3, 4, 5]
    assert series["default solver"]["y"] == pytest.approx([0.5, 0.1, None, 0.01, 1e-9])
    assert series["Algorithm 1, gamma = 1"]["y"] == pytest.approx([1.0, 0.6, 0.2])
    assert (series["default solver stops"]["x"], series["default solver stops"]["style"]) == ([4], "points")
    assert series["default solver stops"]["y"] == pytest.approx([0.01])
    assert other["default solver"]["y"] == pytest.approx([0.5, 0.1])  # Algorithm 1 met the lowest value
    assert "after 1 to 3 iterations and at an excess of 1.0e-02 to 1.0e-01" in figure["caption"]
    assert "(here: Algorithm 1, gamma = 1.01 or default solver)" in figure["caption"]


def test_figure3_thins_long_curves_and_keeps_their_values() -> None:
    slow = (1.0 + 1.0 / np.arange(1, 5001)).tolist()
    run = Run()
    add_curves(run, 3, 100.0, [2.0, 1.0], 1, slow)
    (figure,) = run.figures(["yeast"]).values()
    assert figure["id"] == "figure3_strong"
    drawn = by_name(figure["panels"][0])["Algorithm 1, gamma = 1"]
    assert (drawn["x"][0], drawn["x"][-1]) == (1, 5000)
    assert 150 < len(drawn["x"]) <= 300
    assert drawn["y"] == pytest.approx([1.0 / x for x in drawn["x"]], rel=1e-6)
    # Evenly spaced, up to the rounding of both ends to whole iterations, where these are dense enough.
    x = np.array(drawn["x"][-100:])
    off = np.abs(np.diff(np.log(x)) - np.log(5000) / (300 - 1))
    assert np.all(off <= 1.01 / x[:-1])


def test_figure3_without_records() -> None:
    assert Run().figures(["yeast"]) == {}
    run = Run()
    add_curves(run, 3, 10.0, [150.0, 110.0], 1, [200.0, 160.0, 100.0])
    assert list(run.figures(["yeast"])) == ["figure3"]
    assert run.figures(["yeast"], without=["fig3"]) == {}


def test_figure4_shows_ours_beside_the_printed_values() -> None:
    run = every_model("bibtex", "tuned", {"LRML": 0.63, "LEML": 0.5, "CPLST": 0.4})
    for record in run.records:
        payload = record["payload"]
        if payload["method"] == "CPLST" and payload["theta"] == 64:
            record.update(status="failed", result={})
        else:
            record["result"]["metrics"]["precision_at_1"] += 0.01 * (payload["seed"] - 1)
    (figure,) = run.figures(["yeast", "bibtex", "delicious"], without=["fig2"]).values()
    assert_plain(figure)
    assert (figure["id"], len(figure["panels"])) == ("figure4_tuned", 5)
    series = by_name(figure["panels"][0])
    assert series["LRML"]["x"] == [20, 40, 60, 80]
    assert series["LRML"]["low"] == pytest.approx([0.63 - 0.01 * np.sqrt(2 / 3)] * 4)
    assert series["CPLST"]["y"] == pytest.approx([0.4, None, 0.4, 0.4])
    printed = [published_table2("bibtex", "CPLST", percent)["precision_at_1"] for percent in (20, 40, 60, 80)]
    assert series["CPLST, paper"]["y"] == printed
    assert [s["style"] for s in series.values()] == ["line"] * 3 + ["dotted"] * 3
    # 0.63 for all metrics: best of the three in all but Hamming loss, at three complete shares.
    assert "In 15 places" in figure["caption"]
    assert "in 12 of ours" in figure["caption"]


def test_figure4_needs_a_dataset_of_which_the_paper_prints_values() -> None:
    run = every_model("yeast", "paper", {"LRML": 0.6, "LEML": 0.5, "CPLST": 0.4})
    assert run.figures(["yeast"], without=["fig2"]) == {}


def test_figure4_puts_a_metric_of_two_datasets_side_by_side() -> None:
    run = every_model("bibtex", "paper", {"LRML": 0.6, "LEML": 0.5, "CPLST": 0.4})
    other = every_model("delicious", "paper", {"LRML": 0.6, "LEML": 0.5, "CPLST": 0.4})
    run.records += other.records
    run.arrays |= other.arrays
    figure = run.figures(["bibtex", "delicious"])["figure4_paper"]
    assert figure["columns"] == 2
    titles = [panel["title"] for panel in figure["panels"]]
    assert titles[:3] == ["bibtex, top-1 accuracy", "delicious, top-1 accuracy", "bibtex, top-3 accuracy"]
