"""Drawing of Figure 3. Importing this module needs matplotlib; nothing else in the package does."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from lrml.experiments._convergence import Panel

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 8.5,
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
}

# Okabe and Ito's colours, safe for colour-blind readers; the line styles survive a black-and-white print too.
_LINES = (("#0072B2", "-", 1.6), ("#D55E00", "--", 1.4), ("#333333", ":", 1.5))

_FLOOR = 1e-9  # smaller excesses are a matter of the reference run's tolerance


def draw_convergence(figure: Sequence[Panel], note: str) -> dict[str, bytes]:
    """Draw one panel per theta.

    Parameters
    ----------
    figure : sequence of Panel
    note : str
        What all panels have in common, written into the first.

    Returns
    -------
    dict of str to bytes
        The images by file suffix, ``.png`` and ``.pdf``; the same input gives the same bytes.
    """
    with matplotlib.rc_context(_STYLE):
        canvas = _compose(figure, note)
        return {
            ".png": _encoded(canvas, "png", {"Software": None}),
            ".pdf": _encoded(canvas, "pdf", {"CreationDate": None}),
        }


def _encoded(canvas: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    stream = io.BytesIO()
    canvas.savefig(stream, format=kind, dpi=250, metadata=metadata)
    return stream.getvalue()


def _compose(figure: Sequence[Panel], note: str) -> Figure:
    canvas = Figure(figsize=(1.85 * len(figure), 2.6), layout=ConstrainedLayoutEngine(w_pad=0.07))
    grid = canvas.subplots(1, len(figure), sharex=True, sharey=True, squeeze=False)[0]
    for axes, panel in zip(grid, figure, strict=True):
        _draw_panel(axes, panel)
        axes.set_xlabel("iteration")
    _scale_axes(
        grid[0], max(int(curve.history["iteration"][-1]) for panel in figure for curve in panel.curves)
    )
    grid[0].set_ylabel(r"relative excess $F / F_{\mathrm{best}} - 1$")
    grid[0].text(0.05, 0.04, _mathematical(note), transform=grid[0].transAxes, color="0.3")
    handles, labels = grid[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return canvas


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for curve, (color, style, width) in zip(panel.curves, cycle(_LINES), strict=False):
        x, y = curve.history["iteration"], panel.excess(curve)
        visible = slice(0, int(np.argmax(np.append(y, 0.0) < _FLOOR)) + 1)
        label = _mathematical(curve.method)
        axes.plot(x[visible], y[visible], style, color=color, linewidth=width, label=label)
        axes.plot(x[:1], y[:1], "o", color=color, markerfacecolor="white", markersize=4, clip_on=False)
        if curve.stop is not None:
            axes.plot(
                x[curve.stop], y[curve.stop], "o", color=color, markersize=4.5, label="its default stop"
            )
    axes.set_title(rf"$\theta = {panel.theta}$")
    axes.grid(which="major", color="0.9", linewidth=0.5)
    axes.set_axisbelow(True)


def _mathematical(text: str) -> str:
    """Set the names of Greek letters in Greek."""
    return text.replace("gamma", r"$\gamma$").replace("alpha", r"$\alpha$")


def _scale_axes(axes: Axes, last: int) -> None:
    """Log scales for all panels; a short linear piece on the left makes room for iteration 0."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xticks([0, *(10**k for k in range(int(np.log10(last)) + 1))])
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0, last)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=100, numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=_FLOOR)
