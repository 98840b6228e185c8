"""Writers of datasets, and of predicted tags block by block; a file appears whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from scipy import sparse

from lrml._files import atomic_file, output_errors, staged_file
from lrml._shown import shown
from lrml.datasets._dataset import Dataset, TextDataset
from lrml.datasets._lines import FORMATS, compressor, csv_line, format_of, plain_name, stem_of
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
    if isinstance(dataset, TextDataset):
        lines: Any = {"csv": _csv_lines, "jsonl": _json_lines}.get(kind)
    else:
        lines = {"arff": _arff_lines, "xmc": _xmc_lines, "svmlight": _svmlight_lines}.get(kind)
        if kind == "npz":
            dataset.save(path)
            return [Path(path)]
    if lines is None:
        what = "csv or jsonl" if isinstance(dataset, TextDataset) else "npz, arff, xmc or svmlight"
        raise ValueError(f"{what} can hold this dataset, but {os.fspath(path)!r} is to be {kind}.")
    if isinstance(dataset, Dataset):
        _check(dataset, kind)
    files = files_of(path, kind)
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_file(file)) for file in reversed(files)][::-1]
        with compressor(path, streams[0]) as out:
            for line in lines(dataset, path):
                out.write(line.encode())
        if len(files) > 1:
            names = "".join(f"<label name={quoteattr(name)}></label>\n" for name in dataset.label_names)
            head = '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'
            streams[1].write(f"{head}{names}</labels>\n".encode())
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
    """Yield column and value of the entries of each row."""
    matrix = sparse.csr_array(matrix)
    for start, stop in pairwise(matrix.indptr.tolist()):
        cells = zip(matrix.indices[start:stop].tolist(), matrix.data[start:stop].tolist(), strict=True)
        yield sorted((column, value) for column, value in cells if value != 0)


def _number(value: float) -> str:
    """Write a number such that it is read back exactly; whole ones without a point."""
    return repr(value).removesuffix(".0")


def _arff_lines(dataset: Dataset, path: Any) -> Iterator[str]:
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


def _xmc_lines(dataset: Dataset, path: Any) -> Iterator[str]:
    yield "{} {} {}\n".format(*dataset.shape)
    yield from _pair_lines(dataset, 0, "")


def _svmlight_lines(dataset: Dataset, path: Any) -> Iterator[str]:
    # Readers skip blank lines, so a row without anything has a 0.
    return _pair_lines(dataset, 1, " 1:0")


def _pair_lines(dataset: Dataset, first: int, empty: str) -> Iterator[str]:
    for features, labels in _rows(dataset, dataset.Y):
        ids = ",".join(str(column) for column, _ in labels)
        pairs = " ".join(f"{column + first}:{_number(value)}" for column, value in features)
        yield (f"{ids} {pairs}".rstrip() or empty) + "\n"


def _json_lines(dataset: TextDataset, path: Any) -> Iterator[str]:
    for text, tags in zip(dataset.texts, dataset.tags or repeat(None)):  # noqa: B905
        record = {"text": text} | ({} if tags is None else {"tags": list(tags)})
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _csv_lines(dataset: TextDataset, path: Any) -> Iterator[str]:
    wrong = next((tag for tag in dataset.label_names if ";" in tag), None)
    if wrong is not None:
        raise ValueError(f'The tag {shown(wrong)} has a ";", which separates tags. Write JSON lines instead.')
    delimiter = "\t" if Path(plain_name(path)).suffix.lower() == ".tsv" else ","
    yield csv_line(["text"] if dataset.tags is None else ["text", "tags"], delimiter)
    for text, tags in zip(dataset.texts, dataset.tags or repeat(None)):  # noqa: B905
        yield csv_line([text] if tags is None else [text, ";".join(tags)], delimiter)


class PredictionWriter:
    """Writes tags with scores, block by block, to a file that appears whole or not at all.

    Use it in a ``with`` statement: the file gets its name when the statement ends without an error; till then
    an older file of that name stays. It is CSV (columns ``row``, ``tag_1``, ``score_1``, ..., ``score_k``),
    JSON lines (``{"row": 1, "tags": [...], "scores": [...]}``) or Parquet (``row``, and lists), as the suffix
    says. ``keep`` names more columns, after ``row``: texts, which are given with each block, row by row.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import PredictionWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tags.csv")
    ...     with PredictionWriter(path, k=2) as out:
    ...         out.write([["red", "round"], ["soft"]], [[0.9, 0.5], [0.75]])
    ...     print(path.read_text())
    row,tag_1,score_1,tag_2,score_2
    1,red,0.9,round,0.5
    2,soft,0.75,,
    """

    def __init__(self, path: str | os.PathLike[str], *, k: int = 5, keep: Sequence[str] = ()) -> None:
        self._path, self._k, self._row = path, k, 0
        self._keep, self._stack = keep, ExitStack()
        suffix = Path(plain_name(path)).suffix.lower()
        kinds = {end: kind for kind in ("csv", "jsonl", "parquet") for end in FORMATS[kind]}
        self._kind = kinds.get(suffix)
        if self._kind is None:
            raise ValueError(
                f"Predictions are written as .csv, .jsonl or .parquet, but {os.fspath(path)!r} is none of "
                "these. Choose another name."
            )

    def __enter__(self) -> PredictionWriter:
        with output_errors(self._path):
            stream = self._stack.enter_context(staged_file(self._path))
            if self._kind == "parquet":
                arrow = import_pyarrow()
                lists = {"tags": arrow.list_(arrow.string()), "scores": arrow.list_(arrow.float64())}
                columns = {"row": arrow.int64()} | dict.fromkeys(self._keep, arrow.string())
                schema = arrow.schema(columns | lists)
                self._out: Any = self._stack.enter_context(arrow.parquet.ParquetWriter(stream, schema))
            else:
                self._out = self._stack.enter_context(compressor(self._path, stream))
            if self._kind == "csv":
                names = (f"{what}_{place}" for place in range(1, self._k + 1) for what in ("tag", "score"))
                self._out.write(csv_line(["row", *self._keep, *names]).encode())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with output_errors(self._path):
            self._stack.__exit__(kind, error, trace)

    def write(self, labels: Any, scores: Any, kept: Sequence[Sequence[str]] = ()) -> None:
        """Write tags of the next rows, best first, their scores, as lists or arrays, and what is kept."""
        tags, values = (part.tolist() if hasattr(part, "tolist") else part for part in (labels, scores))
        rows: list[dict[str, Any]] = [
            {"row": self._row + number, **dict(zip(self._keep, cells, strict=True))}
            | {"tags": list(some), "scores": list(found)}
            for number, (some, found, cells) in enumerate(
                zip(tags, values, kept if self._keep else [()] * len(tags), strict=True), start=1
            )
        ]
        self._row += len(rows)
        with output_errors(self._path):
            if self._kind == "parquet":
                rows = [row | {"tags": list(map(str, row["tags"]))} for row in rows]
                self._out.write(import_pyarrow().Table.from_pylist(rows, schema=self._out.schema))
            else:
                self._out.write("".join(map(self._csv if self._kind == "csv" else _json, rows)).encode())

    def _csv(self, row: dict[str, Any]) -> str:
        *first, tags, scores = row.values()
        if len(tags) > self._k:
            raise ValueError(
                f"Row {row['row']} has {len(tags)} tags, more than k={self._k}. Pass a larger k."
            )
        cells = chain.from_iterable((tag, f"{score:.6g}") for tag, score in zip(tags, scores, strict=True))
        return csv_line([*first, *cells, *[""] * (2 * (self._k - len(tags)))])


def _json(row: dict[str, Any]) -> str:
    rounded = [float(f"{score:.6g}") for score in row["scores"]]
    return json.dumps(row | {"scores": rounded}, ensure_ascii=False) + "\n"
