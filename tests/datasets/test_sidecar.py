"""The file beside a data file: what it must agree with, and how both are written."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import DatasetFormatError, MultiLabelDataset, NumberedNames, read_xmc, write_xmc


@pytest.fixture
def toy():
    return MultiLabelDataset(
        name="toy data",
        X=np.array([[0.5, 0, -0.0], [0, 0, np.nan], [0, 0, 0]]),
        Y=sparse.csr_array(np.array([[1, 0], [0, 0], [0, 0]], dtype=np.int8)),
        feature_names=["a\nb", "", "ü"],
        label_names=NumberedNames("tag", 2, 5),
        n_train=2,
        provenance="by hand",
        unknown=sparse.csr_array(np.array([[0, 1], [0, 0], [1, 0]], dtype=bool)),
    )


def test_the_text_that_is_written(toy, tmp_path):
    write_xmc(toy, tmp_path / "toy.txt")
    assert (tmp_path / "toy.txt").read_text() == "3 3 2\n0 0:0.5 2:-0\n 2:nan\n\n"
    assert json.loads((tmp_path / "toy.txt.meta.json").read_text("utf-8")) == {
        "version": 1,
        "format": "xmc",
        "name": "toy data",
        "provenance": "by hand",
        "shape": [3, 3, 2],
        "sha256": hashlib.sha256((tmp_path / "toy.txt").read_bytes()).hexdigest(),
        "dense_features": True,
        "dense_labels": False,
        "label_dtype": "int8",
        "n_train": 2,
        "feature_names": ["a\nb", "", "ü"],
        "label_names": {"prefix": "tag", "start": 5},
        "unknown": [[0, 1], [2, 0]],
    }


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_compressed_files(toy, tmp_path, suffix):
    path = tmp_path / f"toy.txt.{suffix}"
    write_xmc(toy, path)
    first = path.read_bytes()
    assert_array_equal(read_xmc(path).X, toy.X)
    write_xmc(toy, path)
    assert path.read_bytes() == first  # repeatable, so without a clock time
    if suffix == "gz":
        assert gzip.decompress(first).startswith(b"3 3 2\n")


def test_arguments_come_before_the_sidecar(toy, tmp_path):
    write_xmc(toy, tmp_path / "toy.txt")
    found = read_xmc(tmp_path / "toy.txt", name="mine", label_names=["p", "q"])
    assert (found.name, found.label_names, found.n_train) == ("mine", ("p", "q"), 2)
    assert found.feature_names == toy.feature_names


def test_a_newer_file_replaces_the_sidecar_of_an_older_one(toy, tmp_path):
    plain = MultiLabelDataset("x", toy.Y.astype(np.float64), toy.Y, *[NumberedNames("label", 2)] * 2)
    for dataset in (toy, plain):
        write_xmc(dataset, tmp_path / "toy.txt")
    found = read_xmc(tmp_path / "toy.txt")
    assert (found.name, found.n_train, found.unknown) == ("x", None, None)
    assert sorted(os.listdir(tmp_path)) == ["toy.txt", "toy.txt.meta.json"]


@pytest.mark.parametrize("text", ["3 3 3\n0 0:1\n\n\n", "3 3 2\n0 0:1\n\n\n", "3 3 2\n0,1 0:1 1:1\n\n\n"])
def test_a_sidecar_of_another_file_is_refused(toy, tmp_path, text):
    write_xmc(toy, tmp_path / "toy.txt")
    (tmp_path / "toy.txt").write_text(text)
    with pytest.raises(DatasetFormatError, match=r"toy\.txt\.meta\.json: (shape|sha256) must .* Delete"):
        read_xmc(tmp_path / "toy.txt")
    (tmp_path / "toy.txt.meta.json").unlink()
    assert read_xmc(tmp_path / "toy.txt").shape[:2] == (3, 3)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("change", ["a value", "the order", "a line end"])
def test_an_edited_file_is_noticed(toy, tmp_path, suffix, change):
    path = tmp_path / f"toy.txt{suffix}"
    write_xmc(toy, path)
    header, first, *others = read_text(path).splitlines(keepends=True)
    if change == "a value":
        lines = [header, first.replace("0.5", "0.6"), *others]
    elif change == "the order":
        lines = [header, *others, first]
    else:
        lines = [header, first, *others, "\n"]
    assert "".join(lines) != read_text(path)
    with OPENERS[suffix](path, "wb") as stream:
        stream.write("".join(lines).encode())
    with pytest.raises(DatasetFormatError, match=r"meta\.json: sha256 must be .* edited .* Delete or rename"):
        read_xmc(path)
    Path(f"{path}.meta.json").unlink()
    assert read_xmc(path).shape == (3, 3, 2)


def test_another_compression_of_the_same_file_is_the_same_file(toy, tmp_path):
    write_xmc(toy, tmp_path / "toy.txt")
    (tmp_path / "toy.txt.gz").write_bytes(gzip.compress((tmp_path / "toy.txt").read_bytes(), 1))
    (tmp_path / "toy.txt.meta.json").rename(tmp_path / "toy.txt.gz.meta.json")
    assert read_xmc(tmp_path / "toy.txt.gz").name == "toy data"


OPENERS = {"": open, ".gz": gzip.open}


def read_text(path):
    with OPENERS[".gz" if path.suffix == ".gz" else ""](path, "rb") as stream:
        return stream.read().decode()


DEEP = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("version", [2, None, [], "1"]),
        ("format", ["svmlight", None, {}]),
        ("name", [None, 3, "\ud800", ["a"]]),
        ("shape", [None, [3, 3], [3, 3, 2.0], [3, 3, True], [3, -3, 2], [3, 10**400, 2], DEEP]),
        ("sha256", ["0" * 64, "A" * 64, "0" * 63, "0" * 63 + "\n", None, 5, []]),
        ("dense_features", [1, None, "yes"]),
        ("label_dtype", ["float64", None, ["int8"], "O"]),
        ("n_train", [0, 3, -1, 1.0, True, "2", 10**30]),
        ("feature_names", [["a", "b"], ["a", "b", 3], ["a", "a", "b"], ["a", "b", "\ud800"], "abc", 3, DEEP]),
        ("label_names", [{}, {"prefix": "a"}, {"prefix": 1, "start": 1}, {"prefix": "a", "start": 1e400}]),
        (
            "unknown",
            [3, [3], [[0]], [[0, 2]], [[3, 0]], [[-1, 0]], [[0, 0]], [[0, 1.0]], [[0, 10**30]], DEEP],
        ),
    ],
)
def test_a_wrong_field_of_a_sidecar_is_refused(toy, tmp_path, key, values):
    write_xmc(toy, tmp_path / "toy.txt")
    sidecar = tmp_path / "toy.txt.meta.json"
    fields = json.loads(sidecar.read_text("utf-8"))
    for value in values:
        sidecar.write_text(json.dumps({**fields, key: value}))
        with pytest.raises(
            DatasetFormatError, match=r"toy\.txt\.meta\.json: .*got .* Delete or rename this file"
        ):
            read_xmc(tmp_path / "toy.txt")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"version": ' + b"9" * 9999]
)
def test_a_sidecar_that_is_no_json_object_is_refused(toy, tmp_path, content):
    write_xmc(toy, tmp_path / "toy.txt")
    (tmp_path / "toy.txt.meta.json").write_bytes(content)
    with pytest.raises(
        DatasetFormatError, match=r"toy\.txt\.meta\.json: .*got .* Delete or rename this file"
    ):
        read_xmc(tmp_path / "toy.txt")


@pytest.mark.parametrize("key", ["dense_features", "dense_labels"])
def test_a_sidecar_cannot_ask_for_a_huge_array(tmp_path, key):
    (tmp_path / "toy.txt").write_text("1 2000000000 2000000000\n1 1:1\n")
    write_xmc(read_xmc(tmp_path / "toy.txt"), tmp_path / "toy.txt")
    sidecar = tmp_path / "toy.txt.meta.json"
    sidecar.write_text(sidecar.read_text().replace(f'"{key}": false', f'"{key}": true'))
    with pytest.raises(DatasetFormatError, match=r"meta\.json: . must only be dense if .* Delete"):
        read_xmc(tmp_path / "toy.txt")


def test_what_the_format_cannot_hold_is_refused(toy, tmp_path):
    empty = np.broadcast_to(np.float64(0), (3, 10**7))  # 240 MB, were it stored
    named = NumberedNames("f", 10**7)
    for wrong, message in [
        (replace(toy, name="\ud800"), "must be texts that UTF-8 can hold"),
        (replace(toy, label_names=["a", 3]), "must be texts that UTF-8 can hold"),
        (_unchecked(toy, X=empty, feature_names=named), "X must not be an array where nearly all"),
        (_unchecked(toy, X=sparse.csr_array((3, 2**31))), "must have at most 2147483647 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_xmc(wrong, tmp_path / "toy.txt")
    assert os.listdir(tmp_path) == []


def _unchecked(dataset, **fields):
    """Change fields without the checks of the record, which would look at each value."""
    copy = replace(dataset)
    for key, value in fields.items():
        object.__setattr__(copy, key, value)
    return copy


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failed_renaming_leaves_no_pair_that_does_not_fit(toy, tmp_path, monkeypatch, failing):
    path = tmp_path / "toy.txt"
    write_xmc(toy, path)
    old, real_replace, calls = path.read_bytes(), os.replace, []

    def fail(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError(28, "No space left on device")
        real_replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match=r"toy\.txt.* got an error \(No space left on device\)"):
        write_xmc(replace(toy, X=2 * toy.X, name="new"), path)
    if failing == 1:  # as if nothing had been tried
        assert path.read_bytes() == old
        assert read_xmc(path).name == "toy data"
    else:  # the new data without names are better than with the names of the old ones
        assert os.listdir(tmp_path) == ["toy.txt"]
        assert read_xmc(path).X[0, 0] == 1.0
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_an_interrupted_writer_leaves_the_old_files(toy, tmp_path, monkeypatch):
    path = tmp_path / "toy.txt"
    write_xmc(toy, path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", interrupt)  # the data are complete when the sidecar is encoded
    with pytest.raises(KeyboardInterrupt):
        write_xmc(replace(toy, name="new"), path)
    monkeypatch.undo()
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_a_missing_folder_is_named(toy, tmp_path):
    with pytest.raises(OSError, match=r"absent.toy\.txt.*No such file or directory"):
        write_xmc(toy, tmp_path / "absent" / "toy.txt")
