"""`lrml fit`, `lrml tune` and `lrml predict` as real processes on real files."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

import lrml
from cli.programs import TOPICS, program, tagged_texts, write_csv
from forking import CAN_FORK, Program
from lrml.datasets import load_yeast, write_dataset
from lrml.metrics import average_precision
from lrml.storage import read_header


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts to learn from, others to predict, and a model of each kind."""
    folder = tmp_path_factory.mktemp("own_data")
    write_csv(folder / "train.csv", *tagged_texts())
    write_csv(folder / "new.csv", *tagged_texts(30, seed=1))
    run = program("fit", folder / "train.csv", "-o", folder / "model.lrml", "--json")
    assert run.returncode == 0, run.stderr
    (folder / "fit.json").write_text(run.stdout)
    (folder / "fit.err").write_text(run.stderr)
    run = program("fit", "yeast", "--theta", "3", "--alpha", "20", "-o", folder / "yeast.lrml")
    assert run.returncode == 0, run.stderr
    return folder


def test_a_fit_says_how_it_read_the_columns_and_what_it_made(folder):
    told = (folder / "fit.err").read_text()
    assert 'text: column "description"' in told
    assert "tags: column \"tags\", separated by ';'" in told
    found = json.loads((folder / "fit.json").read_text())
    assert (found["method"], found["rows"], found["labels"]) == ("lrml", 120, 4)
    assert found["params"]["ridge"] == 1.0  # texts need one
    model = lrml.load(folder / "model.lrml")
    assert isinstance(model, lrml.TextTagger)
    assert list(model.classes_) == sorted(TOPICS)
    assert read_header(folder / "model.lrml")["summary"]["reading"]["text"] == ["description"]
    assert (found["penalty_on"], found["rank"]) == (model.model_.space_, model.model_.rank_)
    assert found["status"] == model.model_.status_
    assert model.model_.n_iter_ == 0  # so there is no progress to tell, but how it ended
    assert f"LRML: {found['status']} Objective {model.model_.objective_:.6g}" in told


def test_default_strengths_are_told_and_kept(tmp_path):
    run = program("fit", "yeast", "--loss", "logistic", "-o", tmp_path / "model.lrml", "--json")
    assert run.returncode == 0, run.stderr
    model = lrml.load(tmp_path / "model.lrml")
    assert (model.alpha, model.ridge) == (None, None)
    told = json.loads(run.stdout)["params"]
    assert told["alpha"] == model.alpha_ > 0
    assert told["ridge"] == model.ridge_ > 0


