"""``lrml split``: rows to learn from, and rows to judge by, in two files."""

# ruff: noqa: PLC0415 - help and wrong usage need no NumPy

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from lrml.cli._options import Data, Force, Json, Seed, check_output, option, takes_data

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SHARE = "Share of the rows to judge by; with --group, share of the groups."
_GROUP = "Tables: rows with the same value in this column stay together, such as those of one author."


@takes_data(metavar="NAME|PATH")
def split(
    data: Data,
    share: Annotated[float, option("SHARE", _SHARE)] = 0.2,
    group: Annotated[str | None, option("COLUMN", _GROUP)] = None,
    out: Annotated[str | None, option("DIR", "Folder of the two files (default: that of the data).")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Split the rows of a file at random into two: NAME-train to learn from, NAME-test to judge by.

    Tables and files of texts keep all their columns; other rows are written in the format they come in, and
    those of a dataset that lrml knows as .npz.

    \b
    For example:
      lrml split articles.csv --share 0.2 --group author
    """
    from lrml._files import write_atomically
    from lrml.cli._console import answer
    from lrml.cli._rows import split_rows
    from lrml.datasets import write_dataset

    source, path = data.open(), Path(data.name)
    kind, plain = source.roles.format, path.with_suffix("") if path.suffix in _OPENERS else path
    files = [
        Path(out or path.parent, f"{plain.stem}-{part}{plain.suffix or '.npz'}") for part in ("train", "test")
    ]
    check_output(files[0], "NAME-train", force=force, beside=files[1:])
    head, rows, groups = _rows(path, kind, source, group)
    parts = split_rows(len(rows), share, seed, groups)
    for file, places in zip(files, parts, strict=True):
        if kind == "parquet":
            stream = io.BytesIO()
            import_module("pyarrow.parquet").write_table(rows.take(places), stream)
            write_atomically(file, stream.getvalue())
        elif head is None:
            write_dataset(rows.rows(places), file)
        else:
            text = io.StringIO()
            if kind == "csv":
                csv.writer(text, delimiter=source.roles.delimiter or ",").writerows(
                    [*head, *(rows[place] for place in places)]
                )
            else:
                text.writelines(rows[place] for place in places)
            write_atomically(file, text.getvalue().encode())
    counts = {str(file): len(places) for file, places in zip(files, parts, strict=True)}
    lines = (f"wrote {file}: {n:,d} of {len(rows):,d} rows" for file, n in counts.items())
    whole = (
        []
        if groups is None
        else [f"rows with the same {group} are in one file; {len(set(groups)):,d} groups"]
    )
    answer({"wrote": counts, "seed": seed}, *lines, *whole, as_json=as_json)


def _rows(path: Path, kind: str | None, source: Any, group: str | None) -> tuple[Any, Any, list[Any] | None]:
    """Return the header (None of what is no text), the rows, and the group of each."""
    head: Any = []
    cells: Any = None  # of the group
    if kind == "parquet":
        rows: Any = import_module("pyarrow.parquet").read_table(path)
        head, names = None, rows.column_names
        cells = rows[group].to_pylist() if group in names else None
    elif kind in ("csv", "jsonl", "text"):
        with _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, delimiter=source.roles.delimiter or ",") if kind == "csv" else file)
        rows = rows if kind == "text" else [row for row in rows if row and row != "\n"]
        rows = rows if kind == "csv" else [row if row.endswith("\n") else f"{row}\n" for row in rows]
        if kind == "csv" and {*source.roles.text, *(source.roles.features or ())} <= {*rows[0]}:
            head, rows = rows[:1], rows[1:]
        names = head[0] if head else []
        if group in names:
            cells = [row[names.index(group)] for row in rows]
        elif kind == "jsonl":
            cells = [json.loads(row).get(group) for row in rows]
            cells = cells if any(cell is not None for cell in cells) else None
    else:
        head, rows = None, source.read()
    if group is not None and cells is None:
        raise ValueError(f"--group {group!r} is no column of {str(path)!r}. Name one of a table.")
    return head, rows, None if group is None else [str(cell) for cell in cells]
