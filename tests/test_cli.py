"""The command line, mostly as real processes."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lrml import __version__
from lrml.cli import _reproduction, main
from lrml.experiments import LogGrid, load_spec

TABLES = ["figure3_convergence.csv", "yeast_table.csv", "yeast_table.json"]
FIGURES = ["figure3_convergence.pdf", "figure3_convergence.png"]


def lrml(*arguments, **environment):
    command = [sys.executable, "-m", "lrml", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("cli") / "made" / "results"


@pytest.fixture(scope="module")
def run(out):
    """One full run, in a narrow terminal that is not one."""
    return lrml("reproduce", "--out", out, COLUMNS="40")


def test_a_run_succeeds_and_leaves_its_files(run, out):
    assert (run.returncode, run.stderr) == (0, "")
    assert sorted(os.listdir(out)) == sorted(TABLES + FIGURES)
    assert all(f"wrote {out / name}\n" in run.stdout for name in TABLES + FIGURES)


def test_output_is_plain_and_whole(run, out):
    assert "\x1b" not in run.stdout
    assert "…" not in run.stdout
    computed, published = re.findall(r"^ (?:computed|published) +(.*?) *$", run.stdout, flags=re.MULTILINE)
    assert computed.split() == published.split() == ["2417", "103", "14", "4.237", "0.303", "198"]
    with open(out / "yeast_table.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    lines = [line.split() for line in run.stdout.splitlines() if re.match(r" (paper|tuned) ", line)]
    assert len(lines) == len(rows) == 10
    for line, row in zip(lines, rows, strict=True):
        assert len(line) == 15
        assert line[7] == f"{float(row['top1']):.4f}"
        assert line[-1] == row["status"]


def test_conclusions_are_printed_and_kept(run, out):
    document = json.loads((out / "yeast_table.json").read_text(encoding="utf-8"))
    assert "The paper prints no table for yeast" in run.stdout
    assert [sentence.partition(":")[0] for sentence in document["conclusions"]] == ["paper", "tuned"]
    for sentence in [*document["conclusions"], document["figure3_caption"]]:
        assert f"{sentence}\n" in run.stdout
    assert document["seed"] == 0
    assert document["versions"]["lrml"] == __version__
    assert list(document["versions"]) == ["lrml", "numpy", "scipy", "scikit-learn"]
    assert document["spec"] == json.loads(json.dumps(load_spec("yeast").as_dict()))


def test_tables_repeat_to_the_byte_also_without_matplotlib(run, out, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('blocked')\n")
    again = lrml(
        "reproduce",
        "--out",
        tmp_path / "again",
        "--quiet",
        PYTHONPATH=str(tmp_path),
        OPENBLAS_NUM_THREADS="1",
    )
    assert (again.returncode, again.stdout) == (0, "")
    assert 'pip install "lrml[plots]"' in again.stderr
    assert len(again.stderr.splitlines()) == 1
    assert sorted(os.listdir(tmp_path / "again")) == TABLES
    for name in TABLES:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
def test_ctrl_c_ends_with_130_and_no_files(tmp_path):
    command = [sys.executable, "-m", "lrml", "reproduce", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # Table 1 comes before the work begins
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "lrml reproduce: interrupted; no file is half-written.\n"
    assert os.listdir(tmp_path) == []


def console_script():
    script = Path(sys.executable).with_name("lrml.exe" if sys.platform == "win32" else "lrml")
    return script if script.exists() else None


@pytest.mark.skipif(console_script() is None, reason="no lrml beside this Python; install the package")
def test_the_console_script_is_the_same_program():
    found = subprocess.run([console_script(), "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == f"lrml {__version__}\n"


def test_version_of_the_module():
    found = lrml("--version")
    assert (found.returncode, found.stdout) == (0, f"lrml {__version__}\n")


def test_output_survives_an_ascii_only_stream(tmp_path, small, monkeypatch):
    with open(tmp_path / "printed", "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["reproduce", "--out", str(tmp_path / "out"), "--no-plots"]) == 0
    assert "converged" in (tmp_path / "printed").read_text(encoding="ascii")


@pytest.fixture
def small(monkeypatch):
    """Make the command run a small experiment."""
    spec = load_spec("yeast")
    tiny = replace(
        spec,
        theta_shares=(0.2,),
        strengths=LogGrid(1.0, 10.0, 2),
        convergence=replace(spec.convergence, steps=5, tol=1e-3),
    )
    monkeypatch.setattr(_reproduction, "load_spec", lambda name: tiny)
    return tiny


def test_no_plots_means_tables_only(tmp_path, small, capsys):
    assert main(["reproduce", "--out", str(tmp_path), "--no-plots", "--seed", "7"]) == 0
    assert sorted(os.listdir(tmp_path)) == TABLES
    assert json.loads((tmp_path / "yeast_table.json").read_text(encoding="utf-8"))["seed"] == 7
    assert capsys.readouterr().err == ""


def test_a_failing_disk_is_one_line(tmp_path, small, capsys, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert main(["reproduce", "--out", str(tmp_path), "--no-plots", "--quiet"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("lrml reproduce: error: a result must be written to ")
    assert printed.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_without_a_command_help_is_printed(capsys):
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: lrml")
    assert "reproduce" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--wat"], "unrecognized arguments: --wat"),
        (["--seed", "-1"], "the seed must be an integer in [0, 4294967295], got '-1'. Use 0 if in doubt."),
        (["--seed", "4294967296"], "got '4294967296'"),
        (["--seed", "x"], "got 'x'"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_out_that_is_a_file(tmp_path):
    taken = tmp_path / "results"
    taken.write_text("mine")
    found = lrml("reproduce", "--out", taken)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        "lrml reproduce: error: the output must be a folder that can be written, "
        f"got {str(taken)!r} (it is a file). Choose another folder.\n"
    )
    assert taken.read_text() == "mine"


@pytest.mark.parametrize("place", ["below a file", "locked"])
def test_out_that_cannot_be_written(place, tmp_path, capsys):
    if place == "locked":
        tmp_path.chmod(0o555)
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
    else:
        (tmp_path / "file").write_text("")
    target = tmp_path / ("new" if place == "locked" else "file/new")
    assert main(["reproduce", "--out", str(target)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"lrml reproduce: error: .*must be a folder.*Choose another folder\.\n", printed.err)
