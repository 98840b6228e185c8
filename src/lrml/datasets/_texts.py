"""Tables that are read line by line: JSON lines, plain text, and what CSV shares with them."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from lrml._shown import shown
from lrml.datasets._dataset import Schema, TextDataset
from lrml.datasets._lines import DatasetFormatError, Row, decoded, numbered_lines
from lrml.datasets._roles import Roles, find_roles

SAMPLE_ROWS, _SAMPLE_BYTES = 1000, 1 << 20  # what roles are guessed from


class Lines:
    """A table that is read line by line; its first rows say which column is what."""

    has_numbers = False

    def __init__(self, path: str | os.PathLike[str], roles: Roles, stream: IO[bytes] | None) -> None:
        self.path, self._stream = path, stream
        lines, size = numbered_lines(path, stream), 0
        self._head: list[Row] = []
        most = 1 if isinstance(self, PlainText) else SAMPLE_ROWS  # who types a text waits for an answer
        for row in islice(lines, most):
            self._head.append(row)
            size += len(row[1])
            if size > _SAMPLE_BYTES:
                break
        self.roles: Roles = self._find(roles)  # type: ignore[attr-defined]  # of the form of the lines
        self._rest: Iterator[Row] | None = lines

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_head": [], "_rest": None}  # another process opens the file anew

    def _lines(self) -> Iterator[Row]:
        """Return all lines; the first time those that were read to find the roles need no other opening."""
        if self._rest is None and self._stream is None:
            return numbered_lines(self.path)
        head, self._head = self._head, []
        rest, self._rest = self._rest, None
        return chain(head, rest or ())

    def line_of(self, row: int) -> int:
        """Return the line of a row, counted from 0."""
        return row + 1

    def _error(self, line: int | None, message: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, line, message)


class PlainText(Lines):
    """One text a line."""

    def _find(self, roles: Roles) -> Roles:
        return Roles(kind="text", format="text", text=("",))

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in self._lines():
            yield line, {"": decoded(self.path, line, text).rstrip("\r\n")}


class JsonLines(Lines):
    """An object a line."""

    def _find(self, roles: Roles) -> Roles:
        sample = [record for _, record in self._objects(self._head)]
        if not sample:
            raise self._error(None, "There is no row. Is the file complete?")
        names = list(dict.fromkeys(chain.from_iterable(sample)))  # objects may have different keys
        rows = [[record.get(name) for name in names] for record in sample]
        return find_roles(self.path, names, rows, roles)

    def _objects(self, lines: Iterable[Row]) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in lines:
            if not text.strip():
                continue
            try:
                record = json.loads(decoded(self.path, line, text))
            except (json.JSONDecodeError, RecursionError) as error:
                message = f"{shown(text[:40])} is no JSON ({error}). Write one object a line."
                raise self._error(line, message) from error
            if not isinstance(record, dict):
                message = f'{shown(text[:40])} is no JSON object. Write {{"text": "...", "tags": []}}.'
                raise self._error(line, message)
            yield line, record

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        return self._objects(self._lines())


class FolderReader:
    """Reads a folder of texts, as Annif has them: each ``a.txt`` with its tags in ``a.tsv`` or ``a.key``.

    A line of ``.key`` is a tag; one of ``.tsv`` is the address of a subject in angle brackets, and its name.
    """

    has_first_pass = has_split = False
    schema = Schema(None, None)

    def __init__(self, path: Path, roles: Roles) -> None:
        self.path, self.name, self.options = path, path.name, dict[str, Any]()
        texts = sorted(path.glob("*.txt"))
        pairs = (text.with_suffix(end) for text in texts for end in (".tsv", ".key"))
        beside = [other for other in pairs if other.exists()]
        self._texts, self.files = texts, (*texts, *beside)
        self._labelled = bool(beside)
        self.roles = replace(roles, kind="text", text=("",), tags="subjects" if beside else None)

    def moved(self) -> FolderReader:
        """Return a reader by the whole path."""
        return FolderReader(self.path.absolute(), self.roles)

    def blocks(
        self, rows: int | None, skip: int, schema: Schema | None, labelled: bool
    ) -> Generator[TextDataset, None, int]:
        """Yield so many texts at a time."""
        for start in range(skip, len(self._texts), rows or len(self._texts)):
            some = self._texts[start : None if rows is None else start + rows]
            texts = [_content(path) for path in some]
            tags = [self._tags(path) for path in some] if labelled and self._labelled else None
            yield TextDataset(self.name, texts, tags, self.roles, self.name)
        return len(self._texts)

    def _tags(self, text: Path) -> tuple[str, ...]:
        for end in (".tsv", ".key"):
            if (path := text.with_suffix(end)).exists():
                cells = [line.split("\t")[0].strip() for line in _content(path).splitlines()]
                return tuple(dict.fromkeys(cell.strip("<>") for cell in cells if cell))
        return ()


def _content(path: Path) -> str:
    return "".join(decoded(path, number, line) for number, line in numbered_lines(path))
