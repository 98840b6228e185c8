"""Cells of CSV tables: which of them are numbers, and conversion in bulk."""

from __future__ import annotations

import re
from itertools import chain
from math import nan
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lrml.datasets._table_columns import Columns

_MOST_KNOWN = 1 << 17  # cells that are remembered
_WORDS = {"": nan, "na": nan, "null": nan, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_SPELLINGS = {form: value for word, value in _WORDS.items() for form in (word, word.title(), word.upper())}
# What float() accepts, less underscores and the digits of other scripts.
_NUMBER = re.compile(
    r"[-+]?+(?:(?:\d++(?:\.\d*+)?+|\.\d++)(?:e[-+]?+\d++)?+|nan|inf(?:inity)?+)", re.ASCII | re.IGNORECASE
)


class Chunk(NamedTuple):
    """Some rows, and the line on which each of them ends."""

    rows: list[list[str]]
    lines: list[int]


class Converter:
    """Takes the numeric columns out of rows of text, and turns them into checked numbers."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._known: _KnownNumbers | None = _KnownNumbers()

    def values(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return features, then labels, of each row."""
        columns, width = self._columns, len(self._columns.numeric)
        cells = self._cells(chunk.rows)
        flat = self._numbers(cells)
        if flat is None:
            flat = np.empty(len(cells))
            for index, cell in enumerate(cells):
                value = _number(cell)
                if value is None:
                    raise columns.wrong_value(index % width, cell, line=chunk.lines[index // width])
                flat[index] = value
        values = flat.reshape(len(chunk.rows), width)
        wrong = columns.first_wrong(values)
        if wrong is not None:
            (row, position), line = wrong, chunk.lines[wrong[0]]
            raise columns.wrong_value(position, cells[row * width + position], line=line, finite=True)
        return values

    def _cells(self, rows: list[list[str]]) -> list[str]:
        """Return the cells of the numeric columns, row by row."""
        wanted = self._columns.numeric
        if wanted == tuple(range(len(self._columns.names))):
            return list(chain.from_iterable(rows))
        if len(wanted) == 1:  # itemgetter would return the cell instead of a tuple
            return [row[wanted[0]] for row in rows]
        return list(chain.from_iterable(map(itemgetter(*wanted), rows)))

    def _numbers(self, cells: list[str]) -> NDArray[np.float64] | None:
        """Convert all cells at once; return None if some cell is unusual, or wrong.

        Whatever this accepts, `_number` accepts with the same value.
        """
        known = self._known
        if known is None:
            return _parsed(cells)
        before = len(known)
        try:
            values = np.fromiter(map(known.__getitem__, cells), np.float64, len(cells))
        except ValueError:
            return None
        # Looking up is faster than parsing only as long as most cells have been seen before.
        if len(known) - before > len(cells) // 4:
            self._known = None
        elif len(known) > _MOST_KNOWN:
            known.clear()
        return values


class _KnownNumbers(dict[str, float]):
    """Cells that have been seen, and their values; a new one is converted on the way."""

    def __missing__(self, cell: str) -> float:
        value = _number(cell)
        if value is None:
            raise ValueError(cell)
        self[cell] = value
        return value


def _parsed(cells: list[str]) -> NDArray[np.float64] | None:
    """Convert cells by float(), the fastest way for numbers that are all different."""
    text = "".join(cells)
    if "_" in text or not text.isascii():  # float() would take 1_000 and the digits of other scripts
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        pass
    try:
        return np.fromiter((float(_SPELLINGS.get(cell, cell)) for cell in cells), np.float64, len(cells))
    except ValueError:
        return None


def are_data(header: list[str]) -> bool:
    """Say whether a header looks like a row of numbers; a mere count of the columns does not."""
    counted = [[str(start + column) for column in range(len(header))] for start in (0, 1)]
    return header not in counted and all(_NUMBER.fullmatch(name.strip()) for name in header)


def _number(cell: str) -> float | None:
    """Convert a cell; return None if it is not a number."""
    text = cell.strip()
    if _NUMBER.fullmatch(text) is not None:
        return float(text)
    return _WORDS.get(text.lower())
