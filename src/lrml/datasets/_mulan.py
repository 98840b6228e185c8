"""Mulan's datasets, from a folder of the user, from the cache, or from the network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lrml.datasets._cache import DATA_HOME_VARIABLE, FileStatus, cache_folder, data_folder, locate, sha256_of
from lrml.datasets._download import download_files
from lrml.datasets._errors import ChecksumError
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._registry import MulanEntry, RegisteredFile, find_entry
from lrml.datasets.arff import read_arff


def fetch_mulan(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool | None = None,
) -> MultiLabelDataset:
    r"""Load one of Mulan's datasets, with its original split into training and test set.

    Each of its three files is taken from the first place that has it:

    1. ``<data_home>/<name>/``, where `data_home` is the argument or else the environment variable
       ``LRML_DATA_HOME``;
    2. ``<cache>/mulan/<name>/``, where the cache is the environment variable ``LRML_CACHE`` or else the
       folder that the platform has for this: ``$XDG_CACHE_HOME/lrml`` or ``~/.cache/lrml``, on macOS
       ``~/Library/Caches/lrml``, on Windows ``%LOCALAPPDATA%\lrml\Cache``;
    3. Mulan's repository on GitHub, from which it is downloaded into the cache.

    Each must have the sha256 that the registry of this package names; it is checked before the file is
    parsed. A file of the cache that is not the right one is downloaded again; one in the data home, which
    is yours, is an error.

    Parameters
    ----------
    name : {"bibtex", "delicious", "yeast", "corel5k", "emotions", "enron"}
        Which dataset.
    data_home : path-like, default=None
        The folder with one folder per dataset; None takes the environment variable ``LRML_DATA_HOME``.
    download : bool, default=True
        Whether missing files are downloaded; False never uses the network.
    progress : bool, default=None
        Whether a download draws a bar on standard error; None draws it if that is a terminal.

    Returns
    -------
    MultiLabelDataset
        The dataset; the labels are in the order of the ARFF files, see :func:`read_arff`.

    Raises
    ------
    ValueError
        If the registry has no dataset of that name.
    FileNotFoundError
        If a file is missing and `download` is False. The message names each missing file, its hash and
        its place.
    ChecksumError
        If a file is in the data home, but is not the one that the registry names; with ``download=False``
        also if it is in the cache.
    DownloadError
        If a file cannot be downloaded, cannot be stored, or what the server sends is not the file.

    See Also
    --------
    load_yeast : The yeast dataset, which comes with this package.

    Notes
    -----
    A file gets its name in the cache only when it is whole and verified, so several processes may fetch the
    same dataset at once. Nothing is ever unpacked or executed: the files are plain ARFF and XML. Addresses
    and file names come from the registry only; redirects are followed to http and https. Proxies are taken
    from the usual environment variables (``https_proxy``, ``no_proxy``).

    Examples
    --------
    >>> from lrml.datasets import fetch_mulan
    >>> fetch_mulan("bibtex")  # doctest: +SKIP
    <MultiLabelDataset bibtex: X (7395, 1836) sparse, Y (7395, 159) sparse, train 4880 / test 2515>
    """
    entry = find_entry(name)
    paths = _obtain(entry, data_home, download=download, progress=progress)
    train, test = (
        read_arff(paths[file.name], paths[entry.labels.name]) for file in (entry.train, entry.test)
    )
    dataset = MultiLabelDataset.from_split(train, test, name=name)
    return replace(dataset, provenance=f"Mulan, {entry.domain}; {entry.source}; cite {entry.citation}")


def _obtain(
    entry: MulanEntry, data_home: str | os.PathLike[str] | None, *, download: bool, progress: bool | None
) -> dict[str, Path]:
    """Return the path of each file by its name, after all have been verified."""
    found = locate(entry, data_home, verify=True).files
    for status in found:
        if status.damaged and not (download and status.to_download):
            raise _checksum_error(entry, status)
    wanted = [status.file for status in found if status.to_download]
    if wanted and not download:
        raise FileNotFoundError(
            f"The {entry.name} dataset needs files which were not found, and download=False. "
            + _offline_advice(entry, wanted, data_home)
        )
    if wanted:
        download_files(
            wanted,
            cache_folder(entry),
            progress=progress,
            advice=lambda files: _offline_advice(entry, files, data_home),
        )
    return {status.file.name: status.path for status in found}


def _checksum_error(entry: MulanEntry, status: FileStatus) -> Exception:
    if status.place == "cache":
        remedy = "It is damaged: delete it, or fetch it again with download=True."
    else:
        remedy = (
            f"It is damaged or another version: replace it by the one from {entry.source}, "
            "or read it as it is, by its path."
        )
    rule = f"the file must have sha256 {status.file.sha256}"
    return ChecksumError.at(status.path, None, rule, sha256_of(status.path), remedy)


def _offline_advice(
    entry: MulanEntry, files: Sequence[RegisteredFile], data_home: str | os.PathLike[str] | None
) -> str:
    """Say how to do without a download: which files, where from, where to."""
    folder = data_folder(entry, data_home) or cache_folder(entry)
    places = "".join(f"\n  {folder / file.name}  (sha256 {file.sha256})" for file in files)
    return (
        f"To do without a download, get these files from {entry.source}, and put them here "
        f"(or into {entry.name}/ in any folder that you pass as data_home or set as {DATA_HOME_VARIABLE}):"
        f"{places}"
    )
