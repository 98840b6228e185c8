"""The formats that lrml knows, by the suffixes of their files; reading and writing any of them."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from importlib import import_module
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lrml.datasets
from lrml._shown import shown

if TYPE_CHECKING:
    from lrml.datasets._record import Block, MultiLabelDataset

READ_FORMATS = ("arff", "xmc", "svmlight", "csv", "parquet")
TEXT_FORMATS = ("csv", "jsonl", "parquet", "text")
WRITE_FORMATS = ("arff", "xmc", "svmlight")
_HOMES_OF_BLOCKS = {
    "arff": "arff",
    "xmc": "_pairs",
    "svmlight": "_pairs",
    "csv": "_tables",
    "parquet": "_tables",
}
_COMPRESSED = frozenset({".gz", ".bz2", ".xz"})
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
_NO_OPTIONS = frozenset({"path", "rows", "labelled", "skip"})  # of the readers, for users
_PART_OF_SPLIT = re.compile(r"(.+?)[-_](?:train|test)(?:[-_].*)?", re.IGNORECASE)


def read_dataset(
    path: str | os.PathLike[str], *, format: str | None = None, **options: Any
) -> MultiLabelDataset:
    """Read a dataset from a file of any known format.

    Parameters
    ----------
    path : path-like
        The file, perhaps compressed (``.gz``, ``.bz2``, ``.xz``).
    format : {"arff", "xmc", "svmlight", "csv", "parquet"}, default=None
        None takes it from the suffix: ``.arff``; ``.txt`` or ``.xmc``; ``.svm``, ``.svmlight`` or
        ``.libsvm``; ``.csv`` or ``.tsv``; ``.parquet`` or ``.pq``.
    **options
        Passed to the reader of the format. An ARFF file without `xml` and `labels` uses the XML file of the
        same name beside it, where there is one; ``name-train.arff``, ``name-test.arff`` and what follows, as
        in ``name-train-sparse.arff``, use ``name.xml``.

    Returns
    -------
    MultiLabelDataset

    See Also
    --------
    read_arff, read_xmc, read_svmlight, read_csv, read_parquet : The readers and their options.
    read_split : A training and a test set in two files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import load_yeast, read_dataset, write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_dataset(load_yeast(), pathlib.Path(folder, "yeast.svm.gz"))
    ...     read_dataset(pathlib.Path(folder, "yeast.svm.gz"))
    <MultiLabelDataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    kind = format_of(path, format, READ_FORMATS)
    check_is_file(path, "a dataset to read")
    if kind == "arff" and options.get("xml") is None and options.get("labels") is None:
        options["xml"] = label_file_beside(Path(path))
    reader = getattr(lrml.datasets, f"read_{kind}")  # imported when first used
    _check_options(kind, reader, options)
    dataset: MultiLabelDataset = reader(path, **options)
    return dataset


def iter_blocks(
    path: str | os.PathLike[str],
    *,
    rows: int = 10_000,
    labelled: bool = True,
    format: str | None = None,
    **options: Any,
) -> Iterator[Block]:
    r"""Read a dataset block by block, in memory that does not grow with the number of rows.

    Parameters
    ----------
    path : path-like
        The file, perhaps compressed (``.gz``, ``.bz2``, ``.xz``).
    rows : int, default=10_000
        Rows of a block; the last may have fewer.
    labelled : bool, default=True
        Whether to read labels. If not, columns named in `labels`, `label_column` and `ignore` are left out
        where the file has them, and may be missing: rows to predict seldom have labels.
    format : {"arff", "xmc", "svmlight", "csv", "parquet"}, default=None
        None takes it from the suffix, as for `read_dataset`.
    **options
        Those of the reader of the format; `name` has no effect. Labels are optional: without `labels` and
        `label_column` all columns of a table that are not in `ignore` are features, an ARFF file need not
        say which attributes are labels, and an XMC file may declare 0 labels. `label_names`, beside
        `label_column` of a table, gives all labels in the order wanted.

    Yields
    ------
    Block
        Features, labels or None, names, and the number of the first row.

    Raises
    ------
    DatasetFormatError
        If the file breaks a rule of its format. The first block is read at once, so errors in the header
        come from the call; later ones when their block is reached, and those that concern the file as a
        whole (rows that are missing, a sidecar of another file) after the last block.

    See Also
    --------
    read_dataset : The whole file.
    BlockFile : Blocks that can be read again, all with the same columns.
    iter_texts : The same for texts and tags.

    Notes
    -----
    What only the end of a file would show is taken from each block: without a sidecar, an svmlight block is
    as wide as its highest index and label, unless `n_features` and `n_labels` are given; and a block of a
    table with `label_column` has the labels that occur in it, unless `label_names` is given. The blocks of an
    svmlight file count features from 1, unless a sidecar or ``zero_based=True`` says otherwise. Of a Parquet
    file, one row group is in memory, as it is in the file.

    Examples
    --------
    >>> from lrml.datasets import iter_blocks
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toy.svm")
    ...     _ = path.write_text("0,2 1:0.5 4:1\n 2:2\n1 3:1\n")
    ...     for block in iter_blocks(path, rows=2, n_features=4, n_labels=3):
    ...         print(block)
    <Block from row 0: X (2, 4) sparse, Y (2, 3) sparse>
    <Block from row 2: X (1, 4) sparse, Y (1, 3) sparse>
    """
    blocks = blocks_after(path, 0, rows, labelled, format, options)
    return chain([next(blocks)], blocks)  # the first block now: a wrong file is reported where it is named


