"""Texts with tags, from CSV, JSON lines, Parquet and plain text: whole, or in blocks of rows."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._formats import TEXT_FORMATS, check_is_file, format_of, stem
from lrml.datasets._lines import (
    LONGEST_ROW,
    CsvStart,
    check_width,
    csv_cells,
    decoded,
    is_unicode,
    numbered_lines,
)
from lrml.datasets._roles import Asked, Record, Roles, find_roles, flag_of, split_tags
from lrml.datasets._tables import (
    WEIGHT_OF_BYTE,
    ParquetFile,
    check_delimiter,
    damage_reported,
    find_delimiter,
    import_pyarrow,
    say_delimiter,
)

Tags: TypeAlias = "tuple[str, ...]"
Source: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "text",
}
_NUMBER_SUFFIXES = {
    ".arff": "arff",
    ".xmc": "xmc",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
_XMC_HEADER = re.compile(rb"\d+[ \t]+\d+[ \t]+\d+\s*")
_SAMPLE_ROWS = 1000  # from which roles are guessed
_TEXT = ""  # the column of a plain text


@dataclass(frozen=True, eq=False, repr=False)
class TextDataset:
    """Texts, and the tags of each.

    Parameters
    ----------
    name : str
        Short name of the dataset.
    texts : sequence of str
        One text for each row; an empty one where the file has none.
    tags : sequence of tuples of str, or None
        The tags of each row, trimmed, each once, in the order of the file; None if there are none.
    roles : Roles or None
        Which column of the file is what.
    provenance : str
        Where the texts come from, for people to read.

    Attributes
    ----------
    tag_names : tuple of str
        All tags that occur, sorted.
    n_empty : int
        How many texts are blank.
    """

    name: str
    texts: Sequence[str]
    tags: Sequence[Tags] | None = None
    roles: Roles | None = None
    provenance: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        if self.tags is None:
            return
        object.__setattr__(self, "tags", tuple(map(tuple, self.tags)))
        if len(self.tags) != len(self.texts):
            raise ValueError(
                f"tags must have one list for each of the {len(self.texts)} texts, got {len(self.tags)}. "
                "Pass an empty list for a text without tags."
            )

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        tags = "no tags" if self.tags is None else f"{len(self.tag_names)} tags"
        empty = f", {self.n_empty} empty" if self.n_empty else ""
        return f"<TextDataset {self.name}: {len(self)} texts{empty}, {tags}>"

    @cached_property
    def tag_names(self) -> tuple[str, ...]:
        """All tags that occur, sorted."""
        return tuple(sorted(set(chain.from_iterable(self.tags or ()))))

    @cached_property
    def n_empty(self) -> int:
        """How many texts are blank."""
        return sum(not text or text.isspace() for text in self.texts)


def read_texts(
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    tags: str | Sequence[str] | bool | None = None,
    tag_separator: str | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    name: str | None = None,
) -> TextDataset:
    r"""Read texts and their tags from a file.

    Parameters
    ----------
    path : path-like
        The file; all but Parquet may be compressed (``.gz``, ``.bz2``, ``.xz``).
    text : str or sequence of str, default=None
        The column that holds the text, or several, which are joined by a line end. None guesses it from the
        names of the columns and the first 1000 rows.
    tags : str, sequence of str, or False, default=None
        The column that lists the tags of a row, or columns of 0 and 1, one for each tag. None guesses it;
        False reads no tags.
    tag_separator : str, default=None
        What stands between two tags; ``"json"`` if the column holds lists in brackets, as JSON or Python
        writes them. None guesses it. A column that holds lists, in JSON lines or Parquet, needs none.
    format : {"csv", "jsonl", "parquet", "text"}, default=None
        None takes it from the suffix: ``.csv`` or ``.tsv``; ``.jsonl`` or ``.ndjson`` (one JSON object a
        line); ``.parquet`` or ``.pq``; ``.txt`` (one text a line, without tags).
    delimiter : str, default=None
        The character between two cells of CSV. None is a tabulator for ``.tsv`` files, else a semicolon or a
        tabulator if only this splits the first rows into the same number of cells, else a comma.
    name : str, default=None
        Name of the dataset; None takes the file name without its suffix.

    Returns
    -------
    TextDataset
        Texts and tags. A missing text is "", and counted by `TextDataset.n_empty`; missing tags are no tags.
        Tags are trimmed, empty ones dropped, and each counts once in a row.

    Raises
    ------
    DatasetFormatError
        If the file breaks a rule of its format, with the line, or if it is not clear which column is what;
        then the message lists the columns and says what to pass.

    See Also
    --------
    guess_roles : Only the roles of the columns.
    iter_texts : Block by block, for files of any length and for streams.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import read_texts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toys.csv")
    ...     _ = path.write_text('id,body,tags\n1,a small red ball,"red, round"\n2,a wooden train,wood\n')
    ...     toys = read_texts(path)
    >>> toys
    <TextDataset toys: 2 texts, 3 tags>
    >>> toys.tags
    (('red', 'round'), ('wood',))
    >>> print(*toys.roles.explain(), sep="\n")
    text: column "body" (by its name)
    tags: column "tags", separated by ',' (by its name)
    ignored: column "id"
    """
    table = _open(path, format, delimiter)
    roles = table.roles(Asked(text, tags, tag_separator))
    texts: list[str] = []
    listed: list[Tags] = []
    for some, their in _blocks(table, roles, _SAMPLE_ROWS):
        texts += some
        listed += their or ()
    if not any(text and not text.isspace() for text in texts):
        rule, remedy = (
            "some text must not be empty",
            "Check which column holds the text, and pass it as text.",
        )
        raise DatasetFormatError.at(path, None, rule, Words(f"{len(texts)} empty texts"), remedy)
    return TextDataset(
        name=stem(path) if name is None else name,
        texts=texts,
        tags=listed if _has_tags(roles) else None,
        roles=roles,
        provenance=Path(path).name,
    )


def iter_texts(
    source: Source,
    *,
    text: str | Sequence[str] | None = None,
    tags: str | Sequence[str] | bool | None = None,
    tag_separator: str | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    rows: int = 1000,
) -> Iterator[tuple[list[str], list[Tags] | None]]:
    """Read texts and their tags block by block, in memory that does not grow with the file.

    Parameters
    ----------
    source : path-like or binary stream
        The file, or an open stream such as ``sys.stdin.buffer``, which stays open. A stream is plain text
        unless `format` says otherwise; it cannot be Parquet.
    text, tags, tag_separator, format, delimiter
        As for `read_texts`; for a stream, roles are guessed from its first rows, 1000 at most.
    rows : int, default=1000
        Rows of a block; the last may have fewer.

    Yields
    ------
    texts : list of str
        Texts of the block, "" for a missing one.
    tags : list of tuples of str, or None
        Tags of each text; None if there are none to read.

    See Also
    --------
    read_texts : All of a file.
    """
    if not is_integer(rows) or rows < 1:
        raise ValueError(f"rows must be an integer of at least 1, got {shown(rows)}. Pass rows=1000.")
    asked = Asked(text, tags, tag_separator)
    table = _open(source, format, delimiter)
    return _blocks(table, table.roles(asked), int(rows))


def guess_roles(
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    tags: str | Sequence[str] | bool | None = None,
    tag_separator: str | None = None,
    format: str | None = None,
    delimiter: str | None = None,
) -> Roles:
    """Guess which column of a file is what, from the names of the columns and the first 1000 rows.

    Parameters
    ----------
    path : path-like
        The file.
    text, tags, tag_separator, format, delimiter
        As for `read_texts`: what is given is not guessed. `format` may also be one of `read_dataset`'s.

    Returns
    -------
    Roles
        The roles; `Roles.explain` says them in words. A file in a format of numbers (ARFF, XMC, svmlight) has
        the kind "numbers" and no columns; so has a ``.txt`` file whose first line is three numbers, as in
        XMC. A table of numbers with a column of tags has the kind "numbers" too.

    Raises
    ------
    DatasetFormatError
        If the roles are not clear; the message lists the columns and says what to pass. Which columns of a
        table of numbers are labels is never guessed.
    """
    asked = Asked(text, tags, tag_separator)
    check_is_file(path, "a file of texts or numbers")
    every = tuple(dict.fromkeys((*TEXT_FORMATS, *_NUMBER_SUFFIXES.values())))
    kind = format_of(path, format, every, _SUFFIXES | _NUMBER_SUFFIXES)
    if kind == "text" and format is None:
        _, first = next(numbered_lines(path), (1, b""))
        kind = "xmc" if _XMC_HEADER.fullmatch(first) else kind
    if kind not in TEXT_FORMATS:
        return Roles("numbers", kind)
    return _open(path, format, delimiter).roles(asked)


class _TextTable(Protocol):
    """An open table of texts: the roles of its columns, and its rows, once."""

    path: str | os.PathLike[str]

    def roles(self, asked: Asked) -> Roles:
        """Decide which column is what."""

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, Record]]:
        """Yield rows that have at least the named columns, each with its line, or its number."""


class _LineTable:
    """A table that is read row by row; its first rows are kept until all are asked for."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        kind: str,
        names: Sequence[str],
        rows: Iterator[tuple[int, Record]],
        delimiter: tuple[str, bool] | None = None,
    ) -> None:
        self.path, self._kind, self._rows, self._delimiter = path, kind, rows, delimiter
        # Nothing is guessed of plain text, so a person who types it does not wait for an answer.
        self._head = list(islice(rows, 1 if kind == "text" else _SAMPLE_ROWS))
        if not self._head:
            rule, remedy = "a file of texts must have a row", "Check that the file is complete."
            raise DatasetFormatError.at(path, None, rule, Words("none"), remedy)
        # Objects of JSON may have different keys; the order is that of their first use.
        self._names = names or list(dict.fromkeys(chain.from_iterable(record for _, record in self._head)))

    def roles(self, asked: Asked) -> Roles:
        roles = find_roles(self.path, self._kind, self._names, [record for _, record in self._head], asked)
        if self._delimiter is None:
            return roles
        mark, guessed = self._delimiter
        reasons = roles.reasons | ({"delimiter": "by the first rows"} if guessed else {})
        return replace(roles, delimiter=mark, reasons=reasons)

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, Record]]:
        head, self._head = self._head, []
        return chain(head, self._rows)


