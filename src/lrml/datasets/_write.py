"""Writers of datasets, and of records block by block; a file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import quoteattr

import numpy as np
from scipy import sparse

from lrml._files import atomic_file, output_errors, staged_file
from lrml._shown import shown
from lrml.datasets._dataset import Dataset, TextDataset
from lrml.datasets._lines import FORMATS, compressor, format_of, plain_name, stem_of
from lrml.datasets._tables import import_pyarrow

_ROWS = 256  # that are converted to text at a time


def write_dataset(
    dataset: Dataset | TextDataset, path: str | os.PathLike[str], *, format: str | None = None
) -> list[Path]:
    """Write a dataset to a file, which appears whole or not at all; return the files written.

    The format is that of the suffix, or ``format``; ``.gz``, ``.bz2`` or ``.xz`` at the end compresses.
    ``npz`` keeps everything; ``arff`` all but the provenance, with Mulan's list of labels in an XML file
    beside it; ``xmc`` and ``svmlight`` values only, without names, split and storage. Texts are written,
    without a split, as ``csv``, with ";" between tags, or ``jsonl``. What a format cannot hold is refused
    (ValueError) before anything is written.
    """
    kind = format_of(path, format)
    kind = "xmc" if kind == "text" else kind
    texts = isinstance(dataset, TextDataset)
    if kind not in (("csv", "jsonl") if texts else ("npz", *_LINES)):
        what = "csv or jsonl" if texts else "npz, arff, xmc or svmlight"
        raise ValueError(f"{what} can hold this dataset, but {os.fspath(path)!r} is to be {kind}.")
    files = files_of(path, kind)
    if isinstance(dataset, TextDataset):
        columns = ["text"] if dataset.tags is None else ["text", "tags"]
        separator = ";" if kind == "csv" else None
        wrong = next((tag for tag in dataset.label_names if separator and separator in tag), None)
        if wrong is not None:
            raise ValueError(f'Tag {shown(wrong)} has a ";", which separates tags. Write JSON lines instead.')
        with RecordWriter(path, columns, format=kind) as out:
            for text, tags in zip(dataset.texts, dataset.tags or repeat(())):  # noqa: B905
                listed = separator.join(tags) if separator else list(tags)
                out.write([dict(zip(columns, (text, listed), strict=False))])
    elif kind == "npz":
        dataset.save(path)
    else:
        _check(dataset, kind)
        with ExitStack() as stack:
            streams = [stack.enter_context(atomic_file(file)) for file in reversed(files)][::-1]
            with compressor(path, streams[0]) as compressed:
                for line in _LINES[kind](dataset):
                    compressed.write(line.encode())
            if len(files) > 1:
                streams[1].write("".join(_xml_lines(dataset)).encode())
    return files


def files_of(path: str | os.PathLike[str], format: str | None = None) -> list[Path]:
    """Return the files that `write_dataset` makes."""
    place = Path(path)
    beside = [place.with_name(f"{stem_of(path)}.xml")] if format_of(path, format) == "arff" else []
    return [place, *beside]


def _check(dataset: Dataset, kind: str) -> None:
    """Refuse what a format cannot hold, before anything is written."""
    if dataset.Y is None or not dataset.shape[1]:
        raise ValueError(f"{kind} needs features and labels, and {dataset!r} has not both. Write it as npz.")
    if kind != "arff" and dataset.unknown is not None:
        raise ValueError(f"{kind} cannot hold unknown labels. Write the dataset as npz or arff.")
    both = set(dataset.feature_names) & set(dataset.label_names)
    if kind == "arff" and both:
        raise ValueError(f"{shown(min(both))} is a feature and a label, which ARFF cannot hold. Rename one.")


def _rows(dataset: Dataset, Y: Any) -> Iterator[tuple[list[tuple[int, float]], list[tuple[int, float]]]]:
    """Yield the entries of each row that are not 0, of the features and of some labels."""
    for start in range(0, len(dataset), _ROWS):
        part = slice(start, start + _ROWS)
        yield from zip(_entries(dataset.X[part]), _entries(Y[part]), strict=True)


def _entries(matrix: Any) -> Iterator[list[tuple[int, float]]]:
    """Yield column and value of the entries of each row, in order."""
    cells = sparse.csr_array(matrix, copy=True)
    cells.eliminate_zeros()
    cells.sort_indices()
    rows = cells.tolil()
    return (list(zip(*row, strict=True)) for row in zip(rows.rows, rows.data, strict=True))


def _number(value: float) -> str:
    """Write a number such that it is read back exactly; whole ones without a point."""
    return repr(value).removesuffix(".0")


def _arff_lines(dataset: Dataset) -> Iterator[str]:
    d, n_labels = dataset.shape[1:]
    split = "" if dataset.n_train is None else f" -split-number {dataset.n_train}"
    yield f"@relation {_quoted(f'{dataset.name}: -C -{n_labels}{split}')}\n\n"
    for name in dataset.feature_names:
        yield f"@attribute {_quoted(name)} numeric\n"
    for name in dataset.label_names:
        yield f"@attribute {_quoted(name)} {{0,1}}\n"
    yield "\n@data\n"
    for features, labels in _rows(dataset, dataset.targets):
        cells = {column: _number(value).replace("nan", "?") for column, value in features}
        cells |= {d + column: _number(float(value)).replace("nan", "?") for column, value in labels}
        if isinstance(dataset.X, np.ndarray):
            yield ",".join(cells.get(column, "0") for column in range(d + n_labels)) + "\n"
        else:
            yield "{" + ",".join(f"{column} {value}" for column, value in cells.items()) + "}\n"


def _quoted(name: str) -> str:
    """Write a name such that it is read back, with as few quotes and escapes as possible."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:/+=-]*+", name):
        return name
    mark = '"' if "'" in name and '"' not in name else "'"
    escapes = str.maketrans({"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", mark: f"\\{mark}"})
    return mark + name.translate(escapes) + mark


