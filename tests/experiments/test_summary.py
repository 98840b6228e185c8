"""The summary of artificial records: what its sentences say, and what they do not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.records import Run, every_model
from lrml.experiments import EXPERIMENTS, make_plan
from lrml.experiments.summary import Records, summarise

YEAST = {
    "instances": 2417,
    "attributes": 103,
    "labels": 14,
    "cardinality": 4.23707,
    "density": 0.302648,
    "distinct_label_sets": 198,
}
LEVELS = {"LRML": 0.62, "LEML": 0.6, "CPLST": 0.59, "MLTrace": 0.6, "MLFro": 0.6}


def sentences(records: Records) -> list[str]:
    found: list[str] = summarise(records)["summary"]
    return found


def about(run: Run, *experiments: str, datasets: tuple[str, ...] = ("yeast",)) -> list[str]:
    """Sentences about some experiments only."""
    return sentences(
        run.all(list(datasets), without=[name for name in EXPERIMENTS if name not in experiments])
    )


def everything() -> Run:
    """All that there is on yeast: every protocol, equal rank, statistics, curves, and two failures."""
    run = Run()
    for protocol in ("paper", "tuned", "kernel"):
        part = every_model("yeast", protocol, LEVELS)
        run.records += part.records
        run.arrays |= part.arrays
    for protocol in ("paper", "tuned"):
        run.add_model("yeast", protocol, "LRML", 5, 0.58)
    for percent in (20, 40, 60, 80):
        run.add_model("yeast", "tuned", "LRML", percent, 0.61, kind="equal_rank", theta=2)
    run.add_statistics("yeast", **YEAST)
    run.add_completion()
    for theta in (3, 6, 8, 11):
        for alpha in (10.0, 100.0):
            add_curves(run, theta, alpha)
    run.add_model("corel5k", "paper", "LRML", 20, seeds=(1, 0), status="failed")
    return run


def add_curves(run: Run, theta: int, alpha: float) -> None:
    payload = {"kind": "convergence", "dataset": "yeast", "theta": theta, "alpha": alpha}
    falling = (100.0 + 50.0 * 0.5 ** np.arange(40.0)).tolist()
    slow = (100.5 + 50.0 * 0.9 ** np.arange(40.0)).tolist()
    curves = [
        {"method": "default solver", "objective": falling, "residual": 1e-8, "stop": 20},
        {"method": "Algorithm 1, gamma = 1.01", "objective": slow, "residual": 1e-2, "stop": None},
    ]
    settings = {"steps": 39, "tol": 1e-7}
    run.add(f"convergence-yeast-{theta}-{alpha:g}", payload | settings, {"curves": curves})


# Failures


def test_failures_are_counted_and_listed() -> None:
    summary = summarise(everything().all(["yeast"]))
    total = len(everything().records)
    assert summary["summary"][0] == f"2 of {total} cells failed; their errors are listed at the end."
    assert summary["failures"] == [
        {"cell": f"model-corel5k-paper-LRML-75-s{seed}", "error": "ValueError: artificial"} for seed in (0, 1)
    ]


def test_a_run_in_which_all_failed_still_has_a_summary() -> None:
    run = everything()
    for record in run.records:
        record |= {"status": "failed", "error": "MemoryError", "result": {}}
    summary = summarise(run.all(["yeast"]))
    assert len(summary["failures"]) == len(run.records)
    (sentence,) = summary["summary"]
    assert sentence.startswith(f"{len(run.records)} of {len(run.records)} cells failed")
    assert summary["tables"] == summary["figures"] == []


# What was not run


def test_what_was_not_run_is_not_spoken_of() -> None:
    spoken = {
        "table1": "Table 1",
        "fig1": "Figure 1",
        "table2": "Table 2",
        "equal_rank": "At equal rank",
        "fig2": "Figure 2",
        "fig3": "Figure 3",
    }
    run = everything()
    run.records = [record for record in run.records if record["status"] == "ok"]
    for name, start in spoken.items():
        found = about(run, name)
        assert found
        assert all(sentence.startswith(start) for sentence in found)
    every = sentences(run.all(["yeast"]))
    assert len(every) == sum(len(about(run, name)) for name in spoken)
    assert len(every) == 10  # three protocols of Table 2, two figures each for 2 and 3


@pytest.mark.parametrize("target", ["table1", "fig1", "fig3"])
def test_targets_without_seeds_or_data(target: str) -> None:
    plan = make_plan(target, ["yeast"])
    summary = summarise(Records([], {}.__getitem__, plan.experiments, plan.protocols, plan.datasets))
    names = [name for name, _ in summary["about"]]
    assert "Validation rows" not in names
    assert ("Data" in names) == (target != "fig1")


# The whole


def test_what_it_is_about() -> None:
    rows = dict(summarise(everything().all(["yeast"]))["about"])
    assert "Local Rademacher Complexity for Multi-label Learning" in rows["Paper"]
    assert rows["Data"].startswith("yeast, in Mulan's split")
    assert rows["Validation rows"].endswith("the seeds 0, 1 and 2")
    assert rows["Protocol paper"].startswith("raw features, no intercept")
    assert f"numpy {np.__version__}" in rows["Versions"]


def test_what_was_left_out_is_handed_on() -> None:
    assert summarise(Run().all([]), ["bibtex is not here."])["left_out"] == ["bibtex is not here."]


def test_it_is_plain_data_and_the_order_of_records_does_not_matter() -> None:
    run = everything()
    for record in run.records:
        if "metrics" in record["result"]:  # seeds that differ, in a way that is not exact in binary
            seed = record["payload"]["seed"]
            record["result"]["metrics"]["average_precision"] += (0.1, -0.3, 0.7)[seed] / 30
            record["result"]["chosen"]["average_precision"] |= {"model_rank": 3 + seed, "alpha": 0.1 * seed}
    expected = json.dumps(summarise(run.all(["yeast"])), allow_nan=False)
    generator = np.random.default_rng(0)
    for _ in range(3):
        run.records = [run.records[place] for place in generator.permutation(len(run.records))]
        assert json.dumps(summarise(run.all(["yeast"])), allow_nan=False) == expected


def test_parts_have_names_of_their_own() -> None:
    summary = summarise(everything().all(["yeast"]))
    names = [part["id"] for part in (*summary["tables"], *summary["figures"])]
    assert len(set(names)) == len(names)
    assert {"table1", "table2", "figure1", "figure2", "figure2_tuned", "figure3"} <= set(names)
