"""Figures: matplotlib in one style, for files and, in the colours of the page, within it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from importlib import import_module
from typing import Any, TypeAlias

from lrml._shown import shortened

Plain: TypeAlias = dict[str, Any]
Ends: TypeAlias = Sequence[Sequence[float]]

# Okabe and Ito's colours, which colour-blind readers can tell apart, and markers for print without colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#808080")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_DPI, _PAGE_DPI = 250, 120
_STYLE: dict[str, Any] = {
    "figure.dpi": _DPI,
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.2,
    "svg.fonttype": "none",  # text that can be searched and edited
    "svg.hashsalt": "lrml",  # ids that do not change from run to run
    "pdf.fonttype": 42,  # TrueType, which publishers require
}
# No clock times and versions: the same numbers give the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_LONGEST_NAME = 30  # characters of a name beside a line of dots


def figure(
    name: str, title: str, caption: str, alt: str, draw: Callable[[], Any], command: str = ""
) -> Plain:
    """Return a figure of a page.

    Parameters
    ----------
    name, title, caption : str
    alt : str
        What it shows, in a sentence for those who cannot see it.
    draw : callable
        Returns a matplotlib figure (see `canvas`), or a display, which has one; called once, in our style.
    command : str, optional
        What makes the figure, to be shown below it.
    """

    @cache
    def drawn() -> Any:
        with _own_style():
            found = draw()
            found = getattr(found, "figure_", found)
            found.draw_without_rendering()
            found.set_layout_engine("none")  # the layout is settled; the files need not find it again
        return found

    return {"id": name, "title": title, "caption": caption, "alt": alt, "draw": drawn, "command": command}


def canvas(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, in inches, that no window and no global state knows of."""
    found = import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    found.get_layout_engine().set(w_pad=0.06, h_pad=0.06)
    return found


def panel(name: str, title: str, caption: str, alt: str, draw: Callable[[Any], Any], **axes: Any) -> Plain:
    """Return a figure of one panel, half as wide as a page, on whose axes a function draws."""

    def drawn() -> Any:
        drawing = canvas(4.4, 3.2)
        draw(drawing.subplots(subplot_kw=axes))
        return drawing

    return figure(name, title, caption, alt, drawn)


def image(figure: Mapping[str, Any], suffix: str, *, on_page: bool = False) -> bytes:
    """Return a figure as a file: "png", "svg" or "pdf"; the same numbers give the same bytes.

    On a page it has no ground, and its images as many dots as a screen shows.
    """
    stream, dpi = io.BytesIO(), _PAGE_DPI if on_page else _DPI
    options = {"metadata": _METADATA[suffix], "transparent": on_page, "dpi": dpi}
    with _own_style():
        figure["draw"]().savefig(stream, format=suffix, **options)
    return stream.getvalue()


@contextmanager
def _own_style() -> Iterator[None]:
    """Use our settings alone: a user's own would change the bytes."""
    matplotlib = import_module("matplotlib")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def draw_dots(names: Sequence[str], drawn: Mapping[str, Ends], label: str) -> Any:
    """Draw a line per name, from the top: of each series a dot, and from low to high its interval.

    A series is its values, and perhaps the low and the high ends of their intervals.
    """
    height = 0.6 + len(names) * max(0.2, 0.11 * len(drawn)) + 0.25 * (len(drawn) > 1)
    figure = canvas(4.4, height)
    axes = figure.subplots()
    for place, (series, (x, *ends)) in enumerate(drawn.items()):
        shift = (place - (len(drawn) - 1) / 2) * 0.7 / len(drawn)
        y, colour = [row + shift for row in range(len(names))], COLOURS[place % len(COLOURS)]
        if ends:
            axes.hlines(y, *ends, color=colour, linewidth=1.2)
        marker = MARKERS[place % len(MARKERS)]
        axes.plot(x, y, marker, color=colour, markersize=5, label=series, clip_on=False)
    short = [shortened(name, _LONGEST_NAME) for name in names]
    axes.set(xlabel=label, ylim=(len(names) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), short, parse_math=False)  # a dollar sign is literal
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    legend_below(figure, len(drawn))
    return figure


def legend_below(drawing: Any, n_series: int) -> None:
    """Name the series below a drawing if there are several; a dollar sign is literal."""
    if n_series > 1:
        for text in drawing.legend(loc="outside lower center", ncols=3).get_texts():
            text.set_parse_math(False)


# Within a page

# What drawings have for paper, and what takes its place: words, axes and frames; the grid; what is hollow.
_THEME = {
    "#000000": "currentColor",
    "#e6e6e6": "var(--rule)",
    "#cccccc": "var(--rule)",
    "#ffffff": "var(--paper)",
}
_COLOUR = re.compile(rf"((?:fill|stroke): )({'|'.join(_THEME)})")
# What a page can do without: half of a drawing.
_NO_PART = re.compile(
    r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->"
    r'|(?<=<g) id="[^"]*"| transform="rotate\(-0 [^"]*"| font-family: [^;"]*;|; stroke-linecap: square',
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]+>")
_REFERENCE = re.compile(r' id="| xlink:href="#|url\(#')
_LONG_NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d{3,}(?![\w.])")
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def embedded(figure: Mapping[str, Any]) -> Plain:
    """Return a figure for the template: with its drawing as an element of the page, and its width in points.

    It has no ground, and the page's colours. Ids begin with its name, because drawings share the page's.
    """
    text = _NO_PART.sub("", image(figure, "svg", on_page=True).decode())
    start, end = text.index("<svg"), text.index(">", text.index("<svg"))
    box = _VIEW_BOX.search(text, start, end)
    assert box is not None
    prefix = re.sub(r"[^\w-]", "_", figure["id"]) + "-"

    def of_page(tag: re.Match[str]) -> str:
        found = _REFERENCE.sub(lambda match: match[0] + prefix, tag[0])
        found = _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.5g}", " ".join(found.split()))
        return _COLOUR.sub(lambda match: match[1] + _THEME[match[2]], found)

    body = re.sub(r">\s+<", "><", _TAG.sub(of_page, text[end + 1 :])).strip()
    opening = f'<svg viewBox="{box[0][9:-1]}" role="img" aria-label="{escape(figure["alt"])}">'
    return {**figure, "drawing": opening + body, "width": round(float(box[1]))}
