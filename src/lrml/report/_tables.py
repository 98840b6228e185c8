"""Tables as plain data, and the cells that a page shows of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Plain: TypeAlias = dict[str, Any]

# Significant digits and decimals of a number in a table. Beyond them values depend on the order of sums, and
# a difference that should be 0 is not.
_DIGITS, _DECIMALS = 10, 12
_MISSING = "–"
# A page holds so many rows of a table: labels may be tens of thousands, and a page should open at once.
_MOST_ROWS = 3_000
_LEAST_P = 0.0001  # four digits would make a 0 of smaller ones
_LONG, _PROSE = 24, 100  # characters of a cell, beyond which it may have several lines, and is a paragraph


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
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def column(
    key: str, title: str, kind: str = "text", digits: int | None = None, explanation: str | None = None
) -> Plain:
    """Describe a column; ``kind`` is "text", "integer", "number", "seconds" or "p_value"."""
    return {"key": key, "title": title, "kind": kind, "digits": digits, "help": explanation}


def table(
    name: str,
    title: str,
    caption: str,
    columns: Sequence[Plain],
    rows: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> list[Plain]:
    """Return a list with one table, or none without rows.

    Keys without a column are ignored, but ``_best``: the keys of the cells of a row that are the best of it.
    """
    if not rows:
        return []
    keys = [column["key"] for column in columns]
    kept = [{"_best": row.get("_best", ())} | rounded({key: row[key] for key in keys}) for row in rows]
    return [
        {
            "id": name,
            "title": title,
            "caption": caption,
            "columns": list(columns),
            "rows": kept,
            "notes": list(notes),
        }
    ]


def shown_table(table: Mapping[str, Any]) -> Plain:
    """Return a table for the template: of each row, text and class of the style sheet of every cell."""
    rows, notes = table["rows"], table["notes"]
    if len(rows) > _MOST_ROWS:
        notes = [*notes, f"These are the first {_MOST_ROWS:,} of {len(rows):,} rows."]
    return {**table, "rows": [list(_cells(row, table)) for row in rows[:_MOST_ROWS]], "notes": notes}


def _cells(row: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column in table["columns"]:
        words = column["kind"] == "text"
        text = shown_cell(row[column["key"]], column)
        text = text if words else text.replace("-", "−")
        size = "prose" if len(text) > _PROSE else "long" * (len(text) > _LONG)
        looks = "words" * words, size, "best" * (column["key"] in row["_best"])
        yield text, " ".join(filter(None, looks))


def shown_cell(value: Any, column: Mapping[str, Any]) -> str:
    """Return the text of a cell, with an ASCII minus."""
    if value is None:
        return _MISSING
    if column["kind"] == "text" or isinstance(value, str):
        return str(value)
    if column["kind"] == "p_value" and value < _LEAST_P:
        return "< .0001"
    digits = ",.0" if column["kind"] == "integer" else f".{column['digits']}"
    return f"{value:z{digits}f}"  # "z" turns a rounded −0.0000 into 0.0000
