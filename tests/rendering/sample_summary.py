"""A summary with every kind of table and panel, and with content that is awkward to render."""

from __future__ import annotations

import math
from typing import Any

from lrml.report import column, figure, lines, series

HOSTILE = (
    """<script>alert("x & y")</script> </script> <!-- 'quoted' & "double" \\ {{ braces }} 50 % # _ ~ ^ $"""
)

DATASETS = ("yeast", "bibtex", "corel5k", "delicious", 'a <b> & "c"')
METHODS = ("LRML", "ML-trace", "ML-Fro", "LEML", "CPLST", "R&D <LRML>")
METRICS = ("average precision", "top-1 accuracy")
PROTOCOLS = ("one split", "five folds")


def sample_summary() -> dict[str, Any]:
    """Return a new summary; the caller may change it."""
    return {
        "title": "Local Rademacher complexity for multi-label learning: a reproduction",
        "about": [
            ["Data", 'yeast, bibtex, corel5k, delicious, a <b> & "c"'],
            ["Machine", "2 cores, 8 GB of memory, an operating system"],
            ["Versions", "lrml 0.1.0, numpy 2.3.1, scipy 1.16.0, scikit-learn 1.7.0"],
            ["Specification", "a-file-name-without-any-blank-" * 5 + "end.toml"],
        ],
        "summary": [
            "LRML is better than the trace norm in 3 of 5 rows of Table 2, worse in 1 and equal in 1.",
            "The best θ lies between 20 % and 60 % of the labels on every dataset but yeast.",
            f"A sentence with characters that mean something elsewhere: {HOSTILE}",
            "Algorithm 1 as printed stops short of a stationary point in 2 of 4 runs.",
        ],
        "left_out": [
            "mediamill was left out: its files are absent; get them with: lrml datasets fetch mediamill"
        ],
        "tables": [small_table(), long_table(), empty_table()],
        "figures": [lines_figure(), log_figure(), penalty_figure(), contour_figure()],
        "failures": [
            {"cell": "delicious/five folds/R&D <LRML>/0.8", "error": f"ValueError: {HOSTILE}"},
            {
                "cell": "corel5k/one split/LEML/0.2",
                "error": "MemoryError: 12 GB were asked for, 8 GB are there.",
            },
        ],
    }


def small_table() -> dict[str, Any]:
    """Return a table with all kinds of columns, a row of each class, and nulls."""
    names = ("dataset", "n", "ours", "paper", "gap", "time", "verdict")
    values: list[tuple[Any, ...]] = [
        ("yeast", 2417, 0.7598, 0.7612, -0.0014, 0.84, "same"),
        ("bibtex", 7395, 0.5931, 0.5803, 0.0128, 12.5, "• better"),
        ("corel5k", 5000, 0.2804, 0.3011, -0.0207, 31.25, "◦ worse"),
        ("delicious", 16105, None, 0.3312, None, None, "failed"),
        ('a <b> & "c"', 1_000_000, 1.0, None, None, 3600.0, "not in the paper"),
    ]
    classes = (None, "better", "worse", "failed", None)
    rows = [
        {**dict(zip(names, row, strict=True)), "_class": kind}
        for row, kind in zip(values, classes, strict=True)
    ]
    return {
        "id": "table2",
        "title": "Table 2: average precision, ours and the paper's",
        "caption": (
            "Label ranking average precision on the test set, for the share of free singular values that "
            "was best on held-out rows. The paper states neither its splits nor its regularisation, so "
            "that a difference in the third digit means nothing; a difference in the second one is "
            "marked. The rows are those of the paper, in the paper's order, followed by what the paper "
            "does not have. " + HOSTILE
        ),
        "columns": [
            column("dataset", "dataset", "text", 0),
            column("n", "examples", "integer", 0, "training and test rows"),
            column("ours", "ours", "number", 4, 'with "rule" = <exact> & more'),
            column("paper", "paper", "number", 3),
            column("gap", "difference", "number", 4, "ours less the paper's"),
            column("time", "seconds", "seconds", 2, "of one fit, one thread"),
            column("verdict", "verdict", "text", 0),
        ],
        "rows": rows,
        "filters": [],
        "notes": ["• ours is better by more than 0.01.", "◦ ours is worse by more than 0.01.", HOSTILE],
    }


