"""Cells in real processes: some fail, some die, some are killed, and none is computed twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

from forking import CAN_FORK
from lrml._files import OutputError
from lrml.paper import _cells
from lrml.paper._cells import name_of, run_cells
from paper import cell_work
from paper.cell_work import behave, cells_that, drawing
from waiting import wait_until

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
    cells, told = drawing(7), []
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
    cells, folder = drawing(3), tmp_path / "cells"
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


@unix
def test_a_machine_on_which_workers_die_again_and_again_ends_the_run(tmp_path, log):
    with pytest.raises(BrokenProcessPool):
        run(cells_that(*["die"] * 9), tmp_path)
    assert 3 <= len(log()) < 9


@pytest.mark.skipif(not CAN_FORK, reason="workers must see what is patched")
def test_a_disk_that_is_full_leaves_nothing(tmp_path, log, monkeypatch):
    (tmp_path / "cells").mkdir()
    monkeypatch.setattr(_cells, "write_atomically", full)
    with pytest.raises(OutputError):
        run(drawing(2), tmp_path / "cells")
    assert list((tmp_path / "cells").iterdir()) == []


def full(path, content):
    raise OutputError("No space left on device")


# Killed runs


class Script:
    """`cell_work.py` as a process, in a session of its own."""

    def __init__(self, kind, folder, log_path):
        command = [sys.executable, cell_work.__file__, kind, str(folder)]
        environment = os.environ | {"CELL_LOG": str(log_path)}
        self.log_path, self.n_before = (
            log_path,
            len(log_path.read_text().splitlines()) if log_path.exists() else 0,
        )
        self.process = subprocess.Popen(
            command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
        )

    def begun(self):
        lines = self.log_path.read_text().splitlines() if self.log_path.exists() else []
        return [int(line.split()[-1]) for line in lines[self.n_before :]]

    def end(self, number=None):
        """Wait for the end, after a signal to the parent alone; return what was written to stderr."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.communicate(timeout=300)[1]

    def is_deserted(self):
        """Whether none of its processes is alive, those that had no cell yet included."""
        if not Path("/proc/self/stat").exists():
            return not any(alive(pid, self.process.pid) for pid in self.begun())
        return not any(alive(int(path.name), self.process.pid) for path in Path("/proc").glob("[0-9]*"))


def alive(pid, session):
    """Whether a process of a session runs; one that has ended may wait long to be taken notice of."""
    try:
        if os.getsid(pid) != session:
            return False
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, PermissionError):
        return False
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()


@unix
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_files(tmp_path, monkeypatch):
    folder, log_path, moments = tmp_path / "killed", tmp_path / "log.txt", random.Random(7)
    for n_cells in (3, 0, 5):  # killed after so many have begun; none: while the workers start
        before = contents(folder) if folder.exists() else {}
        script = Script("draw", folder, log_path)
        wait_until(
            lambda script=script, n=n_cells: len(script.begun()) >= n or script.process.poll() is not None
        )
        time.sleep(moments.uniform(0.0, 0.06))
        assert "Traceback" not in script.end(signal.SIGKILL)
        wait_until(script.is_deserted)
        assert before.items() <= (contents(folder) if folder.exists() else {}).items()
    script = Script("draw", folder, log_path)
    assert script.end() == ""
    assert script.process.returncode == 0
    start_at_once(monkeypatch)
    run(drawing(), tmp_path / "whole", 2)
    assert contents(folder) == contents(tmp_path / "whole")
    assert len(log_path.read_text().splitlines()) <= len(drawing()) + 3 * 4  # what two workers had begun


@unix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent_even_in_a_long_cell(number, tmp_path):
    script = Script("sleep", tmp_path / "cells", tmp_path / "log.txt")
    wait_until(lambda: len(script.begun()) == 3 and len(list((tmp_path / "cells").glob("*.npz"))) == 1)
    if number == signal.SIGINT:
        for pid in script.begun():
            os.kill(pid, signal.SIGINT)  # a terminal sends it to all; workers leave it to the parent
        time.sleep(0.2)
        assert any(alive(pid, script.process.pid) for pid in script.begun())
    errors = script.end(number)
    assert errors.count("Traceback") == (number == signal.SIGINT)
    wait_until(script.is_deserted)
    assert [path.suffix for path in (tmp_path / "cells").iterdir()] == [".npz"]
