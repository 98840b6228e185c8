"""`lrml fit`, `lrml tune` and `lrml predict` on real files, as processes where that matters."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

import lrml
from cli.programs import TOPICS, program, tagged_texts, write_csv
from lrml.cli.learn import Recipe
from lrml.datasets import FORMATS, load_yeast
from lrml.metrics import label_ranking_average_precision
from lrml.storage import read_header


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts to learn from, others to predict, and a model of each kind."""
    folder = tmp_path_factory.mktemp("own_data")
    write_csv(folder / "train.csv", *tagged_texts())
    write_csv(folder / "new.csv", *tagged_texts(30, seed=1))
    (folder / "few.csv").write_text("id;description;tags\nfew0;the comet;space\nfew1;a soup;cooking\n")
    run = program("fit", folder / "train.csv", "-o", folder / "model.lrml", "--json")
    assert run.returncode == 0, run.stderr
    (folder / "fit.json").write_text(run.stdout)
    (folder / "fit.err").write_text(run.stderr)
    run = program("fit", "yeast", "--theta", "3", "--alpha", "20", "-o", folder / "yeast.lrml")
    assert run.returncode == 0, run.stderr
    return folder


def test_a_fit_says_how_it_read_the_columns_and_what_it_made(folder, call):
    told = (folder / "fit.err").read_text()
    assert 'text: column "description"' in told
    assert "tags: column \"tags\", separated by ';'" in told
    found = json.loads((folder / "fit.json").read_text())
    assert (found["method"], found["rows"], found["labels"]) == ("lrml", 120, 4)
    assert found["params"]["ridge"] == 1.0  # texts need one
    model = lrml.load(folder / "model.lrml")
    assert list(model.classes_) == sorted(TOPICS)
    assert read_header(folder / "model.lrml")["summary"]["reading"]["text"] == ["description"]
    assert (found["penalty_on"], found["rank"]) == (model.model_.space_, model.model_.rank_)
    assert found["bytes"] == (folder / "model.lrml").stat().st_size
    texts, tags = tagged_texts()
    same = lrml.TextTagger(lrml.LRML(ridge=1.0)).fit(texts, tags)
    new, _ = tagged_texts(30, seed=1)
    np.testing.assert_allclose(model.decision_function(new), same.decision_function(new), atol=1e-5)
    out, err = call("fit", folder / "train.csv", "-o", folder / "again.lrml")
    assert (out + err).count(found["status"]) == 1  # how it ended is told once


def test_a_column_of_names_for_tags_is_doubted(tmp_path, call):
    texts, _ = tagged_texts(12)
    for name, names in {"names": [f"p{row}" for row in range(12)], "kinds": ["p", "q"] * 6}.items():
        rows = [f"{tag},{text}" for tag, text in zip(names, texts, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["kind,text", *rows]))
        asked = ("fit", tmp_path / f"{name}.csv", "--tags", "kind", "-o", tmp_path / f"{name}.lrml")
        assert ("each in one text only" in "".join(call(*asked))) == (name == "names")


def test_tune_chooses_and_shows_what_it_tried(folder, call):
    out, plot = folder / "tuned.lrml", folder / "grid.png"
    told, _ = call("tune", folder / "train.csv", "-o", out, "--plot", plot, "--method", "ml-fro")
    assert re.search(r"^label ranking average precision \d\.\d+ by leave-one-out scores", told, re.MULTILINE)
    assert plot.read_bytes().startswith(b"\x89PNG")
    tuned = lrml.load(out)
    texts, tags = tagged_texts(30, seed=1)
    Y = MultiLabelBinarizer(classes=sorted(TOPICS)).fit_transform(tags)
    assert label_ranking_average_precision(Y, tuned.decision_function(texts)) > 0.9
    assert f"{tuned.model_.best_params_['alpha']:.4g}" in told


def test_the_fit_to_all_rows_after_a_search_tells_how_far_it_is(folder, call, monkeypatch):
    monkeypatch.setattr("lrml._progress._SECONDS", 0.0)
    given = ["--method", "ml-fro", "--loss", "logistic", "--alphas", "0.1,1"]
    _, told = call("tune", folder / "train.csv", *given, "-o", folder / "slow.lrml")
    assert re.search(r"MLFro: \d+ of at most \d+ iterations, .*left", told[told.index("to all rows") :])


