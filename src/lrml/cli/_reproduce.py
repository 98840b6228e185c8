"""``lrml reproduce``: the paper's evaluation and Figure 3 on the embedded yeast data."""

from __future__ import annotations

import argparse
from typing import Any

_LARGEST_SEED = 2**32 - 1  # of NumPy's and scikit-learn's generators


def add_parser(commands: Any) -> None:
    """Add the command to the subparsers of the program."""
    parser = commands.add_parser(
        "reproduce",
        help="evaluate LRML on the embedded yeast data and draw Figure 3",
        description="Evaluate LRML on the embedded yeast data under the paper's and under a tuned protocol, "
        "draw the convergence curves of Figure 3, and write tables and figures to a folder.",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="results", help="folder for the files (default: results)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=_seed, default=0, help="choice of the validation rows (default: 0)"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors and advice")
    parser.add_argument("--no-plots", action="store_true", help="write the tables only")
    parser.set_defaults(run=_run)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > _LARGEST_SEED:
        raise argparse.ArgumentTypeError(
            f"the seed must be an integer in [0, {_LARGEST_SEED}], got {text!r}. Use 0 if in doubt."
        )
    return int(text)


def _run(arguments: argparse.Namespace) -> None:
    from lrml.cli._reproduction import run  # noqa: PLC0415 - slow, and other commands need none of it

    run(arguments)
