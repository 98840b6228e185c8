"""`lrml reproduce`: arguments, exit codes, and what happens when it is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest

from cli_output import without_progress
from experiments.runner_jobs import wait_until
from forking import CAN_FORK, Program, quick_workers
from forking import run_program as program
from lrml.cli import main
from lrml.experiments import load_experiment
from lrml.experiments.runner import Progress, Store, WorkerError


@pytest.fixture(scope="module", autouse=True)
def _no_data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRML_DATA_HOME", str(tmp_path_factory.mktemp("empty")))
        patch.setenv("PYTHONIOENCODING", "utf-8")
        quick_workers(patch)
        yield


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--wat"], "No such option: --wat"),
        (["table3"], "'table3' is none of all, table1"),
        (["table1", "table2"], "unexpected extra argument(s) (table2)"),
        (["--datasets", "bibtex", "yeats", "--quiet"], "'--datasets': 'yeats'"),
        (["--protocol", "best"], "'--protocol': 'best'"),
        (["--jobs", "0"], "'--jobs'"),
        (["--jobs", "two"], "'--jobs'"),
        (["--seeds", "4"], "'--seeds'"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    assert main(["reproduce", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    usage, error = printed.err.splitlines()
    assert usage.startswith("Usage: lrml reproduce ")
    assert error.startswith("lrml reproduce: error: ")
    assert message in error


@pytest.mark.parametrize("experiment", ["table2", "equal_rank", "fig2"])
def test_no_experiment_has_more_seeds_than_may_be_asked_for(experiment):
    assert len(load_experiment(experiment).seeds) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig3", "--datasets", "bibtex", "corel5k"], "--datasets is bibtex, corel5k, but fig3"),
        (["fig2", "--protocol", "kernel"], "--protocol is kernel, but fig2"),
    ],
)
def test_a_choice_that_leaves_nothing_to_do(arguments, message, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "new")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"lrml reproduce: error: {message}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["a file", "below a file", "locked"])
def test_out_that_cannot_be_written(place, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    if place == "locked":
        tmp_path.chmod(0o555)
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
    target = tmp_path / {"a file": "file", "below a file": "file/new", "locked": "new"}[place]
    assert main(["reproduce", "--out", str(target)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith("lrml reproduce: error: ")
    assert str(target) in printed.err
    assert (tmp_path / "file").read_text() == "mine"


def table1(folder, *more):
    """Run the smallest target that has a cell, in this process."""
    return main(["reproduce", "table1", "--jobs", "1", "--no-plots", "--out", str(folder), *more])


def test_no_plots_means_tables_only(tmp_path, capsys):
    assert table1(tmp_path, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert sorted(os.listdir(tmp_path)) == [".lock", "examples", "results.jsonl", "tables"]
    assert sorted(os.listdir(tmp_path / "tables")) == ["table1.csv", "table1.md", "table1.tex"]


def test_output_survives_an_ascii_only_stream(tmp_path, monkeypatch):
    with open(tmp_path / "printed", "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert table1(tmp_path / "out") == 0
    assert "agree with every printed number of yeast" in (tmp_path / "printed").read_text(encoding="ascii")


def test_a_failing_disk_is_one_line(tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert table1(tmp_path, "--quiet") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("lrml reproduce: error: ")
    assert printed.err.count("\n") == 1
    assert os.listdir(tmp_path / "tables") == []
    assert list(Store(tmp_path).records()) == ["statistics-yeast"]


def test_a_record_without_its_result_is_computed_again(tmp_path, capsys):
    store = Store(tmp_path)
    assert table1(tmp_path) == 0
    whole = store.records()["statistics-yeast"]
    for result in ({}, {"instances": None}, whole["result"] | {"density": []}):
        store.path.write_text(json.dumps(whole | {"result": result}) + "\n", encoding="utf-8")
        assert table1(tmp_path) == 0
        assert store.records()["statistics-yeast"]["result"] == whole["result"]
    capsys.readouterr()
    store.path.write_bytes(b"[" * 100_000 + b"\n")
    assert table1(tmp_path) == 2
    printed = capsys.readouterr().err
    assert re.search(r"results\.jsonl' must be .* in line 1 \(not JSON.*Delete this line", printed)
    assert printed.count("\n") == 1


def test_figure_1_needs_no_data(tmp_path):
    found = program("reproduce", "fig1", "--out", tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "the tail sum at (2, 2) with rank 2" in found.stdout
    assert "Left out" not in found.stdout
    assert list(Store(tmp_path).records()) == ["completion-matrix"]
    assert sorted(os.listdir(tmp_path / "figures")) == ["figure1.pdf", "figure1.png", "figure1.svg"]
    assert os.listdir(tmp_path / "tables") == []
    assert f"look at {tmp_path / 'report.html'}\n" in found.stdout


def test_figure_3(tmp_path):
    found = program("reproduce", "fig3", "--datasets", "yeast", "--no-plots", "--out", tmp_path)
    assert (found.returncode, without_progress(found.stderr)) == (0, "")
    assert found.stdout.count("the default solver stops after") == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks there")
def test_a_folder_in_which_another_run_is_at_work(tmp_path, capsys):
    with Store(tmp_path).writer():
        assert table1(tmp_path) == 2
    assert "only one run may work in a results folder at a time" in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
@pytest.mark.parametrize("arguments", [["reproduce", "table1", "--no-plots", "--out"]])
def test_a_reader_that_has_seen_enough(arguments, tmp_path):
    folder = [tmp_path] if arguments[-1] == "--out" else []
    found = Program(*arguments, *folder, unread=True).result()
    assert (found.returncode, without_progress(found.stderr)) == (141, "")
    assert not folder or len(os.listdir(tmp_path / "tables")) == 3  # files come before output


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_ctrl_c_ends_with_130_and_keeps_what_is_finished(tmp_path):
    store = Store(tmp_path)
    with Program("reproduce", "fig2", "--jobs", "2", "--out", tmp_path) as running:
        wait_until(store.records)
        running.send_signal(signal.SIGINT)
        found = running.result()
    assert (found.returncode, found.stdout) == (130, ""), found.stderr
    kept = len(store.records())
    assert without_progress(found.stderr) == (
        f"{kept} cells are finished and kept; the same command goes on from there.\n"
        "lrml reproduce: interrupted; no file is half-written.\n"
    )
    assert not (tmp_path / "tables").exists()
    assert {record["status"] for record in store.records().values()} == {"ok"}


def test_lines_between_cells_say_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lrml.cli.reproduce._SECONDS_BETWEEN_LINES", 0.0)
    assert table1(tmp_path) == 0
    errors = capsys.readouterr().err
    assert errors.startswith("1 of 1 cells, ")
    assert errors.count("\n") == 1
    assert without_progress(errors + "lrml reproduce: a word\n") == "lrml reproduce: a word\n"


@pytest.mark.parametrize(
    ("seconds", "left", "shown"),
    [(1.0, 60.0, ", ; "), (9.0, None, ", ; "), (9.0, 61.4, ", about 0:01:01 left; ")],
)
def test_the_time_left_is_told_once_it_can_be(seconds, left, shown, tmp_path, capsys, monkeypatch):
    record = {"status": "failed", "key": "a", "payload": {"dataset": "yeast"}}

    def report_once(plan, store, *, n_workers, on_event):
        on_event(Progress(3, 9, 1, record, seconds, left))
        raise WorkerError("enough")

    monkeypatch.setattr("lrml.cli.reproduce._SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("lrml.experiments.reproduce", report_once, raising=False)
    assert table1(tmp_path) == 2
    assert capsys.readouterr().err == f"3 of 9 cells{shown}a failed\nlrml reproduce: error: enough\n"


def test_a_data_home_must_exist(tmp_path, capsys):
    assert main(["reproduce", "table1", "--out", str(tmp_path), "--data-home", str(tmp_path / "typo")]) == 2
    assert "--data-home " in capsys.readouterr().err
