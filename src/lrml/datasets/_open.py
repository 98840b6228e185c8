"""Opening data: which format it has, who reads it, and which column is what."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from lrml._files import pattern_of
from lrml._shown import did_you_mean, shown
from lrml.datasets._arff import ArffReader
from lrml.datasets._arrays import ArrayReader
from lrml.datasets._dataset import Dataset
from lrml.datasets._fetch import EMBEDDED, dataset_status, fetch_mulan, load_yeast, mulan_entries
from lrml.datasets._lines import format_of, numbered_lines
from lrml.datasets._pairs import PairReader, is_xmc_header
from lrml.datasets._roles import Roles
from lrml.datasets._source import MemoryReader, Source
from lrml.datasets._tables import ParquetReader
from lrml.datasets._texts import CsvReader, FolderReader, JsonLines, PlainText

_NAMES = ("feature_names", "label_names")
_READERS: dict[str, tuple[Any, tuple[str, ...]]] = {  # and the options that are theirs
    "arff": (ArffReader, ("xml",)),
    "xmc": (partial(PairReader, header=True), _NAMES),
    "svmlight": (partial(PairReader, header=False), ("n_features", "n_labels", *_NAMES)),
    "csv": (CsvReader, ("sparse",)),
    "jsonl": (JsonLines, ()),
    "parquet": (ParquetReader, ("sparse",)),
    "text": (PlainText, ()),
    "npy": (ArrayReader, ()),
    "npz": (ArrayReader.of_npz, ()),
    "folder": (FolderReader, ()),
}
_ARRAYS = ("npy", "npz")
_ROLES = tuple(one.name for one in fields(Roles) if one.name not in ("kind", "format", "reasons"))


def open_source(
    paths: Any,
    *,
    roles: Roles | None = None,
    format: str | None = None,
    test: str | os.PathLike[str] | None = None,
    rows: int = 10_000,
    name: str | None = None,
    data_home: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Source:
    """Open data, and decide which column is what.

    Parameters
    ----------
    paths : path-like or sequence of path-like, or binary stream
        A file, perhaps compressed (``.gz``, ``.bz2``, ``.xz``), a pattern such as ``"folder/*.parquet"``, or
        several of one format and with the same columns; an array of features and the table of its labels,
        such as ``["embeddings.npy", "tags.csv"]``; the name of a dataset, see `fetch_mulan`; or ``"-"`` or an
        open stream, of which each line is a text.
    roles : Roles, default=None
        What is known of the columns. What it leaves open is guessed from the names of the columns and the
        first 1000 rows; which columns of a table of numbers are labels is never guessed, unless one lists
        them.
    format : str, default=None
        One of `FORMATS`; None takes it from the suffix.
    test : path-like, default=None
        A test set that belongs to the file: a split of two sources, `Source.train` and `Source.test`.
    rows : int, default=10_000
        Rows of a block; the last of a file may have fewer.
    name : str, default=None
        Name of the data; None takes the file name without its suffix, or what MEKA's header says.
    data_home : path-like, default=None
        Where datasets with a name are, see `fetch_mulan`.
    **options
        Fields of `Roles`, such as ``labels=-6``, ``tags="tags"`` or ``unlabelled=True``; ``xml`` of ARFF;
        ``n_features`` and ``n_labels`` of svmlight; ``feature_names`` and ``label_names`` of svmlight and XMC
        (names, or a file with one a line); ``sparse`` of CSV and Parquet.

    Raises
    ------
    DatasetFormatError
        If a file breaks a rule of its format, or if it is not clear which column is what.
    """
    options = {key: value for key, value in options.items() if value is not None}
    asked = {key: options.pop(key) for key in _ROLES if key in options}
    said = (roles or Roles()) if not asked else _merged(roles, asked)
    if hasattr(paths, "read") or paths == "-":
        stream: Any = sys.stdin and sys.stdin.buffer if isinstance(paths, str) else paths
        if stream is None:
            raise ValueError("Standard input is closed. Pass a file.")
        said = replace(said, format=format or "text")
        return Source([_READERS[said.format or ""][0]("standard input", said, stream=stream)], rows, name)
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if len(listed) == 1 and str(listed[0]) in mulan_entries():
        given = [*asked, *options, *(["format"] if format else []), *(["test"] if test else [])]
        if given:
            raise ValueError(
                f"{given[0]} is for data files, but {listed[0]!r} is a dataset. Leave it out, or pass a path "
                f"such as ./{listed[0]} if a file is meant."
            )
        return Source([MemoryReader(_named(str(listed[0]), data_home))], rows, name)
    found = [(path, _kind_of(path, format)) for each in listed for path in map(Path, _matching(each))]
    files = [path for path, kind in found if kind in _ARRAYS] or [path for path, _ in found]
    tables = [path for path, kind in found if kind not in _ARRAYS and path not in files]
    kinds = {kind for path, kind in found if path in files}
    if len(kinds) != 1 or len(tables) not in (0, len(files)):
        formats = ", ".join(sorted({kind for _, kind in found}))
        raise ValueError(
            f"{len(found)} files of the formats {formats} do not belong together. Pass files of one format, "
            "or arrays of features and a table of labels for each."
        )
    (kind,) = kinds
    opener, known = _READERS[kind]
    for key in options:
        if key not in known:
            every = ", ".join([*known, *_ROLES])
            guess = did_you_mean(key, (*known, *_ROLES))
            raise ValueError(f"{kind} files have no option {shown(key)}. {guess}Options are: {every}.")
    said = replace(said, format=kind)
    readers = [opener(path, said, **options) for path in files if not tables]
    readers += [opener(path, said, table=table) for path, table in zip(files, tables, strict=False)]
    if test is None:
        return Source(readers, rows, name)
    later = open_source(test, roles=said, format=format, rows=rows, **options)
    name = name or re.sub(r"[-_.]train$", "", readers[0].name, flags=re.IGNORECASE)
    return Source([*readers, *later._readers], rows, name, len(readers))


def _named(name: str, data_home: str | os.PathLike[str] | None) -> Dataset:
    """Return a dataset by its name; the one of this package needs no file."""
    if name == EMBEDDED and dataset_status(name, data_home).state == "missing":
        return load_yeast()
    return fetch_mulan(name, data_home=data_home)


def read_dataset(paths: Any, **options: Any) -> Any:
    """Return all rows of data, as a `Dataset` or a `TextDataset`: ``open_source(paths, **options).read()``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import load_yeast, read_dataset, write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_dataset(load_yeast(), pathlib.Path(folder, "yeast.npz"))
    ...     read_dataset(pathlib.Path(folder, "yeast.npz"))
    <Dataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    return open_source(paths, **options).read()


