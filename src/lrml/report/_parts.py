"""The plain data of a summary: tables, figures and their parts, as renderers expect them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Plain: TypeAlias = dict[str, Any]
_Numbers: TypeAlias = Sequence[float | None]

# Significant digits and decimals of a number in a table. Beyond them values depend on the order of sums, and
# a difference that should be 0 is not.
_DIGITS, _DECIMALS = 10, 12


def rounded(value: Any) -> Any:
    """Round every float in plain data to ten significant digits, and twelve decimals.

    What is not a finite number becomes None.

    Examples
    --------
    >>> rounded({"name": "LRML", "y": [0.1 + 0.2, 0.1 + 0.2 - 0.3, float("nan")]})
    {'name': 'LRML', 'y': [0.3, 0.0, None]}
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{round(value, _DECIMALS):.{_DIGITS}g}") + 0.0  # + 0.0 makes −0 a plain 0
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def column(
    key: str, title: str, kind: str = "text", digits: int | None = None, explanation: str | None = None
) -> Plain:
    """Describe a column; ``kind`` is "text", "integer", "number" or "seconds"."""
    return {"key": key, "title": title, "kind": kind, "digits": digits, "help": explanation}


def table(
    name: str,
    title: str,
    caption: str,
    columns: Sequence[Plain],
    rows: Sequence[Mapping[str, Any]],
    filters: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> list[Plain]:
    """Return a list with one table, or none without rows; keys without a column are ignored."""
    if not rows:
        return []
    keys = [column["key"] for column in columns]
    return [
        {
            "id": name,
            "title": title,
            "caption": caption,
            "columns": list(columns),
            "rows": [
                {"_class": row.get("_class")} | rounded({key: row[key] for key in keys}) for row in rows
            ],
            "filters": list(filters),
            "notes": list(notes),
        }
    ]


def series(
    name: str,
    x: _Numbers,
    y: _Numbers,
    style: str,
    low: _Numbers | None = None,
    high: _Numbers | None = None,
    **more: Any,
) -> Plain:
    """Return a line or points; ``names`` says what each point is.

    ``markers`` of "all" or "none" settles which points of a line have one; by default, some of a long line.
    """
    return {"name": name, "x": x, "y": y, "low": low, "high": high, "style": style, **more}


def lines(
    title: str,
    x: str,
    y: str,
    drawn: list[Plain],
    scale: str = "linear",
    *,
    y_scale: str | None = None,
    bands: Sequence[Plain] = (),
    from_zero: bool = False,
) -> Plain:
    """Return a panel of lines and points; a band shades x between its ``low`` and ``high``."""
    axes: Plain = {"x": {"label": x, "scale": scale}, "y": {"label": y, "scale": y_scale or scale}}
    if from_zero:
        axes["y"]["from_zero"] = True
    panel = {"kind": "lines", "title": title, **axes, "series": drawn}
    return {**panel, "bands": list(bands)} if bands else panel


def dots(title: str, x: str, names: Sequence[str], drawn: list[Plain]) -> Plain:
    """Return a panel with one line per name, from the top: a dot at x in each series, and its interval.

    A series is made by `series` with x alone; ``y`` is ignored.
    """
    axes = {"x": {"label": x, "scale": "linear"}, "y": {"label": "", "names": list(names)}}
    return {"kind": "dots", "title": title, **axes, "series": drawn}


def figure(name: str, title: str, caption: str, alt: str, panels: list[Plain], columns: int = 1) -> Plain:
    """Return a figure; ``alt`` says in a sentence what it shows."""
    shown: Plain = rounded({"panels": panels})
    return {"id": name, "title": title, "caption": caption, "alt": alt, "columns": columns, **shown}


def page(
    title: str,
    sentences: Sequence[str],
    figures: Sequence[Plain],
    tables: Sequence[Plain],
    about: Sequence[tuple[str, str]],
) -> Plain:
    """Return the summary of a page that stands alone: figures first, and no files beside it."""
    return {
        "title": title,
        "about": [list(pair) for pair in about],
        "summary": list(sentences),
        "left_out": [],
        "tables": list(tables),
        "figures": list(figures),
        "failures": [],
        "stands_alone": True,
    }