def test_a_configuration_file_and_options_that_override_it(folder, call):
    (folder / "settings.toml").write_text(
        'method = "ml-fro"\n[model]\nalpha = 3.0\n[text]\nngram_range = [1, 1]\nmin_df = 1\n'
    )
    options = ("--config", folder / "settings.toml", "--alpha", "2")
    call("fit", folder / "train.csv", "-o", folder / "c.lrml", *options)
    model = lrml.load(folder / "c.lrml")
    assert (type(model.model_).__name__, model.model_.alpha) == ("MLFro", 2.0)
    assert model.vectorizer_.get_params()["ngram_range"] == (1, 1)


def test_a_pruned_model_says_how_many_weights_it_keeps(folder, call, tmp_path):
    small, whole = tmp_path / "small.lrml", tmp_path / "whole.lrml"
    said, _ = call("fit", folder / "train.csv", "-o", small, "--prune", 50, "--json")
    model = lrml.load(small).model_
    assert said["weights"] == model.coef_.nnz == 50
    assert said["bytes"] == small.stat().st_size
    call("fit", folder / "train.csv", "-o", whole, "--prune", "none")
    assert lrml.load(whole).prune is None
    rows, _ = call("predict", small, folder / "new.csv", "--json", "-k", 1)
    assert len(rows) == 30


@pytest.mark.parametrize(
    ("given", "loss", "alphas"),
    [
        ({}, "squared_hinge", 0.0),
        ({"loss": "logistic"}, "logistic", 0.0),
        ({"loss": "squared"}, "squared", None),
        ({"rule": "smallest"}, "squared_hinge", None),
        ({"thetas": [0]}, "squared_hinge", None),
    ],
)
def test_what_is_asked_for_frees_the_penalty_for_many_texts_too(given, loss, alphas):
    recipe = Recipe.of(given)
    search = recipe.estimator(search=True, n_texts=10_000, seed=0, verbose=False).model
    assert (search.estimator.loss, search.alphas) == (loss, alphas)


def test_every_format_can_be_named(folder, call):
    texts, tags = tagged_texts(40)
    lines = (json.dumps({"body": text, "tags": some}) + "\n" for text, some in zip(texts, tags, strict=True))
    (folder / "texts.json").write_text("".join(lines))
    call("fit", folder / "texts.json", "--from", "jsonl", "-o", folder / "named.lrml", "--quiet")
    assert len(lrml.load(folder / "named.lrml").classes_) == 4
    for command in ("fit", "predict"):
        assert set(FORMATS) <= set(re.findall(r"[a-z]+", call(command, "--help")[0]))


# Predicting


def test_predictions_are_those_of_the_model(folder, call):
    texts, _ = tagged_texts(30, seed=1)
    labels, scores = lrml.load(folder / "model.lrml").predict_top_k(texts, 2)
    asked = (
        "predict",
        folder / "model.lrml",
        folder / "new.csv",
        "-k",
        2,
        "--read",
        "rows=7",
        "--keep",
        "id",
    )
    found, _ = call(*asked, "--json")
    call(*asked, "-o", folder / "tags.jsonl")
    assert found == list(map(json.loads, (folder / "tags.jsonl").read_text().splitlines()))
    assert [(row["row"], row["id"]) for row in found] == [(row + 1, f"a{row}") for row in range(30)]
    assert [row["tags"] for row in found] == labels.tolist()
    np.testing.assert_allclose([row["scores"] for row in found], scores, atol=1e-5)
    written = [score for row in found for score in row["scores"]]
    assert written == [float(f"{score:.7g}") for score in written]  # digits that single precision has


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_several_columns_are_kept_from_the_table_beside_an_array(tmp_path, call, suffix):
    X, Y = load_yeast().train
    lrml.save(lrml.LRML().fit(X, Y), tmp_path / "m.lrml")
    np.save(tmp_path / "rows.npy", X[:5])
    (tmp_path / "names.csv").write_text("id,who\n" + "".join(f"r{row},w{row}\n" for row in range(5)))
    rows, out = (tmp_path / "rows.npy", tmp_path / "names.csv"), tmp_path / f"tags.{suffix}"
    kept = ("--keep", "id", "--keep", "who", "--read", "rows=2")
    found, _ = call("predict", tmp_path / "m.lrml", *rows, "-k", 1, *kept, "-o", out, "--json")
    assert (found["wrote"], found["rows"]) == (str(out), 5)
    frame = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert frame[["id", "who"]].to_numpy().tolist() == [[f"r{row}", f"w{row}"] for row in range(5)]


def test_texts_from_standard_input(folder):
    run = program("predict", folder / "model.lrml", "-", "-k", 1, stdin="the rocket left its orbit\nsoup\n")
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["space", "cooking"]
    run = program("predict", folder / "model.lrml", "-", "--json", "-k", 2, stdin="tennis\n")
    found = json.loads(run.stdout)
    assert (found["row"], found["tags"][0]) == (1, "sport")
    assert found["scores"] == sorted(found["scores"], reverse=True)


