"""``lrml datasets`` on real files, as real processes where that may make a difference."""

from __future__ import annotations

import json
import os
import re
import subprocess

import numpy as np
import pytest
from scipy import sparse

from forking import run_program
from lrml.cli import main
from lrml.datasets import Dataset, read_dataset, write_dataset


def lrml(*arguments, **environment):
    return run_program("datasets", *arguments, **({"LRML_DATA_HOME": ""} | environment))


@pytest.fixture
def call(capsys, monkeypatch):
    """Run the program in this process, which is faster; the result is like that of a real one."""
    monkeypatch.setenv("LRML_DATA_HOME", "")

    def run(*arguments):
        code = main(["datasets", *map(str, arguments)])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture
def toy():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.round(rng.random((6, 4)) * (rng.random((6, 4)) > 0.5), 3))
    Y = sparse.csr_array((rng.random((6, 3)) > 0.5).astype(np.uint8))
    return Dataset("toy", X, Y, [f"word {i}" for i in range(4)], ["a", "b,c", "d'e"], 4)


def test_the_list_shows_what_is_there_and_what_is_missing(call):
    run = lrml()
    assert (run.returncode, run.stderr) == (0, "")
    rows = {words[0]: words[-1] for words in map(str.split, run.stdout.splitlines()) if len(words) == 8}
    assert rows["bibtex"] == "missing"
    assert rows["yeast"] == "embedded"
    assert all(
        f" {state}: " in run.stdout for state in ("embedded", "data home", "cache", "missing", "damaged")
    )
    records = json.loads(call("--json").stdout)
    assert {record["name"] for record in records} <= rows.keys()
    assert all(record["citation"] and record["bytes"] > 1e5 for record in records)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "nope"), "'nope'"),
        (("describe", "toy.doc"), "the suffix '.doc' of 'toy.doc'"),
        (("describe", "toy.svm", "--read", "xml=x"), "svmlight files have no option 'xml'"),
        (("describe", "toy.svm", "--read", "n_features=abc"), "n_features.*'abc'"),
        (("describe", "toy.svm", "--read", "zero_based=no"), "zero_based.*'no'"),
        (("describe", "broken.svm"), "broken.svm, line 1"),
        (("convert", "yeast", "out.csv"), "'out.csv' is to be csv"),
        (("convert", "yeast", "no/such/out.svm"), "OUT: there is no folder 'no/such'"),
        (("fetch", "yeast", "Corel5K"), "'Corel5K'.* Did you mean corel5k"),
        (("describe", "Yeast"), "'Yeast'.* Did you mean yeast"),
        (("describe", "yeast", "--labels", "3"), "labels is for data files, .*'yeast'"),
        (("describe", "toy.svm", "--test", "no.svm"), "no file 'no.svm'"),
    ],
)
def test_errors_are_one_message_and_leave_nothing(tmp_path, monkeypatch, toy, call, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_dataset(toy, "toy.svm")
    (tmp_path / "toy.doc").write_text("1 1:1\n")
    (tmp_path / "broken.svm").write_text("1 1:one\n")
    before = sorted(os.listdir())
    run = call(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert re.search(f"lrml datasets.*: error: .*{message}", run.stderr)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("name", "partner"),
    [("out.arff", "out.xml"), ("out.npz", None)],
)
def test_convert_names_its_files_and_replaces_none_unasked(
    tmp_path, tmp_path_factory, call, toy, name, partner
):
    source = tmp_path_factory.mktemp("source") / "toy.npz"
    write_dataset(toy, source)
    target, files = tmp_path / name, [tmp_path / one for one in (name, partner) if one]
    found = json.loads(call("convert", source, target, "--json").stdout)
    assert found["wrote"] == [str(path) for path in files]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    for mine in files:
        for path in files:
            path.unlink()
        mine.write_text("mine")
        refused = call("convert", "no such source", target)  # refused before anything is read
        assert refused.returncode == 2
        assert f"OUT: {str(mine)!r}" in refused.stderr
        assert mine.read_text() == "mine"
        written = call("convert", source, target, "--force").stdout
        assert written.startswith(f"wrote {target}: {len(toy)} rows\n")
        assert all(f"wrote {path}" in written for path in files)
        assert read_dataset(target).n_train == 4


def test_options_of_the_readers(tmp_path, call):
    table, svm, test = tmp_path / "t.csv", tmp_path / "t.svm", tmp_path / "u.svm"
    table.write_text("a|b|red\n1|0|yes\n0|2|no\n")
    options = ("--delimiter", "|", "--labels", "red")
    options += ("--read", "features=b", "--read", "sparse=true", "--read", "name=mine")
    found = json.loads(call("describe", table, *options, "--json").stdout)
    assert (found["name"], found["attributes"], found["nonzeros"]) == ("mine", 1, 1)
    assert re.search(r"^mine\n  instances +2\n", call("describe", table, *options).stdout)
    assert "2 rows" in call("convert", table, tmp_path / "o.svm", *options).stdout
    svm.write_text("0 1:1\n")
    test.write_text("2 3:1\n")
    for extra, shape in (
        ((), (1, 1, 1)),
        (("--read", "zero_based=true"), (1, 2, 1)),
        (("--read", "n_features=7", "--read", "n_labels=5"), (1, 7, 5)),
        (("--test", test), (2, 3, 3)),
    ):
        found = json.loads(call("describe", svm, *extra, "--json").stdout)
        assert (found["instances"], found["attributes"], found["labels"]) == shape


def test_fetch_without_a_network_says_so_for_each_and_leaves_no_files(tmp_path, monkeypatch, call):
    monkeypatch.setenv("LRML_CACHE", str(tmp_path / "cache"))
    run = call("fetch", "all")
    assert (run.returncode, run.stdout) == (2, "")
    for name in ("bibtex", "delicious", "yeast", "corel5k", "emotions", "enron", "andro", "wq"):
        assert re.search(rf"^{name}: .* cannot be downloaded from ", run.stderr, re.MULTILINE)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