class _PlainText(_LineTable):
    """One text a line."""

    def __init__(self, path: str | os.PathLike[str], lines: Iterable[tuple[int, bytes]]) -> None:
        rows = ((number, {_TEXT: decoded(path, number, line).rstrip("\r\n")}) for number, line in lines)
        super().__init__(path, "text", (), rows)

    def roles(self, asked: Asked) -> Roles:
        for key, value in (("text", asked.text), ("tags", asked.tags or asked.labels)):
            if value:
                rule = f"{key} must be left out for plain text, which has no columns"
                remedy = f"Leave {key} out, or name the format, such as csv."
                raise DatasetFormatError.at(self.path, None, rule, value[0], remedy)
        return Roles("text", "text")


def _csv_table(
    path: str | os.PathLike[str], lines: Iterable[tuple[int, bytes]], chosen: str | None
) -> _LineTable:
    """Open a table of CSV, parsed by the standard library: fast enough for texts, and needs no pyarrow."""
    # The usual limit of a cell, 128 KiB for the whole process, is short for a document.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    check_delimiter(path, chosen)
    start = CsvStart(lines)
    delimiter, guessed = find_delimiter(path, chosen, start)
    cells = csv_cells(path, start.lines, delimiter)
    line, names = next(cells, (None, []))
    if line is None:
        rule, remedy = "a table must have a header", "Check that the file is complete."
        raise DatasetFormatError.at(path, None, rule, Words("an empty file"), remedy)
    other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if other is not None:
        rule = f"the names of columns must be separated by {delimiter!r}"
        raise DatasetFormatError.at(path, line, rule, names[0], f"{say_delimiter(other)}.")
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        remedy = "Rename one of the columns; the first line must name them."
        raise DatasetFormatError.at(path, line, "the names of columns must be unique", twice, remedy)

    def rows() -> Iterator[tuple[int, Record]]:
        for number, row in cells:
            check_width(path, number, row, len(names), delimiter)
            yield number, dict(zip(names, row, strict=True))

    return _LineTable(path, "csv", names, rows(), (delimiter, guessed))


