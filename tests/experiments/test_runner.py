"""The runner, with real processes: some fail, some die, some are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from types import ModuleType

import numpy as np
import pytest

from experiments import runner_jobs
from experiments.runner_jobs import wait_until, without_seconds
from lrml.experiments.runner import (
    Job,
    Outcome,
    Progress,
    Store,
    StoreError,
    WorkerError,
    machine,
    run_jobs,
    versions,
)

unix = pytest.mark.skipif(sys.platform == "win32", reason="signals and sessions of Unix")


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The names of all jobs that were begun so far, in order."""
    path = tmp_path / "log.txt"
    monkeypatch.setenv("RUNNER_LOG", str(path))
    return lambda: (
        [line.rpartition(" ")[0] for line in path.read_text().splitlines()] if path.exists() else []
    )


def jobs_that(*deeds, **more):
    return [Job(f"job-{number}", {"do": deed, **more}) for number, deed in enumerate(deeds)]


def behave(tmp_path, jobs, n_workers=1, **options):
    return run_jobs(jobs, runner_jobs.behave, Store(tmp_path / "results"), n_workers=n_workers, **options)


def test_the_number_of_workers_changes_nothing_but_the_time(tmp_path, log):
    jobs = runner_jobs.draw_jobs(7)
    stores = [Store(tmp_path / "1"), Store(tmp_path / "2")]
    one, two = (
        run_jobs(jobs, runner_jobs.draw, store, n_workers=n) for n, store in enumerate(stores, start=1)
    )
    assert without_seconds(one) == without_seconds(two)
    assert log()[:7] == [str(number) for number in range(7)]
    assert [record["key"] for record in one] == [job.key for job in jobs]
    for job, record in zip(jobs, one, strict=True):
        numbers = np.random.default_rng(job.payload["seed"]).normal(size=(50, 4))
        assert record["result"] == {"sum": numbers.sum()}
        assert record["seconds"] > 0
        np.testing.assert_array_equal(
            stores[0].arrays(job.key)["numbers"], numbers.astype(np.float32), strict=True
        )
        assert stores[0].examples_path(job.key).read_bytes() == stores[1].examples_path(job.key).read_bytes()
    assert stores[0].records() == {record["key"]: record for record in one}
    assert (one[0]["status"], one[0]["error"], one[0]["warnings"]) == ("ok", None, [])
    assert (one[0]["versions"], one[0]["machine"]) == (versions(), machine())


def test_what_happens_in_a_job_is_in_its_record_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    deeds = ["fail", "warn", "leave", "odd numbers", "threads", "no outcome", "no data", "objects", "warn"]
    records = behave(tmp_path, jobs_that(*deeds))
    ok = {2, 4, 5, 9}
    assert [record["status"] for record in records] == [
        "ok" if number in ok else "failed" for number in range(1, 10)
    ]
    errors = [record["error"] for record in records]
    assert re.fullmatch(r"KeyError: 'no such thing' \(runner_jobs.py, line \d+, in _fail\)", errors[0])
    assert records[0]["warnings"] == ["UserWarning: before"]
    assert errors[2].startswith("SystemExit: enough (runner_jobs.py")
    assert "must return an Outcome, got {'x': 1}. Return Outcome(" in errors[5]
    assert "Object of type object is not JSON serializable" in errors[6]
    assert "Object arrays cannot be saved" in errors[7]
    # The second job of a worker warns like the first, although Python shows a place only once by default.
    assert (
        records[1]["warnings"] == records[8]["warnings"] == ["RuntimeWarning: second", "UserWarning: first"]
    )
    assert records[3]["result"] == {"nan": None, "nested": [None, {"x": None}], "scalars": [0.5, 3]}
    threads = records[4]["result"]["threads"]
    assert threads
    assert set(threads) == {1}
    assert os.environ["OPENBLAS_NUM_THREADS"] == "2"
    assert "OMP_NUM_THREADS" not in os.environ


def test_only_what_is_not_finished_is_run_again(tmp_path, log):
    store = Store(tmp_path / "results")
    jobs = [*runner_jobs.draw_jobs(4), Job("bad", {"seed": -1})]
    first = run_jobs(jobs, runner_jobs.draw, store, n_workers=1)
    assert [record["status"] for record in first] == ["ok"] * 4 + ["failed"]
    store.examples_path("draw-00").unlink()
    store.examples_path("draw-01").write_bytes(b"damaged")
    jobs[2] = Job("draw-02", {**jobs[2].payload, "cost": 3.0})  # still the same work
    jobs[3] = Job("draw-03", {"seed": 99})  # other work under the same key
    second = run_jobs(jobs, runner_jobs.draw, store, n_workers=1)
    assert log() == ["0", "1", "2", "3", "-1", "0", "1", "99", "-1"]
    assert second[2] == first[2]
    assert without_seconds(second[:2]) == without_seconds(first[:2])
    assert second[3]["result"]["sum"] == np.random.default_rng(99).normal(size=(50, 4)).sum()
    third = run_jobs(jobs[:4], runner_jobs.draw, store, n_workers=1, on_event=pytest.fail)
    assert third == second[:4]
    assert len(log()) == 9


