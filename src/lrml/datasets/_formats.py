"""Files of any format that lrml knows, by the suffix of their names."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrml._shown import shown
from lrml.datasets._arff import read_arff
from lrml.datasets._arff_writer import label_file_of, write_arff
from lrml.datasets._format_names import READ_FORMATS, WRITE_FORMATS, format_of
from lrml.datasets._lines import check_is_file, plain_name
from lrml.datasets._record import MultiLabelDataset, check_dataset
from lrml.datasets._sidecar import sidecar_path
from lrml.datasets._svmlight import read_svmlight, write_svmlight
from lrml.datasets._tables import read_csv, read_parquet
from lrml.datasets._xmc import read_xmc, write_xmc

_READERS: dict[str, Callable[..., MultiLabelDataset]] = {
    "arff": read_arff,
    "xmc": read_xmc,
    "svmlight": read_svmlight,
    "csv": read_csv,
    "parquet": read_parquet,
}
_PART_OF_SPLIT = re.compile(r"(.+?)[-_](?:train|test)(?:[-_].*)?", re.IGNORECASE)
_WRITERS: dict[str, Callable[[MultiLabelDataset, str | os.PathLike[str]], None]] = {
    "arff": write_arff,
    "xmc": write_xmc,
    "svmlight": write_svmlight,
}


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
    reader = _READERS[kind]
    possible = [name for name in inspect.signature(reader).parameters if name != "path"]
    strange = next((name for name in options if name not in possible), None)
    if strange is not None:
        raise ValueError(
            f"an option must be one of the {kind} reader's ({', '.join(possible)}), got {shown(strange)}. "
            "Leave it out, or name another format."
        )
    return reader(path, **options)


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
    check_dataset(dataset)
    _WRITERS[format_of(path, format, WRITE_FORMATS)](dataset, path)


def written_files(path: str | os.PathLike[str], format: str | None = None) -> tuple[Path, Path]:
    """Return the files that `write_dataset` makes: the data, and what belongs to them."""
    kind = format_of(path, format, WRITE_FORMATS)
    return Path(path), label_file_of(path) if kind == "arff" else sidecar_path(path)


def _label_file_beside(path: Path) -> Path | None:
    """Return the XML file that belongs to an ARFF file by its name; None if there is none."""
    stem = Path(plain_name(path)).stem
    part = _PART_OF_SPLIT.fullmatch(stem)
    names = [stem] if part is None else [stem, part[1]]
    places = (path.with_name(f"{name}.xml") for name in names)
    return next((place for place in places if place.is_file()), None)
