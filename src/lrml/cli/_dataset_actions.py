"""What ``lrml datasets`` does: each action calls the library and prints."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import lrml.datasets
from lrml._shown import did_you_mean
from lrml.cli._console import advise, result_console, say
from lrml.cli._dataset_source import EMBEDDED, check_source, load
from lrml.cli._dataset_tables import description_table, list_table
from lrml.cli._errors import CommandError
from lrml.datasets import DATA_HOME_VARIABLE, DatasetStatus, MulanEntry, dataset_status, mulan_entries

_LEGEND = (
    "embedded: comes with lrml, nothing to fetch.",
    "data home: in your folder (--data-home or LRML_DATA_HOME).",
    "cache: fetched before.",
    "missing: get it with lrml datasets fetch NAME.",
    "damaged: a file has the wrong size. fetch replaces it in the cache; in the data home it is yours to do.",
)


def list_datasets(arguments: argparse.Namespace) -> None:
    """Print the datasets that lrml knows, and where they are."""
    _warn_of_data_home(arguments)
    found = [(entry, dataset_status(name, arguments.data_home)) for name, entry in mulan_entries().items()]
    records = [_list_record(entry, status) for entry, status in found]
    if arguments.json:
        _print_json(records)
        return
    console = result_console(quiet=False)
    console.print(list_table(records))
    for line in _LEGEND:
        say(console, f" {line}")


def _list_record(entry: MulanEntry, status: DatasetStatus) -> dict[str, Any]:
    embedded = entry.name == EMBEDDED and status.state == "missing"
    return {
        "name": entry.name,
        "domain": entry.domain,
        "instances": entry.n_instances,
        "attributes": entry.n_attributes,
        "labels": entry.n_labels,
        "train": entry.n_train,
        "bytes": sum(file.size for file in entry.files),
        "status": "embedded" if embedded else status.state,
        "citation": entry.citation,
    }


def describe(arguments: argparse.Namespace) -> None:
    """Print the statistics of a dataset."""
    _warn_of_data_home(arguments)
    check_source(arguments)
    dataset = load(arguments)
    description = lrml.datasets.describe(dataset)
    if arguments.json:
        _print_json(description.as_dict() | {"provenance": dataset.provenance})
        return
    console = result_console(quiet=False)
    console.print(description_table(description))
    if dataset.provenance:
        say(console, f"Source: {dataset.provenance}")


def fetch(arguments: argparse.Namespace) -> None:
    """Get datasets, one after the other; those that fail do not keep the others from being fetched."""
    names = _names_to_fetch(arguments.names)
    _warn_of_data_home(arguments)
    records = []
    for name in names:
        record = _fetch_one(name, arguments.data_home)
        records.append(record)
        if arguments.json:
            continue
        if "error" in record:
            advise(f"{name}: {record['error']}")
        else:
            folder = Path(record["files"][0]).parent
            say(result_console(quiet=False), f"{name}: in the {record['status']}, {folder}")
    if arguments.json:
        _print_json(records)
    failed = [record["name"] for record in records if "error" in record]
    if failed:
        raise CommandError(
            f"every dataset must be fetched, got {len(names) - len(failed)} of {len(names)}; without "
            f"{', '.join(failed)}. What was fetched stays; run again for the rest."
        )


def _names_to_fetch(names: list[str]) -> list[str]:
    """Return the names without repetitions; all of them are checked before anything is fetched."""
    known = list(mulan_entries())
    for name in names:
        if name != "all" and name not in known:
            raise ValueError(
                f"NAME must be all or one of {', '.join(known)}, got {name!r}. "
                f"{did_you_mean(name, [*known, 'all'])}Check the spelling."
            )
    return known if "all" in names else list(dict.fromkeys(names))


def _fetch_one(name: str, data_home: str | None) -> dict[str, Any]:
    try:
        lrml.datasets.fetch_mulan(name, data_home=data_home)
    except (OSError, ValueError) as error:
        return {"name": name, "status": "failed", "error": str(error)}
    status = dataset_status(name, data_home)
    return {"name": name, "status": status.state, "files": [str(f.path) for f in status.files]}


def convert(arguments: argparse.Namespace) -> None:
    """Write a dataset in another format."""
    from lrml.datasets import written_files  # noqa: PLC0415 - needs NumPy, a list does not

    files = written_files(arguments.target, arguments.to)
    _check_target(files, arguments.force)
    _warn_of_data_home(arguments)
    check_source(arguments)
    dataset = load(arguments)
    lrml.datasets.write_dataset(dataset, arguments.target, format=arguments.to)
    n, d, n_labels = dataset.shape
    if arguments.json:
        counts = {"instances": n, "attributes": d, "labels": n_labels}
        _print_json({"wrote": [str(file) for file in files], **counts})
        return
    console = result_console(quiet=False)
    say(console, f"wrote {files[0]}: {dataset!r}")
    for file in files[1:]:
        say(console, f"wrote {file}, which belongs to it")


def _check_target(files: tuple[Path, ...], force: bool) -> None:
    """Make sure, before anything is read, that the files can be new ones."""
    folder = files[0].parent
    if not folder.is_dir():
        raise ValueError(
            f"OUT must be in a folder that exists, got {os.fspath(files[0])!r}, and there is no folder "
            f"{os.fspath(folder)!r}. Make it first, or choose another."
        )
    there = [os.fspath(file) for file in files if file.exists()]
    if there and not force:
        raise ValueError(
            f"OUT and the file that belongs to it must be new, got {' and '.join(map(repr, there))}. "
            "Choose another name, or replace what is there with --force."
        )


def _warn_of_data_home(arguments: argparse.Namespace) -> None:
    home = arguments.data_home or os.environ.get(DATA_HOME_VARIABLE)
    if home and not Path(home).expanduser().is_dir():
        source = "--data-home" if arguments.data_home else DATA_HOME_VARIABLE
        advise(f"lrml datasets: warning: {source} names no folder: {home!r}. Only the cache is searched.")


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
