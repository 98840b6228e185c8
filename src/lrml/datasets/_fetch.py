"""Datasets by name: yeast from this package, Mulan's from a folder of the user, the cache or the network."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lrml._shown import did_you_mean

if TYPE_CHECKING:
    from lrml.datasets._dataset import Dataset

DATA_HOME_VARIABLE = "LRML_DATA_HOME"
EMBEDDED = "yeast"  # comes with this package
_CACHE_VARIABLE = "LRML_CACHE"


@dataclass(frozen=True)
class RegisteredFile:
    """A file: its name, length in bytes, hash, and address on the web."""

    name: str
    size: int
    sha256: str
    url: str


@dataclass(frozen=True)
class MulanEntry:
    """What is known about one of Mulan's datasets: the counts are those of both parts together."""

    name: str
    domain: str
    n_instances: int
    n_attributes: int
    n_labels: int
    n_train: int
    citation: str
    source: str
    files: tuple[RegisteredFile, ...]  # training set, test set, label names


@cache
def mulan_entries() -> dict[str, MulanEntry]:
    """Return the datasets that have names, from the registry of this package."""
    text = resources.files("lrml.datasets").joinpath("registry.toml").read_text("utf-8")
    mulan = tomllib.loads(text)["mulan"]
    origin, found = mulan["source"], {}
    for name, facts in mulan["datasets"].items():
        listed = [facts.pop(role) for role in ("train", "test", "labels")]
        files = tuple(
            RegisteredFile(
                one["file"],
                one["size"],
                one["sha256"],
                origin["url"].format(**origin, name=name, file=one["file"]),
            )
            for one in listed
        )
        place = "{host} {repository}, commit {commit}, {folder}".format(**origin)
        found[name] = MulanEntry(name=name, source=f"{place}/{name}", files=files, **facts)
    return found


@dataclass(frozen=True)
class FileStatus:
    """Where a file is, or would be put; `damaged` means that it has the wrong size or, if checked, hash."""

    file: RegisteredFile
    place: Literal["data home", "cache", "missing"]
    path: Path
    damaged: bool = False

    @property
    def to_download(self) -> bool:
        """Whether a download would fetch it; files in the data home are never replaced."""
        return self.place == "missing" or (self.place == "cache" and self.damaged)


@dataclass(frozen=True)
class DatasetStatus:
    """Where the files of a dataset are."""

    name: str
    files: tuple[FileStatus, ...]

    @property
    def state(self) -> str:
        """In a word: "damaged" or "missing" if any file is; "cache" if any is there; else "data home"."""
        if any(status.damaged for status in self.files):
            return "damaged"
        places = {status.place for status in self.files}
        return next(place for place in ("missing", "cache", "data home") if place in places)


def dataset_status(
    name: str, data_home: str | os.PathLike[str] | None = None, *, verify: bool = False
) -> DatasetStatus:
    """Look where the files of a dataset are, without changing anything; `verify` compares hashes, too."""
    entry = _entry(name)
    home, folder = _home(name, data_home), _cache_folder(name)
    found: list[FileStatus] = []
    for file in entry.files:
        places: list[tuple[Any, Path | None]] = [("data home", home), ("cache", folder)]
        there = [(place, at / file.name) for place, at in places if at and (at / file.name).is_file()]
        place: Any = there[0][0] if there else "missing"
        path = there[0][1] if there else folder / file.name
        wrong = bool(there) and path.stat().st_size != file.size
        wrong = wrong or (verify and bool(there) and _sha256_of(path) != file.sha256)
        found.append(FileStatus(file, place, path, wrong))
    return DatasetStatus(name, tuple(found))


def fetch_mulan(
    name: str, *, data_home: str | os.PathLike[str] | None = None, download: bool = True
) -> Dataset:
    """Load one of Mulan's datasets, with its original split into training and test set.

    Each of its three files is taken from ``<data_home>/<name>/`` (by default that of the environment variable
    ``LRML_DATA_HOME``), from ``<cache>/mulan/<name>/`` (``LRML_CACHE``, or the platform's folder for caches),
    or from Mulan's repository on GitHub, from which it is downloaded into the cache, unless ``download`` is
    False. Each must have the sha256 that the registry of this package names. A wrong file in the cache is
    downloaded again; one in the data home, which is yours, is an error (ValueError). What cannot be had is an
    OSError, which says where to get it and where to put it; a download that fails keeps nothing.

    Examples
    --------
    >>> from lrml.datasets import fetch_mulan
    >>> fetch_mulan("bibtex")  # doctest: +SKIP
    <Dataset bibtex: X (7395, 1836) sparse, Y (7395, 159) sparse, train 4880 / test 2515>
    """
    from lrml.datasets._arff import ArffReader  # noqa: PLC0415 - a list of datasets needs no NumPy
    from lrml.datasets._roles import Roles  # noqa: PLC0415
    from lrml.datasets._source import Source  # noqa: PLC0415

    entry = _entry(name)
    files = dataset_status(name, data_home, verify=True).files
    for status in files:
        if status.damaged and not (download and status.to_download):
            remedy = (
                "Delete it, or fetch it again." if status.place == "cache" else f"Get it from {entry.source}."
            )
            raise ValueError(
                f"{status.path} has not the sha256 {status.file.sha256}: it is damaged. {remedy}"
            )
    wanted = [status.file for status in files if status.to_download]
    if wanted and not download:
        raise FileNotFoundError(f"Files of {name} are missing, and download=False. {_advice(entry, wanted)}")
    _download(entry, wanted)
    train, test, labels = (status.path for status in files)
    readers = [ArffReader(path, Roles(), xml=labels) for path in (train, test)]
    found: Dataset = Source(readers, name=name, n_train_readers=1).read()
    origin = f"Mulan, {entry.domain}; {entry.source}; cite {entry.citation}"
    return replace(found, provenance=origin)


