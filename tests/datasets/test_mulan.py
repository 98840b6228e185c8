from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lrml.datasets import ChecksumError, DatasetFormatError, dataset_status, fetch_mulan, mulan_entries
from lrml.datasets._registry import parse_registry

NAMES = ("toy-train.arff", "toy-test.arff", "toy.xml")


@pytest.fixture
def places(tmp_path, monkeypatch, toy_files, toy_registry):
    """A data home with a tiny dataset, an empty cache, and a registry whose address leads nowhere."""
    entries = parse_registry(toy_registry("http://127.0.0.1:9"))
    monkeypatch.setattr("lrml.datasets._registry.mulan_entries", lambda: entries)
    monkeypatch.delenv("LRML_DATA_HOME", raising=False)
    monkeypatch.setenv("LRML_CACHE", str(tmp_path / "cache"))
    home, cache = tmp_path / "home" / "toy", tmp_path / "cache" / "mulan" / "toy"
    for folder in (home, cache):
        folder.mkdir(parents=True)
    for name, content in toy_files.items():
        (home / name).write_bytes(content)
    return home, cache


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("way", ["argument", "environment", "cache"])
def test_loads_from_each_place(places, monkeypatch, way):
    home, cache = places
    if way == "environment":
        monkeypatch.setenv("LRML_DATA_HOME", str(home.parent))
    if way == "cache":
        cache.rmdir()
        home.rename(cache)
    dataset = fetch_mulan("toy", data_home=home.parent if way == "argument" else None)
    assert (dataset.name, dataset.n_train) == ("toy", 2)
    assert_array_equal(dataset.X.toarray(), [[1.5], [0], [2]])
    assert_array_equal(dataset.Y.toarray(), [[0], [1], [1]])
    for part in ("toys", "Somewhere r, commit 1, f/toy", "Someone (2000)."):
        assert part in dataset.provenance


def test_argument_comes_before_environment_and_cache(places, monkeypatch, tmp_path):
    home, cache = places
    monkeypatch.setenv("LRML_DATA_HOME", str(tmp_path / "elsewhere"))
    (cache / "toy.xml").write_text("damaged, but never looked at")
    assert fetch_mulan("toy", data_home=home.parent, download=False).shape == (3, 1, 1)


def test_each_file_comes_from_the_first_place_that_has_it(places):
    home, cache = places
    (home / "toy.xml").rename(cache / "toy.xml")
    assert fetch_mulan("toy", data_home=home.parent, download=False).shape == (3, 1, 1)
    status = dataset_status("toy", home.parent)
    assert [file.place for file in status.files] == ["data home", "data home", "cache"]
    assert status.state == "cache"


