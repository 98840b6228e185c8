"""Writer of predicted tags, block by block: CSV, JSON lines or Parquet, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext, suppress
from types import TracebackType
from typing import IO, Any, Protocol, TypeAlias

from lrml._files import output_errors, staged_file
from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.datasets._formats import format_of
from lrml.datasets._lines import CsvText, compressor
from lrml.datasets._tables import import_pyarrow

PREDICTION_FORMATS = ("csv", "jsonl", "parquet")
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
_Lists: TypeAlias = "Sequence[Sequence[Any]]"


class PredictionWriter:
    """Writes tags with scores, block by block, to a file that appears whole or not at all.

    Use it in a ``with`` statement: the file gets its name when the statement ends without an error. Till then
    an older file of that name stays as it was.

    Parameters
    ----------
    path : path-like
        The file. The suffix says the format: ``.csv`` with the columns ``row``, ``tag_1``, ``score_1``, ...;
        ``.jsonl`` or ``.ndjson`` with an object ``{"row": 1, "tags": [...], "scores": [...]}`` a line;
        ``.parquet`` or ``.pq`` with the columns ``row``, ``tags`` and ``scores``, the latter two lists. CSV
        and JSON lines may be compressed (``.gz``, ``.bz2``, ``.xz``).
    k : int, default=None
        The most tags of a row, which CSV has columns for; None takes the longest row of the first block.
        Shorter rows end with empty cells.
    format : {"csv", "jsonl", "parquet"}, default=None
        None takes it from the suffix.

    Notes
    -----
    Rows are counted from 1, over all blocks. Scores are written with six significant digits, in Parquet as
    float64.

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

    def __init__(
        self, path: str | os.PathLike[str], *, k: int | None = None, format: str | None = None
    ) -> None:
        if k is not None and (not is_integer(k) or k < 1):
            raise ValueError(f"k must be an integer of at least 1 or None, got {shown(k)}. Pass k=5.")
        self._path, self._k = path, None if k is None else int(k)
        self._format = format_of(path, format, PREDICTION_FORMATS, _SUFFIXES, nameable=False)
        self._stack, self._row = ExitStack(), 0
        self._sink: _Sink | None = None

    def __enter__(self) -> PredictionWriter:
        with output_errors(self._path):
            stream = self._stack.enter_context(staged_file(self._path))
            if self._format == "parquet":
                self._sink = _Parquet(stream)
            else:
                out = self._stack.enter_context(compressor(self._path, stream))
                self._sink = _JsonLines(out) if self._format == "jsonl" else _Csv(out, self._k)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sink, self._sink = self._sink, None
        with output_errors(self._path):
            try:
                if sink is not None:
                    with suppress(Exception) if error is not None else nullcontext():
                        sink.close()
            except BaseException as problem:
                self._stack.__exit__(type(problem), problem, problem.__traceback__)
                raise
            self._stack.__exit__(kind, error, trace)

    def write(self, labels: Any, scores: Any) -> None:
        """Write the tags of the next rows.

        Parameters
        ----------
        labels : array of shape (rows, k), or sequence of lists
            Tags of each row, best first; lists may differ in length.
        scores : array or sequence of lists of float
            The scores of these tags.
        """
        if self._sink is None:
            raise ValueError(
                "write must be called inside a with statement, got a writer that is not open. "
                "Use: with PredictionWriter(path) as out: out.write(labels, scores)."
            )
        tags, values = (part.tolist() if hasattr(part, "tolist") else part for part in (labels, scores))
        wrong = len(tags) != len(values) or any(
            len(left) != len(right) for left, right in zip(tags, values, strict=False)
        )
        if wrong:
            raise ValueError(
                f"labels and scores must have the same rows and one score a tag, got {len(tags)} and "
                f"{len(values)} rows, or rows of other lengths. Pass both as predict_top_k gives them."
            )
        if tags:
            with output_errors(self._path):
                self._sink.add(self._row + 1, tags, values)
        self._row += len(tags)


class _Sink(Protocol):
    """What writes rows in one of the formats."""

    def add(self, first: int, tags: _Lists, scores: _Lists) -> None:
        """Write rows, numbered from `first`."""

    def close(self) -> None:
        """Write what belongs at the end."""


class _Csv:
    """A row a line, with cells for each tag and its score."""

    def __init__(self, stream: IO[bytes], k: int | None) -> None:
        self._stream, self._k, self._started = stream, k, False

    def add(self, first: int, tags: _Lists, scores: _Lists) -> None:
        longest = max(map(len, tags))
        k = self._k = longest if self._k is None else self._k
        if longest > k:
            raise ValueError(
                f"a row of CSV must have at most k={k} tags, got {longest}. Pass a larger k, or write "
                "JSON lines."
            )
        text = CsvText()
        rows = csv.writer(text)
        self._head(rows)
        for number, (some, values) in enumerate(zip(tags, scores, strict=True), first):
            cells: list[Any] = [number]
            for tag, value in zip(some, values, strict=True):
                cells += (tag, f"{value:.6g}")
            rows.writerow(cells + [""] * (2 * (k - len(some))))
        self._stream.write(text.encoded())

    def close(self) -> None:
        if not self._started:
            text = CsvText()
            self._head(csv.writer(text))
            self._stream.write(text.encoded())

    def _head(self, rows: Any) -> None:
        if not self._started:
            pairs = [(f"tag_{place}", f"score_{place}") for place in range(1, (self._k or 0) + 1)]
            rows.writerow(["row", *(name for pair in pairs for name in pair)])
        self._started = True


class _JsonLines:
    """An object a line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def add(self, first: int, tags: _Lists, scores: _Lists) -> None:
        lines = [
            json.dumps(
                {"row": number, "tags": list(some), "scores": [float(f"{value:.6g}") for value in values]},
                ensure_ascii=False,
            )
            for number, (some, values) in enumerate(zip(tags, scores, strict=True), first)
        ]
        self._stream.write(("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        pass


class _Parquet:
    """Lists of tags and of scores; a row group for each block of a thousand rows or more."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._arrow = arrow = import_pyarrow("Parquet")
        self._schema = arrow.schema(
            {
                "row": arrow.int64(),
                "tags": arrow.list_(arrow.string()),
                "scores": arrow.list_(arrow.float64()),
            }
        )
        self._writer = arrow.parquet.ParquetWriter(stream, self._schema)
        self._waiting: tuple[list[int], list[Any], list[Any]] = ([], [], [])

    def add(self, first: int, tags: _Lists, scores: _Lists) -> None:
        numbers, names, values = self._waiting
        numbers += range(first, first + len(tags))
        names += [[str(tag) for tag in some] for some in tags]
        values += scores
        if len(numbers) >= 10_000:
            self._flush()

    def _flush(self) -> None:
        arrays = [
            self._arrow.array(part, self._schema.field(place).type)
            for place, part in enumerate(self._waiting)
        ]
        self._writer.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting = ([], [], [])

    def close(self) -> None:
        self._flush()
        self._writer.close()
