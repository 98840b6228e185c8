"""`lrml reproduce`: arguments, exit codes, and what happens when it is stopped."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest

from cli_output import without_progress
from forking import CAN_FORK, Program, quick_workers
from forking import run_program as program
from lrml.cli import main
from lrml.paper._plan import spec
from waiting import wait_until


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
    assert len(spec(experiment)["seeds"]) == 3


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
    assert sorted(os.listdir(tmp_path)) == ["cells", "tables"]
    assert os.listdir(tmp_path / "tables") == ["table1.csv"]


def test_output_survives_an_ascii_only_stream(tmp_path, monkeypatch):
    with open(tmp_path / "printed", "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert table1(tmp_path / "out") == 0
    assert "wrote 1 files" in (tmp_path / "printed").read_text(encoding="ascii")


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
    assert len(os.listdir(tmp_path / "cells")) == 1  # what is finished is kept


def test_figure_1_needs_no_data(tmp_path):
    found = program("reproduce", "fig1", "--out", tmp_path)
    assert (found.returncode, without_progress(found.stderr)) == (0, "")
    assert re.search(r"^Figure 1: .*: 3 and 2 \(paper: 3 and 2\)$", found.stdout, re.MULTILINE)
    assert "Left out" not in found.stdout
    assert sorted(os.listdir(tmp_path)) == ["cells", "figures", "report.html"]
    assert sorted(os.listdir(tmp_path / "figures")) == ["figure1.pdf", "figure1.png", "figure1.svg"]
    assert f"look at {tmp_path / 'report.html'}\n" in found.stdout


def test_figure_3(tmp_path):
    found = program("reproduce", "fig3", "--datasets", "yeast", "--no-plots", "--out", tmp_path)
    assert (found.returncode, without_progress(found.stderr)) == (0, "")
    assert re.search(r"^Figure 3: .*: \de-\d\d and \de-\d\d ", found.stdout, re.MULTILINE)


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
@pytest.mark.parametrize("arguments", [["reproduce", "table1", "--no-plots", "--out"]])
def test_a_reader_that_has_seen_enough(arguments, tmp_path):
    folder = [tmp_path] if arguments[-1] == "--out" else []
    found = Program(*arguments, *folder, unread=True).result()
    assert (found.returncode, without_progress(found.stderr)) == (141, "")
    assert not folder or len(os.listdir(tmp_path / "tables")) == 1  # files come before output


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_ctrl_c_ends_with_130_and_keeps_what_is_finished(tmp_path):
    cells = tmp_path / "cells"
    with Program("reproduce", "fig2", "--jobs", "2", "--out", tmp_path) as running:
        wait_until(lambda: list(cells.glob("*.npz")))
        running.send_signal(signal.SIGINT)
        found = running.result()
    assert (found.returncode, found.stdout) == (130, ""), found.stderr
    kept = os.listdir(cells)
    assert all(name.endswith(".npz") for name in kept)
    assert without_progress(found.stderr) == (
        f"{len(kept)} cells are finished and kept; the same command goes on from there.\n"
        "lrml reproduce: interrupted; no file is half-written.\n"
    )
    assert not (tmp_path / "tables").exists()


def test_a_data_home_must_exist(tmp_path, capsys):
    assert main(["reproduce", "table1", "--out", str(tmp_path), "--data-home", str(tmp_path / "typo")]) == 2
    assert "--data-home " in capsys.readouterr().err
