"""``lrml split``: rows to learn from, and rows to judge by, in two files."""

# ruff: noqa: PLC0415 - help and wrong usage need no NumPy

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from lrml.cli._options import DATA, Data, Force, Seed, check_output, command, option, sources
from lrml.cli.learn import split_rows

_SHARE = "Share of the rows to judge by; with --group, share of the groups."
_GROUP = "Tables: rows with the same value in this column stay together, such as those of one author."


@command(data={**DATA, **sources(words="A dataset that lrml knows, or one data file.")})
def split(
    data: Data,
    share: Annotated[float, option("SHARE", _SHARE)] = 0.2,
    group: Annotated[str | None, option("COLUMN", _GROUP)] = None,
    out: Annotated[str | None, option("DIR", "Folder of the two files (default: that of the data).")] = None,
    seed: Seed = 0,
    force: Force = False,
) -> Any:
    """Split the rows of a file at random into two: NAME-train to learn from, NAME-test to judge by.

    CSV, TSV, JSONL and .txt files keep all their columns; files of numbers are written in their own format,
    and a dataset that lrml knows as .npz.

    \b
    For example:
      lrml split articles.csv --share 0.2 --group author
    """
    from lrml.core.checks import check_number
    from lrml.datasets import write_dataset

    check_number("--share", share, below=1.0, above=True)
    if len(data.paths) > 1 or "test" in data.reading:
        raise ValueError("lrml split takes one file. Split the others by themselves.")
    source, path = data.open(), Path(data.name)
    plain = path.with_suffix("") if path.suffix in (".gz", ".bz2", ".xz") else path
    files = [
        Path(out or path.parent, f"{plain.stem}-{part}{plain.suffix or '.npz'}") for part in ("train", "test")
    ]
    check_output(files[0], "NAME-train", force=force, beside=files[1:])
    records = source.records()
    rows: Any = source.read() if records is None else records
    cells = None if group is None else [record.get(group) for record in records or ()]
    if cells is not None and all(cell is None for cell in cells):
        raise ValueError(f"--group: no row has a column {group!r}. Name one of a CSV, TSV or JSONL file.")
    groups = None if cells is None else list(map(str, cells))
    parts = split_rows(len(rows), share, seed, groups)
    for file, places in zip(files, parts, strict=True):
        if records is None:
            write_dataset(rows.rows(places), file)
        else:
            source.write([records[place] for place in places], file)
    counts = {str(file): len(places) for file, places in zip(files, parts, strict=True)}
    told = [f"wrote {file}: {n:,d} of {len(rows):,d} rows" for file, n in counts.items()]
    if groups is not None:
        told.append(f"each of the {len(set(groups)):,d} groups of {group} is in one of them")
    return {"wrote": counts, "seed": seed}, *told
