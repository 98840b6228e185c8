"""The formats that lrml knows, and the suffixes of their files."""

from __future__ import annotations

import os
from pathlib import Path

from lrml.datasets._lines import plain_name

READ_FORMATS = ("arff", "xmc", "svmlight", "csv", "parquet")
WRITE_FORMATS = ("arff", "xmc", "svmlight")
_SUFFIXES = {
    ".arff": "arff",
    ".txt": "xmc",
    ".xmc": "xmc",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(path: str | os.PathLike[str], chosen: str | None, known: tuple[str, ...]) -> str:
    """Return the format that was chosen, or that the suffix of a file says, if it is a known one.

    Raises
    ------
    ValueError
        If it is not. The message lists the suffixes of the known formats.
    """
    suffix = Path(plain_name(path)).suffix.lower()
    kind = _SUFFIXES.get(suffix) if chosen is None else chosen
    if kind in known:
        return kind
    suffixes = ", ".join(ending for ending, name in _SUFFIXES.items() if name in known)
    got = f"the suffix {suffix!r} of {os.fspath(path)!r}" if chosen is None else repr(chosen)
    raise ValueError(
        f"the format must be one of {', '.join(known)}, got {got}. "
        f"Use a name that ends with one of {suffixes}, or name the format."
    )
