"""Where the files of a dataset are: in the user's data home, in the cache, or nowhere yet."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from lrml.datasets._registry import MulanEntry, RegisteredFile, find_entry

DATA_HOME_VARIABLE = "LRML_DATA_HOME"
CACHE_VARIABLE = "LRML_CACHE"

Place: TypeAlias = Literal["data home", "cache", "missing"]
State: TypeAlias = Literal["data home", "cache", "missing", "damaged"]


@dataclass(frozen=True)
class FileStatus:
    """Where one file of a dataset is.

    Parameters
    ----------
    file : RegisteredFile
        The file.
    place : {"data home", "cache", "missing"}
        The first place that has it.
    path : Path
        Where it is; if it is missing, where a download puts it.
    damaged : bool
        True if what is there has the wrong size (or, if that was asked for, the wrong hash).
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
    >>> from lrml.datasets._cache import dataset_status
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
    """Return the dataset's folder in the cache, which need not exist.

    Raises
    ------
    FileNotFoundError
        If the user has no home folder and ``LRML_CACHE`` is not set.
    """
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