def test_the_test_texts_are_not_learned_from(folder):
    out = folder / "split.lrml"
    run = program("fit", folder / "train.csv", "--test", folder / "new.csv", "-o", out, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["rows"] == 120
    np.testing.assert_array_equal(*(lrml.load(path).model_.coef_ for path in (out, folder / "model.lrml")))


def test_the_stored_model_is_the_one_that_python_fits(folder):
    texts, tags = tagged_texts()
    model = lrml.TextTagger(lrml.LRML(ridge=1.0)).fit(texts, tags)
    new, _ = tagged_texts(30, seed=1)
    stored = lrml.load(folder / "model.lrml")
    np.testing.assert_allclose(stored.decision_function(new), model.decision_function(new), atol=1e-5)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_predictions_are_those_of_the_model_in_every_format(folder, suffix):
    out = folder / f"tags.{suffix}"
    run = program("predict", folder / "model.lrml", folder / "new.csv", "-k", 2, "-o", out, "--block", 7)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
    texts, _ = tagged_texts(30, seed=1)
    labels, scores = lrml.load(folder / "model.lrml").predict_top_k(texts, 2)
    found, values = read_predictions(out)
    assert found == labels.tolist()
    np.testing.assert_allclose(values, scores, atol=1e-5)


def read_predictions(path):
    """Read a file of predictions with libraries that know nothing of lrml."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [row["tags"] for row in rows], [row["scores"] for row in rows]
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        return [row["tags"] for row in rows], [row["scores"] for row in rows]
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    tags = [[row["tag_1"], row["tag_2"]] for row in rows]
    return tags, [[float(row["score_1"]), float(row["score_2"])] for row in rows]


def test_texts_from_standard_input(folder):
    run = program("predict", folder / "model.lrml", "-", "-k", 1, stdin="the rocket left its orbit\nsoup\n")
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["space", "cooking"]
    run = program("predict", folder / "model.lrml", "-", "--json", "-k", 2, stdin="tennis\n")
    found = json.loads(run.stdout)
    assert (found["row"], found["tags"][0]) == (1, "sport")
    assert found["scores"] == sorted(found["scores"], reverse=True)


def test_only_assigned_tags(folder):
    run = program("predict", folder / "model.lrml", folder / "new.csv", "--assigned", "--json", "-k", 4)
    texts, _ = tagged_texts(30, seed=1)
    decided = lrml.load(folder / "model.lrml").predict(texts)
    assert [sorted(json.loads(line)["tags"]) for line in run.stdout.splitlines()] == decided


def test_tune_chooses_and_shows_what_it_tried(folder):
    out, plot = folder / "tuned.lrml", folder / "grid.png"
    run = program("tune", folder / "train.csv", "-o", out, "--plot", plot, "--method", "ml-fro")
    assert run.returncode == 0, run.stderr
    assert re.search(r"^average precision \d\.\d+ by leave-one-out scores", run.stdout, re.MULTILINE)
    assert plot.read_bytes().startswith(b"\x89PNG")
    tuned = lrml.load(out)
    texts, tags = tagged_texts(30, seed=1)
    Y = MultiLabelBinarizer(classes=sorted(TOPICS)).fit_transform(tags)
    assert average_precision(Y, tuned.decision_function(texts)) > 0.9
    assert f"{tuned.model_.best_params_['alpha']:.4g}" in run.stdout


def test_a_configuration_file_and_options_that_override_it(folder):
    (folder / "settings.toml").write_text(
        'method = "ml-fro"\n[model]\nalpha = 3.0\n[text]\nngram_range = [1, 1]\nmin_df = 1\n'
    )
    run = program(
        "fit", folder / "train.csv", "-o", folder / "c.lrml", "--config", folder / "settings.toml",
        "--alpha", "2", "--json",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    model = lrml.load(folder / "c.lrml")
    assert (type(model.model_).__name__, model.model_.alpha) == ("MLFro", 2.0)
    assert model.vectorizer_.get_params()["ngram_range"] == (1, 1)


def test_numbers_are_matched_by_name(folder):
    yeast = load_yeast()
    run = program("predict", folder / "yeast.lrml", "yeast", "--json", "-k", 3)
    assert run.returncode == 0, run.stderr
    X = yeast.test[0]
    model = lrml.LRML(3, 20.0).fit(*yeast.train)
    labels, _ = model.predict_top_k(X, 3)
    names = np.array(yeast.label_names)
    found = [json.loads(line)["tags"] for line in run.stdout.splitlines()]
    assert np.mean(np.array(found) == names[labels]) > 0.999  # stored in single precision
    # The same rows with their columns in another order, one more column, and no labels.
    order = np.random.default_rng(0).permutation(X.shape[1])
    with open(folder / "shuffled.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["more", *(yeast.feature_names[j] for j in order)])
        rows.writerows([7.0, *X[i, order]] for i in range(20))
    run = program("predict", folder / "yeast.lrml", folder / "shuffled.csv", "--json", "-k", 3)
    assert run.returncode == 0, run.stderr
    assert [json.loads(line)["tags"] for line in run.stdout.splitlines()] == found[:20]
    assert "left out 1 features that the model has not seen in training" in run.stderr


def test_sparse_rows_stream_and_unknown_features_are_left_out(folder):
    yeast = load_yeast()
    model = folder / "sparse.lrml"
    write_dataset(yeast, folder / "yeast.xmc")
    run = program("fit", folder / "yeast.xmc", "-o", model, "--theta", "3", "--alpha", "20")
    assert run.returncode == 0, run.stderr
    (folder / "rows.svm").write_text("0 1:0.5 3:-0.2\n 2:0.1 500:9.0\n")
    run = program("predict", model, folder / "rows.svm", "-k", 1, "--json", "--read", "n_features=600")
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 2
    assert "left out 1 features" in run.stderr


def test_features_are_counted_from_where_training_counted_them(folder):
    rng = np.random.default_rng(0)
    X = (rng.random((60, 6)) < 0.5).astype(float)
    rows = ["0," if x[0] else "1," for x in X]  # the label follows the first feature
    lines = [
        f"{label[:-1]} {' '.join(f'{j}:1' for j in np.flatnonzero(x))}"
        for label, x in zip(rows, X, strict=True)
    ]
    (folder / "zero.svm").write_text("\n".join(lines) + "\n")
    run = program(
        "fit", folder / "zero.svm", "-o", folder / "zero.lrml", "--method", "ml-fro", "--alpha", ".1"
    )
    assert run.returncode == 0, run.stderr
    # No row of this file has feature 0, from which the base could be guessed.
    (folder / "later.svm").write_text("1 1:1 2:1\n1 3:1\n")
    run = program("predict", folder / "zero.lrml", folder / "later.svm", "-k", 1, "--json")
    assert [json.loads(line)["tags"] for line in run.stdout.splitlines()] == [["label1"], ["label1"]], (
        run.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "nowhere.csv", "-o", "{0}/x.lrml"), "'nowhere.csv' is neither"),
        (("fit", "{0}/empty.csv", "-o", "{0}/x.lrml"), "There is no header"),
        (("fit", "{0}/train.csv", "-o", "{0}/model.lrml"), "MODEL: .*model.lrml.*--force"),
        (("fit", "{0}/train.csv", "-o", "{0}/train.csv", "--force"), "MODEL is .*train.csv"),
        (("fit", "{0}/train.csv", "-o", os.devnull, "--force"), "a device"),
        (("fit", "{0}/train.csv", "-o", "{0}/x.lrml", "--seed", "-1"), "seed"),
        (("fit", "{0}/train.csv", "-o", "{0}/x.lrml", "--text", "body"), "body"),
        (("fit", "{0}/train.csv", "-o", "{0}/x.lrml", "--alpha", "-1"), "alpha is -1"),
        (("fit", "{0}/train.csv", "-o", "{0}/x.lrml", "--device", "nowhere"), "[Ll]eave (it|device) out"),
        (("fit", "{0}/train.csv", "-o", "{0}/x.lrml", "--method", "ml-fro", "--theta", "3"), "theta"),
        (("fit", "{0}/train.csv", "-o", "{0}/x.lrml", "--config", "{0}/train.csv"), "TOML"),
        (("tune", "{0}/train.csv", "-o", "{0}/x.lrml", "--scoring", "beauty"), "scoring is 'beauty'"),
        (("predict", "{0}/yeast.lrml", "-"), "standard input"),
        (("predict", "{0}/model.lrml", "{0}/new.csv", "-o", "{0}/new.csv"), "--output: .*new.csv"),
        (("predict", "{0}/yeast.lrml", "{0}/fewer.csv"), "103 features"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(folder, arguments, message):

    (folder / "empty.csv").write_text("")
    (folder / "fewer.csv").write_text("Att1,Att2\n1,2\n")
    before = sorted(os.listdir(folder))
    run = program(*(argument.format(folder) for argument in map(str, arguments)))
    assert run.returncode == 2, run.stderr
    assert re.search(message, run.stderr), run.stderr
    assert "Traceback" not in run.stderr
    assert sorted(os.listdir(folder)) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder):
    closed = folder / "closed.csv"
    closed.write_text("text,tags\na b c,d\n")
    closed.chmod(0)
    run = program("fit", closed, "-o", folder / "x.lrml")
    assert run.returncode == 2
    assert "ermission" in run.stderr


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_leaves_no_half_written_file(folder, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", small], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        run = program("fit", folder / "train.csv", "-o", small / "model.lrml")
        assert run.returncode == 2, run.stderr
        assert "No space left" in run.stderr
        assert os.listdir(small) == []
        run = program(
            "predict", folder / "model.lrml", folder / "new.csv", "-k", "4", "-o", small / "a.jsonl"
        )
        assert run.returncode in (0, 2)
        assert os.listdir(small) in ([], ["a.jsonl"])
    finally:
        subprocess.run(["umount", small], check=True)


# A process that sends itself a signal while it predicts, inside an exec of text, as an import would.
_STOPPED = """
import signal, sys
from lrml.cli import main
from lrml.datasets import PredictionWriter
for number in (signal.SIGINT, signal.SIGTERM):
    PredictionWriter.write = lambda *rows: signal.raise_signal(number)
    print(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_an_interrupted_prediction_leaves_nothing(folder):
    (folder / "one.txt").write_text("a rocket\n")
    command = ["predict", folder / "model.lrml", folder / "one.txt", "-o", folder / "never.csv"]
    run = Program(*command, code=_STOPPED).result()
    assert (run.returncode, run.stdout.split()) == (0, [str(128 + signal.SIGINT), str(128 + signal.SIGTERM)])
    assert run.stderr.splitlines() == [
        f"lrml predict: {word}; no file is half-written." for word in ("interrupted", "stopped")
    ]
    assert not any("never" in name for name in os.listdir(folder))