def blocks_after(
    path: str | os.PathLike[str],
    skip: int,
    rows: int,
    labelled: bool,
    format: str | None,
    options: Mapping[str, Any],
) -> Generator[Block, None, int]:
    """Yield blocks as `iter_blocks` does, without the first ``skip`` rows; return how many rows there are."""
    kind = format_of(path, format, READ_FORMATS)
    check_is_file(path, "a dataset to read")
    options = dict(options)
    if kind == "arff" and options.get("xml") is None and options.get("labels") is None:
        options["xml"] = label_file_beside(Path(path))
    options.pop("name", None)
    reader = reader_of_blocks(kind, options)
    return reader(path, check_rows(rows), labelled=bool(labelled), skip=skip, **options)


def reader_of_blocks(kind: str, options: Mapping[str, object]) -> Callable[..., Generator[Block, None, int]]:
    """Return what reads blocks of a format; refuse options that it does not have."""
    module = import_module(f"lrml.datasets.{_HOMES_OF_BLOCKS[kind]}")
    reader: Callable[..., Generator[Block, None, int]] = getattr(module, f"{kind}_blocks")
    _check_options(kind, reader, options)
    return reader


def check_rows(rows: object) -> int:
    """Refuse a number of rows that no block can have."""
    if isinstance(rows, bool) or not isinstance(rows, Integral) or rows < 1:
        raise ValueError(f"rows must be an integer of at least 1, got {shown(rows)}. Pass rows=10_000.")
    return int(rows)


def _check_options(kind: str, reader: Callable[..., Any], options: Mapping[str, object]) -> None:
    """Refuse options that a reader does not have."""
    possible = [name for name in inspect.signature(reader).parameters if name not in _NO_OPTIONS]
    strange = next((name for name in options if name not in possible), None)
    if strange is not None:
        raise ValueError(
            f"an option must be one of the {kind} reader's ({', '.join(possible)}), got {shown(strange)}. "
            "Leave it out, or name another format."
        )


def write_dataset(
    dataset: MultiLabelDataset, path: str | os.PathLike[str], *, format: str | None = None
) -> None:
    """Write a dataset to a file of a known format, from which `read_dataset` gets it back.

    Names, values, split and unknown labels come back from every format. ARFF has one storage for both
    matrices, that of `X`, and its provenance is the file; XMC and svmlight keep storage and provenance too.

    Parameters
    ----------
    dataset : MultiLabelDataset
        What to write.
    path : path-like
        The file; ``.gz``, ``.bz2`` or ``.xz`` at the end compresses it.
    format : {"arff", "xmc", "svmlight"}, default=None
        None takes it from the suffix.

    See Also
    --------
    write_arff, write_xmc, write_svmlight : The writers, and which other file each makes.
    """
    writer = getattr(lrml.datasets, f"write_{format_of(path, format, WRITE_FORMATS)}")
    writer(dataset, path)


def written_files(path: str | os.PathLike[str], format: str | None = None) -> tuple[Path, Path]:
    """Return the files that `write_dataset` makes: the data, and what belongs to them."""
    kind = format_of(path, format, WRITE_FORMATS)
    return Path(path), label_file_of(path) if kind == "arff" else sidecar_path(path)


def format_of(
    path: str | os.PathLike[str],
    chosen: str | None,
    known: tuple[str, ...],
    endings: Mapping[str, str] = _SUFFIXES,
    *,
    nameable: bool = True,
) -> str:
    """Return the format that was chosen, or that the suffix of a file says, if it is a known one."""
    suffix = Path(plain_name(path)).suffix.lower()
    kind = endings.get(suffix) if chosen is None else chosen
    if kind in known:
        return kind
    suffixes = ", ".join(ending for ending, name in endings.items() if name in known)
    got = f"the suffix {suffix!r} of {os.fspath(path)!r}" if chosen is None else repr(chosen)
    option = "--to" if known == WRITE_FORMATS else "--from"
    or_name = f", or name it, such as format={known[0]!r} (on the command line: {option} {known[0]})"
    raise ValueError(
        f"the format must be one of {', '.join(known)}, got {got}. "
        f"Use a name that ends with one of {suffixes}{or_name if nameable else ''}."
    )


def plain_name(path: str | os.PathLike[str]) -> str:
    """Return the file name without its suffix for compression."""
    whole = Path(path)
    return whole.stem if whole.suffix.lower() in _COMPRESSED else whole.name


def stem(path: str | os.PathLike[str]) -> str:
    """Return the file name without its suffixes for compression and format."""
    return Path(plain_name(path)).stem


def label_file_of(path: str | os.PathLike[str]) -> Path:
    """Return the place of the XML file that is written beside an ARFF file."""
    return Path(path).with_name(f"{stem(path)}.xml")


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Return the place of the sidecar that is written beside an svmlight or XMC file."""
    return Path(f"{os.fspath(path)}.meta.json")


def check_is_file(path: str | os.PathLike[str], what: str) -> None:
    """Raise an error that names the rule, the value and a remedy unless there is a file to read."""
    place = Path(path)
    if not place.exists() or place.is_dir():
        got = f"{os.fspath(path)!r}, {'which is a folder' if place.is_dir() else 'which does not exist'}"
        raise FileNotFoundError(f"{what} must be a file, got {got}. Check the path.")


def label_file_beside(path: Path) -> Path | None:
    """Return the XML file that belongs to an ARFF file by its name; None if there is none."""
    own = stem(path)
    part = _PART_OF_SPLIT.fullmatch(own)
    names = [own] if part is None else [own, part[1]]
    places = (path.with_name(f"{name}.xml") for name in names)
    return next((place for place in places if place.is_file()), None)
