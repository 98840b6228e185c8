"""Plain text, JSON lines, CSV (of texts by lines, of numbers by pyarrow), and folders of texts."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from lrml._shown import shown
from lrml.datasets._lines import (
    DatasetFormatError,
    Row,
    csv_line,
    damage_told,
    decoded,
    numbered_lines,
    open_bytes,
    plain_name,
)
from lrml.datasets._roles import FLAGS, RoleFinder, Roles, counts_rows, guess_separator, is_number
from lrml.datasets._tables import SAMPLE_ROWS, TableReader, import_pyarrow

_SAMPLE_BYTES = 1 << 20  # what roles are guessed from
_DELIMITERS = ",;\t"
_BAD_ROW = re.compile(r"(?:In CSV column #(\d+): )?(?:CSV parse error: )?Row #(\d+): (.*)", re.DOTALL)


class LineReader(TableReader):
    """Reads a table line by line; its first lines say which column is what."""

    has_numbers = False
    _n_sample = SAMPLE_ROWS

    def _found(self, roles: Roles) -> Roles:
        lines, size = numbered_lines(self.path, self._stream), 0
        self._head: list[Row] = []
        for row in islice(lines, self._n_sample):
            self._head.append(row)
            size += len(row[1])
            if size > _SAMPLE_BYTES:
                break
        self._rest: Iterator[Row] | None = lines
        return self._roles_of(self._head, roles)

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        """Decide which column is what, from the first lines."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_head": [], "_rest": None}  # another process opens the file anew

    def written(self, records: list[dict[str, Any]]) -> Iterator[str]:
        """Yield the lines of a file with these records, as this one has them."""
        raise NotImplementedError

    def _lines(self) -> Iterator[Row]:
        """Return all lines; the first time those that were read to find the roles need no other opening."""
        if self._rest is None and self._stream is None:
            return numbered_lines(self.path)
        head, self._head = self._head, []
        rest, self._rest = self._rest, None
        return chain(head, rest or ())


class PlainText(LineReader):
    """One text a line."""

    _n_sample = 1  # who types a text waits for an answer

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        return Roles(kind="text", format="text", text=("",))

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in self._lines():
            yield line, {"": decoded(self.path, line, text).rstrip("\r\n")}

    def written(self, records: list[dict[str, Any]]) -> Iterator[str]:
        return (f"{record['']}\n" for record in records)


class JsonLines(LineReader):
    """An object a line."""

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        sample = [record for _, record in self._objects(head)]
        if not sample:
            raise self.error(None, "There is no row. Is the file complete?")
        names = list(dict.fromkeys(chain.from_iterable(sample)))  # objects may have different keys
        rows = [[record.get(name) for name in names] for record in sample]
        return RoleFinder(self.path, names, rows, roles).roles()

    def _objects(self, lines: Iterable[Row]) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in lines:
            if not text.strip():
                continue
            try:
                record = json.loads(decoded(self.path, line, text))
            except (json.JSONDecodeError, RecursionError) as error:
                message = f"{shown(text[:40])} is no JSON ({error}). Write one object a line."
                raise self.error(line, message) from error
            if not isinstance(record, dict):
                message = f'{shown(text[:40])} is no JSON object. Write {{"text": "...", "tags": []}}.'
                raise self.error(line, message)
            yield line, record

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return self._objects(self._lines())

    def written(self, records: list[dict[str, Any]]) -> Iterator[str]:
        return (json.dumps(record, ensure_ascii=False) + "\n" for record in records)


