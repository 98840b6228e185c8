"""Cells in real processes: some fail, some die, some are killed, and none is computed twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from forking import CAN_FORK
from lrml._files import OutputError
from lrml.paper import _cells
from lrml.paper._cells import name_of, run_cells
from paper import cell_work
from paper.cell_work import behave, cells_that
from waiting import living, wait_until

unix = pytest.mark.skipif(sys.platform == "win32", reason="signals and sessions of Unix")


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Every cell that was begun so far, in order."""
    path = tmp_path / "log.txt"
    monkeypatch.setenv("CELL_LOG", str(path))
    start_at_once(monkeypatch)
    return lambda: (
        [line.rpartition(" ")[0] for line in path.read_text().splitlines()] if path.exists() else []
    )


def start_at_once(patch):
    if CAN_FORK:
        patch.setattr(_cells, "_START", "fork")


def run(cells, folder, n_workers=1, **options):
    return run_cells(cells, behave, folder, n_workers=n_workers, **options)


def test_the_number_of_workers_changes_nothing(tmp_path, log):
    cells, told = cells_that(*["draw"] * 7), []
    (one, _), (two, failures) = (
        run(cells, tmp_path / str(n), n, tell=lambda *state: told.append(state)) for n in (1, 2)
    )
    assert failures == {}
    assert [result.cell for result in one] == [result.cell for result in two] == cells
    for first, second in zip(one, two, strict=True):
        numbers = np.random.default_rng(first.cell["seed"]).normal(size=(50, 4))
        assert first.values == second.values == {"sum": numbers.sum()}
        np.testing.assert_array_equal(first.arrays["numbers"], numbers.astype(np.float32), strict=True)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert told[:7] == [(done, 7, cell) for done, cell in enumerate(cells, start=1)]
    assert Counter(log()) == Counter([f"draw {seed}" for seed in range(7)] * 2)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_happens_in_a_cell_ends_no_other(tmp_path, log):
    results, failures = run(cells_that("fail", "odd numbers", "threads", "draw"), tmp_path)
    assert list(failures.values()) == ["KeyError: 'no such thing'"]
    assert [result.cell["kind"] for result in results] == ["odd numbers", "threads", "draw"]
    assert np.isnan(results[0].values.pop("nan"))
    assert results[0].values == {"nested": [np.inf, {"x": -np.inf}], "scalars": [0.5, 3]}
    assert set(results[1].values["threads"]) == {1}


@pytest.mark.parametrize("damage", ["absent", "empty", "garbage", "torn"])
def test_only_cells_without_a_whole_file_are_computed(damage, tmp_path, log):
    cells, folder = cells_that(*["draw"] * 3), tmp_path / "cells"
    run(cells, folder)
    before = contents(folder)
    path = folder / f"{name_of(cells[1])}.npz"
    whole = path.read_bytes()
    path.write_bytes({"garbage": b"no archive", "torn": whole[: len(whole) // 2]}.get(damage, b""))
    if damage == "absent":
        path.unlink()
    (folder / ".remains.part").touch()  # of a run that was killed
    results, _ = run(cells, folder)
    assert log() == ["draw 0", "draw 1", "draw 2", "draw 1"]
    assert contents(folder) == before
    assert len(results) == 3


def test_a_cell_is_known_by_all_that_determines_it():
    cell = {
        "kind": "models",
        "dataset": "yeast",
        "method": "LRML",
        "theta": 3,
        "seed": 0,
        "options": {"a": 1},
    }
    name = name_of(cell)
    assert name.startswith("models-yeast-LRML-3-0-")
    assert name_of(dict(reversed(cell.items()))) == name
    for other in (cell | {"options": {"a": 2}}, cell | {"version": "2"}, cell | {"theta": None}):
        assert name_of(other) != name


@unix
def test_a_worker_that_dies_takes_only_its_own_cell_with_it(tmp_path, log):
    cells = cells_that("draw", "die", "draw", "draw", "draw")
    results, failures = run(cells, tmp_path / "cells", 2)
    assert [result.cell["seed"] for result in results] == [0, 2, 3, 4]
    assert list(failures) == [name_of(cells[1])]
    again = cells_that("draw", "die once", "draw", flag=str(tmp_path / "flag"))
    results, failures = run(again, tmp_path / "again", 2)  # alone it has enough memory, say
    assert (len(results), failures) == (3, {})


@pytest.mark.skipif(not CAN_FORK, reason="workers must see what is patched")
def test_a_disk_that_is_full_leaves_nothing(tmp_path, log, monkeypatch):
    (tmp_path / "cells").mkdir()
    monkeypatch.setattr(_cells, "write_atomically", full)
    with pytest.raises(OutputError):
        run(cells_that(*["draw"] * 2), tmp_path / "cells")
    assert list((tmp_path / "cells").iterdir()) == []


def full(path, content):
    raise OutputError("No space left on device")


# Killed runs


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc of Linux")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent_even_in_a_long_cell(number, tmp_path):
    folder, log_path = tmp_path / "cells", tmp_path / "log.txt"
    process = subprocess.Popen(
        [sys.executable, cell_work.__file__, str(folder)],
        env=os.environ | {"CELL_LOG": str(log_path)},
        start_new_session=True,  # as if started from another terminal
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = lambda: [int(line.split()[-1]) for line in log_path.read_text().splitlines()]  # noqa: E731
    wait_until(lambda: log_path.exists() and len(begun()) == 3 and list(folder.glob("*.npz")))
    if number == signal.SIGINT:
        for worker in set(begun()):
            os.kill(worker, signal.SIGINT)  # a terminal sends it to all; workers leave it to the parent
        time.sleep(0.2)
        assert set(living(process.pid)) & set(begun())
    process.send_signal(number)
    errors = process.communicate(timeout=300)[1]
    assert errors.count("Traceback") == (number == signal.SIGINT)
    wait_until(lambda: not living(process.pid))
    assert [path.suffix for path in folder.iterdir()] == [".npz"]