def test_only_assigned_tags(folder, call):
    where = ("predict", folder / "model.lrml", folder / "new.csv", "--json", "-k", 4)
    model, (texts, _) = lrml.load(folder / "model.lrml"), tagged_texts(30, seed=1)
    found, _ = call(*where, "--assigned")
    assert [sorted(row["tags"]) for row in found] == model.predict(texts)
    found, _ = call(*where, "--threshold", "0.3")
    assert [len(row["tags"]) for row in found] == (model.decision_function(texts) >= 0.3).sum(axis=1).tolist()
    for cut, n_notes in ("0.3", 0), ("30", 1):  # that no row has a tag is told
        told, _ = call(*where, "--threshold", cut, "-o", folder / f"above {cut}.csv")
        assert len(told["notes"]) == n_notes


def test_a_threshold_of_probabilities_is_one(tmp_path, call):
    X, Y = load_yeast().train
    model = lrml.MLFro(1.0, loss="logistic").fit(X, Y)
    lrml.save(model, tmp_path / "m.lrml")
    found, _ = call("predict", tmp_path / "m.lrml", "yeast", "--json", "-k", 14, "--threshold", "0.9")
    expected = model.predict_proba(load_yeast().test[0])
    assert [len(row["tags"]) for row in found] == (expected >= 0.9).sum(axis=1).tolist()
    assert all(score >= 0.9 for row in found for score in row["scores"])


