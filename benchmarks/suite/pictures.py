"""The two pictures of the suite: quality against time, and time per candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Record = dict[str, Any]

# Okabe and Ito's colours, which stay apart for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^v<ph>"


def styles(systems: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return a marker and a colour for every system (name → kind); ours are filled, all others hollow."""
    found = {}
    for number, (name, kind) in enumerate(systems.items()):
        colour = COLOURS[number % len(COLOURS)]
        found[name] = {
            "marker": MARKERS[number % len(MARKERS)],
            "markeredgecolor": colour,
            "markerfacecolor": colour if kind == "ours" else "white",
            "markeredgewidth": 1.6,
            "markersize": 8,
            "linestyle": "none",
            "label": name,
        }
    return found


def finished(records: list[Record], key: str) -> list[Record]:
    return [record for record in records if "left_out" not in record and key in record]


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=160, metadata={"Software": None})
    plt.close(figure)


def tidy(axis: Axes) -> None:
    axis.grid(alpha=0.25, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def draw_quality(records: list[Record], path: Path) -> None:
    """Average precision against the time of the whole fit, one panel per dataset."""
    # Systems without a model count too, so that both pictures give a system the same look.
    look = styles({record["system"]: record["kind"] for record in finished(records, "fit_ratio")})
    records = finished(records, "metrics")
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    columns = min(2, len(datasets))
    rows = -(-len(datasets) // columns)
    size = (4.3 * columns + 2.8, 3.4 * rows + 0.2)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[len(datasets) :]:
        axis.axis("off")
    for axis, dataset in zip(axes.flat, datasets, strict=False):
        for record in records:
            if record["dataset"] == dataset:
                axis.plot(
                    record["fit_ratio"], record["metrics"]["average_precision"], **look[record["system"]]
                )
        axis.set(xscale="log", title=dataset)
        axis.margins(0.08)
        tidy(axis)
    figure.supxlabel("time of the whole fit with tuning (scikit-learn's Ridge = 1)", fontsize=10)
    figure.supylabel("average precision on the test set", fontsize=10)
    handles = {line.get_label(): line for axis in axes.flat for line in axis.lines}
    names = [name for name in look if name in handles]
    legend = {"loc": "outside right center", "frameon": False, "fontsize": 8.5, "labelspacing": 0.7}
    figure.legend([handles[name] for name in names], names, title="filled: this package", **legend)
    save(figure, path)


def draw_candidates(records: list[Record], path: Path) -> None:
    """Time for each model fitted in tuning, one row per system and one panel per dataset."""
    records = finished(records, "ratio_per_candidate")
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    look = styles({record["system"]: record["kind"] for record in records})
    places = {name: -number for number, name in enumerate(look)}
    size = (2.4 * len(datasets) + 2.6, 0.27 * len(look) + 1.2)
    figure, axes = plt.subplots(
        1, len(datasets), figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    for axis, dataset in zip(axes[0], datasets, strict=True):
        for record in records:
            if record["dataset"] == dataset:
                axis.plot(record["ratio_per_candidate"], places[record["system"]], **look[record["system"]])
        axis.axvline(1, color="0.6", lw=0.8, ls="--")
        axis.set(xscale="log", title=dataset)
        axis.set_yticks(list(places.values()), list(places))
        axis.tick_params(axis="y", length=0)
        tidy(axis)
    figure.supxlabel(
        "time for each model really fitted in tuning (one fit of scikit-learn's Ridge = 1)", fontsize=10
    )
    save(figure, path)
