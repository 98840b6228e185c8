from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from lrml.experiments.runner import Store, StoreError
from lrml.experiments.runner._store import packed_arrays, plain_json


def record(key, **changes):
    fixed = {"key": key, "payload": {"x": 1}, "status": "ok", "error": None, "result": {"θ": 0.25}}
    return fixed | {"seconds": 0.5, "warnings": [], "versions": {}, "machine": {}} | changes


def append(store, *records, arrays=None):
    with store.writer() as writer:
        return [writer.append(one, arrays) for one in records]


def test_a_folder_that_is_not_there_has_no_records_and_is_not_made_by_reading(tmp_path):
    assert Store(tmp_path / "new").records() == {}
    assert list(tmp_path.iterdir()) == []


def test_what_is_appended_is_read_again_and_the_last_line_of_a_key_counts(tmp_path):
    store = Store(tmp_path / "new" / "results")
    returned = append(store, record("a", status="failed", error="no"), record("b", payload={"t": [1, 2]}))
    returned += append(store, record("a", result={"x": None}))
    assert store.records() == {"b": returned[1], "a": returned[2]}
    assert returned[2] == record("a", result={"x": None}, arrays=None)
    assert [json.loads(line)["key"] for line in store.path.read_text("utf-8").splitlines()] == ["a", "b", "a"]


def test_a_last_line_torn_anywhere_is_dropped_and_cut_off_before_the_next(tmp_path):
    store = Store(tmp_path)
    append(store, record("a"), record("b"))
    whole = store.path.read_bytes()
    append(store, record("c", result={"θ": "ü\n"}))
    full = store.path.read_bytes()
    with store.writer() as writer:
        for end in range(len(whole), len(full)):
            store.path.write_bytes(full[:end])
            assert list(store.records()) == ["a", "b"]
            writer.append(record("d"))
            assert list(store.records()) == ["a", "b", "d"]
            assert store.path.read_bytes().startswith(whole)
            assert store.path.read_bytes().count(b"\n") == 3


def test_a_file_that_is_only_a_torn_line_starts_anew(tmp_path):
    store = Store(tmp_path)
    store.path.write_bytes(b'{"key": "a", "pay')
    assert store.records() == {}
    append(store, record("b"))
    assert list(store.records()) == ["b"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"key": "x", "pay', "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "a list"),
        (b"[" * 100_000, "not JSON"),
        (b'{"key": ' * 100_000, "not JSON"),
        (json.dumps(record("x") | {"arrays": None, "status": "maybe"}).encode(), "no record: see status"),
        (json.dumps(record("x") | {"result": None}).encode(), "no record: see result, arrays"),
        (b"{}", "no record: see key, payload, status, error, result"),
    ],
)
def test_a_whole_line_that_is_no_record_is_an_error_that_says_where(tmp_path, line, reason):
    store = Store(tmp_path)
    append(store, record("a"))
    with store.path.open("ab") as stream:
        stream.write(line + b"\n")
    append(store, record("b"))
    with pytest.raises(
        StoreError, match=rf"results\.jsonl' must be .* in line 2 \({reason}.*Delete this line"
    ):
        store.records()


def test_arrays_are_kept_bit_for_bit_and_packed_without_a_clock(tmp_path, monkeypatch):
    arrays = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "a": np.array([True, False]),
        "c": np.zeros((0, 3)),
    }
    packed = packed_arrays(arrays)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2e9))
    assert packed_arrays(dict(reversed(arrays.items()))) == packed
    store = Store(tmp_path)
    append(store, record("k"), arrays=packed)
    for name, array in store.arrays("k").items():
        np.testing.assert_array_equal(array, arrays[name], strict=True)
    assert set(store.arrays("k")) == set(arrays)
    with pytest.raises(ValueError, match="Object arrays"):
        packed_arrays({"x": np.array([object()])})


def test_a_record_is_intact_only_with_its_side_file(tmp_path):
    store = Store(tmp_path)
    [plain] = append(store, record("plain"))
    [failed] = append(store, record("failed", status="failed"))
    [full] = append(store, record("full"), arrays=packed_arrays({"x": np.arange(100.0)}))
    assert store.is_intact(plain)
    assert not store.is_intact(failed)
    assert store.is_intact(full)
    path = store.examples_path("full")
    content = path.read_bytes()
    for damaged in (content[:-1], b"", bytes(len(content)), content[:50] + b"?" + content[51:]):
        path.write_bytes(damaged)
        assert not store.is_intact(full)
    path.unlink()
    assert not store.is_intact(full)


def test_arrays_are_in_place_before_the_line(tmp_path, monkeypatch):
    store = Store(tmp_path)

    def killed(*_):
        assert store.examples_path("k").stat().st_size == len(packed)
        raise KeyboardInterrupt

    packed = packed_arrays({"x": np.arange(3)})
    with store.writer() as writer:
        monkeypatch.setattr(os, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.append(record("k"), packed)
    assert store.records() == {}


def test_a_line_that_finds_no_room_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    store = Store(tmp_path)
    append(store, record("a"))
    before = store.path.read_bytes()
    write = os.write

    def full(*_):
        raise OSError(28, "No space left on device")

    with store.writer() as writer:
        for limited in (lambda descriptor, line: write(descriptor, line[:10]), full):
            monkeypatch.setattr(os, "write", limited)
            with pytest.raises(StoreError, match=r"as a whole, got (10 of|No space).*Free some space"):
                writer.append(record("b"))
            assert store.path.read_bytes() == before


def test_what_a_killed_writer_left_behind_is_removed(tmp_path):
    store = Store(tmp_path)
    append(store, record("k"), arrays=packed_arrays({"x": np.arange(3)}))
    (tmp_path / "examples" / ".k.npz.123.part").write_bytes(b"half")
    append(store, record("l"))
    assert [path.name for path in (tmp_path / "examples").iterdir()] == ["k.npz"]


def test_the_lock_does_not_empty_what_a_planted_link_points_to(tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / ".lock").symlink_to(tmp_path / "mine")
    append(Store(tmp_path), record("a"))
    assert (tmp_path / "mine").read_bytes() == b"mine"


_HOLD = """
import sys, time
from lrml.experiments.runner import Store
with Store(sys.argv[1]).writer():
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_there_is_one_writer_at_a_time_and_the_lock_of_a_killed_one_is_free(tmp_path):
    store = Store(tmp_path)
    message = "only one run may work in a results folder at a time, got .* Wait until it ends"
    with store.writer(), pytest.raises(StoreError, match=message):
        append(Store(tmp_path), record("a"))
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(StoreError, match=message):
            append(store, record("a"))
        other.send_signal(signal.SIGKILL)
    append(store, record("a"))
    assert list(store.records()) == ["a"]


def test_plain_json_has_no_number_that_json_does_not_know():
    text = plain_json({"a": [np.nan, np.inf, (1.5, -np.inf)], "b": np.float64("nan"), "c": np.bool_(True)})
    assert json.loads(text) == {"a": [None, None, [1.5, None]], "b": None, "c": True}
