"""``lrml datasets`` as real processes, on real files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from lrml.datasets import MultiLabelDataset, load_yeast, read_dataset, write_dataset


def lrml(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "lrml", "datasets", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "LRML_DATA_HOME": ""} | environment,
        timeout=60,
        check=False,
    )


@pytest.fixture
def toy():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.round(rng.random((6, 4)) * (rng.random((6, 4)) > 0.5), 3))
    Y = sparse.csr_array((rng.random((6, 3)) > 0.5).astype(np.uint8))
    return MultiLabelDataset("toy", X, Y, [f"word {i}" for i in range(4)], ["a", "b,c", "d'e"], 4)


def test_the_list_shows_what_is_there_and_what_is_missing():
    run = lrml()
    assert (run.returncode, run.stderr) == (0, "")
    rows = {words[0]: words[-1] for words in map(str.split, run.stdout.splitlines()) if len(words) == 9}
    assert rows["bibtex"] == "missing"
    assert rows["yeast"] == "embedded"
    records = json.loads(lrml("--json").stdout)
    assert [record["name"] for record in records] == list(rows)
    assert all(record["citation"] and record["bytes"] > 1e5 for record in records)


@pytest.mark.real_data
def test_the_list_finds_the_data_home(mulan_home):
    for run in (lrml("--json", "--data-home", mulan_home), lrml("--json", LRML_DATA_HOME=str(mulan_home))):
        assert {record["status"] for record in json.loads(run.stdout)} == {"data home"}


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["bibtex", "delicious", "yeast", "corel5k"])
def test_describe_prints_table_1_beside_the_published_row(mulan_home, name):
    run = lrml("describe", name, "--data-home", mulan_home)
    pairs = [
        line.split()[-2:] for line in run.stdout.splitlines() if line.startswith((" i", " a", " l", " c"))
    ]
    numbers = [(ours, paper) for ours, paper in pairs if ours[0].isdigit() and paper[0].isdigit()]
    assert len(numbers) >= 5
    assert all(ours == paper for ours, paper in numbers)


def test_describe_reads_the_embedded_data_without_a_download():
    run = lrml("describe", "yeast", "--json")
    found = json.loads(run.stdout)
    assert (found["instances"], found["labels"], found["distinct_label_sets"]) == (2417, 14, 198)


@pytest.mark.parametrize("name", ["toy.arff", "toy.txt.gz", "toy.svm"])
def test_convert_and_back_loses_nothing(tmp_path, toy, name):
    first, second = tmp_path / name, tmp_path / "again.arff"
    write_dataset(toy, first)
    assert lrml("convert", first, second).returncode == 0
    assert lrml("convert", second, tmp_path / "back.svm", "--json").returncode == 0
    found = read_dataset(tmp_path / "back.svm")
    assert found.label_names == toy.label_names
    assert found.feature_names == toy.feature_names
    assert found.n_train == toy.n_train
    for ours, original in ((found.X, toy.X), (found.Y, toy.Y)):
        np.testing.assert_array_equal(ours.toarray(), original.toarray())


def test_files_of_a_split_are_joined(tmp_path, toy):
    for name, rows in (("toy-train", slice(0, 4)), ("toy-test", slice(4, 6))):
        part = MultiLabelDataset(name, toy.X[rows], toy.Y[rows], toy.feature_names, toy.label_names)
        write_dataset(part, tmp_path / f"{name}.svm")
    run = lrml(
        "convert", tmp_path / "toy-train.svm", tmp_path / "toy.txt", "--test", tmp_path / "toy-test.svm"
    )
    assert run.returncode == 0
    assert (
        "toy.txt: <MultiLabelDataset toy: X (6, 4) sparse, Y (6, 3) sparse, train 4 / test 2>" in run.stdout
    )
    assert read_dataset(tmp_path / "toy.txt").n_train == 4


def test_tables_say_where_the_labels_are(tmp_path):
    table = tmp_path / "things.csv"
    table.write_text("id,size,tags\n1,2.5,red;round\n2,3,\n3,1,red\n")
    options = ("--label-column", "tags", "--label-separator", ";", "--ignore", "id", "--json")
    found = json.loads(lrml("describe", table, *options).stdout)
    assert (found["instances"], found["attributes"], found["labels"]) == (3, 1, 2)
    assert found["rows_without_label"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "nope"), "must be one of bibtex, .* or a file, got 'nope'"),
        (
            ("describe", "toy.doc"),
            "got the suffix '.doc' of 'toy.doc'. Use a name that ends",
        ),
        (("describe", "toy.svm", "--xml", "x"), "one of the svmlight reader's .* got 'xml'"),
        (("describe", "broken.svm"), "broken.svm, line 1"),
        (("convert", "yeast", "out.csv"), "must be one of arff, xmc, svmlight, got the suffix '.csv'"),
        (("convert", "yeast", "no/such/out.svm"), "must be written to 'no/such/out.svm'"),
        (("fetch", "nope"), "must be one of bibtex"),
    ],
)
def test_errors_are_one_message_and_leave_nothing(tmp_path, monkeypatch, toy, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_dataset(toy, "toy.svm")
    (tmp_path / "toy.doc").write_text("1 1:1\n")
    (tmp_path / "broken.svm").write_text("1 1:one\n")
    before = sorted(os.listdir())
    run = lrml(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert re.search(f"lrml datasets: error: .*{message}", run.stderr)
    assert sorted(os.listdir()) == before


def test_a_reader_that_has_seen_enough_ends_the_program_quietly():
    command = f"{sys.executable} -m lrml datasets --json | head -c 1"
    run = subprocess.run(command, shell=True, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert run.stderr == ""
    assert run.stdout == "["


def test_yeast_survives_every_format(tmp_path):
    yeast = load_yeast()
    for name in ("y.arff", "y.txt", "y.svm"):
        write_dataset(yeast, tmp_path / name)
        found = read_dataset(tmp_path / name)
        np.testing.assert_array_equal(found.X, yeast.X)
        np.testing.assert_array_equal(found.Y, yeast.Y)
        assert (found.name, found.n_train, found.label_names) == ("yeast", 1500, yeast.label_names)
