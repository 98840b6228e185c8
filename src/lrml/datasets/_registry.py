"""The datasets that lrml knows by name, as listed in ``registry.toml``, and where their files are."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lrml._shown import did_you_mean

DATA_HOME_VARIABLE = "LRML_DATA_HOME"
CACHE_VARIABLE = "LRML_CACHE"

Place: TypeAlias = Literal["data home", "cache", "missing"]
State: TypeAlias = Literal["data home", "cache", "missing", "damaged"]

# Names become parts of paths and addresses: nothing that could leave the folder, hide, or need quoting.
_RULES = {
    "name": (r"[A-Za-z0-9][A-Za-z0-9._-]*", "plain: letters, digits, dots, hyphens and underscores"),
    "size": (r"[1-9][0-9]*", "a positive number"),
    "sha256": (r"[0-9a-f]{64}", "64 hexadecimal digits"),
    "url": (r"https?://[!-~]+", "an address with http or https"),  # printable, no spaces
}


@dataclass(frozen=True)
class RegisteredFile:
    """A file: its plain name, its length in bytes, the sha256 of its content, and its address on the web."""

    name: str
    size: int
    sha256: str
    url: str


@dataclass(frozen=True)
class MulanEntry:
    """What is known about one of Mulan's datasets.

    Parameters
    ----------
    name : str
        Name of the dataset, and of its folder.
    domain : str
        What the examples are: text, images, ...
    n_instances, n_attributes, n_labels : int
        Number of examples, of features and of labels, of both parts together.
    n_train : int
        How many of the examples are the training set.
    citation : str
        The publication to cite.
    source : str
        Where the files come from, for people to read.
    train, test, labels : RegisteredFile
        The ARFF files of the original split, and the XML file with the label names.
    """

    name: str
    domain: str
    n_instances: int
    n_attributes: int
    n_labels: int
    n_train: int
    citation: str
    source: str
    train: RegisteredFile
    test: RegisteredFile
    labels: RegisteredFile

    @property
    def files(self) -> tuple[RegisteredFile, ...]:
        """All files of the dataset."""
        return self.train, self.test, self.labels


@cache
def mulan_entries() -> dict[str, MulanEntry]:
    """Read the registry of this package.

    Returns
    -------
    dict of str to MulanEntry
        The datasets by name, in the order of the file.
    """
    return parse_registry(resources.files("lrml.datasets").joinpath("registry.toml").read_text("utf-8"))


def parse_registry(text: str) -> dict[str, MulanEntry]:
    """Parse a registry; refuse names that could lead out of a folder, and malformed hashes and addresses."""
    mulan = tomllib.loads(text)["mulan"]
    return {name: _entry(name, fields, mulan["source"]) for name, fields in mulan["datasets"].items()}


def find_entry(name: str) -> MulanEntry:
    """Return the registry entry of a dataset; an unknown name never becomes part of a path."""
    entries = mulan_entries()
    if not isinstance(name, str) or name not in entries:
        raise ValueError(
            f"name must be one of {', '.join(entries)}, got {name!r}. "
            f"{did_you_mean(name, entries)}Read the files of another dataset by their paths."
        )
    return entries[name]


def _entry(name: str, fields: dict[str, Any], source: dict[str, str]) -> MulanEntry:
    _check("name", name)
    fields = dict(fields)
    for role in ("train", "test", "labels"):
        file = fields[role]
        url = source["url"].format(**source, name=name, file=file["file"])
        fields[role] = RegisteredFile(file["file"], file["size"], file["sha256"], url)
        for key in _RULES:
            _check(key, getattr(fields[role], key))
    place = f"{source['host']} {source['repository']}, commit {source['commit']}, {source['folder']}/{name}"
    return MulanEntry(name=name, source=place, **fields)


def _check(key: str, value: object) -> None:
    pattern, rule = _RULES[key]
    if not re.fullmatch(pattern, str(value), re.ASCII):
        raise ValueError(f"{key} must be {rule}, got {value!r}. Correct the registry.")


@dataclass(frozen=True)
class FileStatus:
    """Where one file of a dataset is, or, if it is missing, where a download puts it.

    `damaged` means that the file has the wrong size or, if that was checked, the wrong hash.
    """

    file: RegisteredFile
    place: Place
    path: Path
    damaged: bool = False

    @property
    def to_download(self) -> bool:
        """True if a download would fetch it; files in the data home are never replaced."""
        return self.place == "missing" or (self.place == "cache" and self.damaged)


@dataclass(frozen=True)
class DatasetStatus:
    """Where the files of a dataset are.

    Parameters
    ----------
    name : str
        Name of the dataset.
    files : tuple of FileStatus
        Its files: training set, test set, label names.
    """

    name: str
    files: tuple[FileStatus, ...]

    @property
    def state(self) -> State:
        """The dataset in a word: "damaged" or "missing" if any file is; "cache" if any comes from there."""
        if any(status.damaged for status in self.files):
            return "damaged"
        places = {status.place for status in self.files}
        return next(place for place in ("missing", "cache", "data home") if place in places)

    @property
    def bytes_to_download(self) -> int:
        """How much `fetch_mulan` would download."""
        return sum(status.file.size for status in self.files if status.to_download)


def dataset_status(
    name: str, data_home: str | os.PathLike[str] | None = None, *, verify: bool = False
) -> DatasetStatus:
    """Look where the files of a dataset are, without downloading or changing anything.

    Parameters
    ----------
    name : str
        Name of one of Mulan's datasets, as in the registry.
    data_home : path-like, default=None
        As for `fetch_mulan`.
    verify : bool, default=False
        False compares only the size of each file, which takes no time; True also its sha256.

    Returns
    -------
    DatasetStatus
        The place of each file, summed up in ``state``.

    Examples
    --------
    >>> from lrml.datasets import dataset_status
    >>> dataset_status("bibtex").state  # doctest: +SKIP
    'cache'
    """
    entry = find_entry(name)
    return DatasetStatus(name, tuple(_locate(entry, file, data_home, verify) for file in entry.files))


def data_folder(entry: MulanEntry, data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the dataset's folder in the data home; None if there is no data home."""
    home = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    return Path(home).expanduser() / entry.name if home else None