def long_table() -> dict[str, Any]:
    """Return 300 rows: ties in every column, nulls, negative and tiny numbers, one failed row in 50."""
    rows = []
    for index in range(300):
        failed = index % 50 == 17
        score = None if failed else round(0.5 + 0.4 * math.sin(index * 1.7), 2)
        rows.append(
            {
                "dataset": DATASETS[index % 5],
                "protocol": PROTOCOLS[index // 5 % 2],
                "method": METHODS[index // 10 % 6],
                "metric": METRICS[index // 60 % 2],
                "theta": (index * 37) % 101,
                "score": score,
                "spread": None if failed else 10.0 ** (-(index % 9)),
                "time": None if failed else 0.01 * (1 + index % 23) ** 3,
                "state": "failed" if failed else "done",
                "_class": "failed" if failed else None,
            }
        )
    return {
        "id": "all-runs",
        "title": "Table 3: all runs",
        "caption": "Every cell of the experiment: one row per dataset, protocol, method and metric.",
        "columns": [
            column("dataset", "dataset", "text", 0),
            column("protocol", "protocol", "text", 0),
            column("method", "method", "text", 0),
            column("metric", "metric", "text", 0),
            column("theta", "θ (%)", "integer", 0, "as a share of the labels"),
            column("score", "score", "number", 4),
            column("spread", "standard error", "number", 4),
            column("time", "seconds", "seconds", 2),
            column("state", "state", "text", 0),
        ],
        "rows": rows,
        "filters": ["dataset", "protocol", "method", "metric"],
        "notes": ["A failed run has no score; its error is listed under failures."],
    }


def empty_table() -> dict[str, Any]:
    """Return a table without rows, as after a run in which nothing was asked for."""
    return {
        "id": "table4",
        "title": "Table 4: what was not run",
        "caption": "",
        "columns": [
            column("dataset", "dataset", "text", 0),
            column("score", "score", "number", 4),
        ],
        "rows": [],
        "filters": ["dataset"],
        "notes": [],
    }


def lines_figure() -> dict[str, Any]:
    """Return three panels with error bars, levels, a null in a line, points, and a hostile name."""
    shares = [0, 20, 40, 60, 80, 100]
    panels = []
    for number, dataset in enumerate(("yeast", "bibtex", 'a <b> & "c"')):
        means = [0.70 + 0.05 * math.sin(0.03 * share + number) for share in shares]
        other = [None if share == 40 else 0.68 + 0.03 * math.cos(0.02 * share + number) for share in shares]
        bounds = [value - 0.01 for value in means], [value + 0.02 for value in means]
        drawn = [
            series("LRML", shares, means, "line", *bounds),
            series("R&D <LRML>", shares, other, "points"),
            series("ML-trace", [0, 100], [0.71 + 0.01 * number] * 2, "dashed"),
            series("ML-Fro", [0, 100], [0.66 + 0.01 * number] * 2, "dotted"),
        ]
        panels.append(lines(dataset, "θ / L (%)", "average precision", drawn))
    return figure(
        "figure1",
        "Figure 1: average precision against the share of free singular values",
        "Lines are means over five folds, bars one standard error on each side. The methods without θ "
        "are drawn as levels. The vertical axes differ from panel to panel, because the datasets "
        "differ by more than the methods do.",
        'LRML rises, peaks near θ = 40 %; the trace norm is a level below its "peak" <0.76>.',
        panels,
        columns=2,
    )


def log_figure() -> dict[str, Any]:
    """Return one panel with two logarithmic axes, ten decades high, and one with a logarithmic x only."""
    steps: list[float] = [1, 3, 10, 30, 100, 300, 1000]
    both = [
        series("pg", steps, [2.0 / step for step in steps], "line"),
        series("alternating", steps, [10.0 ** (-0.01 * step) for step in steps], "dashed"),
        series("LRML", steps, [0.5] * 7, "line", [0.1] * 7, [0.9] * 7),
    ]
    alphas = [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0]
    ranks = [series("alternating", alphas, [100.0, 90.0, 60.0, 30.0, 12.0, 10.0], "dashed")]
    rank = "rank of W, the matrix of all labels' coefficients"
    return figure(
        "figure2",
        "Figure 2: distance to the optimum",
        "Objective less the best one known, by step.",
        "Proximal gradient falls like one over the steps, the alternating solver geometrically.",
        [
            lines("both axes logarithmic", "step", "objective less optimum", both, "log"),
            lines("a horizontal logarithmic axis", "alpha", rank, ranks, "log", y_scale="linear"),
        ],
        columns=2,
    )


def penalty_figure() -> dict[str, Any]:
    """Return two contour panels and the two surfaces of the same values."""
    both: list[dict[str, Any]] = []
    for kind in ("contour", "surface"):
        both.append(grid_panel(kind, "trace norm", 0.0, {"name": "minimum", "x": 1.8, "y": 1.4, "z": 0.0}))
        both.append(grid_panel(kind, "tail sum, θ = 1", 0.5, None))
    return figure(
        "figure3",
        "Figure 3: two penalties of a matrix with two unknown entries",
        "Values of the penalty over the two unknown entries; all other entries are known.",
        "Both penalties are smallest near (1.8, 1.4); the tail sum is the flatter one.",
        both,
        columns=2,
    )


def contour_figure() -> dict[str, Any]:
    """Return a figure of one contour panel with two marks and no surface."""
    panel = grid_panel(
        "contour", "one panel & <two> marks", 1.0, {"name": "minimum", "x": 1.8, "y": 1.4, "z": 0.0}
    )
    panel["marks"].append({"name": "truth <&>", "x": -2.0, "y": 3.0, "z": 17.0})
    return figure("figure4", "Figure 4: one contour panel", HOSTILE, "A bowl.", [panel])


def grid_panel(kind: str, title: str, tilt: float, mark: dict[str, Any] | None) -> dict[str, Any]:
    """Return a bowl around (1.8, 1.4) on a grid of 21 by 17 points."""
    columns = [-4.0 + 0.5 * step for step in range(21)]
    rows = [-3.0 + 0.5 * step for step in range(17)]
    values = [[(x - 1.8) ** 2 + (1 + tilt) * (y - 1.4) ** 2 for x in columns] for y in rows]
    return {
        "kind": kind,
        "title": title,
        "x": {"label": "M₂₃", "values": columns},
        "y": {"label": "M₃₄", "values": rows},
        "z": {"label": title, "values": values},
        "marks": [] if mark is None else [mark],
    }