def _xmc_lines(dataset: Dataset) -> Iterator[str]:
    yield "{} {} {}\n".format(*dataset.shape)
    yield from _pair_lines(dataset, 0, "")


def _svmlight_lines(dataset: Dataset) -> Iterator[str]:
    # Readers skip blank lines, so a row without anything has a 0.
    return _pair_lines(dataset, 1, " 1:0")


def _pair_lines(dataset: Dataset, first: int, empty: str) -> Iterator[str]:
    for features, labels in _rows(dataset, dataset.Y):
        ids = ",".join(str(column) for column, _ in labels)
        pairs = " ".join(f"{column + first}:{_number(value)}" for column, value in features)
        yield (f"{ids} {pairs}".rstrip() or empty) + "\n"


def _xml_lines(dataset: Dataset) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'
    yield from (f"<label name={quoteattr(name)}></label>\n" for name in dataset.label_names)
    yield "</labels>\n"


_LINES = {"arff": _arff_lines, "xmc": _xmc_lines, "svmlight": _svmlight_lines}


class RecordWriter:
    """Writes records to a CSV, JSON lines, text or Parquet file, which appears whole or not at all.

    Use it in a ``with`` statement: the file gets its name when the statement ends without an error; till then
    an older file of that name stays. Records are dicts with the same keys, ``columns``. With ``k``, the last
    two are lists of tags and of their scores, at most so many; CSV has ``tag_1``, ``score_1``, ... instead.
    Parquet is for them only: before the lists stand ``row``, an integer, and texts.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import RecordWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tags.csv")
    ...     with RecordWriter(path, ["row", "tags", "scores"], k=2) as out:
    ...         out.write([{"row": 1, "tags": ["red", "round"], "scores": [0.9, 0.5]}])
    ...         out.write([{"row": 2, "tags": ["soft"], "scores": [0.75]}])
    ...     print(path.read_text())
    row,tag_1,score_1,tag_2,score_2
    1,red,0.9,round,0.5
    2,soft,0.75,,
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str],
        *,
        format: str | None = None,
        k: int | None = None,
        header: bool = True,
        delimiter: str | None = None,
        quoting: Any = csv.QUOTE_MINIMAL,
    ) -> None:
        suffix, possible = Path(plain_name(path)).suffix.lower(), ("csv", "jsonl", "parquet" if k else "text")
        kind = format or next((one for one in possible if suffix in FORMATS[one]), None)
        if kind not in possible:
            ends = ", ".join(FORMATS[one][0] for one in possible)
            raise ValueError(f"{os.fspath(path)!r} is none of {ends}, which hold rows. Choose another name.")
        delimiter = delimiter or ("\t" if suffix == ".tsv" else ",")
        self._path, self._columns, self._kind, self._k = path, list(columns), kind, k
        self._buffer = io.StringIO(newline="")
        mark = None if quoting == csv.QUOTE_NONE else '"'  # quotes are letters
        self._line_of_csv = csv.writer(self._buffer, delimiter=delimiter, quoting=quoting, quotechar=mark)
        self._has_header, self._stack = header and kind == "csv", ExitStack()

    def __enter__(self) -> Self:
        with output_errors(self._path):
            stream = self._stack.enter_context(staged_file(self._path))
            if self._kind != "parquet":
                self._out: Any = self._stack.enter_context(compressor(self._path, stream))
            else:
                arrow = import_pyarrow()
                lists = arrow.list_(arrow.string()), arrow.list_(arrow.float64())
                types = [arrow.int64(), *[arrow.string()] * (len(self._columns) - 3), *lists]
                schema = arrow.schema(list(zip(self._columns, types, strict=True)))
                self._out = self._stack.enter_context(arrow.parquet.ParquetWriter(stream, schema))
            if self._has_header:
                pairs = [f"{what}_{n}" for n in range(1, (self._k or 0) + 1) for what in ("tag", "score")]
                names = [*self._columns[:-2], *pairs] if self._k else self._columns
                self._out.write(self._row(names).encode())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with output_errors(self._path):
            self._stack.__exit__(kind, error, trace)

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        """Write the next records."""
        with output_errors(self._path):
            if self._kind == "parquet":
                tags = self._columns[-2]  # which may be numbers
                named = [record | {tags: list(map(str, record[tags]))} for record in records]
                self._out.write(import_pyarrow().Table.from_pylist(named, schema=self._out.schema))
            else:  # half a letter becomes its escape
                self._out.write("".join(map(self._line, records)).encode(errors="backslashreplace"))

    def _line(self, record: dict[str, Any]) -> str:
        if self._kind == "jsonl":
            return json.dumps(record, ensure_ascii=False) + "\n"
        if self._kind == "text":
            return "{}\n".format(*record.values())
        if self._k is None:
            return self._row(record.values())
        *cells, tags, scores = record.values()
        if len(tags) > self._k:
            raise ValueError(f"There are {len(tags)} tags, more than k={self._k}. Pass a larger k.")
        pairs = chain.from_iterable(zip(tags, scores, strict=True))
        return self._row([*cells, *pairs, *[""] * (2 * (self._k - len(tags)))])

    def _row(self, cells: Iterable[Any]) -> str:
        """Return a row of CSV with one line end, and quotes around lone carriage returns."""
        self._line_of_csv.writerow(cells)
        line = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return f"{line[:-2]}\n"
