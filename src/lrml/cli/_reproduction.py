"""What ``lrml reproduce`` does: plan, run, write the files, print."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from rich.console import Console

from lrml._files import remove_remains, writable_folder, write_atomically
from lrml.cli._cell_progress import cell_progress
from lrml.cli._console import advise, result_console, say
from lrml.cli._errors import CommandError
from lrml.cli._tables import report_table
from lrml.datasets import DATA_HOME_VARIABLE, fetch_mulan
from lrml.experiments import Plan, is_at_hand, make_plan, report_files, reproduce
from lrml.experiments.runner import Store, WorkerError

_REMEDY = (
    "lrml reproduce: not all of the report was written ({reason}). "
    'Install what it needs with: pip install "lrml[report]"'
)
# Tables that are short enough to print; the others are in the report.
_PRINTED = ("table1", "counts")
_PAPER_LAYOUT = ("table2_paper", "table2_tuned", "table2_kernel")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the files are safe before the results are printed. Return 1 if a cell failed, or 0."""
    if arguments.data_home is not None:
        _check_data_home(arguments.data_home)
        os.environ[DATA_HOME_VARIABLE] = arguments.data_home  # worker processes look there, too
    plan = make_plan(arguments.target, arguments.datasets, arguments.protocols, arguments.seeds)
    _check_choice(plan, arguments.target, "--datasets", arguments.datasets, "datasets")
    _check_choice(plan, arguments.target, "--protocol", arguments.protocols, "protocols")
    folder = writable_folder(arguments.out)
    _download(plan.datasets)
    store, n_workers = Store(folder), arguments.jobs or _cores()
    with cell_progress(len(plan.jobs), quiet=arguments.quiet) as report:
        try:
            summary = reproduce(plan, store, n_workers=n_workers, on_event=report)
        except WorkerError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            advise(
                f"{len(store.records())} cells are finished and kept; the same command goes on from there."
            )
            raise
    with store.writer():  # nobody else writes the report, or takes our temporary files for remains
        written = _write(folder, summary, with_figures=not arguments.no_plots)
    printed = _PRINTED + (_PAPER_LAYOUT if arguments.target == "table2" else ())
    _print(result_console(quiet=arguments.quiet), summary, printed, folder, written)
    return _count_failures(summary, len(plan.jobs))


def _check_choice(plan: Plan, target: str, option: str, given: list[str] | None, attribute: str) -> None:
    """Refuse datasets, or protocols, of which the target has none."""
    names = [name for experiment in plan.experiments.values() for name in getattr(experiment, attribute)]
    if names and given and not set(names) & set(given):
        raise CommandError(
            f"{option} of {target} must be among {', '.join(dict.fromkeys(names))}, got {', '.join(given)}. "
            f"Leave out {option}, or choose another target."
        )


def _check_data_home(path: str) -> None:
    if not Path(path).is_dir():
        raise CommandError(
            f"--data-home must be a folder with one folder per dataset, got {path!r}, which is none. "
            "Check the path, or leave it out to look in the cache."
        )


def _download(names: list[str]) -> None:
    """Get what was asked for by name and is not there."""
    for name in names:
        if not is_at_hand(name):
            try:
                fetch_mulan(name)
            except (OSError, ValueError) as error:
                raise CommandError(str(error)) from error


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _write(folder: Path, summary: dict[str, Any], *, with_figures: bool) -> list[Path]:
    """Write the report; without the libraries for figures and page, the tables."""
    written = []
    parts = [folder / part for part in (("tables", "figures") if with_figures else ("tables",))]
    for part in [folder, *parts]:
        remove_remains(writable_folder(part))
    try:
        for name, content in report_files(summary, with_figures=with_figures):
            write_atomically(folder / name, content)
            written.append(folder / name)
    except ImportError as error:
        advise(_REMEDY.format(reason=str(error).split(".")[0]))
    return written


def _print(
    console: Console, summary: dict[str, Any], printed: tuple[str, ...], folder: Path, written: list[Path]
) -> None:
    for table in summary["tables"]:
        if table["id"] in printed:
            console.print(report_table(table))
    for number, sentence in enumerate(summary["summary"], start=1):
        say(console, f"{number}. {sentence}")
    console.print()
    for sentence in summary["left_out"]:
        say(console, sentence)
    for failure in summary["failures"]:
        say(console, f"failed: {failure['cell']}: {failure['error']}")
    say(console, f"wrote {len(written)} files to {folder}")
    for page in (path for path in written if path.suffix == ".html"):
        say(console, f"look at {page}")


def _count_failures(summary: dict[str, Any], n_cells: int) -> int:
    """Say on standard error, also in a quiet run, how many cells failed; return the exit code."""
    failures = summary["failures"]
    if failures:
        advise(
            f"lrml reproduce: {len(failures)} of {n_cells} cells failed, the first one is "
            f"{failures[0]['cell']} ({failures[0]['error']}). The report has the others; run again to try "
            "the failed ones once more."
        )
    return 1 if failures else 0
