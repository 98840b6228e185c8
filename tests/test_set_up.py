"""What `make` leaves behind when an environment is set up, fails, or is interrupted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What make can see of uv: it writes down its arguments, makes a folder, fails or is interrupted.
UV = """#!/bin/sh
echo "$@" >> calls
for last; do :; done
if [ "$1" = venv ]; then mkdir -p "$last"; fi
if [ -e "fail-$1" ]; then exit 3; fi
if [ -e "interrupt-$1" ]; then kill -INT $PPID; fi
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def checkout(tmp_path):
    """The files that a set-up reads, and an uv that installs nothing."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "scripts/environment.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    return tmp_path


def make(checkout, target):
    outer = {name for name in os.environ if name.startswith("MAKE") or name == "MFLAGS"}
    return subprocess.run(
        ["make", target, f"PYTHON={sys.executable}", f"UV={checkout / 'uv'}"],
        cwd=checkout,
        env={name: value for name, value in os.environ.items() if name not in outer},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def stamps(checkout, folder=".venv"):
    return {name for name in (".report", ".test") if (checkout / folder / name).exists()}


def calls(checkout):
    """Return what uv was asked to do since the last look."""
    log = checkout / "calls"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def test_an_environment_is_set_up_once_and_says_so(checkout):
    done = make(checkout, ".venv/.test")
    assert done.returncode == 0, done.stdout
    assert stamps(checkout) == {".report", ".test"}
    first, *_, last = done.stdout.splitlines()
    assert ".venv" in first
    assert "uv" in first
    assert last.endswith(" s.")
    created, installed = calls(checkout)
    assert created.startswith("venv ")
    assert "pytest>=" in installed  # of the group test
    assert "ruff>=" in installed  # of the group lint, which test includes
    assert "include-group" not in installed
    assert installed.endswith("--editable .[paper,tables,onnx,serve,dask]")
    assert make(checkout, ".venv/.report").returncode == 0
    assert calls(checkout) == []


@pytest.mark.parametrize("how", ["fail", "interrupt"])
@pytest.mark.parametrize("step", ["venv", "pip"])
def test_a_set_up_that_does_not_end_well_leaves_no_stamp_and_is_done_again(checkout, how, step):
    (checkout / f"{how}-{step}").touch()
    done = make(checkout, ".venv/.test")
    assert done.returncode != 0
    assert ".venv is not set up" in done.stdout
    assert "Traceback" not in done.stdout
    assert stamps(checkout) == set()
    calls(checkout)
    (checkout / f"{how}-{step}").unlink()
    assert make(checkout, ".venv/.test").returncode == 0
    created = [call for call in calls(checkout) if call.startswith("venv --seed")]
    assert len(created) == (step == "venv")  # an environment that is whole is kept
    assert stamps(checkout) == {".report", ".test"}
