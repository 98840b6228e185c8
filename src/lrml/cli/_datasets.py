"""``lrml datasets``: list, describe, fetch and convert data."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrml.cli._console import CommandError, result_console, say
from lrml.cli._dataset_tables import description_table, list_table
from lrml.datasets import (
    MultiLabelDataset,
    describe,
    fetch_mulan,
    load_yeast,
    read_dataset,
    write_dataset,
)
from lrml.datasets._cache import DatasetStatus, dataset_status
from lrml.datasets._formats import READ_FORMATS, WRITE_FORMATS
from lrml.datasets._registry import MulanEntry, mulan_entries

_EMBEDDED = "yeast"


def add_parser(commands: Any) -> None:
    """Add the command to the subparsers of the program."""
    parser = commands.add_parser(
        "datasets",
        help="list, describe, fetch and convert datasets",
        description="Without an action: list the datasets that lrml knows by name, and where they are.",
    )
    # An option before the action would otherwise be overwritten by the action's own default.
    _add_common(parser, argparse.SUPPRESS)
    parser.set_defaults(run=_guarded(_run_list), json=False, data_home=None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")

    what = actions.add_parser("describe", help="print the statistics of a dataset or file")
    what.add_argument("source", metavar="NAME|PATH", help="a dataset that lrml knows, or a data file")
    _add_reading(what)
    _add_common(what)
    what.set_defaults(run=_guarded(_run_describe))

    fetch = actions.add_parser("fetch", help="get datasets into the cache, and check them")
    fetch.add_argument("names", metavar="NAME", nargs="+", help="dataset, or all")
    _add_common(fetch)
    fetch.set_defaults(run=_guarded(_run_fetch))

    convert = actions.add_parser("convert", help="write a dataset in another format")
    convert.add_argument("source", metavar="IN", help="a dataset that lrml knows, or a data file")
    convert.add_argument("target", metavar="OUT", help="the file to write")
    convert.add_argument("--to", choices=WRITE_FORMATS, help="format of OUT, if its suffix does not say it")
    _add_reading(convert)
    _add_common(convert)
    convert.set_defaults(run=_guarded(_run_convert))


def _add_common(parser: argparse.ArgumentParser, default: Any = None) -> None:
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        default=default,
        help="folder with one folder per dataset (default: LRML_DATA_HOME, then the cache)",
    )
    parser.add_argument(
        "--json", action="store_true", default=default or False, help="print JSON for machines"
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("data files")
    files.add_argument(
        "--from", dest="format", choices=READ_FORMATS, help="format, if the suffix does not say it"
    )
    files.add_argument("--test", metavar="PATH", help="a second file: the test set that belongs to the first")
    files.add_argument("--xml", metavar="PATH", help="ARFF: the XML file that names the labels")
    files.add_argument(
        "--labels",
        metavar="LIST|N",
        help="ARFF, CSV, Parquet: names of the label columns, or N for the first N columns, -N for the last",
    )
    files.add_argument("--label-column", metavar="NAME", help="CSV, Parquet: the column that lists labels")
    files.add_argument("--label-separator", metavar="TEXT", help="what separates them (default: a comma)")
    files.add_argument("--ignore", metavar="LIST", help="CSV, Parquet: columns to leave out")


def _guarded(run: Any) -> Any:
    """Turn what can go wrong with files, formats and networks into one line for the user."""

    def guarded(arguments: argparse.Namespace) -> None:
        try:
            run(arguments)
        except BrokenPipeError:
            raise  # whoever reads the output has seen enough
        except (OSError, ValueError, ImportError) as error:
            raise CommandError(str(error)) from error

    return guarded


def _run_list(arguments: argparse.Namespace) -> None:
    found = [(entry, dataset_status(name, arguments.data_home)) for name, entry in mulan_entries().items()]
    if arguments.json:
        _print_json([_list_record(entry, status) for entry, status in found])
        return
    console = result_console(quiet=False)
    console.print(list_table([_list_record(entry, status) for entry, status in found]))
    say(console, "embedded: comes with lrml. data home, cache: there. missing: lrml datasets fetch NAME.")


def _list_record(entry: MulanEntry, status: DatasetStatus) -> dict[str, Any]:
    embedded = entry.name == _EMBEDDED and status.state == "missing"
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


def _run_describe(arguments: argparse.Namespace) -> None:
    dataset = _load(arguments)
    description = describe(dataset)
    if arguments.json:
        _print_json(description.as_dict() | {"provenance": dataset.provenance})
        return
    console = result_console(quiet=False)
    console.print(description_table(description))
    if dataset.provenance:
        say(console, f"Source: {dataset.provenance}")


def _run_fetch(arguments: argparse.Namespace) -> None:
    names = list(mulan_entries()) if arguments.names == ["all"] else arguments.names
    records = []
    for name in names:
        fetch_mulan(name, data_home=arguments.data_home)
        status = dataset_status(name, arguments.data_home)
        records.append({"name": name, "status": status.state, "files": [str(f.path) for f in status.files]})
        if not arguments.json:
            say(result_console(quiet=False), f"{name}: in the {status.state}, {status.files[0].path.parent}")
    if arguments.json:
        _print_json(records)


def _run_convert(arguments: argparse.Namespace) -> None:
    dataset = _load(arguments)
    write_dataset(dataset, arguments.target, format=arguments.to)
    n, d, n_labels = dataset.shape
    if arguments.json:
        _print_json({"wrote": arguments.target, "instances": n, "attributes": d, "labels": n_labels})
        return
    say(result_console(quiet=False), f"wrote {arguments.target}: {dataset!r}")


def _load(arguments: argparse.Namespace) -> MultiLabelDataset:
    """Return a known dataset, or one read from files."""
    source = arguments.source
    if source in mulan_entries():
        if source == _EMBEDDED and dataset_status(source, arguments.data_home).state == "missing":
            return load_yeast()
        return fetch_mulan(source, data_home=arguments.data_home)
    if not Path(source).exists():
        raise ValueError(
            f"NAME|PATH must be one of {', '.join(mulan_entries())} or a file, got {source!r}. "
            "Check the spelling, or see: lrml datasets."
        )
    options = _reading_options(arguments)
    dataset = read_dataset(source, **options)
    if arguments.test is None:
        return dataset
    joined = MultiLabelDataset.from_split(dataset, read_dataset(arguments.test, **options))
    return replace(joined, name=dataset.name.removesuffix("-train"))


def _reading_options(arguments: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {
        "format": arguments.format,
        "xml": arguments.xml,
        "label_column": arguments.label_column,
        "label_separator": arguments.label_separator,
    }
    if arguments.labels is not None:
        text = arguments.labels
        options["labels"] = int(text) if text.lstrip("+-").isdecimal() else _names(text)
    if arguments.ignore is not None:
        options["ignore"] = _names(arguments.ignore)
    return {key: value for key, value in options.items() if value is not None}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