def test_numbers_are_matched_by_name(folder, call):
    yeast = load_yeast()
    found, _ = call("predict", folder / "yeast.lrml", "yeast", "--json", "-k", 3)
    X = yeast.test[0]
    labels, _ = lrml.LRML(3, 20.0).fit(*yeast.train).predict_top_k(X, 3)
    tags = [row["tags"] for row in found]
    assert np.mean(np.array(tags) == np.array(yeast.label_names)[labels]) > 0.999  # in single precision
    # The same rows with their columns in another order, one more column, and no labels.
    order = np.random.default_rng(0).permutation(X.shape[1])
    with open(folder / "shuffled.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["more", *(yeast.feature_names[j] for j in order)])
        rows.writerows([7.0, *X[i, order]] for i in range(20))
    found, told = call("predict", folder / "yeast.lrml", folder / "shuffled.csv", "--json", "-k", 3)
    assert [row["tags"] for row in found] == tags[:20]
    assert "left out 1 feature " in told


# What is refused


_TAKE_MODELS = (
    ("predict", "yeast"),
    ("evaluate", "yeast"),
    ("inspect", ""),
    ("serve", ""),
    ("export", "x.onnx"),
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit yeats -o x.lrml", "'yeats'.*yeast"),
        ("fit empty.csv -o x.lrml", "empty.csv"),
        ("fit train.csv -o model.lrml", "model.lrml.*--force"),
        ("fit train.csv -o train.csv --force", "train.csv"),
        (f"fit train.csv -o {os.devnull} --force", "a device"),
        ("fit train.csv -o x.lrml --seed -1", "seed"),
        ("fit train.csv -o x.lrml --text body", "body"),
        ("fit train.csv -o x.lrml --alpha -1", "alpha is -1"),
        ("fit train.csv -o x.lrml --device nowhere", "device"),
        ("fit train.csv -o x.lrml --method ml-fro --theta 3", "theta"),
        ("fit train.csv -o x.lrml --method lmrl", "'lmrl'.*lrml"),
        ("fit train.csv -o x.lrml --config train.csv", "TOML"),
        ("fit train.csv -o x.lrml --config no.toml", "^(?!.*Errno).*--config.*'no.toml'"),
        ("fit one.csv -o x.lrml", r"min_df = 1.*\[text\].*--config"),
        ("fit rows.npy -o x.lrml", "table"),
        ("tune train.csv -o x.lrml --cv 1", "cv is 1.*in Python"),
        ("tune train.csv -o x.lrml --ranks 1", "^(?!.*callback).*'ranks'.*thetas"),
        ("fit train.csv -o x.lrml --config text.toml", "'mindf'.*min_df"),
        ("fit train.csv -o x.lrml --config model.toml", "LRML .*'rule'.*alpha"),
        ("fit rows.json -o x.lrml", "'.json'.*--from"),
        ("fit train.csv -o x.lrml --read n_feature=3", "'n_feature'"),
        ("fit train.csv -o x.lrml --read zero_based=no", "'no'"),
        ("tune train.csv -o x.lrml --scoring beauty", "scoring is 'beauty'"),
        ("predict yeast.lrml -", "standard input"),
        ("tune nothing.csv -o x.lrml --plot p.txt", r"--plot: 'p.txt'.*\.svg"),
        ("evaluate nothing.lrml nothing.csv --html p.pdf", r"--html: 'p.pdf'.*\.html"),
        ("evaluate nothing.lrml nothing.csv --bootstrap 1", "--bootstrap"),
        ("split nothing.csv --share 1.5", "--share is 1.5"),
        ("compare nothing.csv --held-out 1.5", "--held-out is 1.5"),
        ("predict model.lrml new.csv -k 0", "-k is 0.* 1 to 4"),
        ("predict model.lrml new.csv -o new.csv --force", "--output: .*new.csv"),
        ("predict model.lrml new.csv --keep name", "--keep: .*'name'"),
        ("predict model.lrml - --keep id", "--keep.*'-'"),
        ("predict model.lrml line.txt --keep id", "--keep.*'line.txt'"),
        ("predict yeast.lrml yeast --keep id", "--keep.*'yeast'"),
        ("predict yeast.lrml rows.npy --keep id", "--keep.*'rows.npy'"),
        ("predict model.lrml new.csv -o x.xlsx", r"\.csv, \.jsonl, \.parquet, "),
        *((f"{command} flat.lrml yeast", "flat.lrml'.*reshape") for command in ("predict", "evaluate")),
        *((f"{command} flat.lrml", "flat.lrml'.*reshape") for command in ("inspect", "serve")),
        ("theory yeast --model flat.lrml", "flat.lrml'.*reshape"),
        *((f"{command} real.lrml yeast", "real.lrml'.*predict") for command in ("predict", "evaluate")),
        ("predict train.csv new.csv", "model file"),
        ("predict yeast.lrml fewer.csv", "103 features"),
        ("predict no.lrml new.csv", "^(?!.*Errno).*no.lrml"),
        *((f"{command} sums.lrml {rest}", "sums.*fit_statistics") for command, rest in _TAKE_MODELS),
        ("theory yeast --model sums.lrml", "sums.*fit_statistics"),
        ("theory train.csv", "'train.csv' has texts.*--model"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(wrong, call, monkeypatch, arguments, message):
    monkeypatch.chdir(wrong)
    before = sorted(os.listdir(wrong))
    out, told = call(*arguments.split(), code=2)
    assert out == ""
    assert re.search(message, told.splitlines()[-1]), told
    assert "Traceback" not in told
    assert sorted(os.listdir(wrong)) == before


@pytest.fixture(scope="module")
def wrong(folder):
    """The folder, with files and models that commands refuse."""
    for name, text in {
        "empty.csv": "",
        "rows.json": "{}",
        "fewer.csv": "Att1,Att2\n1,2\n",
        "one.csv": "text,tags\nred apple,fruit\n",
        "text.toml": "[text]\nmindf = 2\n",
        "model.toml": '[model]\nrule = "smallest"\n',
        "line.txt": "a comet\n",
    }.items():
        (folder / name).write_text(text)
    X, Y = load_yeast().train
    np.save(folder / "rows.npy", X[:2])
    for name, model in {
        "sums": lrml.MLFro().partial_fit(np.eye(3), np.eye(3)).statistics_,
        "flat": lrml.MLFro(1.0).fit(X, Y[:, 0]),
        "real": lrml.SpectralRegressor(max_rank=1).fit(X, Y),
    }.items():
        lrml.save(model, folder / f"{name}.lrml")
    return folder


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write into")
@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "rubbish", "-o"),
        ("tune", "rubbish", "-o"),
        ("tune", "rubbish", "-o", "x.lrml", "--plot"),
        ("predict", "rubbish", "rubbish", "-o"),
        ("evaluate", "rubbish", "rubbish", "--html"),
        ("compare", "rubbish", "--html"),
        ("inspect", "rubbish", "--html"),
        ("export", "rubbish"),
        ("datasets", "convert", "rubbish", "--to", "xmc"),
    ],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read(
    arguments, tmp_path, monkeypatch, call
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubbish").write_bytes(b"\0\1\2")  # read first, it would be the error
    for place in ("/proc/out.csv", "nowhere/out.csv", f"{'x' * 300}.csv"):
        _, told = call(*arguments, place, code=2)
        assert place in told or Path(place).parent.name in told
        assert "rubbish" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["rubbish"]
