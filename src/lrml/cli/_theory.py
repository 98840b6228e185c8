"""``lrml theory``: Rademacher complexities and bounds for a model of some data."""

from __future__ import annotations

import argparse
from typing import Any

from lrml.cli._datasets import add_data_home, add_reading
from lrml.cli._errors import CommandError

_DESCRIPTION = """\
Fit LRML to the training rows of a dataset and print every bound of lrml.theory
for it, beside Monte-Carlo estimates of what it bounds. The theory knows no
intercept, so the model has none. Without --alpha, alpha and ridge are chosen on
held-out rows.
"""


def add_parser(commands: Any) -> None:
    """Add the command to the subparsers of the program."""
    parser = commands.add_parser(
        "theory",
        help="compute complexities and generalisation bounds on a dataset",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="NAME|PATH", help="a dataset that lrml knows, or a data file")
    parser.add_argument(
        "--theta",
        type=_theta,
        default="auto",
        metavar="N|SHARE|auto",
        help="free singular values: a count, a share of the labels such as 0.2, or auto (default: auto)",
    )
    parser.add_argument("--alpha", type=float, metavar="X", help="strength of the penalty (default: chosen)")
    parser.add_argument(
        "--ridge", type=float, default=0.0, metavar="X", help="ridge, if alpha is given (default: 0)"
    )
    parser.add_argument("--raw", action="store_true", help="leave rows as they are (default: unit length)")
    parser.add_argument(
        "--draws", type=int, default=20, metavar="N", help="draws of random signs (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the signs (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.add_argument(
        "--out", metavar="DIR", help="write a figure of the local complexity over r to this folder"
    )
    add_reading(parser)
    add_data_home(parser)
    parser.set_defaults(run=_run, data_home=None)


def _theta(text: str) -> Any:
    if text == "auto":
        return text
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a count, a share in [0, 1] or auto, got {text!r}. Use auto if in doubt."
        ) from None


def _run(arguments: argparse.Namespace) -> None:
    from lrml.cli._bounds import run  # noqa: PLC0415 - slow, and other commands need none of it

    try:
        run(arguments)
    except BrokenPipeError:
        raise  # whoever reads the output has seen enough
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise CommandError(str(error)) from error