def test_a_full_data_home_needs_no_cache_folder(places, monkeypatch):
    def no_home(*_):
        raise RuntimeError("Could not determine home directory.")

    home, _ = places
    monkeypatch.delenv("LRML_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr(sys, "platform", "linux")
    assert fetch_mulan("toy", data_home=home.parent).shape == (3, 1, 1)
    with pytest.raises(FileNotFoundError, match=r"must be a folder of the user, got none .* Set LRML_CACHE"):
        fetch_mulan("toy")


def test_tilde_is_the_home_folder(places, monkeypatch):
    home, _ = places
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("USERPROFILE", str(home.parent))
    assert fetch_mulan("toy", data_home="~").shape == (3, 1, 1)


@pytest.mark.parametrize("with_home", [True, False])
def test_missing_files_are_named_with_hash_and_place(places, toy_files, with_home):
    home, cache = places
    for name in NAMES[1:]:
        (home / name).unlink()
    if not with_home:
        (home / NAMES[0]).rename(cache / NAMES[0])
    with pytest.raises(FileNotFoundError, match=r"toy dataset needs files .* download=False") as caught:
        fetch_mulan("toy", data_home=home.parent if with_home else None, download=False)
    message = str(caught.value)
    for name in NAMES[1:]:
        assert f"{(home if with_home else cache) / name}  (sha256 {sha256(toy_files[name])})" in message
    assert NAMES[0] not in message
    assert "from Somewhere r, commit 1, f/toy" in message
    assert "LRML_DATA_HOME" in message


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("download", [True, False])
def test_a_changed_file_in_the_data_home_is_rejected_before_parsing(places, toy_files, name, download):
    home, _ = places
    path = home / name
    content = b"#" * len(toy_files[name])  # the right size, and not even ARFF
    path.write_bytes(content)
    expected = f"the file must have sha256 {sha256(toy_files[name])}, got .{sha256(content)}.*replace it"
    with pytest.raises(ChecksumError, match=re.escape(f"{path}: ") + expected) as caught:
        fetch_mulan("toy", data_home=home.parent, download=download)
    assert isinstance(caught.value, DatasetFormatError)
    assert path.read_bytes() == content


def test_a_changed_file_in_the_cache_without_download(places):
    home, cache = places
    (home / "toy.xml").rename(cache / "toy.xml")
    (cache / "toy.xml").write_text("damaged")
    message = re.escape(str(cache / "toy.xml")) + ": the file must have sha256 .*: delete it"
    with pytest.raises(ChecksumError, match=message):
        fetch_mulan("toy", data_home=home.parent, download=False)


@pytest.mark.parametrize("name", ["Yeast", "../yeast", "/etc", "", "yeast/", "..", 3, ["yeast"], None])
def test_unknown_name_lists_the_known_ones_and_touches_nothing(tmp_path, monkeypatch, name):
    monkeypatch.setattr(Path, "stat", lambda *_: pytest.fail("the disk was looked at"))
    expected = rf"must be one of bibtex, delicious, yeast, .* got {re.escape(repr(name))}"
    with pytest.raises(ValueError, match=expected):
        fetch_mulan(name, data_home=tmp_path)


@pytest.mark.parametrize(
    ("name", "meant"), [("Corel5K", "corel5k"), ("emotion", "emotions"), ("DELICIUS", "delicious")]
)
def test_misspelt_names_get_a_suggestion(name, meant):
    with pytest.raises(ValueError, match=rf"got '{name}'\. Did you mean {meant}\? "):
        fetch_mulan(name)
    with pytest.raises(ValueError, match=r"got 'zzz'\. Read the files"):
        fetch_mulan("zzz")


def test_status_by_size_and_by_hash(places, toy_files):
    home, cache = places
    assert dataset_status("toy", home.parent, verify=True).state == "data home"
    empty = dataset_status("toy")
    assert (empty.state, empty.bytes_to_download) == ("missing", sum(map(len, toy_files.values())))
    assert [file.path for file in empty.files] == [cache / name for name in NAMES]

    for name, content in toy_files.items():
        (cache / name).write_bytes(content)
    assert dataset_status("toy").state == "cache"
    (cache / "toy.xml").write_bytes(b"#" * len(toy_files["toy.xml"]))
    assert dataset_status("toy").state == "cache"  # the right size is all that it looks at
    damaged = dataset_status("toy", verify=True)
    assert (damaged.state, damaged.bytes_to_download) == ("damaged", len(toy_files["toy.xml"]))
    (home / "toy.xml").write_bytes(b"short")
    damaged = dataset_status("toy", home.parent)
    assert (damaged.state, damaged.bytes_to_download) == ("damaged", 0)  # the user's file is left alone
    (cache / NAMES[0]).unlink()
    (cache / NAMES[0]).mkdir()  # a folder is no file
    assert dataset_status("toy").state == "missing"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"LRML_CACHE": "{tmp}/mine", "XDG_CACHE_HOME": "{tmp}/xdg"}, "mine"),
        ("linux", {"LRML_CACHE": "~/mine"}, "mine"),
        ("linux", {"LRML_CACHE": "", "XDG_CACHE_HOME": "{tmp}/xdg"}, "xdg/lrml"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, ".cache/lrml"),
        ("linux", {}, ".cache/lrml"),
        ("darwin", {"XDG_CACHE_HOME": "{tmp}/xdg"}, "Library/Caches/lrml"),
        ("win32", {"LOCALAPPDATA": "{tmp}/local"}, "local/lrml/Cache"),
        ("win32", {}, "AppData/Local/lrml/Cache"),
    ],
)
def test_cache_folder_of_each_platform(tmp_path, monkeypatch, platform, variables, expected):
    for variable in ("LRML_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value.format(tmp=tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("LRML_DATA_HOME", raising=False)
    folders = {file.path.parent for file in dataset_status("yeast").files}
    assert folders == {tmp_path / expected / "mulan" / "yeast"}


def test_registry_is_complete():
    entries = mulan_entries()
    assert list(entries) == ["bibtex", "delicious", "yeast", "corel5k", "emotions", "enron"]
    files = [file for entry in entries.values() for file in entry.files]
    assert len({file.sha256 for file in files}) == len({file.url for file in files}) == 18
    for name, entry in entries.items():
        assert entry.name == name
        assert entry.domain
        assert entry.citation
        assert entry.source.endswith(f"data/multi-label/{name}")
        assert [file.name.rpartition(".")[2] for file in entry.files] == ["arff", "arff", "xml"]
    assert entries["corel5k"].labels.url == (
        "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a"
        "/data/multi-label/corel5k/Corel5k.xml"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("toy.xml", "../toy.xml", r"name must be plain.*got '\.\./toy\.xml'"),
        ("toy.xml", "a\\\\toy.xml", "name must be plain"),
        ("toy.xml", "C:toy.xml", "name must be plain"),
        ("toy.xml", "..", "name must be plain"),
        ("toy.xml", ".toy.xml", "name must be plain"),
        ("datasets.toy", 'datasets."/etc"', "name must be plain.*got '/etc'"),
        ("http://", "file://", "url must be an address with http or https, got 'file://"),
        ('sha256 = "', 'sha256 = "0', "sha256 must be 64 hexadecimal digits, got '0"),
        ("size = ", "size = -", "size must be a positive number, got -"),
    ],
)
def test_a_registry_that_could_do_harm_is_rejected(toy_registry, old, new, message):
    text = toy_registry("http://127.0.0.1:9")
    assert old in text
    with pytest.raises(ValueError, match=message):
        parse_registry(text.replace(old, new))


@pytest.mark.real_data
@pytest.mark.parametrize("name", mulan_entries())
def test_registry_agrees_with_the_data(mulan, mulan_home, name):
    entry, dataset = mulan_entries()[name], mulan(name)
    assert dataset.shape == (entry.n_instances, entry.n_attributes, entry.n_labels)
    assert dataset.n_train == entry.n_train
    assert dataset_status(name, mulan_home, verify=True).state == "data home"


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
