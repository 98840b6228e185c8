"""``lrml reproduce``: the paper's tables and figures, beside the published numbers."""

from __future__ import annotations

import argparse
from typing import Any

from lrml.experiments import DATASETS, PROTOCOLS, TARGETS

_MOST_SEEDS = 3

_DESCRIPTION = """\
Reproduce the paper's tables and figures beside the published numbers.

Without arguments: everything for which data is at hand. Yeast comes with lrml;
the others are found in --data-home, LRML_DATA_HOME or the cache
(lrml datasets fetch bibtex delicious corel5k). Results go to the folder of
--out: report.html to look at, tables/ as CSV, Markdown and LaTeX, figures/ as
PNG, SVG and PDF, and results.jsonl with one line per finished cell. Run it
again to go on after an interruption: what is finished is not computed again.
Tables and figures of another selection in the same folder stay; report.html is
about the last one.
"""


def add_parser(commands: Any) -> None:
    """Add the command to the subparsers of the program."""
    parser = commands.add_parser(
        "reproduce",
        help="reproduce the paper's tables and figures, and write a report",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", nargs="?", choices=tuple(TARGETS), default="all", help="what to reproduce (default: all)"
    )
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=DATASETS,
        metavar="NAME",
        help=f"which of {', '.join(DATASETS)}; one that is not at hand is downloaded "
        "(default: those that are at hand)",
    )
    parser.add_argument(
        "--protocol",
        dest="protocols",
        nargs="+",
        choices=PROTOCOLS,
        metavar="NAME",
        help=f"which of {', '.join(PROTOCOLS)} (default: all)",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=_positive, help="processes at a time (default: one per core)"
    )
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=_n_seeds,
        help=f"choices of the validation rows, from 1 to {_MOST_SEEDS} (default: {_MOST_SEEDS})",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="results", help="folder for the files (default: results)"
    )
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        help="folder with one folder per dataset (default: LRML_DATA_HOME, then the cache)",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors and advice")
    parser.add_argument("--no-plots", action="store_true", help="write the tables only")
    parser.set_defaults(run=_run)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}. Use 1 if in doubt.")
    return int(text)


def _n_seeds(text: str) -> int:
    number = _positive(text)
    if number > _MOST_SEEDS:
        raise argparse.ArgumentTypeError(
            f"must be from 1 to {_MOST_SEEDS}, got {text!r}. Leave it out for all."
        )
    return number


def _run(arguments: argparse.Namespace) -> int:
    from lrml.cli._reproduction import run  # noqa: PLC0415 - slow, and other commands need none of it

    return run(arguments)
