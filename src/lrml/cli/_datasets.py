"""``lrml datasets``: list, describe, fetch and convert data."""

from __future__ import annotations

import argparse
from typing import Any

from lrml.cli._errors import CommandError
from lrml.datasets import READ_FORMATS, WRITE_FORMATS


def add_parser(commands: Any) -> None:
    """Add the command to the subparsers of the program."""
    parser = commands.add_parser(
        "datasets",
        help="list, describe, fetch and convert datasets",
        description="Without an action: list the datasets that lrml knows by name, and where they are.",
    )
    _add_common(parser)
    parser.set_defaults(run=_runs("list_datasets"), json=False, data_home=None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")

    what = actions.add_parser("describe", help="print the statistics of a dataset or file")
    what.add_argument("source", metavar="NAME|PATH", help="a dataset that lrml knows, or a data file")
    add_reading(what)
    _add_common(what)
    what.set_defaults(run=_runs("describe"))

    fetch = actions.add_parser("fetch", help="get datasets into the cache, and check them")
    fetch.add_argument("names", metavar="NAME", nargs="+", help="dataset, or all")
    _add_common(fetch)
    fetch.set_defaults(run=_runs("fetch"))

    convert = actions.add_parser("convert", help="write a dataset in another format")
    convert.add_argument("source", metavar="IN", help="a dataset that lrml knows, or a data file")
    convert.add_argument("target", metavar="OUT", help="the file to write; others may belong to it")
    convert.add_argument("--to", choices=WRITE_FORMATS, help="format of OUT, if its suffix does not say it")
    convert.add_argument("--force", action="store_true", help="replace files that are there already")
    add_reading(convert)
    _add_common(convert)
    convert.set_defaults(run=_runs("convert"))


def add_data_home(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where data is."""
    # No default: that of an action would overwrite an option that stands before the action.
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="folder with one folder per dataset (default: LRML_DATA_HOME, then the cache)",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_data_home(parser)
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines"
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a data file is read."""
    files = parser.add_argument_group("options for data files, not for datasets by name")

    def add(option: str, help_text: str, **details: Any) -> None:
        action = files.add_argument(option, help=help_text, **details)
        parser.set_defaults(file_options=[*(parser.get_default("file_options") or ()), action.dest])

    add("--from", "format, if the suffix does not say it", dest="format", choices=READ_FORMATS)
    add("--name", "name of the dataset (default: from the file)", metavar="TEXT")
    add("--test", "a second file: the test set that belongs to the first", metavar="PATH")
    add("--xml", "ARFF: the XML file that names the labels", metavar="PATH")
    add(
        "--labels",
        "ARFF, CSV, Parquet: names of the label columns, or N for the first N columns, -N for the last",
        metavar="LIST|N",
    )
    add("--label-column", "CSV, Parquet: the column that lists labels", metavar="NAME")
    add("--label-separator", "what separates them (default: a comma)", metavar="TEXT")
    add("--features", "CSV, Parquet: the feature columns (default: all others)", metavar="LIST")
    add("--ignore", "CSV, Parquet: columns to leave out", metavar="LIST")
    add("--delimiter", "CSV: what separates cells (default: a comma; a tabulator in .tsv)", metavar="CHAR")
    add("--sparse", "CSV, Parquet: store sparse matrices", action="store_true", default=None)
    add("--n-features", "svmlight: number of features (default: as occur)", metavar="N", type=int)
    add("--n-labels", "svmlight: number of labels (default: as occur)", metavar="N", type=int)
    add(
        "--zero-based",
        "svmlight: whether features are counted from 0 (default: auto, if 0 occurs)",
        choices=("auto", "true", "false"),
    )


def _runs(action: str) -> Any:
    """Return what runs an action, and turns what goes wrong with files and networks into one message."""

    def run(arguments: argparse.Namespace) -> None:
        from lrml.cli import _dataset_actions  # noqa: PLC0415 - other commands need none of it

        try:
            getattr(_dataset_actions, action)(arguments)
        except BrokenPipeError:
            raise  # whoever reads the output has seen enough
        except (OSError, ValueError, ImportError) as error:
            raise CommandError(str(error)) from error

    return run
