"""Datasets by name: yeast from this package, Mulan's from a folder of the user, the cache or the network."""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import replace
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrml._shown import did_you_mean

if TYPE_CHECKING:
    from lrml.datasets._dataset import Dataset

EMBEDDED = "yeast"  # comes with this package


@cache
def mulan_entries(*, real: bool = False) -> dict[str, dict[str, Any]]:
    """Return the datasets that have names, with labels or with ``real`` targets, from a registry.

    Of each: ``domain``, ``n_instances`` (of all parts), ``n_attributes``, ``n_labels``, ``n_train``,
    ``citation``, ``source``, and ``files``, the training set, the test set and the label names, each with
    ``name``, ``size``, ``sha256`` and ``url``. Regressions have one file.
    """
    text = resources.files("lrml.datasets").joinpath("registry.toml").read_text("utf-8")
    registry = tomllib.loads(text)["multi-target" if real else "mulan"]
    origin, found = registry["source"], dict[str, dict[str, Any]](registry["datasets"])
    for name, entry in found.items():
        entry["source"] = "{host} {repository}, commit {commit}, {folder}/{name}".format(**origin, name=name)
        entry["files"] = [entry.pop(role) for role in (("whole",) if real else ("train", "test", "labels"))]
        for file in entry["files"]:
            file["url"] = origin["url"].format(**origin, name=name, file=file["name"])
    return found


def dataset_status(name: str, data_home: str | os.PathLike[str] | None = None) -> tuple[str, list[Path]]:
    """Look where the files of a dataset are, or would be put, without changing anything.

    The state is "damaged" if a file has a wrong size, "missing" if one is nowhere, "cache" if one is there,
    else "data home".
    """
    home, words, paths = _home(name, data_home), set(), []
    for file in _entry(name)["files"]:
        path, word = _cache_folder(name) / file["name"], "cache"
        if home is not None and (home / file["name"]).is_file():
            path, word = home / file["name"], "data home"
        if not path.is_file():
            word = "missing"
        elif path.stat().st_size != file["size"]:
            word = "damaged"
        words.add(word)
        paths.append(path)
    return next(word for word in ("damaged", "missing", "cache", "data home") if word in words), paths


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
    from lrml.datasets._dataset import Dataset  # noqa: PLC0415
    from lrml.datasets._roles import Roles  # noqa: PLC0415

    entry = _entry(name, mulan_entries())
    *parts, labels = fetch_files(name, data_home, download)
    train, test = (list(ArffReader(path, Roles(), xml=labels).blocks(1000)) for path in parts)
    told = f"Mulan, {entry['domain']}; {entry['source']}; cite {entry['citation']}"
    whole = Dataset.concat([*train, *test])
    return replace(whole, name=name, n_train=sum(map(len, train)), provenance=told)


def fetch_multi_target(
    name: str, *, data_home: str | os.PathLike[str] | None = None, download: bool = True
) -> tuple[Any, Any]:
    """Load features and targets of a regression with several targets, as `fetch_mulan` finds its files.

    Missing features are NaN.
    """
    from numpy.lib.recfunctions import structured_to_unstructured  # noqa: PLC0415
    from scipy.io.arff import loadarff  # noqa: PLC0415

    entry = _entry(name, mulan_entries(real=True))
    (path,) = fetch_files(name, data_home, download)
    numbers = structured_to_unstructured(loadarff(path)[0])
    return numbers[:, : -entry["n_labels"]], numbers[:, -entry["n_labels"] :]


def fetch_files(
    name: str, data_home: str | os.PathLike[str] | None = None, download: bool = True
) -> list[Path]:
    """Return the files of a dataset, found as `fetch_mulan` finds them, each with the right hash."""
    entry, (_, paths) = _entry(name), dataset_status(name, data_home)
    for file, path in zip(entry["files"], paths, strict=True):
        if path.is_file() and _sha256_of(path) == file["sha256"]:
            continue
        in_cache = path.parent == _cache_folder(name)
        if path.is_file() and not (in_cache and download):
            remedy = "Delete it, or fetch it again." if in_cache else f"Get it from {entry['source']}."
            raise ValueError(f"{path} has not the sha256 {file['sha256']}: it is damaged. {remedy}")
        if not download:
            raise FileNotFoundError(f"{path} is missing, and download=False. {_advice(name)}")
        _download(name, file)
    return paths


def _entry(name: str, entries: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    entries = entries or mulan_entries() | mulan_entries(real=True)
    if name not in entries:
        raise ValueError(
            f"{name!r} is none of {', '.join(entries)}. {did_you_mean(name, entries)}Read the files of "
            "another dataset by their paths."
        )
    return entries[name]


def _download(name: str, file: dict[str, Any]) -> None:
    """Let pooch put a file into the cache: it is there as a whole, with the right hash, or not at all."""
    pooch = import_module("pooch")
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(file["url"], f"sha256:{file['sha256']}", file["name"], _cache_folder(name))
    except (OSError, ValueError) as error:  # also those of requests; a wrong hash is a ValueError
        raise OSError(
            f"{file['name']} cannot be downloaded from {file['url']}: {error}. Check the network, or the "
            f"variable https_proxy.\n{_advice(name)}"
        ) from error


def _advice(name: str) -> str:
    """Say how to do without a download."""
    folder, entry = _cache_folder(name), _entry(name)
    places = "".join(f"\n  {folder / file['name']}  (sha256 {file['sha256']})" for file in entry["files"])
    return (
        f"To do without a download, get these files from {entry['source']} and put them here, or into "
        f"{name}/ in a folder that you pass as data_home or set as LRML_DATA_HOME:{places}"
    )


def _home(name: str, data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of a dataset in the data home, if there is one."""
    home = data_home if data_home is not None else os.environ.get("LRML_DATA_HOME")
    if not home:
        return None
    if not Path(home).expanduser().is_dir():
        what = "LRML_DATA_HOME" if data_home is None else "The data home"
        raise NotADirectoryError(
            f"{what} is {os.fspath(home)!r}, which is no folder. Name one with a folder per dataset, or "
            "none, to look in the cache alone."
        )
    return Path(home).expanduser() / name


def _cache_folder(name: str) -> Path:
    from platformdirs import user_cache_dir  # noqa: PLC0415 - a list of datasets is quick

    chosen = os.environ.get("LRML_CACHE") or user_cache_dir("lrml", appauthor=False)
    return Path(chosen).expanduser().absolute() / "mulan" / name


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
        Y=np.unpackbits(packed, axis=1, count=14).view(np.int8),
        feature_names=tuple(f"Att{i}" for i in range(1, 104)),
        label_names=tuple(f"Class{i}" for i in range(1, 15)),
        n_train=1500,
        provenance="Elisseeff and Weston (2001); Mulan; river 0.26.1 (BSD-3-Clause)",
    )
