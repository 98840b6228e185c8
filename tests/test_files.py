from __future__ import annotations

import os
import secrets
import zipfile

import numpy as np
import pytest

from lrml._files import (
    OutputError,
    load_arrays,
    save_arrays,
    writable_folder,
    write_atomically,
)


@pytest.mark.parametrize("name", ["table.csv", "x" * 255])  # as long as the system allows
def test_a_file_is_written_and_replaced(tmp_path, name):
    for content in (b"old", b"new"):
        write_atomically(tmp_path / name, content)
        assert (tmp_path / name).read_bytes() == content
    assert os.listdir(tmp_path) == [name]


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


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_nothing_is_written_through_what_others_planted(tmp_path, monkeypatch, plant):
    path, victim = tmp_path / "out" / "table.csv", tmp_path / "victim"
    victim.write_bytes(b"mine")
    path.parent.mkdir()
    plant(victim, path.parent / f".table.csv.{os.getpid()}.part")  # a name that could be guessed
    write_atomically(path, b"new")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    plant(victim, path.parent / ".table.csv.guessed.part")
    with pytest.raises(OutputError, match=r"table\.csv.*File exists"):
        write_atomically(path, b"newer")
    assert (path.read_bytes(), victim.read_bytes()) == (b"new", b"mine")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_permissions_are_those_of_the_file_replaced_or_of_any_new_file(tmp_path):
    path, plain = tmp_path / "table.csv", tmp_path / "plain"
    old = os.umask(0o027)
    try:
        plain.touch()
        write_atomically(path, b"new")
        assert path.stat().st_mode == plain.stat().st_mode
        for mode in (0o600, 0o666, 0o444):
            path.chmod(mode)
            write_atomically(path, b"newer")
            assert path.stat().st_mode & 0o7777 == mode
    finally:
        os.umask(old)


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    folder = writable_folder(tmp_path / "a" / "b")
    assert os.listdir(folder) == []
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(OutputError, match="taken"):
        writable_folder(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_ctrl_c_in_the_middle_of_an_array_is_not_hidden(tmp_path, monkeypatch):
    opened, archives = zipfile.ZipFile.open, []

    def interrupted(self, *given, **options):
        archives.append((self, opened(self, *given, **options)))
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_arrays(tmp_path / "sums.npz", "sums", {"xx": np.eye(3)})
    assert list(tmp_path.iterdir()) == []
    for archive, _ in archives:
        archive.fp = None  # its file is closed: nothing is left to do when it is collected


def test_arrays_come_back_and_other_files_are_refused(tmp_path):
    path, arrays = tmp_path / "sums.npz", {"xx": np.eye(3), "n": np.asarray(3)}
    save_arrays(path, "sums", arrays)
    found = load_arrays(path, "sums")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match=r"sums\.npz.*'sums'.*'other'"):
        load_arrays(path, "other")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"sums\.npz.* damaged"):
        load_arrays(path, "sums")
    with pytest.raises(FileNotFoundError):
        load_arrays(tmp_path / "none.npz", "sums")
