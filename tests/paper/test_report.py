"""Figures, first rows and files of a run: what is drawn, against the results themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forking import quick_workers
from lrml.paper import make_plan, reproduce
from lrml.paper._cells import Result, name_of
from lrml.paper._figures import figures
from lrml.paper._plan import DATASETS
from lrml.paper._run import _numbers
from lrml.paper._work import work
from paper.sample import Run

LEVELS = {"LRML": 0.62, "LEML": 0.6, "CPLST": 0.59, "MLTrace": 0.6, "MLFro": 0.58}


def drawn(run: Run) -> dict[str, Any]:
    return {figure["id"]: figure["draw"]() for figure in figures(run.models, run.results)}


def lines_of(axes: Any) -> dict[str, Any]:
    handles, labels = axes.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


@pytest.fixture(scope="module")
def completion() -> Result:
    (cell,) = make_plan("fig1").cells
    values, arrays = work(cell)
    return Result(cell, values, arrays)


def test_figure_1_marks_the_minima_on_the_norms_of_each_completion(completion: Result) -> None:
    run = Run([], "fig1")
    run.results.append(completion)
    drawing = drawn(run)["figure1"]
    maps = [axes for axes in drawing.axes if axes.get_xlabel() == "M₂₃" and axes.name != "3d"]
    matrix = np.array(completion.cell["matrix"], dtype=float)
    for axes, n_free, minimum in zip(maps, (0, 2), ([1.8392, 1.4271], [2.0, 2.0]), strict=True):
        (star,) = axes.lines
        place = np.concatenate([star.get_xdata(), star.get_ydata()])
        np.testing.assert_allclose(place, minimum, atol=6e-5)
        filled = matrix.copy()
        filled[1, 2], filled[2, 3] = place
        height = np.linalg.svd(filled, compute_uv=False)[n_free:].sum()
        assert float(axes.get_title().split()[1]) == pytest.approx(height, abs=1e-4)
    assert sum(axes.name == "3d" for axes in drawing.axes) == 2
    ((_, here, paper),) = _numbers(run.models, run.results, {})[1:]
    assert (here, paper) == ("3 and 2", "3 and 2")


def test_figure_2_shows_means_and_spreads_of_the_seeds() -> None:
    run = Run(["yeast"], "fig2").add("paper", "MLTrace", None, 0.6)
    for percent in (5, 20):
        for seed, level in enumerate((0.5, 0.7)):
            run.add("paper", "LRML", percent, level, seeds=(seed,))
    run.add("tuned", "MLFro", None, 0.6)  # without LRML there is no figure
    found = drawn(run)
    assert list(found) == ["figure2"]
    (axes,) = found["figure2"].axes
    bars = lines_of(axes)["LRML"]
    np.testing.assert_allclose(bars.lines[0].get_xydata(), [[100 / 14, 0.6], [300 / 14, 0.6]])
    (spread,) = bars.lines[2]
    np.testing.assert_allclose([ends[:, 1] for ends in spread.get_segments()], [[0.5, 0.7]] * 2)
    assert list(lines_of(axes)["ML-trace"].get_ydata()) == [0.6, 0.6]
    assert "ML-Fro" not in lines_of(axes)
    ((_, lead, _),) = _numbers(run.models, run.results, {})[1:]
    assert float(lead.replace("−", "-")) == pytest.approx(0.0, abs=1e-4)


def test_a_run_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_workers(monkeypatch)
    plan = make_plan("fig1")
    content, written = reproduce(plan, tmp_path, n_workers=1)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        *(f"figures/figure1.{suffix}" for suffix in ("png", "svg", "pdf")),
        "report.html",
    ]
    (cell,) = plan.cells
    assert [path.stem for path in (tmp_path / "cells").iterdir()] == [name_of(cell)]
    before = {path: path.read_bytes() for path in written}
    again, rewritten = reproduce(plan, tmp_path, n_workers=1, tell=lambda *_: pytest.fail("computed again"))
    assert {path: path.read_bytes() for path in rewritten} == before
    assert again["numbers"] == content["numbers"]


def test_what_failed_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrml.paper._run.run_cells", lambda *_, **__: ([], {"cell": "MemoryError: <b>"}))
    content, written = reproduce(make_plan("all", ["yeast"]), tmp_path, n_workers=1)
    assert content["numbers"] == content["tables"] == content["figures"] == []
    assert [path.name for path in written] == ["report.html"]
    assert "<dt>cell</dt><dd>MemoryError: &lt;b&gt;</dd>" in written[0].read_text("utf-8")


def test_a_part_of_the_plan_has_no_words_on_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrml.paper._run.run_cells", lambda *_, **__: ([], {}))
    whole, part = (
        reproduce(plan, tmp_path, n_workers=1)[0]["summary"][0]
        for plan in (make_plan("all", DATASETS), make_plan("all", ["yeast"], ["tuned"], n_seeds=1))
    )
    assert all(f"“{name}”" in whole for name in ("paper", "tuned", "kernel"))
    assert [f"“{name}”" in part for name in ("paper", "tuned", "kernel")] == [False, True, False]
    assert ("four data sets" in whole, "four data sets" in part) == (True, False)
    assert ("seed" in whole, "seed" in part) == (True, False)


def test_one_seed_has_no_spread() -> None:
    run = Run(["yeast"]).add("tuned", "MLTrace", None, 0.6, seeds=(0,))
    run.plan = make_plan("all", ["yeast"], n_seeds=1)
    run.every("tuned", LEVELS, seeds=(0,)).every("tuned", LEVELS, kind="equal_rank", seeds=(0,))
    tables = run.tables()
    assert "spread" not in [column["key"] for column in tables["equal_rank"]["columns"]]
    found = figures(run.models, run.results)
    assert not any("seed" in figure["caption"] for figure in found)
    assert not any("Means" in tables[name]["caption"] for name in ("table2_tuned", "counts"))
