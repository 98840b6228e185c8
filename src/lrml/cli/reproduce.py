"""``lrml reproduce``: the paper's tables and figures, beside the published numbers."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml._files import writable_folder
from lrml.cli._options import CommandError, DataHome, Quiet, advise, answer, names, one_of, option
from lrml.paper import DATASETS, PROTOCOLS, TARGETS, is_at_hand, known_datasets, make_plan

if TYPE_CHECKING:
    from lrml.paper import Plan

_MOST_SEEDS = 3
_TARGETS = typer.Argument(metavar="|".join(TARGETS), parser=one_of(tuple(TARGETS)))
_DATASETS = (
    f"{', '.join(DATASETS)}, other names of lrml datasets, or files with a split; what is not at hand is "
    "downloaded (default: those of the target that are at hand)."
)
_PROTOCOLS = f"Which of {', '.join(PROTOCOLS)} (default: the first three)."
_DEVICE = "Where to compute what is large, such as cuda (needs torch or CuPy; default: here)."
_JOBS = "Processes at a time (default: one per core)."
_STUDIED = "Which of its data sets, such as yeast, andro or planted (default: those at hand)."
_DRAWS = "Draws of every condition, from 1 to 10 (default: 10, and 5 of large data)."
_SEEDS = f"Choices of the validation rows, from 1 to {_MOST_SEEDS} (default: {_MOST_SEEDS})."
# Tables that are short enough to print; the others are in the report.
_PRINTED = ("table1", "counts")
_PAPER_LAYOUT = ("table2_paper", "table2_tuned", "table2_kernel")


def _data(text: str) -> list[str]:
    """Return names of data sets, and files as they are."""
    return [name if Path(name).is_file() else one_of(known_datasets())(name) for name in names(text)]


def _some_of(choices: tuple[str, ...]) -> Any:
    """Return the parser of a list of choices, with commas between them."""
    return lambda text: list(map(one_of(choices), names(text)))


def reproduce(
    target: Annotated[str, _TARGETS] = "all",
    datasets: Annotated[Any, option("LIST", _DATASETS, _data)] = None,
    protocols: Annotated[Any, option("LIST", _PROTOCOLS, _some_of(PROTOCOLS))] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help=_JOBS)] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, max=_MOST_SEEDS, help=_SEEDS)] = None,
    out: Annotated[str, option("DIR", "Folder for the files.")] = "results",
    data_home: DataHome = None,
    quiet: Quiet = False,
    device: Annotated[str | None, option("NAME", _DEVICE)] = None,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Write the tables only.")] = False,
) -> int:
    """Reproduce the paper's tables and figures beside the published numbers.

    Without arguments: everything for which data is at hand. Yeast comes with lrml; the others are found in
    --data-home, LRML_DATA_HOME or the cache (lrml datasets fetch bibtex delicious corel5k). Results go to
    the folder of --out: report.html to look at, tables/ as CSV, figures/ as PNG, SVG and PDF, and cells/ with
    one file per finished cell. Run it again to go on after an interruption: what is finished is not computed
    again. Tables and figures of another selection in the same folder stay; report.html is about the last one.

    \b
    For example:
      lrml reproduce table2 --datasets yeast,bibtex --protocols tuned
    """
    if data_home is not None:
        os.environ["LRML_DATA_HOME"] = data_home  # worker processes look there, too
    plan = make_plan(target, datasets, protocols, seeds)
    _check_choice(plan, target, "--datasets", datasets)
    _check_choice(plan, target, "--protocols", protocols)
    return _run(plan, target, out, jobs, device, quiet, no_plots)


def study(
    datasets: Annotated[Any, option("LIST", _STUDIED, _data)] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help=_JOBS)] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, max=10, help=_DRAWS)] = None,
    out: Annotated[str, option("DIR", "Folder for the files.")] = "results/study",
    data_home: DataHome = None,
    device: Annotated[str | None, option("NAME", _DEVICE)] = None,
    quiet: Quiet = False,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Write the tables only.")] = False,
) -> int:
    """Find out when low rank pays: all members of the family against ridge regression.

    One thing is varied at a time: rows, hidden and wrong labels, the number of labels, the rank of a planted
    truth. Files and records are as those of lrml reproduce; everything (lrml datasets fetch all) takes eight
    minutes on 16 cores with a GPU.

    \b
    For example:
      lrml study --datasets yeast,planted --seeds 2
    """
    if data_home is not None:
        os.environ["LRML_DATA_HOME"] = data_home
    plan = make_plan("study", datasets, None, seeds)
    return _run(plan, "study", out, jobs, device, quiet, no_plots)


def _run(
    plan: Plan, target: str, out: str, jobs: int | None, device: str | None, quiet: bool, no_plots: bool
) -> int:
    from lrml._progress import progress
    from lrml.datasets import fetch_files
    from lrml.report import needed

    folder = writable_folder(out)
    for library in ("pandas",) if no_plots else ("pandas", "matplotlib", "jinja2"):
        needed(library, "paper")
    for name in plan.datasets:  # those that were asked for by name
        if not is_at_hand(name):
            fetch_files(name)
    from lrml.paper import reproduce as run  # which imports pandas

    with progress(
        "lrml study" if target == "study" else "lrml reproduce", "cells", verbose=not quiet
    ) as report:
        try:
            content, written = run(
                plan,
                folder,
                n_workers=jobs or _cores(),
                tell=lambda done, total, cell: report.update(done, total, cell["dataset"]),
                with_figures=not no_plots,
                device=device,
            )
        except KeyboardInterrupt:
            kept = len(list(folder.glob("cells/*.npz")))
            advise(f"{kept} cells are finished and kept; the same command goes on from there.")
            raise
    if not quiet:  # the files are safe before anything is printed
        _tell(plan, target, content, written, folder)
    if failures := content["failures"]:
        name, reason = failures[0]
        advise(
            f"lrml reproduce: {len(failures)} of {len(plan.cells)} cells failed, the first one is {name} "
            f"({reason}). Run again to try the failed ones once more."
        )
    return 1 if failures else 0


def _tell(plan: Plan, target: str, content: Any, written: Any, folder: Any) -> None:
    """Print the first rows and the short tables, and where everything is."""
    printed = _PRINTED + (_PAPER_LAYOUT if target == "table2" else ())
    parts: list[Any] = [f"{row[0]}: {row[1]} (paper: {row[2]})" for row in content["numbers"][1:]]
    parts += [table for table in content["tables"] if table["id"] in printed]
    if names := plan.left_out:
        parts.append(
            f"Left out, because the data is not on this machine: {', '.join(names)}. Get it with "
            f"lrml datasets fetch {' '.join(names)}, or point --data-home (or LRML_DATA_HOME) to a folder "
            "that has it, and run again; what is finished is not computed again."
        )
    parts.append(f"wrote {len(written)} files to {folder}")
    parts += [f"look at {path}" for path in written if path.suffix == ".html"]
    answer(None, *parts, as_json=False)


def _check_choice(plan: Plan, target: str, option: str, given: list[str] | None) -> None:
    """Refuse datasets or protocols that the target does not have."""
    key = option.removeprefix("--")
    known = dict.fromkeys(name for one in plan.experiments.values() for name in one.get(key, ()))
    taken = plan.datasets if key == "datasets" else known  # models can be made of other data, too
    if known and given and not set(taken) & set(given):
        raise CommandError(
            f"{option} is {', '.join(given)}, but {target} has {', '.join(known)} only. Leave {option} out, "
            "or choose another target."
        )


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