@unix
def test_a_worker_that_dies_takes_only_its_own_job_with_it(tmp_path, log):
    flag = str(tmp_path / "flag")
    deeds = ["nothing", "die", "die once", "exit", "nothing", "nothing"]
    records = behave(tmp_path, jobs_that(*deeds, flag=flag), n_workers=2)
    assert [record["status"] == "ok" for record in records] == [
        deed in {"nothing", "die once"} for deed in deeds
    ]
    died = "the worker process died twice while it ran this job"
    assert records[1]["error"].startswith(f"{died} (signal 9, ")
    assert records[3]["error"].startswith(f"{died} (exit code 3).")
    assert Counter(log()) == Counter(deeds) + Counter(deed for deed in deeds if deed != "nothing")


@unix
def test_a_worker_may_be_killed_in_the_middle_of_its_answer(tmp_path, log):
    def kill_worker(progress):
        if progress.done == 1:  # the worker has its next job, and we do not listen to its answer yet
            wait_until(lambda: "large" in log())
            time.sleep(0.5)  # by now the pipe is full
            os.kill(int((tmp_path / "log.txt").read_text().split()[-1]), signal.SIGKILL)

    records = behave(tmp_path, jobs_that("nothing", "large", "warn"), on_event=kill_worker)
    assert [record["status"] for record in records] == ["ok"] * 3
    assert log() == ["nothing", "large", "warn", "large"]
    assert Store(tmp_path / "results").arrays("job-1")["x"].size == 4_000_000


def test_only_one_run_works_in_a_folder(tmp_path):
    store = Store(tmp_path)
    with store.writer(), pytest.raises(StoreError, match=r"only one run .* choose another folder"):
        run_jobs(jobs_that("nothing"), runner_jobs.behave, store, n_workers=1)


def test_progress_counts_all_jobs_and_failures(tmp_path):
    events: list[Progress] = []
    jobs = jobs_that("nothing", "fail", "warn")
    behave(tmp_path, jobs[:1])
    records = behave(tmp_path, jobs, on_event=events.append)
    assert [(event.done, event.total, event.failed) for event in events] == [(2, 3, 1), (3, 3, 1)]
    assert [event.record for event in events] == records[1:]
    assert 0 < events[0].seconds <= events[1].seconds
    assert events[0].seconds_left == pytest.approx(events[0].seconds)
    assert events[1].seconds_left == 0


@pytest.mark.parametrize(
    ("costs", "left_by_done"),
    [([2, 6, 2], [8 / 2, 2 / 8, 0]), ([0, 6, 2], [None, 2 / 6, 0]), ([2, None, 2], [2 / 1, 1 / 2, 0])],
)
def test_the_time_left_follows_the_costs_if_all_are_known(tmp_path, costs, left_by_done):
    jobs = [
        Job(f"{number}", {"do": "nothing"} | ({} if cost is None else {"cost": cost}))
        for number, cost in enumerate(costs)
    ]
    events: list[Progress] = []
    behave(tmp_path, jobs, on_event=events.append)
    for event, ratio in zip(events, left_by_done, strict=True):
        expected = None if ratio is None else pytest.approx(ratio * event.seconds)
        assert event.seconds_left == expected


@pytest.mark.parametrize("key", ["", "a/b", "..", ".hidden", "a b", "ü", "x" * 201, "a\n"])
def test_a_key_can_name_a_file(key):
    with pytest.raises(ValueError, match=r"the key of a job must be .* Choose a key"):
        Job(key, {})


@pytest.mark.parametrize("value", [float("nan"), object(), np.int64(3), {1, 2}])
def test_a_payload_is_plain_data(value):
    with pytest.raises(ValueError, match=r"the payload of a job must be plain data .* Use str"):
        Job("k", {"x": value})


def test_a_payload_is_a_copy():
    values = [1, (2, 3)]
    job = Job("k", {"x": values})
    values.append(4)
    assert job == Job("k", {"x": [1, [2, 3]]})
    assert len({job, Job("k", {"x": [1, [2, 3]]})}) == 1


def test_wrong_calls_are_refused_before_anything_runs(tmp_path):
    for twins in (["a", "a"], ["a", "A"]):
        with pytest.raises(ValueError, match="the keys of jobs must differ"):
            behave(tmp_path, [Job(key, {}) for key in twins])
    for n_workers in (0, True, 1.5):
        with pytest.raises(ValueError, match="n_workers must be a positive integer, got"):
            behave(tmp_path, [], n_workers=n_workers)
    with pytest.raises(ValueError, match="the work function must be at the top level of a module"):
        run_jobs(jobs_that("nothing"), lambda _: Outcome({}), Store(tmp_path), n_workers=1)


def test_work_that_a_worker_cannot_import_ends_the_run_at_once(tmp_path, monkeypatch):
    module = ModuleType("only_here")
    exec("def work(payload): ...", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(
        WorkerError, match="must be able to import the work function, got ModuleNotFoundError"
    ):
        run_jobs(jobs_that("nothing"), module.work, Store(tmp_path), n_workers=1)
    assert Store(tmp_path).records() == {}


def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from lrml.experiments.runner import Job, Store, run_jobs\n"
        "def work(payload): ...\n"
        f"run_jobs([Job('a', {{}})], work, Store({str(tmp_path)!r}), n_workers=1)\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 1
    assert "WorkerError: worker processes must be able to start, got 3 in a row" in run.stderr


def test_importing_the_runner_does_not_import_scikit_learn():
    code = "import sys, lrml.experiments.runner; sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0
