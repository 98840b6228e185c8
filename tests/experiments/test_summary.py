"""The summary of artificial records: what its sentences say, and what they do not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from experiments.records import METRICS, Run, every_model
from lrml.experiments import EXPERIMENTS, make_plan, published_table2
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


def table2_run(dataset: str, protocol: str, levels: dict[str, Any]) -> Run:
    return every_model(dataset, protocol, {"LRML": 0.6, "LEML": 0.6, "CPLST": 0.6} | levels)


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


# Table 2


def test_published_values_are_counted() -> None:
    """LRML has what is printed but for two cells; LEML is better everywhere, CPLST worse everywhere."""
    run = Run()
    for percent in (20, 40, 60, 80):
        for method, shift in (("LRML", 0.0), ("LEML", 0.01), ("CPLST", -0.01)):
            printed = published_table2("bibtex", method, percent) | {"average_precision": 0.5}
            signs = {metric: -1.0 if metric == "hamming_loss" else 1.0 for metric in METRICS}
            level = {metric: printed[metric] + signs[metric] * shift for metric in METRICS}
            if method == "LRML" and percent in (20, 80):
                level["precision_at_3"] -= 0.0002
            run.add_model("bibtex", "tuned", method, percent, level)
    (sentence,) = about(run, "table2", datasets=("bibtex",))
    assert sentence.startswith("Table 2, protocol tuned (rows of unit length, intercept;")
    # Four percents and five printed metrics, of which two cells are missed.
    said = "reached or surpassed in 18 of 20 (LRML), 20 of 20 (LEML) and 0 of 20 (CPLST) cells"
    assert said in sentence
    assert "; LRML misses 2 of top-3 accuracy on bibtex; " in sentence
    assert sentence.endswith(" cells than CPLST.")


def test_rounding_as_printed_reaches() -> None:
    for short, reached in ((0.00004, 4), (0.00006, 0)):
        run = Run()
        for percent in (20, 40, 60, 80):
            printed = published_table2("bibtex", "LRML", percent) | {"average_precision": 0.5}
            run.add_model(
                "bibtex",
                "paper",
                "LRML",
                percent,
                printed | {"precision_at_1": printed["precision_at_1"] - short},
            )
        (sentence,) = about(run, "table2", datasets=("bibtex",))
        assert f"{16 + reached} of 20 (LRML) cells" in sentence
        assert ("LRML misses none" in sentence) == (reached == 4)


def test_significant_differences_are_counted() -> None:
    """A difference of 0.05 is many standard errors of these records, one of 0 is none."""
    good = dict.fromkeys(METRICS, 0.65) | {"hamming_loss": 0.55}
    (sentence,) = about(table2_run("yeast", "tuned", {"LRML": good}), "table2")
    assert "better in 24 and worse in 0 of 24 cells than LEML and better in 24 and worse in 0" in sentence
    (sentence,) = about(table2_run("yeast", "tuned", {"LEML": good}), "table2")
    assert "better in 0 and worse in 24 of 24 cells than LEML and better in 0 and worse in 0 of" in sentence
    (sentence,) = about(table2_run("yeast", "tuned", {"LRML": 0.65}), "table2")
    assert "better in 20 and worse in 4 of 24 cells than LEML" in sentence  # a high loss is bad
    assert "published" not in sentence  # the paper prints no numbers for yeast


def test_the_intercept_of_cplst_is_spoken_of_where_it_is_alone() -> None:
    run = table2_run("yeast", "paper", {})
    run.records += table2_run("yeast", "tuned", {}).records
    run.arrays |= table2_run("yeast", "tuned", {}).arrays
    paper, tuned = about(run, "table2")
    assert paper.endswith("cells than CPLST, which alone has an intercept here, by its definition.")
    assert tuned.endswith("cells than CPLST.")


@pytest.mark.parametrize(
    ("present", "said", "unsaid"),
    [
        (["LRML"], ["20 of 20 (LRML) cells; LRML misses none."], ["LEML", "CPLST", "Holm", "alone"]),
        (["LRML", "LEML"], ["20 of 20 (LEML) cells;", "than LEML."], ["CPLST", "alone"]),
        (["LEML", "CPLST"], ["20 of 20 (LEML) and 20 of 20 (CPLST) cells."], ["misses", "better in"]),
    ],
)
def test_methods_that_failed_are_not_spoken_of(
    present: list[str], said: list[str], unsaid: list[str]
) -> None:
    perfect = dict.fromkeys(METRICS, 1.0) | {"hamming_loss": 0.0}
    run = Run()
    for method in ("LRML", "LEML", "CPLST"):
        for percent in (20, 40, 60, 80):
            status = "ok" if method in present else "failed"
            run.add_model("bibtex", "paper", method, percent, perfect, status=status)
    failures, sentence = about(run, "table2", datasets=("bibtex",))
    assert failures.startswith(f"{12 * (3 - len(present))} of 36 cells failed")
    assert all(text in sentence for text in said)
    assert not any(text in sentence for text in unsaid)


def test_at_equal_rank() -> None:
    run = table2_run("yeast", "tuned", {})
    for percent in (20, 40, 60, 80):
        run.add_model("yeast", "tuned", "LRML", percent, 0.65, kind="equal_rank", theta=2)
    (sentence,) = about(run, "equal_rank")
    # Four percents and four metrics: top-1, top-3, top-5 and average precision.
    expected = "At equal rank, on yeast, after Holm's correction LRML is better in 16 and worse in 0 of 16 "
    assert sentence == expected + "cells than LEML and better in 16 and worse in 0 of 16 cells than CPLST."


# Table 1


def test_statistics_that_agree_and_that_do_not() -> None:
    run = Run()
    run.add_statistics("yeast", **YEAST)
    agree = "Table 1: our statistics agree with every printed number of yeast"
    assert about(run, "table1") == [f"{agree}."]
    run.add_statistics("bibtex", **YEAST)
    assert about(run, "table1", datasets=("yeast", "bibtex")) == [f"{agree}; not of bibtex."]
    expected = "Table 1: our statistics do not agree with every printed number of bibtex."
    assert about(run, "table1", datasets=("bibtex",)) == [expected]


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
