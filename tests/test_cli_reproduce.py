"""``lrml reproduce``, mostly as real processes, on a machine that has nothing but the embedded yeast."""

from __future__ import annotations

import csv
import os
import re
import select
import shutil
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from cli_output import without_progress
from failing_work import fail_in_one_cell
from forking import CAN_FORK, Program, quick_workers
from forking import run_program as program
from lrml.cli import main
from lrml.datasets import load_yeast, read_dataset, write_dataset
from lrml.metrics import label_ranking_average_precision
from waiting import wait_until

TABLES = ["counts", "equal_rank", "ranks", "table2", "table2_tuned", "times"]
TABLE2 = ("reproduce", "table2", "--protocols", "tuned", "--seeds", "1")
FIGURE2 = ("reproduce", "fig2", "--protocols", "tuned", "--seeds", "1")
FAILING = "models-yeast-tuned-LEML-6-0-"


@pytest.fixture(scope="module", autouse=True)
def _no_data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRML_DATA_HOME", str(tmp_path_factory.mktemp("empty")))
        patch.setenv("PYTHONIOENCODING", "utf-8")
        quick_workers(patch)
        yield


def contents(folder):
    """Return the bytes of every file in a folder, hidden ones included."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def comparable(files):
    """Return what is the same in every run: all but the times, which are in cells, too."""
    page = re.sub(rb'<article id="times".*?</article>', b"", files["report.html"], flags=re.DOTALL)
    kept = {
        name: content for name, content in files.items() if not name.startswith(("cells/", "tables/times"))
    }
    return kept | {"report.html": page}


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("cli") / "made" / "results"


@pytest.fixture(scope="module")
def run(out):
    """A run in a narrow terminal that is not one, and the files that it left."""
    process = program(*TABLE2, "--jobs", 2, "--out", out, COLUMNS="40")
    return SimpleNamespace(process=process, files=contents(out))


@pytest.fixture(scope="module")
def figure_run(run, out):
    """Another target in the same folder, which has most of its cells."""
    process = program(*FIGURE2, "--jobs", 2, "--out", out)
    return SimpleNamespace(process=process, files=contents(out))


def test_a_run_succeeds_and_leaves_its_files(run, out):
    assert (run.process.returncode, without_progress(run.process.stderr)) == (0, "")
    shown = {name for name in run.files if not name.startswith("cells/")}
    assert shown == {f"tables/{name}.csv" for name in TABLES} | {"report.html"}
    assert len(run.files) - len(shown) == 16  # 12 cells of Table 2, 4 at equal rank
    assert f"wrote {len(shown)} files to {out}\n" in run.process.stdout
    assert f"look at {out / 'report.html'}\n" in run.process.stdout
    assert "\x1b" not in run.process.stdout
    assert "lrml datasets fetch corel5k bibtex delicious" in run.process.stdout


def test_its_first_row_counts_the_marks_of_the_table(run, out):
    rivals = [row["mark_holm"] for row in rows_of(out / "tables/table2.csv") if row["method"] != "LRML"]
    counted = f"{rivals.count('•')} / {rivals.count('∘')}"
    assert re.search(rf"^Table 2: .*: {counted} \(", run.process.stdout, re.MULTILINE)
    assert f"<td>{counted}</td>" in run.files["report.html"].decode()
    assert len(rivals) == 48


def test_another_target_takes_over_the_cells_that_are_there(run, figure_run, out):
    assert (figure_run.process.returncode, without_progress(figure_run.process.stderr)) == (0, "")
    new = [name for name in figure_run.files if name.startswith("cells/") and name not in run.files]
    names = ("LRML-1", "MLFro", "MLTrace")
    assert [name.rpartition("-")[0] for name in sorted(new)] == [
        f"cells/models-yeast-tuned-{n}-0" for n in names
    ]
    figures = {f"figures/figure2_tuned.{suffix}" for suffix in ("png", "svg", "pdf")}
    assert {name for name in figure_run.files if name.startswith("figures/")} == figures
    page = figure_run.files["report.html"].decode()
    links = re.findall('href="([^"#]*/[^"]*)"', page)
    assert links
    assert [link for link in links if unquote(link) not in figure_run.files] == []

    again = program(*TABLE2, "--jobs", 2, "--out", out)  # computes nothing, and writes the same bytes
    assert again.stdout == run.process.stdout
    after = contents(out)
    assert {name: after[name] for name in run.files} == run.files


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_one_process_gives_the_same_files_and_a_terminal_gets_a_bar(run, tmp_path):
    code, printed, drawn = in_a_terminal(*TABLE2, "--jobs", 1, "--out", tmp_path / "one")
    assert code == 0
    assert "\x1b" not in printed
    assert printed == run.process.stdout.replace(str(run.process.args[-1]), str(tmp_path / "one"))
    assert re.search(r"━.* \d+/16 cells yeast", drawn)
    assert comparable(contents(tmp_path / "one")) == comparable(run.files)


def in_a_terminal(*arguments):
    """Run the program with standard error on a terminal; return exit code, output, and what was drawn."""
    import pty  # noqa: PLC0415 - not on Windows

    ours, theirs = pty.openpty()
    process = Program(*arguments, err=os.ttyname(theirs), COLUMNS="150", TERM="xterm")
    drawn, over = b"", False
    while not over:
        over = process.poll() is not None
        while select.select([ours], [], [], 0 if over else 0.05)[0]:
            drawn += os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    found = process.result()
    return found.returncode, found.stdout, re.sub(r"\x1b\[[\d;?]*\w", "", drawn.decode())


def test_a_download_that_fails_loses_nothing(run, out):
    before = contents(out)
    found = program(*TABLE2, "--datasets", "yeast,bibtex", "--out", out)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("lrml reproduce: error: bibtex-train.arff ")
    assert contents(out) == before


def test_a_cell_that_fails_is_shown_and_tried_again(run, out, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "gap"
    shutil.copytree(out, folder, ignore=shutil.ignore_patterns("figures", f"{FAILING}*"))
    arguments = [*TABLE2, "--jobs", "1", "--out", str(folder), "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr("lrml.paper._run.work", fail_in_one_cell)
        assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"lrml reproduce: 1 of 16 cells failed, the first one is {FAILING}")
    assert "ArithmeticError: on purpose" in printed.err
    assert f"<dt>{FAILING}" in (folder / "report.html").read_text("utf-8")
    found, expected = (rows_of(place / "tables/table2_tuned.csv") for place in (folder, out))
    assert [row["LEML"] for row in found if row["percent"] == "40"] == [""] * 6
    assert [row["LRML"] for row in found] == [row["LRML"] for row in expected]
    assert main(arguments) == 0
    assert capsys.readouterr() == ("", "")
    assert comparable(contents(folder)) == comparable(run.files)


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2", "pandas"])
def test_what_is_not_installed_is_told_before_anything_is_computed(missing, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)  # to import it is an error
    assert main([*FIGURE2, "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert re.fullmatch(rf"lrml reproduce: error: {missing} .*\.\[paper\].*\n", printed.err)
    assert os.listdir(tmp_path) == []


# Arguments, disks and streams


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--wat"], "No such option: --wat"),
        (["table3"], "'table3' is none of all, table1"),
        (["table1", "table2"], "unexpected extra argument(s) (table2)"),
        (["--datasets", "bibtex,yeats", "--quiet"], "'--datasets': 'yeats'"),
        (["--protocols", "best"], "'--protocols': 'best'"),
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


def table1(folder, *more):
    """Run the smallest target that has a cell, in this process."""
    return main(["reproduce", "table1", "--jobs", "1", "--no-plots", "--out", str(folder), *more])


def test_no_plots_means_tables_only(tmp_path, capsys):
    assert table1(tmp_path, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert sorted(os.listdir(tmp_path)) == ["cells", "tables"]
    assert os.listdir(tmp_path / "tables") == ["table1.csv"]


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


def test_a_protocol_on_a_data_set_of_ones_own(tmp_path, monkeypatch, capsys):
    quick_workers(monkeypatch)
    yeast, file = load_yeast(), tmp_path / "own.npz"
    write_dataset(replace(yeast.rows(slice(0, 300)), n_train=200), file)
    command = ("reproduce", "table2", "--datasets", str(file), "--protocols", "predictions", "--seeds", "1")
    assert main([*command, "--jobs", "1", "--no-plots", "--out", str(tmp_path)]) == 0, capsys.readouterr().err
    values = pd.read_csv(tmp_path / "tables" / "table2.csv")
    assert set(values["dataset"]) == {str(file)}
    assert len(values) == 3 * 4 * 6  # methods, thetas, metrics
    assert values["ours"].between(0, 1).all()
    assert values["published"].isna().all()
    ours = values[(values["metric"] == "average precision") & (values["method"] == "LRML")]["ours"]
    Y, Y_test = read_dataset(file).train[1], read_dataset(file).test[1]
    constant = np.broadcast_to(Y.mean(axis=0), Y_test.shape)
    assert ours.min() > label_ranking_average_precision(Y_test, constant)  # more than frequencies
