"""Loader of Mulan's datasets from a folder on disk."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from lrml.datasets._arff import read_arff
from lrml.datasets._errors import ChecksumError
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._registry import MulanEntry, RegisteredFile, mulan_entries

DATA_HOME_VARIABLE = "LRML_DATA_HOME"


def load_mulan(name: str, data_home: str | os.PathLike[str] | None = None) -> MultiLabelDataset:
    """Load one of Mulan's datasets from disk, with its original split into training and test set.

    The files are looked for in ``<data_home>/<name>/``. Each must have the sha256 that the registry of
    this package names; it is checked before the file is parsed.

    Parameters
    ----------
    name : {"bibtex", "delicious", "yeast", "corel5k", "emotions", "enron"}
        Which dataset.
    data_home : path-like, default=None
        The folder with one folder per dataset; None takes the environment variable ``LRML_DATA_HOME``.

    Returns
    -------
    MultiLabelDataset
        The dataset; the labels are in the order of the ARFF files, see :func:`read_arff`.

    Raises
    ------
    FileNotFoundError
        If a file is missing. The message names each missing file, its hash and its place.
    ChecksumError
        If a file is there, but is not the one that the registry names.

    See Also
    --------
    load_yeast : The yeast dataset, which comes with this package.

    Examples
    --------
    >>> from lrml.datasets import load_mulan
    >>> bibtex = load_mulan("bibtex", data_home="~/mulan")  # doctest: +SKIP
    """
    entry = _find_entry(name)
    folder = _find_folder(entry, data_home)
    missing = [file for file in entry.files if not (folder / file.name).is_file()]
    if missing:
        raise FileNotFoundError(_missing_message(entry, missing, os.fspath(folder)))
    for file in entry.files:
        _verify(folder / file.name, file, entry)
    train, test = (
        read_arff(folder / file.name, folder / entry.labels.name) for file in (entry.train, entry.test)
    )
    dataset = MultiLabelDataset.from_split(train, test, name=name)
    return replace(dataset, provenance=f"Mulan, {entry.domain}; {entry.source}; cite {entry.citation}")


def _find_entry(name: str) -> MulanEntry:
    entries = mulan_entries()
    if name not in entries:
        raise ValueError(
            f"name must be one of {', '.join(entries)}, got {name!r}. "
            "Read the files of another dataset with read_arff."
        )
    return entries[name]


def _find_folder(entry: MulanEntry, data_home: str | os.PathLike[str] | None) -> Path:
    home = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    if not home:
        place = f"<data_home>/{entry.name}"
        raise FileNotFoundError(
            f"No data_home was given and {DATA_HOME_VARIABLE} is not set. "
            + _missing_message(entry, list(entry.files), place)
        )
    return Path(home).expanduser() / entry.name


def _missing_message(entry: MulanEntry, missing: list[RegisteredFile], folder: str) -> str:
    files = "".join(f"\n  {folder}/{file.name}  (sha256 {file.sha256})" for file in missing)
    return (
        f"The {entry.name} dataset needs these files, which were not found:{files}\n"
        f"Get them from {entry.source}, put them there, and pass data_home or set {DATA_HOME_VARIABLE} "
        f"to the folder that holds {entry.name}/."
    )


def _verify(path: Path, file: RegisteredFile, entry: MulanEntry) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.sha256:
        raise ChecksumError.at(
            path,
            None,
            f"the file must have sha256 {file.sha256}",
            found,
            f"It is damaged or another version: replace it by the one from {entry.source}, "
            "or read it as it is with read_arff.",
        )
