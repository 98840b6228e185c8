from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lrml.datasets import ChecksumError, DatasetFormatError, _mulan, load_mulan
from lrml.datasets._registry import MulanEntry, RegisteredFile, mulan_entries

HEADER = "@relation toy\n@attribute a numeric\n@attribute p {0,1}\n@data\n"
FILES = {
    "toy-train.arff": HEADER + "{0 1.5}\n{1 1}\n",
    "toy-test.arff": HEADER + "{0 2,1 1}\n",
    "toy.xml": '<labels><label name="p"></label></labels>',
}


@pytest.fixture
def toy_home(tmp_path, monkeypatch):
    """A data home with a tiny dataset, and a registry that knows it."""
    folder = tmp_path / "toy"
    folder.mkdir()
    files = []
    for name, text in FILES.items():
        (folder / name).write_text(text)
        files.append(RegisteredFile(name, hashlib.sha256(text.encode()).hexdigest()))
    entry = MulanEntry("toy", "toys", "Someone (2000).", "Somewhere, commit 1", *files)
    monkeypatch.setattr(_mulan, "mulan_entries", lambda: {"toy": entry})
    monkeypatch.delenv("LRML_DATA_HOME", raising=False)
    return tmp_path


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_loads_from_data_home(toy_home, monkeypatch, way):
    if way == "environment":
        monkeypatch.setenv("LRML_DATA_HOME", str(toy_home))
    dataset = load_mulan("toy", toy_home if way == "argument" else None)
    assert (dataset.name, dataset.n_train) == ("toy", 2)
    assert_array_equal(dataset.X.toarray(), [[1.5], [0], [2]])
    assert_array_equal(dataset.Y.toarray(), [[0], [1], [1]])
    for part in ("toys", "Somewhere, commit 1", "Someone (2000)."):
        assert part in dataset.provenance


def test_argument_comes_before_environment(toy_home, monkeypatch, tmp_path):
    monkeypatch.setenv("LRML_DATA_HOME", str(tmp_path / "elsewhere"))
    assert load_mulan("toy", toy_home).shape == (3, 1, 1)


def test_tilde_is_the_home_folder(toy_home, monkeypatch):
    monkeypatch.setenv("HOME", str(toy_home))
    monkeypatch.setenv("USERPROFILE", str(toy_home))
    assert load_mulan("toy", "~").shape == (3, 1, 1)


def test_missing_files_are_named_with_hash_and_place(toy_home):
    missing = ("toy-test.arff", "toy.xml")
    for name in missing:
        (toy_home / "toy" / name).unlink()
    with pytest.raises(FileNotFoundError, match="The toy dataset needs these files") as caught:
        load_mulan("toy", toy_home)
    message = str(caught.value)
    for name in missing:
        digest = hashlib.sha256(FILES[name].encode()).hexdigest()
        assert f"{toy_home / 'toy' / name}  (sha256 {digest})" in message
    assert "toy-train.arff" not in message
    assert "Get them from Somewhere, commit 1" in message


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_data_home_the_error_says_how_to_set_it(toy_home, monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("LRML_DATA_HOME", value)
    with pytest.raises(
        FileNotFoundError, match=r"(?s)LRML_DATA_HOME is not set.*<data_home>/toy/toy-train.arff"
    ):
        load_mulan("toy")


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_rejected_before_parsing(toy_home, name):
    path = toy_home / "toy" / name
    path.write_text("not the file, and not even ARFF")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    expected = hashlib.sha256(FILES[name].encode()).hexdigest()
    message = f"{re.escape(str(path))}: the file must have sha256 {expected}, got .{found}.*replace it"
    with pytest.raises(ChecksumError, match=message) as caught:
        load_mulan("toy", toy_home)
    assert isinstance(caught.value, DatasetFormatError)


def test_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"must be one of bibtex, delicious, yeast, .* got 'Yeast'"):
        load_mulan("Yeast", tmp_path)


def test_registry_is_complete():
    entries = mulan_entries()
    assert list(entries) == ["bibtex", "delicious", "yeast", "corel5k", "emotions", "enron"]
    hashes = [file.sha256 for entry in entries.values() for file in entry.files]
    assert len(set(hashes)) == 18
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes)
    for name, entry in entries.items():
        assert entry.name == name
        assert entry.domain
        assert entry.citation
        assert entry.source.endswith(f"data/multi-label/{name}")
        assert [file.name.rpartition(".")[2] for file in entry.files] == ["arff", "arff", "xml"]


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "n_train", "kind"),
    [
        ("bibtex", 4880, "sparse"),
        ("delicious", 12920, "sparse"),
        ("yeast", 1500, "dense"),
        ("corel5k", 4500, "sparse"),
        ("emotions", 391, "dense"),
        ("enron", 1123, "sparse"),
    ],
)
def test_original_split_and_storage(mulan, name, n_train, kind):
    dataset = mulan(name)
    assert dataset.n_train == n_train
    assert (kind == "dense") == isinstance(dataset.X, np.ndarray) == isinstance(dataset.Y, np.ndarray)
    if kind == "sparse":
        assert dataset.X.indices.dtype == dataset.Y.indptr.dtype == np.int32


@pytest.mark.real_data
def test_labels_are_in_the_order_of_the_arff_file(mulan):
    # yeast.xml has Class6 before Class4; delicious has names with backslashes.
    assert mulan("yeast").label_names == tuple(f"Class{i}" for i in range(1, 15))
    assert {r"TAG_m\'usica", r"TAG_dise\~no"} <= set(mulan("delicious").label_names)
