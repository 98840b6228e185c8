"""``lrml reproduce`` as real processes, on a machine that has nothing but the embedded yeast."""

from __future__ import annotations

import csv
import json
import os
import re
import select
import shutil
import sys
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from cli_output import without_progress
from failing_work import fail_in_one_cell
from forking import CAN_FORK, Program, quick_workers
from forking import run_program as program
from lrml.cli import main
from lrml.experiments.runner import Store

TABLES = ["equal_rank", "ranks", "table2", "table2_tuned", "times"]
TABLE2 = ("reproduce", "table2", "--protocol", "tuned", "--seeds", "1")
FIGURE2 = ("reproduce", "fig2", "--protocol", "tuned", "--seeds", "1")
FAILING = "model-yeast-tuned-LEML-6-s0"


@pytest.fixture(scope="module", autouse=True)
def _no_data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRML_DATA_HOME", str(tmp_path_factory.mktemp("empty")))
        patch.setenv("PYTHONIOENCODING", "utf-8")
        quick_workers(patch)
        yield


def contents(folder):
    """Return the bytes of every file in a folder, hidden ones included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def comparable(files):
    """Return what is the same in every run: tables, figures and page, without the table of times."""
    page = re.sub(rb'<article id="times".*?</article>', b"", files["report.html"], flags=re.DOTALL)
    kept = {name: content for name, content in files.items() if name.startswith(("tables/", "figures/"))}
    return {name: content for name, content in kept.items() if "times" not in name} | {"page": page}


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
    shown = {name for name in run.files if not name.startswith("examples/")}
    tables = {f"tables/{name}.{suffix}" for name in TABLES for suffix in ("csv", "md", "tex")}
    assert shown == tables | {"report.html", "results.jsonl", ".lock"}
    assert f"wrote {len(tables) + 1} files to {out}\n" in run.process.stdout
    assert f"look at {out / 'report.html'}\n" in run.process.stdout


def test_output_is_plain_and_its_counts_are_those_of_the_tables(run, out):
    printed = run.process.stdout
    assert "\x1b" not in printed
    assert "…" not in printed
    found = re.findall(r"better in (\d+) and worse in (\d+) of (\d+) cells than (LEML|CPLST)", printed)
    expected = []
    for name in ("table2", "equal_rank"):
        for rival in ("LEML", "CPLST"):
            rows = [row for row in rows_of(out / f"tables/{name}.csv") if row["method"] == rival]
            marks = [row["mark_holm"] for row in rows]
            expected.append((*map(str, (marks.count("•"), marks.count("∘"), len(marks))), rival))
    assert found == expected
    page = run.files["report.html"].decode()
    for sentence in re.findall(r"^\d+\. (.*)$", printed, flags=re.MULTILINE):
        assert sentence.replace("'", "&#39;") in page


def test_tables_hold_the_numbers_of_the_records(run, out):
    records = Store(out).records()
    for row in rows_of(out / "tables/table2.csv"):
        if row["metric"] == "average precision":
            metrics = records[f"model-yeast-tuned-{row['method']}-{row['theta']}-s0"]["result"]["metrics"]
            assert float(row["ours"]) == pytest.approx(metrics["average_precision"], rel=1e-9)


def test_what_is_left_out_is_said_with_the_command_that_gets_it(run):
    for text in (run.process.stdout, run.files["report.html"].decode()):
        assert "corel5k, bibtex, delicious. Get it with lrml datasets fetch corel5k bibtex delicious" in text


def test_a_second_run_computes_nothing_and_writes_the_same_bytes(run, out, figure_run):
    again = program(*TABLE2, "--jobs", 2, "--out", out)
    assert again.stdout == run.process.stdout
    after = contents(out)
    assert after["results.jsonl"] == figure_run.files["results.jsonl"]
    assert {name: after[name] for name in run.files if name != "results.jsonl"} == {
        name: content for name, content in run.files.items() if name != "results.jsonl"
    }


def test_another_target_takes_over_the_cells_that_are_there(run, figure_run):
    assert (figure_run.process.returncode, without_progress(figure_run.process.stderr)) == (0, "")
    before, after = run.files["results.jsonl"], figure_run.files["results.jsonl"]
    assert after.startswith(before)
    new = [json.loads(line)["key"] for line in after[len(before) :].splitlines()]
    assert sorted(new) == [f"model-yeast-tuned-{name}-s0" for name in ("LRML-1", "MLFro-any", "MLTrace-any")]
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    figures = {name for name in figure_run.files if name.startswith("figures/")}
    assert figures == {f"figures/figure2_tuned.{suffix}" for suffix in starts}
    for name in figures:
        assert figure_run.files[name].startswith(starts[name.rpartition(".")[2]])


def test_links_of_the_page_lead_to_files(figure_run):
    page = figure_run.files["report.html"].decode()
    places = re.findall(r'<p class="files">(.*?)</p>', page, flags=re.DOTALL)
    links = [unquote(link) for place in places for link in re.findall('href="([^"]*)"', place)]
    assert len(links) == 9  # two tables and a figure, in three formats each
    assert [link for link in links if link not in figure_run.files] == []


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_one_process_gives_the_same_files_and_a_terminal_gets_a_bar(run, figure_run, tmp_path):
    code, printed, drawn = in_a_terminal(*TABLE2, "--jobs", 1, "--out", tmp_path / "one")
    assert code == 0
    assert "\x1b" not in printed
    assert printed == run.process.stdout.replace(str(run.process.args[-1]), str(tmp_path / "one"))
    assert re.search(r"━.* \d+/16 .* yeast: best average precision 0\.\d{4} \(", drawn)
    best = max(float(row["ours"]) for row in average_precisions(tmp_path / "one"))
    assert f"best average precision {best:.4f}" in drawn.rpartition("/16 ")[2]
    assert comparable(contents(tmp_path / "one")) == comparable(run.files)

    quiet = program(*FIGURE2, "--jobs", 1, "--out", tmp_path / "one", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert comparable(contents(tmp_path / "one")) == comparable(figure_run.files)


def average_precisions(folder):
    rows = rows_of(folder / "tables/table2.csv") + rows_of(folder / "tables/equal_rank.csv")
    return [row for row in rows if row["metric"] == "average precision"]


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


def test_table_1_is_printed_with_the_numbers_of_its_file(tmp_path):
    found = program("reproduce", "table1", "--out", tmp_path, COLUMNS="40")
    assert (found.returncode, without_progress(found.stderr)) == (0, "")
    (row,) = rows_of(tmp_path / "tables/table1.csv")
    (line,) = [line.split() for line in found.stdout.splitlines() if line.startswith(" yeast ")]
    digits = {"cardinality": 3, "density": 3}
    assert line == [
        f"{float(text):.{digits[key.removesuffix('_paper')]}f}"
        if key.removesuffix("_paper") in digits
        else text
        for key, text in row.items()
    ]
    assert line[2:-1:2] == line[3:-1:2] == ["2417", "103", "14", "4.237", "0.303", "198"]


def test_a_download_that_fails_loses_nothing(run, out):
    before = contents(out)
    found = program(*TABLE2, "--datasets", "yeast", "bibtex", "--out", out)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("lrml reproduce: error: bibtex-train.arff cannot be downloaded from ")
    assert "put them here" in found.stderr
    assert contents(out) == before


@pytest.fixture
def with_a_gap(run, out, tmp_path):
    """A copy of the results, in which one cell is missing."""
    shutil.copytree(out, tmp_path / "gap", ignore=shutil.ignore_patterns("figures"))
    lines = run.files["results.jsonl"].splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["key"] != FAILING]
    assert len(kept) == len(lines) - 1
    (tmp_path / "gap/results.jsonl").write_bytes(b"".join(kept))
    return tmp_path / "gap"


def test_a_cell_that_fails_is_shown_and_tried_again(run, with_a_gap, capsys, monkeypatch):
    arguments = [*TABLE2, "--jobs", "1", "--out", str(with_a_gap)]
    with monkeypatch.context() as patch:
        patch.setattr("lrml.experiments._reproduce.work", fail_in_one_cell)
        assert main(arguments) == 1
    printed = capsys.readouterr()
    error = "ArithmeticError: on purpose"
    assert f"failed: {FAILING}: {error}" in printed.out
    assert "1 of 16 cells failed" in printed.out
    assert printed.err.startswith(
        f"lrml reproduce: 1 of 16 cells failed, the first one is {FAILING} ({error}"
    )
    page = (with_a_gap / "report.html").read_text(encoding="utf-8")
    assert f"<dt>{FAILING}</dt>" in page
    found = rows_of(with_a_gap / "tables/table2_tuned.csv")
    expected = list(csv.DictReader(run.files["tables/table2_tuned.csv"].decode().splitlines()))
    assert [row["yeast_LEML"] for row in found if row["percent"] == "40"] == [""] * 6
    for row in expected:
        row["yeast_LEML"] = "" if row["percent"] == "40" else row["yeast_LEML"]
    assert without_marks(found) == without_marks(expected)

    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert comparable(contents(with_a_gap)) == comparable(run.files)


def without_marks(rows):
    """Marks of significance may change when there are fewer comparisons."""
    return [{key: text.rstrip(" •∘") for key, text in row.items()} for row in rows]


def test_a_failure_is_said_in_a_quiet_run_too(with_a_gap, capsys, monkeypatch):
    monkeypatch.setattr("lrml.experiments._reproduce.work", fail_in_one_cell)
    assert main([*TABLE2, "--jobs", "1", "--out", str(with_a_gap), "--quiet", "--no-plots"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("lrml reproduce: 1 of 16 cells failed")


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_the_libraries_of_the_report(missing, figure_run, out, tmp_path, monkeypatch, capsys):
    shutil.copytree(out, tmp_path / "out", ignore=shutil.ignore_patterns("figures", "tables", "*.html"))
    for name in [missing, *sys.modules]:
        if name.partition(".")[0] == missing:
            monkeypatch.setitem(sys.modules, name, None)  # to import it is an error
    for name in ("lrml.report._axes", "lrml.report._draw", "lrml.report._maps"):  # they have imported it
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main([*FIGURE2, "--out", str(tmp_path / "out")]) == 0
    found = capsys.readouterr()
    assert found.err.startswith("lrml reproduce: not all of the report was written (")
    assert found.err.endswith('Install what it needs with: pip install "lrml[report]"\n')
    assert len(found.err.splitlines()) == 1
    expected = {name for name in figure_run.files if "ranks" in name or "times" in name}
    expected |= {name for name in figure_run.files if missing != "matplotlib" and "figures/" in name}
    made = {name: text for name, text in contents(tmp_path / "out").items() if name.startswith(("t", "f"))}
    assert made == {name: figure_run.files[name] for name in expected}
    assert f"wrote {len(made)} files to {tmp_path / 'out'}\n" in found.out
    assert not (tmp_path / "out/report.html").exists()
