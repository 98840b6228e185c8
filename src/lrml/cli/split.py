"""``lrml split``: rows to learn from, and rows to judge by, in two files."""

# ruff: noqa: PLC0415 - help and wrong usage need no NumPy

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Annotated, Any

from lrml.cli._options import Data, Force, Json, Seed, check_output, option, takes_data

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SHARE = "Share of the rows to judge by; with --group, share of the groups."
_GROUP = "Tables: rows with the same value in this column stay together, such as those of one author."


@takes_data()
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

    CSV, TSV, JSONL and .txt files keep all their columns; files of numbers are written in their own format,
    and a dataset that lrml knows as .npz.

    \b
    For example:
      lrml split articles.csv --share 0.2 --group author
    """
    from lrml._files import write_atomically
    from lrml.cli._console import answer
    from lrml.cli._rows import split_rows
    from lrml.datasets import write_dataset

    if len(data.paths) > 1 or "test" in data.reading:
        raise ValueError("lrml split takes one file. Split the others by themselves.")
    source, path = data.open(), Path(data.name)
    plain = path.with_suffix("") if path.suffix in _OPENERS else path
    files = [
        Path(out or path.parent, f"{plain.stem}-{part}{plain.suffix or '.npz'}") for part in ("train", "test")
    ]
    check_output(files[0], "NAME-train", force=force, beside=files[1:])
    cells = source.roles.format == "csv"
    if is_text := source.roles.format in ("csv", "jsonl", "text"):
        rows: Any = _read(path, source.roles.delimiter if cells else None)
    else:
        rows = source.read()
    # Annif's tables of two columns have no header.
    head = rows[:1] if cells and {*source.roles.text, *(source.roles.features or ())} <= {*rows[0]} else []
    rows = rows[len(head) :] if is_text else rows
    groups = None if group is None else _groups(rows, source.roles.format, head, group)
    parts = split_rows(len(rows), share, seed, groups)
    for file, places in zip(files, parts, strict=True):
        if is_text:
            lines, text = [*head, *(rows[place] for place in places)], io.StringIO()
            writer = csv.writer(text, delimiter=source.roles.delimiter or ",")
            (writer.writerows if cells else text.writelines)(lines)
            write_atomically(file, text.getvalue().encode())
        else:
            write_dataset(rows.rows(places), file)
    counts = {str(file): len(places) for file, places in zip(files, parts, strict=True)}
    told = [f"wrote {file}: {n:,d} of {len(rows):,d} rows" for file, n in counts.items()]
    if groups is not None:
        told.append(f"each of the {len(set(groups)):,d} groups of {group} is in one of them")
    answer({"wrote": counts, "seed": seed}, *told, as_json=as_json)


def _read(path: Path, delimiter: str | None) -> list[Any]:
    """Return the lines of a file, or, with a delimiter, its rows of cells; blank ones separate nothing."""
    with _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        if delimiter is not None:
            return [row for row in csv.reader(file, delimiter=delimiter) if row]
        return [f"{line.rstrip()}\n" for line in file if line.strip() or ".txt" in path.suffixes]


def _groups(rows: Any, kind: str | None, head: list[list[str]], column: str) -> list[str]:
    """Return what each row has in a column."""
    found: list[Any] = []
    if head and column in head[0]:
        found = [row[head[0].index(column)] for row in rows]
    elif kind == "jsonl":
        found = [json.loads(row).get(column) for row in rows]
    if not any(one is not None for one in found):
        raise ValueError(f"--group: no row has a column {column!r}. Name one of a CSV, TSV or JSONL file.")
    return list(map(str, found))