def cache_folder(entry: MulanEntry) -> Path:
    """Return the dataset's folder in the cache, which need not exist."""
    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        root = Path(chosen).expanduser().absolute() if chosen else _platform_cache()
    except RuntimeError as error:  # what pathlib raises where there is no home folder
        raise FileNotFoundError(
            f"the cache must be a folder of the user, got none ({error}). "
            f"Set {CACHE_VARIABLE} to a folder that can be written."
        ) from error
    return root / "mulan" / entry.name


def _platform_cache() -> Path:
    """Return the platform's folder for caches."""
    platform: str = sys.platform
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lrml"
    if platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "lrml" / "Cache"
    # The XDG specification says that a relative path is to be ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "lrml"


def sha256_of(path: Path) -> str:
    """Return the hash of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _locate(
    entry: MulanEntry, file: RegisteredFile, data_home: str | os.PathLike[str] | None, verify: bool
) -> FileStatus:
    """Look for a file in the data home; in the cache only if it is not there, as that needs a folder."""
    home = data_folder(entry, data_home)
    if home is not None and (damaged := _is_damaged(home / file.name, file, verify)) is not None:
        return FileStatus(file, "data home", home / file.name, damaged)
    path = cache_folder(entry) / file.name
    try:
        damaged = _is_damaged(path, file, verify)
    except OSError:
        damaged = None  # an unreadable cache counts as empty; writing to it will say what is wrong
    return FileStatus(file, "missing" if damaged is None else "cache", path, bool(damaged))


def _is_damaged(path: Path, file: RegisteredFile, verify: bool) -> bool | None:
    """Say whether a file has another size, or hash, than it must have; None if there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_size != file.size or (verify and sha256_of(path) != file.sha256)
