"""Fields of a sidecar: a check for each type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias

from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._record import NumberedNames

Names: TypeAlias = "tuple[str, ...] | NumberedNames"

REMEDY = "Delete or rename this file if the data file is as you want it, else write the dataset again."
FAR = 2**63  # numbered names may start anywhere below
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Fields:
    """The content of a sidecar, with a check for each type of field."""

    def __init__(self, path: Path, content: Any) -> None:
        self._path = path
        self._content: dict[str, Any] = content if type(content) is dict else {}
        if type(content) is not dict:
            raise self._error("a sidecar must be a JSON object", content)

    def __getitem__(self, key: str) -> Any:
        return self._content.get(key)

    def _error(self, rule: str, got: Any) -> DatasetFormatError:
        # A container is not shown: it may be large, or nested too deeply for repr.
        shown = f"a {type(got).__name__}" if isinstance(got, dict | list) else got
        return DatasetFormatError.at(self._path, None, rule, shown, REMEDY)

    def one_of(self, key: str, allowed: tuple[Any, ...]) -> Any:
        if self[key] not in allowed:
            raise self._error(f"{key} must be {' or '.join(map(repr, allowed))}", self[key])
        return self[key]

    def text(self, key: str) -> str:
        value = self[key]
        if type(value) is not str or not is_unicode(value):
            raise self._error(f"{key} must be a text that UTF-8 can hold", value)
        return value

    def sha256(self, key: str) -> str:
        value = self[key]
        if type(value) is not str or not _SHA256.fullmatch(value):
            raise self._error(f"{key} must be 64 hexadecimal digits", value)
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        value = self[key]
        if type(value) is not int or not low <= value <= high:
            raise self._error(f"{key} must be an integer in [{low}, {high}] or null", value)
        return value

    def integers(self, key: str, count: int, low: int, high: int) -> tuple[int, ...]:
        value = self[key]
        if type(value) is not list or len(value) != count or not _are_integers(value, low, high):
            raise self._error(f"{key} must be a list of {count} integers in [{low}, {high}]", value)
        return tuple(value)

    def flag(self, key: str) -> bool:
        value = self[key]
        if type(value) is not bool:
            raise self._error(f"{key} must be true or false", value)
        return value

    def names(self, key: str, count: int) -> Names | None:
        value = self[key]
        if value is None:
            return None
        if type(value) is dict:
            prefix, start = value.get("prefix"), value.get("start")
            if type(prefix) is str and is_unicode(prefix) and type(start) is int and abs(start) <= FAR:
                return NumberedNames(prefix, count, start)
        elif _are_names(value, count):
            return tuple(value)
        rule = f"{key} must be left out, or be {count} different texts, or a prefix and a start"
        raise self._error(rule, value)

    def cells(self, key: str, rows: int, columns: int) -> list[list[int]] | None:
        value = self[key]
        if value is None:
            return None
        if type(value) is not list or not all(
            type(cell) is list
            and len(cell) == 2
            and _are_integers(cell[:1], 0, rows - 1)
            and _are_integers(cell[1:], 0, columns - 1)
            for cell in value
        ):
            rule = f"{key} must be left out, or be a list of [row, column] below {rows} and {columns}"
            raise self._error(rule, value)
        return value


def _are_integers(values: list[Any], low: int, high: int) -> bool:
    return all(type(value) is int and low <= value <= high for value in values)


def _are_names(value: Any, count: int) -> bool:
    if type(value) is not list or len(value) != count or set(map(type, value)) != {str}:
        return False
    return len(set(value)) == count and is_unicode("".join(value))


def is_unicode(text: str) -> bool:
    """Say whether a text is free of lone surrogates, which no file or screen can take."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
