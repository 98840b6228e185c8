"""The formats of data files, by the suffixes of their names."""

from __future__ import annotations

import os
from pathlib import Path

FORMATS = {
    "arff": (".arff",),
    "xmc": (".xmc",),
    "svmlight": (".svm", ".svmlight", ".libsvm"),
    "csv": (".csv", ".tsv"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt",),  # or XMC, if the first line is three numbers
    "npy": (".npy",),  # features, such as embeddings
    "npz": (".npz",),  # what `Dataset.save` writes, or features
}
"""Formats and their suffixes; .gz, .bz2 or .xz may follow."""


def format_of(path: str | os.PathLike[str], chosen: str | None) -> str:
    """Return the format that was chosen, or that the suffix of a file says."""
    suffix = Path(plain_name(path)).suffix.lower()
    kind = next((name for name, ends in FORMATS.items() if suffix in ends), "") if chosen is None else chosen
    if kind not in FORMATS:
        what = f"the suffix {suffix!r} of {os.fspath(path)!r}" if chosen is None else repr(chosen)
        ends = ", ".join(end for ends in FORMATS.values() for end in ends)
        raise ValueError(
            f"{what} is no format that lrml knows ({', '.join(FORMATS)}). Use a name that ends with one of "
            f'{ends}, or name it, such as format="csv" (on the command line: --from csv).'
        )
    return kind


def stem_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its suffixes for compression and format."""
    return Path(plain_name(path)).stem


def plain_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its suffix for compression."""
    whole = Path(path)
    return whole.stem if whole.suffix.lower() in (".gz", ".bz2", ".xz") else whole.name
