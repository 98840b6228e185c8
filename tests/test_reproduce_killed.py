"""``lrml reproduce``, killed again and again, leaves what a run that was left alone does."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from cli_output import without_progress
from experiments.runner_jobs import wait_until
from forking import CAN_FORK, Program, run_program

pytestmark = pytest.mark.skipif(
    not CAN_FORK or not Path("/proc/self/stat").exists(), reason="forks and /proc of Linux"
)

# 14 cells with two figures: real ones, and as few as are enough to be killed between.
ARGUMENTS = ("reproduce", "fig2", "--seeds", "1", "--jobs", "2", "--out")
N_CELLS = 14
# What a run that was killed may leave, and what is somebody else's.
REMAINS = ("tables/.ranks.csv.99999999.part", "figures/.figure2.png.99999999.part", ".report.html.9.part")
FOREIGN = ("notes.part", "tables/.hidden")


def end(process):
    """Wait for the end of a run and of all of its processes."""
    process.result()
    wait_until(lambda: not living(process.pid))


def living(session):
    """Return the processes of a session; those that have ended and wait to be taken notice of are none."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of_session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if int(of_session) == session and state != "Z":
            found.append(int(path.name))
    return found


def lines_of(folder):
    """Return the finished lines of the results."""
    path = folder / "results.jsonl"
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def files_of(folder):
    """Return what counts as a result: all files that are not hidden, apart from the growing one."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths if p.name != "results.jsonl"}


def timeless(files):
    """Leave out the table of times, also from the page, where it is one article."""
    kept = {name: content for name, content in files.items() if not name.startswith("tables/times.")}
    if "report.html" in kept:
        page, n_cut = re.subn(rb'<article id="times".*?</article>', b"", kept["report.html"], flags=re.DOTALL)
        assert n_cut == 1
        kept["report.html"] = page
    return kept


@pytest.fixture(autouse=True)
def _no_data(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("LRML_DATA_HOME", str(tmp_path / "empty"))


def kill_when(condition, folder):
    """Run until something has come to pass; then kill the parent, and it alone."""
    process = Program(*ARGUMENTS, folder)
    wait_until(lambda: condition() or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    end(process)
    return process.returncode == -signal.SIGKILL


def test_a_run_that_is_killed_twice_ends_with_the_same_files(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run = run_program(*ARGUMENTS, whole)
    assert (run.returncode, without_progress(run.stderr)) == (0, "")
    expected = timeless(files_of(whole))
    assert len(lines_of(whole)) == N_CELLS
    assert sum(name.startswith("figures/") for name in expected) == 6

    for condition in (
        lambda: len(lines_of(killed)) >= N_CELLS // 2,
        lambda: any((killed / "tables").glob("*.csv")),  # the report is being written
    ):
        before = lines_of(killed)
        assert kill_when(condition, killed)
        after = lines_of(killed)
        assert after[: len(before)] == before
        found = timeless(files_of(killed))
        assert {name: expected.get(name) for name in found} == found  # there as a whole, or not there
    assert len(after) == N_CELLS
    assert "report.html" not in found

    for name in (*REMAINS, *FOREIGN):
        (killed / name).parent.mkdir(exist_ok=True)
        (killed / name).write_text("half a file")
    again = run_program(*ARGUMENTS, killed)
    assert (again.returncode, without_progress(again.stderr)) == (0, "")
    assert again.stdout == run.stdout.replace(str(whole), str(killed))
    assert lines_of(killed) == after
    for name in FOREIGN:
        (killed / name).unlink()
    assert timeless(files_of(killed)) == expected
    hidden = [path.name for path in killed.rglob(".*")]
    assert hidden == [".lock"]
    assert os.listdir(tmp_path / "empty") == []
