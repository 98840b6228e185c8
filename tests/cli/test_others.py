"""`lrml export`, `lrml theory` and `lrml split`."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

import lrml
from cli.programs import tagged_texts, write_csv
from lrml import LRML, MLFro, TextTagger
from lrml.datasets import load_yeast, read_dataset, write_dataset
from lrml.metrics import evaluate
from lrml.theory import bound_report

# ONNX


def test_a_model_file_becomes_a_graph_with_the_same_answers(tmp_path, call):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    texts, tags = ["a chess engine", "an image viewer"] * 2, [["game"], ["image"]] * 2
    source, target = tmp_path / "model.lrml", tmp_path / "model.onnx"
    lrml.save(TextTagger(MLFro(0.1)).fit(texts, tags), source)
    told, _ = call("export", source, target, "--top-k", 1)
    assert "inputs: text" in told
    running = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    (best,) = running.run(["top_labels"], {"text": np.array(["chess", "images viewer"], dtype=object)})
    assert best.tolist() == [["game"], ["image"]]
    assert str(target) in call("export", source, target, code=2)[1]
    document, _ = call("export", source, target, "--force", "--no-text", "--json")
    assert document["bytes"] == target.stat().st_size
    assert (document["inputs"], document["outputs"]) == (["features"], ["scores", "assigned"])


# Theory


def test_bounds_are_those_of_the_fit(call):
    found, _ = call("theory", "yeast", "--theta", 3, "--alpha", 20, "--json", "--draws", 4)
    X, Y = load_yeast().train
    model = LRML(3, 20.0, fit_intercept=False).fit(normalize(X), Y)
    assert found["model"] == {"theta": 3, "alpha": 20.0, "ridge": 0.0}
    assert found["facts"] == pytest.approx(bound_report(model, normalize(X), n_draws=4, random_state=0).facts)
    for row in found["bounds"]:
        assert row["value"] == pytest.approx(sum(row["terms"].values()))
    assert "Theorem 2" in call("theory", "yeast", "--draws", 4)[0]


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_the_theory_of_a_model(tmp_path, monkeypatch, call, kind):
    monkeypatch.setenv("LRML_DATA_HOME", str(tmp_path))  # the embedded data, as below, not a copy of Mulan's
    texts, tags = tagged_texts()
    write_csv(tmp_path / "texts.csv", texts, tags)
    if kind == "texts":
        model = TextTagger(LRML(ridge=1.0)).fit(texts, tags)
        data, inner, X = tmp_path / "texts.csv", model.model_, model.transform(texts)
    else:
        X, Y = load_yeast().train
        data, inner = "yeast", LRML(3, 20.0, fit_intercept=False).fit(X, Y)
        model = inner
    lrml.save(model, tmp_path / "model.lrml")
    found, _ = call("theory", data, "--model", tmp_path / "model.lrml", "--json", "--draws", 3)
    expected = bound_report(inner, X, n_draws=3, random_state=0)
    assert found["facts"] == pytest.approx(expected.facts, rel=1e-6)
    assert found["dataset"] == ("texts" if kind == "texts" else "yeast")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "'nothing'"),
        (("yeast", "--theta", "many"), "is 'many'"),
        (("yeast", "--theta", "99", "--alpha", "1"), "theta is 99"),
        (("yeast", "--alpha", "-1"), "alpha"),
        (("yeast", "--draws", "0"), "n_draws"),
        (("yeast", "--model", "bad.lrml"), "model file"),
        (("holes.csv", "--labels", "red"), "2 missing values"),
    ],
)
def test_wrong_usage_is_named(arguments, message, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.lrml").write_bytes(b"PK\x03\x04 and so on")
    (tmp_path / "holes.csv").write_text("a,b,red\n1,2,0\n,3,1\n4,,1\n5,1,0\n", encoding="utf-8")
    assert message in call("theory", *arguments, code=2)[1]


# Splits


@pytest.mark.parametrize("name", ["old.csv", "old.csv.gz", "old.tsv", "old.jsonl"])
def test_a_split_keeps_all_columns_and_groups(tmp_path, call, name):
    rows = [
        {"id": f"r{k}", "body": f"a text, about {k}\nin lines", "tags": "x;y", "author": f"a{k % 7}"}
        for k in range(40)
    ]
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wt", newline="", encoding="utf-8") as file:
        if "jsonl" in name:
            rows[0]["body"] = "half a letter: \ud83d"
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if "tsv" in name else ",")
            writer.writeheader()
            writer.writerows(rows)
    found, _ = call("split", tmp_path / name, "--share", 0.3, "--group", "author", "--seed", 1, "--json")
    stem, suffix = name.removesuffix(".gz").split(".")
    parts = []
    for part in ("train", "test"):
        path = tmp_path / f"{stem}-{part}.{suffix}"
        with open(path, newline="", encoding="utf-8") as file:
            mark = "\t" if "tsv" in name else ","
            parts.append(
                list(map(json.loads, file) if "jsonl" in name else csv.DictReader(file, delimiter=mark))
            )
        assert found["wrote"][str(path)] == len(parts[-1]) > 0
    assert sorted(map(str, [*parts[0], *parts[1]])) == sorted(map(str, rows))
    assert not {row["author"] for row in parts[0]} & {row["author"] for row in parts[1]}
    assert "--force" in call("split", tmp_path / name, code=2)[1]
    again, _ = call(
        "split", tmp_path / name, "--share", 0.3, "--group", "author", "--seed", 1, "--force", "--json"
    )
    assert again == found


def test_a_split_of_numbers(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    call("split", "yeast")
    train, test = (read_dataset(tmp_path / f"yeast-{part}.npz") for part in ("train", "test"))
    assert (len(train), len(test)) == (1933, 484)
    whole = load_yeast().X
    assert {*map(bytes, whole)} == {*map(bytes, train.X), *map(bytes, test.X)}
    write_dataset(load_yeast(), tmp_path / "data.arff")
    assert "'author'" in call("split", "data.arff", "--group", "author", code=2)[1]
    assert "one file" in call("split", "data.arff", "data.arff", code=2)[1]
    assert "--share is 2" in call("split", "data.arff", "--share", 2, code=2)[1]


def test_a_pipeline_in_a_model_file(tmp_path, monkeypatch, call):
    monkeypatch.setenv("LRML_DATA_HOME", str(tmp_path))
    X, Y = load_yeast().train
    model = make_pipeline(StandardScaler(), MLFro(1.0)).fit(X, Y)
    lrml.save(model, tmp_path / "pipe.lrml")
    found, _ = call("predict", tmp_path / "pipe.lrml", "yeast", "--json", "-k", 2)
    labels, _ = lrml.predict_top_k(model, load_yeast().test[0], 2)
    assert [row["tags"] for row in found] == labels.tolist()
    found, _ = call("evaluate", tmp_path / "pipe.lrml", "yeast", "--json", "--bootstrap", 9, "--quiet")
    value = evaluate(model, *load_yeast().test)["f1_micro"]
    assert found["metrics"]["f1_micro"]["value"] == pytest.approx(value)
    assert "MLFro: squared loss, alpha 1" in call("inspect", tmp_path / "pipe.lrml")[0]
    facts = call("theory", "yeast", "--model", tmp_path / "pipe.lrml", "--json", "--draws", 2)[0]["facts"]
    assert facts["trace_norm"] == pytest.approx(model[-1].singular_values_.sum(), rel=1e-5)
