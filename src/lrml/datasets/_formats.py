"""The formats that lrml knows, by the suffixes of their files; reading and writing any of them."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lrml.datasets
from lrml._shown import shown

if TYPE_CHECKING:
    from lrml.datasets._record import MultiLabelDataset

READ_FORMATS = ("arff", "xmc", "svmlight", "csv", "parquet")
WRITE_FORMATS = ("arff", "xmc", "svmlight")
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
        options["xml"] = _label_file_beside(Path(path))
    reader = getattr(lrml.datasets, f"read_{kind}")  # imported when first used
    possible = [name for name in inspect.signature(reader).parameters if name != "path"]
    strange = next((name for name in options if name not in possible), None)
    if strange is not None:
        raise ValueError(
            f"an option must be one of the {kind} reader's ({', '.join(possible)}), got {shown(strange)}. "
            "Leave it out, or name another format."
        )
    dataset: MultiLabelDataset = reader(path, **options)
    return dataset


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
) -> str:
    """Return the format that was chosen, or that the suffix of a file says, if it is a known one."""
    suffix = Path(plain_name(path)).suffix.lower()
    kind = endings.get(suffix) if chosen is None else chosen
    if kind in known:
        return kind
    suffixes = ", ".join(ending for ending, name in endings.items() if name in known)
    got = f"the suffix {suffix!r} of {os.fspath(path)!r}" if chosen is None else repr(chosen)
    raise ValueError(
        f"the format must be one of {', '.join(known)}, got {got}. "
        f"Use a name that ends with one of {suffixes}, or name the format."
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


def _label_file_beside(path: Path) -> Path | None:
    """Return the XML file that belongs to an ARFF file by its name; None if there is none."""
    own = stem(path)
    part = _PART_OF_SPLIT.fullmatch(own)
    names = [own] if part is None else [own, part[1]]
    places = (path.with_name(f"{name}.xml") for name in names)
    return next((place for place in places if place.is_file()), None)