def _json_lines(
    path: str | os.PathLike[str], lines: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, Record]]:
    """Yield the objects of a file of JSON lines; blank lines are left out."""
    for number, line in lines:
        text = decoded(path, number, line).strip()
        if not text:
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            rule, remedy = (
                "a line must be JSON",
                'Write one object a line, such as {"text": "...", "tags": []}.',
            )
            reason = Words(f"{shown(text[:40])} ({error})")
            raise DatasetFormatError.at(path, number, rule, reason, remedy) from error
        if not isinstance(record, dict):
            rule, remedy = "a line must be a JSON object", 'Write lines such as {"text": "...", "tags": []}.'
            raise DatasetFormatError.at(path, number, rule, text[:40], remedy)
        if "\\ud" in text.lower() and not is_unicode(json.dumps(record, ensure_ascii=False)):
            rule, remedy = "text must not have half of a surrogate pair", "Remove it, such as \\ud800."
            raise DatasetFormatError.at(path, number, rule, text[:40], remedy)
        yield number, record


class _ParquetTexts:
    """A Parquet file; its first rows are read twice, later only the columns that are needed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self._arrow = path, import_pyarrow("Parquet")

    def roles(self, asked: Asked) -> Roles:
        sample = [record for _, record in islice(self.records(None), _SAMPLE_ROWS)]
        if not sample:
            rule, remedy = "a file of texts must have a row", "Check that the file is complete."
            raise DatasetFormatError.at(self.path, None, rule, Words("none"), remedy)
        return find_roles(self.path, "parquet", list(sample[0]), sample, asked)

    def records(self, columns: Sequence[str] | None) -> Iterator[tuple[int, Record]]:
        arrow, size = self._arrow, 0
        with damage_reported(self.path, arrow), arrow.OSFile(os.fspath(self.path)) as source:
            file = ParquetFile(self.path, arrow, source)
            names = file.names if columns is None else columns
            for batch in file.read(names, _SAMPLE_ROWS, names):
                size += batch.get_total_buffer_size()
                values = [_unpacked(column, arrow) for column in batch.columns]
                size += sum(array.nbytes for array in values)
                file.check_size(size, WEIGHT_OF_BYTE, "bytes of text")
                rows = zip(*(array.to_pylist() for array in values), strict=True)
                for number, row in enumerate(rows, file.ahead + 1):
                    yield number, dict(zip(names, row, strict=True))


def _unpacked(array: Any, arrow: Any) -> Any:
    """Return an array of values, where it has codes and their meaning."""
    return array.dictionary_decode() if arrow.types.is_dictionary(array.type) else array


def _open(source: Source, chosen: str | None, delimiter: str | None) -> _TextTable:
    """Open a file or a stream of texts."""
    stream = None if isinstance(source, str | os.PathLike) else source
    path: str | os.PathLike[str]
    if stream is None:
        path = source  # type: ignore[assignment]
        kind = _format(path, chosen)
        check_is_file(path, "a file of texts")
    else:
        path, kind = "standard input", "text" if chosen is None else _format("", chosen)
        if not hasattr(stream, "readline") or isinstance(stream.readline(0), str):
            raise TypeError(
                f"source must be a path or an open binary stream, got {type(stream).__name__}. "
                "Pass sys.stdin.buffer for standard input."
            )
        if kind == "parquet":
            raise ValueError("a stream must be csv, jsonl or text, got parquet. Pass the path of a file.")
    if kind == "parquet":
        return _ParquetTexts(path)
    lines = numbered_lines(path, stream=stream)
    if kind == "csv":
        return _csv_table(path, lines, delimiter)
    return (
        _LineTable(path, "jsonl", (), _json_lines(path, lines))
        if kind == "jsonl"
        else _PlainText(path, lines)
    )


def _format(path: str | os.PathLike[str], chosen: str | None = None) -> str:
    return format_of(path, chosen, TEXT_FORMATS, _SUFFIXES)


def _has_tags(roles: Roles) -> bool:
    return roles.tags is not None or bool(roles.labels)


def _blocks(table: _TextTable, roles: Roles, rows: int) -> Iterator[tuple[list[str], list[Tags] | None]]:
    """Yield the texts and tags of a table, block by block."""
    if roles.kind != "text":
        rule = "some column must hold texts"
        got, remedy = (
            Words("numbers only"),
            'Pass the column, as text="...", or use read_csv or read_parquet.',
        )
        raise DatasetFormatError.at(table.path, None, rule, got, remedy)
    text = roles.text or (_TEXT,)
    columns = [*text, *([roles.tags] if roles.tags is not None else roles.labels)]
    records = table.records(columns)
    known: dict[str, Tags] = {}  # lists of tags come again and again
    while block := list(islice(records, rows)):
        texts = [_text(table.path, number, record, text) for number, record in block]
        if not _has_tags(roles):
            yield texts, None
            continue
        if len(known) > 100_000:
            known.clear()
        yield texts, [_tags(table.path, number, record, roles, known) for number, record in block]


def _text(path: str | os.PathLike[str], number: int, record: Record, columns: Sequence[str]) -> str:
    """Return the text of a row, "" if it has none."""
    parts = []
    for name in columns:
        value = record.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            if isinstance(value, bool) or not isinstance(value, int | float):
                rule = f"column {shown(name)} must hold text"
                remedy = "Correct the row, or pass another column as text."
                raise DatasetFormatError.at(path, number, rule, value, remedy)
            value = str(value)
        if value:
            parts.append(value)
    return "\n".join(parts)


def _tags(
    path: str | os.PathLike[str], number: int, record: Record, roles: Roles, known: dict[str, Tags]
) -> Tags:
    """Return the tags of a row."""
    if roles.tags is None:
        flags = {name: flag_of(record.get(name)) for name in roles.labels}
        wrong = next((name for name, flag in flags.items() if flag is None), None)
        if wrong is not None:
            rule = f"column {shown(wrong)} must hold 0 or 1, as a column of tags"
            raise DatasetFormatError.at(path, number, rule, record.get(wrong), "Correct the row.")
        return tuple(name for name, flag in flags.items() if flag)
    value = record.get(roles.tags)
    if value is None:
        return ()
    if isinstance(value, list):
        if not all(isinstance(part, str | int) and not isinstance(part, bool) for part in value):
            rule = f"a list in column {shown(roles.tags)} must hold texts"
            raise DatasetFormatError.at(path, number, rule, value, "Write tags as texts.")
        return _trimmed(map(str, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        rule = f"column {shown(roles.tags)} must hold tags, as text or a list"
        raise DatasetFormatError.at(
            path, number, rule, value, "Correct the row, or pass another column as tags."
        )
    if value not in known:
        try:
            known[value] = _trimmed(split_tags(value, roles.tag_separator))
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            rule = f'column {shown(roles.tags)} must hold lists such as ["red", "round"]'
            remedy = "Correct the row, or pass tag_separator."
            raise DatasetFormatError.at(path, number, rule, value, remedy) from error
    return known[value]


def _trimmed(parts: Iterable[str]) -> Tags:
    """Return tags without blanks around them, each once, the empty ones left out."""
    return tuple(dict.fromkeys(tag for part in parts if (tag := part.strip())))
