"""The datasets that lrml knows by name, as listed in ``registry.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class RegisteredFile:
    """A file and the hash that it must have.

    Parameters
    ----------
    name : str
        File name, without a folder.
    sha256 : str
        The hash of its content, in hexadecimal.
    """

    name: str
    sha256: str


@dataclass(frozen=True)
class MulanEntry:
    """What is known about one of Mulan's datasets.

    Parameters
    ----------
    name : str
        Name of the dataset, and of its folder.
    domain : str
        What the examples are: text, images, ...
    citation : str
        The publication to cite.
    source : str
        Where the files come from, for people to read.
    train, test, labels : RegisteredFile
        The ARFF files of the original split, and the XML file with the label names.
    """

    name: str
    domain: str
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
    """Read the registry.

    Returns
    -------
    dict of str to MulanEntry
        The datasets by name, in the order of the file.
    """
    text = resources.files("lrml.datasets").joinpath("registry.toml").read_text("utf-8")
    mulan = tomllib.loads(text)["mulan"]
    return {name: _entry(name, fields, mulan["source"]) for name, fields in mulan["datasets"].items()}


def _entry(name: str, fields: dict[str, Any], source: dict[str, str]) -> MulanEntry:
    place = f"{source['host']} {source['repository']}, commit {source['commit']}, {source['folder']}/{name}"
    train, test, labels = (
        RegisteredFile(fields[role]["file"], fields[role]["sha256"]) for role in ("train", "test", "labels")
    )
    return MulanEntry(name, fields["domain"], fields["citation"], place, train, test, labels)
