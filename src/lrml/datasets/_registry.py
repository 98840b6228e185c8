"""The datasets that lrml knows by name, as listed in ``registry.toml``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from lrml._shown import did_you_mean

# Names become parts of paths and addresses: nothing that could leave the folder, hide, or need quoting.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_URL = re.compile(r"https?://[!-~]+", re.ASCII)  # printable, no spaces


@dataclass(frozen=True)
class RegisteredFile:
    """A file, the content that it must have, and its address.

    Parameters
    ----------
    name : str
        File name: letters, digits, dots, hyphens and underscores, so without a folder.
    size : int
        Length in bytes.
    sha256 : str
        The hash of its content, in hexadecimal.
    url : str
        Where it can be downloaded, with http or https.
    """

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
    """Parse and check the text of a registry.

    Parameters
    ----------
    text : str
        TOML, like ``registry.toml`` of this package.

    Returns
    -------
    dict of str to MulanEntry
        The datasets by name, in the order of the text.

    Raises
    ------
    ValueError
        If a name could lead out of the dataset's folder, or a hash, size or address is malformed.
    """
    mulan = tomllib.loads(text)["mulan"]
    return {name: _entry(name, fields, mulan["source"]) for name, fields in mulan["datasets"].items()}


def find_entry(name: str) -> MulanEntry:
    """Return what the registry knows about a dataset; an unknown name never gets near a path.

    Raises
    ------
    ValueError
        If the registry has no dataset of that name; the message lists the known ones.
    """
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
