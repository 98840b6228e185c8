"""Tables of the summary, of artificial records whose numbers can be told by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.records import METRICS, Run, every_model, only_row, rows_where
from lrml.report import render_tables

YEAST = {
    "instances": 2417,
    "attributes": 103,
    "labels": 14,
    "cardinality": 4.23707,
    "density": 0.302648,
    "distinct_label_sets": 198,
}


def whole_run() -> dict[str, dict[str, Any]]:
    """Bibtex under one protocol with every method, at equal rank too, and its statistics."""
    run = every_model(
        "bibtex", "tuned", {"LRML": 0.62, "LEML": 0.6, "CPLST": 0.59, "MLTrace": 0.6, "MLFro": 0.6}
    )
    for percent in (20, 40, 60, 80):
        run.add_model("bibtex", "tuned", "LRML", percent, 0.61, kind="equal_rank", theta=16)
    run.add_statistics("bibtex", **(YEAST | {"instances": 7395}))
    return run.tables(["bibtex"])


# Every table


def test_tables_keep_the_contract() -> None:
    tables = list(whole_run().values())
    assert [table["id"] for table in tables] == [
        *("table1", "counts", "table2_tuned", "misses", "table2", "equal_rank", "ranks", "times")
    ]
    for table in tables:
        kinds = {column["key"]: column["kind"] for column in table["columns"]}
        assert all(kinds[name] == "text" for name in table["filters"])
        for row in table["rows"]:
            assert {key for key in row if not key.startswith("_")} == set(kinds)
            assert row["_class"] in ("better", "worse", "failed", None)
            for key, kind in kinds.items():
                types = {"text": str, "integer": int}.get(kind, float)
                assert row[key] is None or isinstance(row[key], types)
                if isinstance(row[key], float):
                    assert row[key] == float(f"{row[key]:.10g}")
    json.dumps(tables, allow_nan=False)
    files = render_tables({"tables": tables})
    assert len(files) == 3 * len(tables)
    # Every LaTeX has a dash; what its fonts may lack is written as a command.
    latex = "".join(content.decode() for name, content in files.items() if name.endswith(".tex"))
    assert {sign for sign in latex if not sign.isascii()} <= {"–"}


def test_the_order_of_records_does_not_matter() -> None:
    run = Run()
    for method, shift in (("LRML", 0.0), ("LEML", 0.1)):
        for seed, level in enumerate((0.1 + shift, 0.7, 0.3)):
            run.add_model(
                "yeast", "tuned", method, 20, level, seeds=(seed,), loss=("logistic", "squared")[seed % 2]
            )
    expected = run.tables(["yeast"])
    run.records.reverse()
    assert run.tables(["yeast"]) == expected


def test_without_data_there_are_no_tables() -> None:
    assert Run().tables(["yeast"]) == {}


def test_what_was_not_asked_for_is_left_out() -> None:
    run = every_model("yeast", "paper", {"LRML": 0.6, "LEML": 0.5})
    assert list(run.tables(["yeast"], without=["table1", "table2", "equal_rank"])) == ["ranks", "times"]


def test_only_one_table_has_times() -> None:
    timed = [
        name
        for name, table in whole_run().items()
        if any(column["kind"] == "seconds" for column in table["columns"])
    ]
    assert timed == ["times"]


# Table 1


def test_table1_agrees_with_the_paper_as_printed() -> None:
    run = Run()
    run.add_statistics("yeast", **YEAST)
    row = run.tables(["yeast"])["table1"]["rows"][0]
    assert row["agrees"] == "yes"
    assert (row["distinct_label_sets"], row["distinct_label_sets_paper"]) == (198, 198)
    assert (row["cardinality"], row["cardinality_paper"]) == (4.23707, 4.237)


def test_table1_names_what_does_not_agree() -> None:
    run = Run()
    run.add_statistics("yeast", **(YEAST | {"cardinality": 4.2376, "instances": 2416}))
    row = run.tables(["yeast"])["table1"]["rows"][0]
    assert row["agrees"] == "no: instances, cardinality"
    assert row["_class"] == "worse"


# Table 2


@pytest.mark.parametrize(
    ("metric", "ours", "verdict"),
    [  # the paper prints 0.6002 and 0.0129
        ("precision_at_1", 0.600151, "at or above"),
        ("precision_at_1", 0.600149, "below"),
        ("hamming_loss", 0.012949, "at or above"),
        ("hamming_loss", 0.012951, "below"),
    ],
)
def test_verdict_is_of_numbers_as_printed(metric: str, ours: float, verdict: str) -> None:
    run = Run()
    run.add_model("bibtex", "paper", "LRML", 20, dict.fromkeys(METRICS, 0.5) | {metric: ours})
    tables = run.tables(["bibtex"])
    table = tables["table2"]
    title = {"precision_at_1": "top-1 accuracy", "hamming_loss": "Hamming loss"}[metric]
    row = only_row(table, metric=title)
    assert row["verdict"] == verdict
    assert row["_class"] == ("better" if verdict == "at or above" else "worse")
    assert row["difference"] == pytest.approx(ours - row["published"])
    missed = tables["misses"]["rows"] if "misses" in tables else []
    assert (title in [miss["metric"] for miss in missed]) == (verdict == "below")


def test_published_values_and_marks() -> None:
    table = every_model("delicious", "tuned", {"LRML": 0.6, "LEML": 0.5}).tables(["delicious"])["table2"]
    row = only_row(table, metric="top-1 accuracy", percent=20, method="LEML")
    assert (row["published"], row["mark_published"]) == (0.6716, "∘")
    row = only_row(table, metric="top-5 accuracy", percent=40, method="LEML")
    assert (row["published"], row["mark_published"]) == (0.5639, "")
    row = only_row(table, metric="average precision", percent=20, method="LRML")
    assert (row["published"], row["difference"], row["verdict"]) == (None, None, "")


def test_differences_are_paired_and_tested_as_by_scipy() -> None:
    run = every_model("yeast", "paper", {"LRML": 0.503, "LEML": 0.5})
    table = run.tables(["yeast"])["table2"]
    first, second = (
        run.arrays[f"model-yeast-paper-{method}-3-s0"]["precision_at_3"].astype(float)
        for method in ("LRML", "LEML")
    )
    expected = stats.ttest_rel(first, second)
    row = only_row(table, metric="top-3 accuracy", percent=20, method="LEML")
    assert row["lrml_minus"] == pytest.approx(np.mean(first - second))
    assert row["standard_error"] == pytest.approx(stats.sem(first - second))
    assert row["mark"] == ("•" if expected.pvalue < 0.05 else "")
    assert only_row(table, metric="top-3 accuracy", percent=20, method="LRML")["lrml_minus"] is None


def test_marks_turn_around_for_losses_and_fade_with_holm() -> None:
    # The noise is the same at all percents, so that a shift can be put between the two levels.
    table = every_model("yeast", "paper", {"LRML": 0.52, "LEML": 0.5}).tables(["yeast"])["table2"]
    for row in rows_where(table, method="LEML"):
        assert row["mark"] == row["mark_holm"] == ("∘" if row["metric"] == "Hamming loss" else "•")
    run = every_model("yeast", "paper", {"LRML": 0.5, "LEML": 0.5})
    noisy = run.arrays["model-yeast-paper-LEML-3-s0"]["precision_at_1"].astype(float)
    own = run.arrays["model-yeast-paper-LRML-3-s0"]["precision_at_1"].astype(float)
    shift = 2.5 * stats.sem(own - noisy)  # p is about 0.017, and there are 24 comparisons
    for seed in range(3):
        run.arrays[f"model-yeast-paper-LEML-3-s{seed}"]["precision_at_1"] = (noisy - shift).astype(np.float32)
    row = only_row(run.tables(["yeast"])["table2"], metric="top-1 accuracy", percent=20, method="LEML")
    assert (row["mark"], row["mark_holm"]) == ("•", "")


def test_a_model_for_two_percents_is_one_comparison() -> None:
    # 60 % and 80 % of the 983 labels of delicious are more than its 500 features.
    table = every_model("delicious", "tuned", {"LRML": 0.5, "LEML": 0.5, "CPLST": 0.5}).tables(["delicious"])[
        "table2"
    ]
    assert {row["theta"] for row in table["rows"]} == {197, 393, 500}
    notes = " ".join(table["notes"])
    assert f"{3 * len(METRICS) * 2} (tuned)" in notes
    assert "60 % and 80 % of the 983 labels" in notes


def test_caption_says_rows_seeds_and_choice() -> None:
    run = Run()
    run.add_model("yeast", "paper", "LRML", 20, seeds=(0, 1))
    run.add_model("yeast", "paper", "LRML", 20, seeds=(2,), status="failed")
    run.add_model("yeast", "paper", "LEML", 20, status="failed")
    table = run.tables(["yeast"])["table2"]
    assert {(row["method"], row["seeds"]) for row in table["rows"]} == {("LRML", 2)}
    for text in ("yeast 917", "2 seeds", "20 % of the training set", "Hamming loss: the model with the best"):
        assert text in table["caption"]


def test_a_rival_without_lrml_is_not_compared() -> None:
    run = Run()
    run.add_model("yeast", "paper", "LEML", 20)
    row = run.tables(["yeast"])["table2"]["rows"][0]
    assert (row["lrml_minus"], row["mark"], row["mark_holm"]) == (None, "", "")


def test_layout_of_the_paper() -> None:
    run = every_model("bibtex", "kernel", {"LRML": 0.62, "LEML": 0.6, "CPLST": 0.64})
    run.add_model("yeast", "kernel", "LRML", 40, 0.7)
    table = run.tables(["bibtex", "yeast"])["table2_kernel"]
    assert table["id"] == "table2_kernel"
    assert [column["title"] for column in table["columns"]][:4] == [
        *("metric", "% of labels", "bibtex: LRML", "bibtex: LEML")
    ]
    assert len(table["rows"]) == len(METRICS) * 4
    row = only_row(table, metric="top-1 accuracy", percent=40)
    assert row["bibtex_LRML"] == "0.6200 (0.6123)"
    assert row["bibtex_LEML"] == "0.6000 • (0.6099)"
    assert row["bibtex_CPLST"] == "0.6400 ∘ (0.5463)"
    assert (row["yeast_LRML"], row["yeast_LEML"]) == ("0.7000", None)
    assert only_row(table, metric="average precision", percent=20)["bibtex_LEML"] == "0.6000 •"