def _entry(name: str) -> MulanEntry:
    entries = mulan_entries()
    if name not in entries:
        raise ValueError(
            f"{name!r} is none of {', '.join(entries)}. {did_you_mean(name, entries)}Read the files of "
            "another dataset by their paths."
        )
    return entries[name]


def _download(entry: MulanEntry, files: Sequence[RegisteredFile]) -> None:
    """Let pooch put files into the cache: each is there as a whole, with the right hash, or not at all."""
    if not files:
        return
    pooch, folder = import_module("pooch"), _cache_folder(entry.name)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    pooch.get_logger().setLevel("WARNING")
    try:
        for file in files:
            pooch.retrieve(file.url, f"sha256:{file.sha256}", file.name, folder)
    except (OSError, ValueError) as error:  # also those of requests; a wrong hash is a ValueError
        raise OSError(
            f"{file.name} cannot be downloaded from {file.url}: {error}. Check the network, or the variable "
            f"https_proxy.\n{_advice(entry, files[files.index(file) :])}"
        ) from error
    finally:
        for place in made:
            with suppress(OSError):  # it has files, or was never made
                place.rmdir()


def _advice(entry: MulanEntry, files: Sequence[RegisteredFile]) -> str:
    """Say how to do without a download."""
    folder = _cache_folder(entry.name)
    places = "".join(f"\n  {folder / file.name}  (sha256 {file.sha256})" for file in files)
    return (
        f"To do without a download, get these files from {entry.source} and put them here, or into "
        f"{entry.name}/ in a folder that you pass as data_home or set as {DATA_HOME_VARIABLE}:{places}"
    )


def _home(name: str, data_home: str | os.PathLike[str] | None) -> Path | None:
    home = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    return Path(home).expanduser() / name if home else None


def _cache_folder(name: str) -> Path:
    chosen = os.environ.get(_CACHE_VARIABLE)
    if chosen:
        root = Path(chosen).expanduser().absolute()
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches" / "lrml"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "lrml" / "Cache"
    else:
        xdg = os.environ.get("XDG_CACHE_HOME", "")  # a relative path is to be ignored
        root = (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "lrml"
    return root / "mulan" / name


def _sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def load_yeast() -> Dataset:
    """Load the yeast dataset: 2417 genes, 103 features, 14 functional classes.

    The features are micro-array expression and phylogenetic profiles; a gene belongs to 4.24 of the
    classes on average [1]_. The split is Mulan's: 1500 training genes, then 917 test genes. All values are
    bit for bit those of Mulan's files. Nothing is downloaded: the file in this package was converted from
    river 0.26.1 (BSD-3-Clause); ``yeast.LICENSE`` beside it has the details.

    References
    ----------
    .. [1] Elisseeff, Weston (2001). A Kernel Method for Multi-Labelled Classification. NIPS 14.

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> load_yeast()
    <Dataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    import numpy as np  # noqa: PLC0415

    from lrml.datasets._dataset import Dataset  # noqa: PLC0415

    data = resources.files("lrml.datasets").joinpath("data/yeast.npz")
    with data.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        high, low, packed = arrays["high"], arrays["low"], arrays["labels"]
    # scripts/make_yeast.py adds 2**20 to integers in millionths to make them positive, then cuts off the low
    # 16 bits: the two parts compress better than the whole. The quotient of two integers below 2**53 is
    # rounded just as the decimal number is.
    millionths = (high.astype(np.int32) << 16) + low - 2**20
    return Dataset(
        name="yeast",
        X=millionths / 1e6,
        Y=np.unpackbits(packed, axis=1, count=14),
        feature_names=tuple(f"Att{i}" for i in range(1, 104)),
        label_names=tuple(f"Class{i}" for i in range(1, 15)),
        n_train=1500,
        provenance="Elisseeff and Weston (2001); Mulan; river 0.26.1 (BSD-3-Clause)",
    )