def _kind_of(path: Path, chosen: str | None) -> str:
    """Return the format of a file; a .txt file may be XMC."""
    if path.is_dir():
        return "folder"
    kind = format_of(path, chosen)
    if kind == "text" and chosen is None:
        _, first = next(numbered_lines(path), (1, b""))
        return "xmc" if is_xmc_header(first) else kind
    return kind


def _merged(roles: Roles | None, asked: Mapping[str, Any]) -> Roles:
    """Return known roles with what the caller says now, which has precedence."""
    if roles is None:
        return Roles(**asked)
    if asked.get("tags") or asked.get("labels"):
        roles = replace(roles, tags=None, labels=(), tag_separator=None)
    return replace(roles, **asked)


def _matching(path: str | os.PathLike[str]) -> list[str]:
    """Return a path, or all files of a pattern, unless it is the name of a file."""
    name = os.fspath(path)
    if os.path.isdir(name) and not glob.glob(os.path.join(glob.escape(name), "*.txt")):
        raise FileNotFoundError(
            f"{name!r} is a folder. Name its files, as a list or a pattern: {pattern_of(name)!r}."
        )
    if os.path.exists(name):
        return [name]
    found = sorted(glob.glob(name))
    if not found:
        guess = did_you_mean(name, mulan_entries())
        raise FileNotFoundError(f"There is no file {name!r}. {guess}Check the path.")
    return found
