"""Progress as a bar in a terminal, and as lines elsewhere."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

import lrml._progress
from lrml import LRML, MLFroCV
from lrml._progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is told to go on."""
    now = [0.0]
    monkeypatch.setattr(lrml._progress, "monotonic", lambda: now[0])
    return now


def test_a_file_gets_a_line_every_few_seconds(capsys, clock):
    with progress("fit", "steps") as report:
        for done in range(1, 11):
            clock[0] += 2.0
            report.update(done, 10, f"value {done}")
    assert capsys.readouterr() == (
        "",
        "fit: 3 of 10 steps, value 3, about 0:00:14 left\n"
        "fit: 6 of 10 steps, value 6, about 0:00:08 left\n"
        "fit: 9 of 10 steps, value 9, about 0:00:02 left\n"
        "fit: 10 of 10 steps, value 10, 20.0 s\n",
    )


def test_what_may_end_early_and_what_nobody_hears(monkeypatch, capsys, clock):
    with progress("fit", "steps", at_most=True) as report:
        clock[0] += 6.0
        report.update(3, 10)
        report.update(4, 10)
    assert capsys.readouterr().err.splitlines() == [
        "fit: 3 of at most 10 steps, at most 0:00:14 left",
        "fit: 4 of at most 10 steps, 6.0 s",
    ]
    with progress("fit", "steps"), progress("fit", "steps", verbose=0) as report:
        report.say("a word")
        report.update(1, 1)
    monkeypatch.setattr("sys.stderr", None)
    with progress("fit", "steps") as report:
        report.update(1, 1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_without_nan(monkeypatch, capsys):
    screen = io.StringIO()
    monkeypatch.setattr(
        lrml._progress, "Console", lambda **options: Console(file=screen, force_terminal=True, width=120)
    )
    X = np.random.default_rng(0).standard_normal((40, 4))
    model = LRML(1, 1.0, verbose=1).fit(X, X[:, :2] > 0)
    MLFroCV(alphas=[1.0, 2.0], cv=2, verbose=1).fit(X, X[:, :2] > 0)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "nan" not in shown
    assert f"{model.n_iter_}/5000 iterations at most objective {model.objective_:.6g}" in shown
    assert "2 candidates on 2 folds to begin with" in shown
    assert "4/4 models on splits" in shown
    out, errors = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"MLFroCV: fits alpha [12] to all rows\n", errors)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_rows_that_are_read_in_blocks_are_told(capsys, clock, tmp_path, loss):
    X = np.random.default_rng(0).standard_normal((400, 4))

    def blocks():
        for start in range(0, 400, 100):
            clock[0] += 2.0
            yield X[start : start + 100], X[start : start + 100, :2] > 0

    model = LRML(1, loss=loss, verbose=1).fit_blocks(blocks)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "LRML: 400 rows in 4 blocks, 67 rows a second"  # the first was read before
    passes = [line for line in lines if line.startswith("LRML: pass 2: 300 rows in 3 blocks, 50")]
    assert len(passes) == (loss == "logistic")
    assert not any("inf" in line for line in lines)
    if loss == "squared":
        for _ in range(2):
            model.fit_blocks(blocks, checkpoint=tmp_path / "sums.npz")
        assert f"LRML: all 4 blocks are in {tmp_path / 'sums.npz'}" in capsys.readouterr().err
