"""`lrml evaluate`, `lrml compare` and `lrml inspect` on real files."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lrml
from cli.programs import TOPICS, tagged_texts, write_csv
from lrml.cli._options import answer
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
    lrml.save(lrml.TextTagger(lrml.LRML()).fit(*tagged_texts()), folder / "model.lrml")
    lrml.save(lrml.LRML().fit(*load_yeast().train), folder / "yeast.lrml")
    return folder


def test_values_are_those_of_the_metrics(folder, call):
    found, _ = call("evaluate", folder / "model.lrml", folder / "new.csv", "--json", "--bootstrap", 50)
    texts, tags = tagged_texts(60, seed=1)
    model = lrml.load(folder / "model.lrml")
    expected = evaluate(model, texts, tags)
    assert {name: one["value"] for name, one in found["metrics"].items()} == pytest.approx(dict(expected))
    assert [label["name"] for label in found["labels"]] == sorted(TOPICS)
    assert "left out 1 label " in found["notes"][0]


def test_the_test_rows_of_a_known_dataset_are_judged(folder, call):
    page, model = folder / "yeast.html", folder / "yeast.lrml"
    told, _ = call("evaluate", model, "yeast", "--bootstrap", 20, "--html", page)
    X, Y = load_yeast().test
    value = evaluate(lrml.load(model), X, Y)["label_ranking_average_precision"]
    assert re.search(f"average precision +{value:.4f}", told)
    for part in ("Fitted: LRML: squared loss, theta ", "Threshold: 0.5", "All labels", "Labels by support"):
        assert told.count(part) == 1
    assert "average precision" in page.read_text("utf-8")
    _, error = call("evaluate", model, "yeast", "--html", page, code=2)
    assert f"--html: {str(page)!r}" in error


def test_a_file_with_other_cells_is_read_by_the_columns_of_training(folder, call):
    texts, tags = tagged_texts(20, seed=1)
    rows = (f"{text};{'|'.join(some)};a comment on it\n" for text, some in zip(texts, tags, strict=True))
    (folder / "other.csv").write_text("description;tags;body\n" + "".join(rows))
    call("fit", folder / "train.csv", "-o", folder / "of_file.lrml")
    judged = ("evaluate", folder / "of_file.lrml", folder / "other.csv")
    found, _ = call(*judged, "--json", "--bootstrap", 9)
    assert found["notes"] == []
    told = call("evaluate", folder / "of_file.lrml", folder / "train.csv", "--bootstrap", 9)[1]
    assert "trained on these rows" in told
    assert found["metrics"]["label_ranking_average_precision"]["value"] > 0.9


def test_unknown_labels_are_left_out(tmp_path, call):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)).round(3)
    Y = np.where(rng.random((80, 3)) < 0.3, np.nan, X[:, :3] > 0)
    cells = [["" if np.isnan(value) else value for value in row] for row in np.hstack([X, Y])]
    lines = [",".join(map(str, row)) for row in [["a", "b", "c", "d", "red", "round", "soft"], *cells]]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    columns, model = ("--labels", "red,round,soft"), tmp_path / "m.lrml"
    call("fit", tmp_path / "rows.csv", *columns, "-o", model)
    found, _ = call("evaluate", model, tmp_path / "rows.csv", "--json", "--bootstrap", 9)
    assert found["n_unknown"] == np.isnan(Y).sum()
    score = lrml.load(model)._unnamed().score(X, Y)
    assert found["metrics"]["label_ranking_average_precision"]["value"] == pytest.approx(score)
    methods = ("--methods", "ml-fro,ml-trace", "--bootstrap", 9, "--held-out", 0.5)
    told, _ = call("compare", tmp_path / "rows.csv", *columns, *methods)
    assert "Unknown: " in told


def test_several_files_are_told(folder, call):
    told, _ = call("evaluate", folder / "model.lrml", *[folder / "new.csv"] * 3, "--bootstrap", 9)
    assert f"Data: {folder / 'new.csv'} and 2 more files\n" in told


def test_a_long_evaluation_tells_how_far_it_is(folder, monkeypatch, call):
    judged = ["evaluate", folder / "yeast.lrml", "yeast", "--bootstrap", "10"]
    assert "rows" not in call(*judged)[1]
    assert call(*judged, "--quiet")[1] == ""
    monkeypatch.setattr("lrml._progress._SECONDS", 0.0)
    _, told = call(*judged)
    assert "917 rows in 1 block" in told
    assert "10 of 10 resamples" in told


def test_inspection_of_a_tagger(folder, call):
    found, _ = call("inspect", folder / "model.lrml", "--json", "--features", 3)
    assert found["fitted"]["estimator"] == "LRML"
    for label in found["labels"]:
        words = {word for feature in label["features"] for word in feature["name"].split()}
        assert words & set(TOPICS[label["name"]].split())
    page = folder / "model.html"
    told, _ = call("inspect", folder / "model.lrml", "--html", page)
    assert told.count("penalty on the predictions") == told.count("Singular values: ") == 1
    assert "<svg" in page.read_text("utf-8")
    one = sorted(TOPICS)[0]
    told, _ = call("inspect", folder / "model.lrml", "--label", one, "--features", 2)
    assert f"What speaks for {one}" in told
    assert "Most related" not in told
    assert "missing.lrml" in call("inspect", folder / "missing.lrml", code=2)[1]


@pytest.mark.parametrize(("test", "rows"), [([], (30, 90)), (["--test", "new.csv"], (60, 120))])
def test_comparison_of_two_methods(folder, monkeypatch, call, test, rows):
    monkeypatch.chdir(folder)
    command = ("compare", "train.csv", *test, "--methods", "ml-fro,cplst", "--bootstrap", 50)
    found, told = call(*command, "--html", "compared.html", "--force", "--json")
    assert (found["n_rows"], found["training_rows"]) == rows
    assert list(found["methods"]) == ["ml-fro", "cplst"]
    assert len(found["tests"]) == 8 - 1  # there are fewer than five tags
    assert "tuning cplst, 2 of 2 methods" in told
    assert re.search(r"CPLSTCV: \d+ of \d+ models on splits", told)
    assert "Side by side" in (folder / "compared.html").read_text("utf-8")


@pytest.mark.parametrize(
    "options", [("--methods", "lrml"), ("--methods", "lrml,lmrl"), ("--held-out", "1.5")], ids=" ".join
)
def test_wrong_usage_of_compare(folder, options, call):
    out, error = call("compare", folder / "train.csv", *options, code=2)
    assert out == ""
    assert options[1].split(",")[-1] in error


def test_a_small_p_value_is_no_zero(capsys):
    columns = [column("metric", "metric"), column("p_value", "p-value", "p_value", 4)]
    rows = [{"metric": name, "p_value": p} for name, p in (("a", 0.00009), ("b", 0.0001), ("c", 0.0))]
    answer(None, {"title": "Pairs", "columns": columns, "rows": rows}, as_json=False)
    assert re.findall(r"< \.0001|0\.\d+", capsys.readouterr().out) == ["< .0001", "0.0001", "< .0001"]
