"""A page with everything that pages have: texts that look like markup, missing numbers, a long table."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrml.report import canvas, column, draw_dots, figure, page, table

HOSTILE = '</script><script>alert("1")</script> $x_{1}$ & <b>'
N_ROWS = 300
COLUMNS = [
    column("dataset", "dataset"),
    column("method", "method"),
    column("theta", "theta", "integer", None, "how many are free"),
    column("score", "score", "number", 4),
    column("gap", "gap", "number", 2),
]


def long_rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for place in range(N_ROWS):
        score = None if place % 17 == 3 else float(rng.normal())
        row = {"dataset": ("yeast", HOSTILE, "bibtex")[place % 3], "method": f"m{place % 7}", "theta": place}
        rows.append(row | {"score": score, "gap": float(rng.integers(-3, 3))})
    return rows


def draw_lines() -> Any:
    drawing = canvas(6.4, 2.6)
    for axes, scale in zip(drawing.subplots(1, 2), ("linear", "log"), strict=True):
        axes.plot([1, 10, 100], [0.5, 0.7, 0.6], "o-", label="LRML")
        axes.plot([1, 10, 100], [0.4, 0.5, 0.5], "s:", markerfacecolor="w", label="paper")
        axes.set(xscale=scale, xlabel="iteration", ylabel="score", title=f"{scale} scale")
    drawing.legend(*drawing.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawing


def draw_many() -> Any:
    drawing = canvas(4.4, 3.2)
    points = np.random.default_rng(0).random((2, 5_000))
    drawing.subplots().plot(*points, "o", rasterized=True)
    return drawing


def sample_page(n_rows: int = N_ROWS) -> dict[str, Any]:
    ends = [[0.2, 0.5], [0.1, 0.4], [0.3, 0.6]]
    figures = [
        figure("figure1", "Lines", "A caption & more", "Two panels.", draw_lines),
        figure(
            "figure2", "Dots", "", HOSTILE, lambda: draw_dots(["one", HOSTILE], {"a": ends, "$b$": ends}, "x")
        ),
        figure("figure3", "Many", "", "A cloud.", draw_many),
    ]
    best = [{"metric": "a", "first": 0.25, "second": -0.00001, "_best": ["first"]}]
    columns = [
        column("metric", "metric"),
        column("first", "1", "number", 4),
        column("second", "2", "number", 4),
    ]
    tables = table("short", "Short", HOSTILE, columns, best, notes=[HOSTILE])
    tables += table("long", "All rows", "", COLUMNS, long_rows()[:n_rows])
    return page(
        HOSTILE,
        [HOSTILE],
        figures,
        tables,
        [("Paper", HOSTILE)],
        numbers=[("", "here", "paper"), ("values", "3 of 4", "4")],
        failures=[("cell", HOSTILE)],
        files=["tables/short.csv", "figures/a b?.pdf"],
    )
