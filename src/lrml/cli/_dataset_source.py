"""The dataset that ``lrml datasets describe`` and ``convert`` are asked for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lrml.datasets
from lrml._shown import did_you_mean
from lrml.datasets import dataset_status, mulan_entries

if TYPE_CHECKING:
    from lrml.datasets import MultiLabelDataset

EMBEDDED = "yeast"


def check_source(arguments: argparse.Namespace) -> None:
    """Refuse a source that cannot be read, or options that do not fit to it."""
    source, known = arguments.source, mulan_entries()
    given = [f"--{key.replace('_', '-')}" for key in _given(arguments)]
    if source in known:
        if given:
            option = "--from" if given[0] == "--format" else given[0]
            raise ValueError(
                f"{option} is for data files, got the dataset {source!r}. Leave it out, or give a path such "
                f"as ./{source} if a file is meant."
            )
    elif not Path(source).exists():
        raise ValueError(
            f"NAME|PATH must be one of {', '.join(known)} or a file, got {source!r}. "
            f"{did_you_mean(source, known)}Check the spelling, or see: lrml datasets."
        )


def load(arguments: argparse.Namespace) -> MultiLabelDataset:
    """Return a known dataset, or one read from files."""
    source = arguments.source
    if source in mulan_entries():
        if source == EMBEDDED and dataset_status(source, arguments.data_home).state == "missing":
            return lrml.datasets.load_yeast()
        return lrml.datasets.fetch_mulan(source, data_home=arguments.data_home)
    options = {key: _PARSED.get(key, str)(value) for key, value in _given(arguments).items()}
    test = options.pop("test", None)
    if test is None:
        return lrml.datasets.read_dataset(source, **options)
    return lrml.datasets.read_split(source, test, **options)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    values = {key: getattr(arguments, key) for key in arguments.file_options}
    return {key: value for key, value in values.items() if value is not None}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _labels(text: str) -> int | list[str]:
    return int(text) if text.lstrip("+-").isdecimal() else _names(text)


# How the text of an option becomes the argument of a reader; the others are texts.
_PARSED: dict[str, Any] = {
    "labels": _labels,
    "features": _names,
    "ignore": _names,
    "sparse": bool,
    "n_features": int,
    "n_labels": int,
    "zero_based": {"auto": "auto", "true": True, "false": False}.__getitem__,
}
