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
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_URL = re.compile(r"https?://[!-~]+", re.ASCII)  # printable, no spaces


@dataclass(frozen=True)
class RegisteredFile:
    """A file: its plain name, its length in bytes, the sha256 of its content, and its address on the web."""

    name: str
    size: int
    sha256: str
    url: str

    def __post_init__(self) -> None:
        _check_name("a file", self.name)
        if self.size <= 0:
            raise ValueError(f"size of {self.name} must be positive, got {self.size}. Correct the registry.")
        _check_pattern("sha256", _SHA256, "64 hexadecimal digits", self.sha256)
        _check_pattern("url", _URL, "an address with http or https", self.url)


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

    def __post_init__(self) -> None:
        _check_name("a dataset", self.name)

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
    """Return what the registry knows about a dataset; an unknown name never gets near a path."""
    entries = mulan_entries()
    if not isinstance(name, str) or name not in entries:
        raise ValueError(
            f"name must be one of {', '.join(entries)}, got {name!r}. "
            f"{did_you_mean(name, entries)}Read the files of another dataset by their paths."
        )
    return entries[name]


def _entry(name: str, fields: dict[str, Any], source: dict[str, str]) -> MulanEntry:
    fields = dict(fields)
    for role in ("train", "test", "labels"):
        file = fields[role]
        url = source["url"].format(**source, name=name, file=file["file"])
        fields[role] = RegisteredFile(file["file"], file["size"], file["sha256"], url)
    place = f"{source['host']} {source['repository']}, commit {source['commit']}, {source['folder']}/{name}"
    return MulanEntry(name=name, source=place, **fields)


def _check_name(what: str, name: str) -> None:
    rule = "plain: letters, digits, dots, hyphens and underscores, the first a letter or digit"
    _check_pattern(f"the name of {what}", _PLAIN_NAME, rule, name)


def _check_pattern(key: str, pattern: re.Pattern[str], rule: str, value: str) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(f"{key} must be {rule}, got {value!r}. Correct the registry.")


@dataclass(frozen=True)
class FileStatus:
    """Where one file of a dataset is, or, if it is missing, where a download puts it.

    `damaged` means that what is there has the wrong size or, if that was asked for, the wrong hash.
    """

    file: RegisteredFile
    place: Place
    path: Path
    damaged: bool = False

    @property
    def to_download(self) -> bool:
        """True if a download would get it; what the user put into the data home is never replaced."""
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
        The place of each file, and the sum of it as ``state``.

    Examples
    --------
    >>> from lrml.datasets import dataset_status
    >>> dataset_status("bibtex").state  # doctest: +SKIP
    'cache'
    """
    return locate(find_entry(name), data_home, verify=verify)


def locate(
    entry: MulanEntry, data_home: str | os.PathLike[str] | None = None, *, verify: bool = False
) -> DatasetStatus:
    """Look where the files of an entry of the registry are; see `dataset_status`."""
    home = data_folder(entry, data_home)
    return DatasetStatus(entry.name, tuple(_locate_file(entry, file, home, verify) for file in entry.files))


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
    """Return where programs of this platform keep what they can get again."""
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


def _locate_file(entry: MulanEntry, file: RegisteredFile, home: Path | None, verify: bool) -> FileStatus:
    if home is not None:
        path = home / file.name
        size = _size(path)
        if size is not None:
            return FileStatus(file, "data home", path, _is_damaged(path, size, file, verify))
    # Only now: whoever has all files in the data home needs no cache folder.
    path = cache_folder(entry) / file.name
    try:
        size = _size(path)
    except OSError:
        size = None  # a cache that cannot be looked into has nothing; writing to it says what is wrong
    if size is None:
        return FileStatus(file, "missing", path)
    return FileStatus(file, "cache", path, _is_damaged(path, size, file, verify))


def _size(path: Path) -> int | None:
    """Return the length of a file in bytes; None if there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _is_damaged(path: Path, size: int, file: RegisteredFile, verify: bool) -> bool:
    return size != file.size or (verify and sha256_of(path) != file.sha256)
