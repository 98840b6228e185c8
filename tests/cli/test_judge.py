"""`lrml evaluate`, `lrml compare` and `lrml inspect` as real processes on real files."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import lrml
from cli.programs import TOPICS, program, tagged_texts, write_csv
from lrml.cli import main
from lrml.cli._console import report_table
from lrml.datasets import load_yeast
from lrml.metrics import evaluate
from lrml.report import column


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts to learn from, others to judge by with a tag that is new, and a model of each kind."""
    folder = tmp_path_factory.mktemp("judged")
    write_csv(folder / "train.csv", *tagged_texts())
    texts, tags = tagged_texts(60, seed=1)
    write_csv(folder / "new.csv", texts, [*tags[:-1], [*tags[-1], "unheard of"]])
    for name, data in (("model", folder / "train.csv"), ("yeast", "yeast")):
        run = program("fit", data, "-o", folder / f"{name}.lrml", "--quiet")
        assert run.returncode == 0, run.stderr
    return folder


def test_values_are_those_of_the_metrics(folder):
    run = program("evaluate", folder / "model.lrml", folder / "new.csv", "--json", "--bootstrap", 50)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    texts, tags = tagged_texts(60, seed=1)
    model = lrml.load(folder / "model.lrml")
    expected = evaluate(model.binarize(tags), model.decision_function(texts))
    assert {name: one["value"] for name, one in found["metrics"].items()} == pytest.approx(dict(expected))
    assert [label["name"] for label in found["labels"]] == sorted(TOPICS)
    assert "left out 1 labels that the model has not seen in training" in found["notes"][0]


def test_the_test_rows_of_a_known_dataset_are_judged(folder):
    page = folder / "yeast.html"
    run = program("evaluate", folder / "yeast.lrml", "yeast", "--bootstrap", 20, "--html", page)
    assert run.returncode == 0, run.stderr
    X, Y = load_yeast().test
    model = lrml.load(folder / "yeast.lrml")
    model = model._unnamed()  # the columns are the same
    value = evaluate(Y, model.decision_function(X))["average_precision"]
    assert re.search(f"average precision +{value:.4f}", run.stdout)
    assert re.search(r"metric +value +low +high +rows left out", run.stdout)
    assert "Threshold: 0.5" in run.stdout
    assert "Worst labels" in run.stdout
    assert "Reliability" in run.stdout
    assert "Class10" in page.read_text("utf-8")
    again = program("evaluate", folder / "yeast.lrml", "yeast", "--html", page)
    assert (again.returncode, again.stdout) == (2, "")
    assert f"--html: {str(page)!r}" in again.stderr


def test_labels_are_needed(folder):
    (folder / "bare.txt").write_text("a piano concert\n")
    run = program("evaluate", folder / "model.lrml", folder / "bare.txt")
    assert run.returncode == 2
    assert "bare.txt" in run.stderr


def test_inspection_of_a_tagger(folder):
    run = program("inspect", folder / "model.lrml", "--json", "--features", 3)
    found = json.loads(run.stdout)
    assert found["kind"] == "LRML"
    assert found["training"]["rows"] == 120
    for label in found["labels"]:
        words = {word for feature in label["features"] for word in feature["name"].split()}
        assert words & set(TOPICS[label["name"]].split())
    page = folder / "model.html"
    run = program("inspect", folder / "model.lrml", "--html", page)
    assert run.returncode == 0, run.stderr
    assert "singular values of the predictions" in run.stdout
    assert "features" in run.stdout
    assert "figure-spectrum" in page.read_text("utf-8")
    run = program("inspect", folder / "missing.lrml")
    assert run.returncode == 2
    assert "missing.lrml" in run.stderr


def test_comparison_of_two_methods_on_held_out_texts(folder):
    page = folder / "compared.html"
    command = ("compare", folder / "train.csv", "--methods", "ml-fro,cplst", "--bootstrap", 50)
    run = program(*command, "--html", page, "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["n_rows"], found["training_rows"]) == (30, 90)
    assert list(found["methods"]) == ["ml-fro", "cplst"]
    assert len(found["tests"]) == 8 - 1  # there are fewer than five tags
    assert "Side by side" in page.read_text("utf-8")


def test_a_small_p_value_is_no_zero():
    columns = [column("metric", "metric"), column("p_value", "p-value", "number", 4)]
    rows = [{"metric": name, "p_value": p} for name, p in (("a", 0.00009), ("b", 0.0001), ("c", 0.0))]
    shown = report_table({"title": "Pairs", "columns": columns, "rows": rows})
    assert list(shown.columns[1].cells) == ["< .0001", "0.0001", "< .0001"]


def test_comparison_on_a_file_of_test_texts(folder):
    where = (folder / "train.csv", "--test", folder / "new.csv")
    run = program("compare", *where, "--methods", "ml-fro,cplst", "--bootstrap", 20, "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["n_rows"], found["training_rows"]) == (60, 120)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--methods", "lrml"), "'lrml'"),
        (("--methods", "lrml,lmrl"), "'lmrl'"),
        (("--held-out", "1.5"), "1.5"),
    ],
)
def test_wrong_usage_of_compare(folder, options, rule, capsys):
    assert main(["compare", str(folder / "train.csv"), *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert rule in printed.err


def test_a_long_evaluation_tells_how_far_it_is(folder, monkeypatch, capsys):
    judged = ["evaluate", str(folder / "yeast.lrml"), "yeast", "--bootstrap", "10"]
    assert main(judged) == 0
    assert "scored" not in capsys.readouterr().err
    monkeypatch.setattr("lrml._progress._SECONDS", 0.0)
    assert main(judged) == 0
    told = capsys.readouterr().err
    assert "917 rows in 1 block" in told
    assert "10 of 10 resamples" in told


def test_labels_that_occur_late_in_a_long_file_are_still_found(tmp_path):
    rng = np.random.default_rng(0)
    names = np.repeat(["b", "a"], [1100, 400])  # more than a block of b before the first a
    sizes = rng.normal(np.where(names == "a", 3.0, -3.0))
    lines = [f"{size:.6f},{name}" for size, name in zip(sizes, names, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["size,kinds", *lines]) + "\n")
    where = ("--tags", "kinds")
    run = program("fit", tmp_path / "rows.csv", *where, "--method", "ml-fro", "-o", tmp_path / "m.lrml")
    assert run.returncode == 0, run.stderr
    run = program("evaluate", tmp_path / "m.lrml", tmp_path / "rows.csv", "--json", "--bootstrap", "20")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    labels = {label["name"]: label for label in found["labels"]}
    assert (labels["a"]["support"], labels["b"]["support"]) == (400, 1100)
    assert labels["a"]["f1"] > 0.95
