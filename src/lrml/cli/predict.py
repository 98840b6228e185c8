"""``lrml predict``: the best tags of every row, streamed."""

# ruff: noqa: PLC0415 - help and wrong usage need no NumPy

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml._shown import counted, printable
from lrml.cli._options import (
    DATA,
    Data,
    Force,
    Model,
    advise,
    check_output,
    command,
    option,
    sources,
    tell_progress,
)
from lrml.cli._rows import RowsForModel, opened

if TYPE_CHECKING:
    from lrml.datasets import Source

_OUT = "Write a .csv, .jsonl or .parquet file instead of printing."
_ASSIGNED = "Only tags that reach the model's threshold, at most k."
_CUT = "Only tags with at least this score, or probability if the model has any, at most k."
_KEEP = "Tables: repeat this column, such as an id, with the tags of its row; may come again."
_TABLES = ("csv", "jsonl", "parquet")


@command(data={**DATA, **sources("NAME|PATH|-")})
def predict(
    model: Model,
    data: Data,
    k: Annotated[int | None, typer.Option("-k", metavar="N", help="Tags of each row (default: 5).")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help=_OUT)] = None,
    assigned: Annotated[bool, typer.Option("--assigned", help=_ASSIGNED)] = False,
    threshold: Annotated[float | None, option("X", _CUT)] = None,
    keep: Annotated[list[str] | None, option("COLUMN", _KEEP)] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> Any:
    """Predict the k best tags of every row, best first, with their scores.

    If the model has probabilities, as one of lrml tune has, they stand in place of the scores.

    A model of texts reads the files that lrml fit reads, a .txt file with one text a line, or standard input
    (-), one text a line. A model of numbers reads files of numbers, with or without labels; of a dataset with
    a split, the test rows. Rows are read and written in blocks, of 1000 or as many as --read rows=N says, so
    files may be of any length.

    \b
    For example:
      lrml predict articles.lrml new.csv -k 3 --keep id -o tags.csv
      echo "Is there a good telescope for a comet?" | lrml predict articles.lrml -
    """
    from lrml._inner import Prediction
    from lrml.datasets import RecordWriter

    check_output(output, "--output", force=force, other=data.paths)
    if output is None and sys.stdout is None:
        raise ValueError("standard output is closed. Pass -o FILE.")
    names = list(dict.fromkeys(keep or ()))
    if names and data.name == "-":  # which can be read only once
        raise _no_table(data)
    fitted, summary = opened(model, for_labels=True)
    rows = RowsForModel(fitted, data, summary)
    n_labels = len(rows.inner.model.classes_)
    k = min(5, n_labels) if k is None else k
    if not 1 <= k <= n_labels:
        raise ValueError(f"-k is {k}, and the model has {n_labels} labels. Pass 1 to {n_labels}.")
    kept = [_column(data, name, rows.source) for name in names]
    columns = ["row", *names, "tags", "scores"]
    any_given = False
    out: Any = nullcontext() if output is None else RecordWriter(output, columns, k=k)
    with out:
        tell = None if output is None else tell_progress
        for found, *_ in rows.answers(lambda model, X: Prediction.of(model, X, k), tell):
            told = found.scores if found.probabilities is None else found.probabilities
            reached = found.assigned if threshold is None else told >= threshold
            parts = [part.tolist() for part in (found.tags, _seven_digits(told))]
            if assigned or threshold is not None:
                parts = [list(map(list, map(compress, part, reached.tolist()))) for part in parts]
            any_given = any_given or any(parts[0])
            numbers = range(rows.n_done + 1, rows.n_done + 1 + len(told))
            cells = zip(numbers, *map(next, kept), *parts, strict=True)
            records = [dict(zip(columns, row, strict=True)) for row in cells]
            if output is not None:
                out.write(records)
                continue
            for record in records:
                print(json.dumps(record, ensure_ascii=False) if as_json else _line(record))
            sys.stdout.flush()
    notes = [*rows.notes(), *([] if any_given else ["no row has a tag that reaches the threshold"])]
    for note in notes:
        advise(f"lrml predict: {note}")
    if output is None:
        return None
    document = {"wrote": output, "rows": rows.n_done, "notes": notes}
    return document, f"wrote {output}: {counted(rows.n_done, 'row')}"


def _seven_digits(scores: Any) -> Any:
    """Round to the significant digits that coefficients in single precision have."""
    import numpy as np

    scores = np.asarray(scores, dtype=np.float64)  # single precision cannot be rounded to decimals
    scale = 10.0 ** (6 - np.floor(np.log10(np.maximum(np.abs(scores), 1e-9))))
    return np.round(scores * scale) / scale


def _line(record: dict[str, Any]) -> str:
    _, *kept, tags, scores = record.values()
    cells = [f"{tag} {score:.3f}" for tag, score in zip(tags, scores, strict=True)]
    return "\t".join(map(printable, [*kept, *cells]))


def _no_table(data: Data) -> ValueError:
    return ValueError(
        f"--keep repeats a column of a CSV, TSV, JSONL or Parquet file, and {data.name!r} is none. Pass such "
        "a file, beside an array if need be, or leave --keep out."
    )


def _column(data: Data, name: str, rows: Source) -> Iterator[list[str]]:
    """Yield the cells of a column of the table of some rows, block by block: as if it were the text."""
    if rows.roles.format not in _TABLES:
        raise _no_table(data)
    reading = {key: one for key, one in data.reading.items() if key in ("format", "delimiter", "test")}
    tables = tuple(path for path in data.paths if Path(path).suffix.lower() not in (".npy", ".npz"))
    try:
        source = Data(tables, reading).open(text=[name], tags=False, rows=rows.rows)
    except ValueError as error:
        raise ValueError(f"--keep: {error}") from error
    return (list(block.texts) for block in source.test.raw_blocks())