class CsvReader(LineReader):
    """Reads CSV with a header, or without one Annif's texts and addresses of subjects."""

    has_numbers = True
    _quoting: Any = csv.QUOTE_MINIMAL

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        usual = "\t" if Path(plain_name(self.path)).suffix.lower() == ".tsv" else ","
        seen = _mark_of(head) if roles.delimiter is None and usual == "," else None
        reasons = {"delimiter": "by the first rows"} if seen not in (None, ",") else {}
        self.delimiter = roles.delimiter or seen or usual
        rows = self._rows(iter(head))
        self.header_line, self.names = next(rows, (0, []))
        if len(self.names) == 2 and guess_separator(self.names[1:]) == "<>":
            # Annif's corpora have no header, and quotes are letters.
            self.header_line, self.names, self._quoting = 0, ["text", "subjects"], csv.QUOTE_NONE
            rows = self._rows(iter(head))
        if not self.names:
            raise self.error(None, "There is no header. Is the file complete?")
        if all(map(is_number, self.names)) and not counts_rows(self.names):
            raise self.error(1, "There are numbers only where a header should name the columns. Add one.")
        if len(self.names) == 1 and roles.features != () and (roles.labels or roles.kind == "numbers"):
            raise self.error(
                self.header_line,
                f"There is one column, {shown(self.names[0])}, as cells are separated by {self.delimiter!r}. "
                'Pass delimiter=";" (on the command line: --delimiter ";") if columns are separated so.',
            )
        self.sample = [cells for _, cells in rows if len(cells) == len(self.names)]  # the last may be cut off
        roles = replace(roles, delimiter=self.delimiter, reasons=reasons)
        return RoleFinder(self.path, self.names, self.sample, roles).roles()

    def _rows(self, lines: Iterator[Row]) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each row that is not blank, and its last line."""
        number = 0

        def text() -> Iterator[str]:
            nonlocal number
            for number, line in lines:
                yield decoded(self.path, number, line)

        try:
            for row in csv.reader(text(), delimiter=self.delimiter, quoting=self._quoting):
                if row:
                    yield number, row
        except csv.Error as error:
            raise self.error(number, f"This is no CSV ({error}). Check quotes from here on.") from error

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        rows, width = self._rows(self._lines()), len(self.names)
        for line, cells in islice(rows, 1 if self.header_line else 0, None):
            if len(cells) != width:
                message = f"There are {len(cells)} cells, but {width} in the header. Complete the row."
                raise self.error(line, message)
            yield line, dict(zip(self.names, cells, strict=True))

    def written(self, records: list[dict[str, Any]]) -> Iterator[str]:
        rows = [self.names] if self.header_line else []
        return (csv_line(row, self.delimiter) for row in [*rows, *(record.values() for record in records)])

    def line_of(self, row: int) -> int:
        return self.header_line + row + 1

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the columns in record batches; words such as "yes" are truth values."""
        arrow, place = import_pyarrow(), {name: k for k, name in enumerate(self.names)}
        cells = {name: {row[place[name]].lower() for row in self.sample} for name in columns}
        words = {word for word in FLAGS if not is_number(word)}
        types = {name: arrow.bool_() if words & cells[name] else arrow.float64() for name in columns}
        if self.roles.tags in types:
            types[self.roles.tags] = arrow.string()
        cases = [(form(word), flag) for word, flag in FLAGS.items() for form in (str, str.title, str.upper)]
        yes_no = [[word for word, flag in cases if flag == value] for value in (1, 0)]
        try:
            with (
                damage_told(self.path),
                open_bytes(self.path) as stream,
                arrow.csv.open_csv(
                    stream,
                    # Threads of pyarrow gain nothing here, and without them errors name the row.
                    arrow.csv.ReadOptions(use_threads=False, block_size=max(1 << 20, 512 * len(self.names))),
                    arrow.csv.ParseOptions(
                        delimiter=self.delimiter,
                        newlines_in_values=True,
                        ignore_empty_lines=len(self.names) > 1,  # else they are rows without labels
                    ),
                    arrow.csv.ConvertOptions(
                        column_types=types,
                        include_columns=list(columns),
                        true_values=yes_no[0],
                        false_values=yes_no[1],
                    ),
                ) as batches,
            ):
                yield from batches
        except arrow.ArrowInvalid as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> DatasetFormatError:
        found = _BAD_ROW.match(str(error))
        if found is None:
            return self.error(None, f"{error}. Correct the file.")
        column = "" if found[1] is None else f" in column {shown(self.names[int(found[1])])}"
        return self.error(
            int(found[2]),
            f"{found[3]}{column}. Correct it, or ignore the column (on the command line: --ignore). Texts "
            "with tags need a column of texts: pass text.",
        )


def _mark_of(head: list[Row]) -> str | None:
    """Return what separates cells if it is clear: one mark only splits the first lines alike."""
    texts, clear = [line.decode(errors="replace") for _, line in head[:100]], []
    for mark in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(texts, delimiter=mark) if "".join(row).strip()]
        except csv.Error:
            continue
        whole = rows[:-1] if len(head) > 100 and len(rows) > 1 else rows
        if len(widths := {len(row) for row in whole}) == 1 and widths.pop() > 1:
            clear.append(mark)
    return clear[0] if len(clear) == 1 else None


class FolderReader(TableReader):
    """Reads a folder of texts, as Annif has them: each ``a.txt`` with its tags in ``a.tsv`` or ``a.key``.

    A line of ``.key`` is a tag; one of ``.tsv`` is the address of a subject in angle brackets, and its name.
    """

    has_numbers = False

    def _found(self, roles: Roles) -> Roles:
        self.name, self._texts = self.path.name, sorted(self.path.glob("*.txt"))
        pairs = (text.with_suffix(end) for text in self._texts for end in (".tsv", ".key"))
        beside = [other for other in pairs if other.exists()]
        self.files = (*self._texts, *beside)
        return replace(roles, kind="text", text=("",), tags="subjects" if beside else None)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, path in enumerate(self._texts, start=1):
            yield number, {"": _content(path), "subjects": self._subjects(path)}

    def _subjects(self, text: Path) -> list[str]:
        for end in (".tsv", ".key"):
            if (path := text.with_suffix(end)).exists():
                cells = [line.split("\t")[0].strip() for line in _content(path).splitlines()]
                return [cell.strip("<>") for cell in cells if cell]
        return []


def _content(path: Path) -> str:
    return "".join(decoded(path, number, line) for number, line in numbered_lines(path))
