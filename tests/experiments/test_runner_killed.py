"""Runs that are killed or interrupted: a script in its own session, as if started from another terminal."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import runner_jobs
from experiments.runner_jobs import wait_until, without_seconds
from lrml.experiments.runner import Store, run_jobs

_SCRIPT = Path(runner_jobs.__file__)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and sessions of Unix")


class Script:
    """`runner_jobs.py` as a process."""

    def __init__(self, kind, folder, log_path, n_workers=2):
        command = [sys.executable, str(_SCRIPT), kind, str(folder), str(n_workers)]
        environment = os.environ | {"RUNNER_LOG": str(log_path)}
        self.log_path = log_path
        self.n_begun_before = len(self.log())
        self.process = subprocess.Popen(
            command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
        )

    def log(self):
        """The name and process of each job that was begun."""
        lines = self.log_path.read_text().splitlines() if self.log_path.exists() else []
        return [(name, int(pid)) for name, _, pid in (line.rpartition(" ") for line in lines)]

    def begun(self):
        return self.log()[self.n_begun_before :]

    def is_over(self):
        return self.process.poll() is not None

    def end(self, number=None):
        """Wait for the end, after a signal to the parent alone; return what was written to stderr."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.communicate(timeout=300)[1]

    def is_deserted(self):
        """Whether none of its processes is alive, those that had no job yet included."""
        pids = [pid for _, pid in self.begun()]
        if Path("/proc/self/stat").exists():
            pids += [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return not any(_is_alive(pid, self.process.pid) for pid in pids)


def _is_alive(pid, session):
    """Whether a process of a session runs; one that has ended may wait long to be taken notice of."""
    try:
        if os.getsid(pid) != session:
            return False
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, PermissionError):
        return False
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_results(tmp_path):
    folder, log_path, moments = tmp_path / "killed", tmp_path / "log.txt", random.Random(7)
    store = Store(folder)
    for n_jobs in (3, 0, 5):  # killed after so many have begun; none: while the workers start
        before = store.records()
        script = Script("draw", folder, log_path)
        wait_until(lambda script=script, n_jobs=n_jobs: len(script.begun()) >= n_jobs or script.is_over())
        time.sleep(moments.uniform(0.0, 0.06))
        assert script.end(signal.SIGKILL) == ""
        wait_until(script.is_deserted)
        after = store.records()
        assert {key: after.get(key) for key in before} == before
        assert before.keys().isdisjoint(f"draw-{int(seed):02d}" for seed, _ in script.begun())
    # The fifth job of a run begins after the third answer; at most the last two were not written yet.
    assert len(after) >= 1
    script = Script("draw", folder, log_path)
    assert script.end() == ""
    assert script.process.returncode == 0

    jobs = runner_jobs.draw_jobs()
    whole = run_jobs(jobs, runner_jobs.draw, Store(tmp_path / "whole"), n_workers=2)
    found = store.records()
    assert without_seconds(found[job.key] for job in jobs) == without_seconds(whole)
    assert len(found) == len(jobs)
    # Each kill costs what two workers had begun, and what they had answered just before.
    assert len(script.log()) <= len(jobs) + 4 * 3
    examples = sorted(path.name for path in (folder / "examples").iterdir())
    assert examples == sorted(f"{job.key}.npz" for job in jobs)
    for name in examples:
        assert (folder / "examples" / name).read_bytes() == (
            tmp_path / "whole" / "examples" / name
        ).read_bytes()


def test_workers_do_not_outlive_a_killed_parent_even_in_a_long_job(tmp_path):
    script = Script("sleep", tmp_path / "results", tmp_path / "log.txt")
    wait_until(lambda: len(script.begun()) == 3)
    script.end(signal.SIGKILL)
    wait_until(script.is_deserted)


def test_ctrl_c_ends_all_processes_at_once_and_keeps_what_is_finished(tmp_path):
    script = Script("sleep", tmp_path / "results", tmp_path / "log.txt")
    store = Store(tmp_path / "results")
    wait_until(lambda: len(script.begun()) == 3 and store.records())
    for _, pid in script.begun():
        os.kill(pid, signal.SIGINT)  # a terminal sends it to all processes; workers leave it to the parent
    time.sleep(0.2)
    assert all(_is_alive(pid, script.process.pid) for _, pid in script.begun())
    errors = script.end(signal.SIGINT)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    assert script.process.returncode == -signal.SIGINT
    wait_until(script.is_deserted)
    assert list(store.records()) == ["job-0"]
    with store.writer():
        pass  # the lock is free
