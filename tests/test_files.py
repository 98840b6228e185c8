from __future__ import annotations

import os

import pytest

from lrml._files import OutputError, writable_folder, write_atomically


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "table.csv"
    for content in (b"old", b"new"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((OutputError, KeyboardInterrupt)) as caught:
        write_atomically(path, b"new")
    if isinstance(error, OSError):
        assert "table.csv" in str(caught.value)
        assert "No space left on device" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    folder = writable_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert os.listdir(folder) == []


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(OutputError, match=r"must be a folder .* \(it is a file\)\. Choose another"):
        writable_folder(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
