"""``lrml reproduce``: the paper's tables and figures, beside the published numbers."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lrml._files import remove_remains, writable_folder, write_atomically
from lrml.cli._options import CommandError, DataHome, one_of, option, user_errors
from lrml.experiments import DATASETS, PROTOCOLS, TARGETS

if TYPE_CHECKING:
    from lrml.experiments import Plan
    from lrml.experiments.runner import Progress

_MOST_SEEDS = 3
_DATASETS = f"Which of {', '.join(DATASETS)}; one that is not at hand is downloaded (default: those at hand)."
_JOBS = "Processes at a time (default: one per core)."
_SEEDS = f"Choices of the validation rows, from 1 to {_MOST_SEEDS} (default: {_MOST_SEEDS})."
_SECONDS_BETWEEN_LINES, _SECONDS_TO_JUDGE = 30.0, 5.0
_REMEDY = (
    "lrml reproduce: not all of the report was written ({reason}). "
    'Install what it needs with: pip install "lrml[report]"'
)
# Tables that are short enough to print; the others are in the report.
_PRINTED = ("table1", "counts")
_PAPER_LAYOUT = ("table2_paper", "table2_tuned", "table2_kernel")


class ListOptions(TyperCommand):
    """A command whose repeatable options take words up to the next option: ``--datasets yeast bibtex``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat such an option before each of its words, as typer expects."""
        lists = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        spread: list[str] = []
        current = None
        for word in args:
            if current and not word.startswith("-") and spread[-1] != current:
                spread.append(current)
            elif word.startswith("-"):
                current = word if word in lists else None
            spread.append(word)
        return super().parse_args(ctx, spread)


def reproduce(
    target: Annotated[str, typer.Argument(metavar="|".join(TARGETS), parser=one_of(tuple(TARGETS)))] = "all",
    datasets: Annotated[list[str] | None, option("NAME...", _DATASETS, one_of(DATASETS))] = None,
    protocol: Annotated[
        list[str] | None,
        option("NAME...", f"Which of {', '.join(PROTOCOLS)} (default: all).", one_of(PROTOCOLS)),
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help=_JOBS)] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, max=_MOST_SEEDS, help=_SEEDS)] = None,
    out: Annotated[str, option("DIR", "Folder for the files.")] = "results",
    data_home: DataHome = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors and advice.")] = False,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Write the tables only.")] = False,
) -> int:
    """Reproduce the paper's tables and figures beside the published numbers.

    Without arguments: everything for which data is at hand. Yeast comes with lrml; the others are found in
    --data-home, LRML_DATA_HOME or the cache (lrml datasets fetch bibtex delicious corel5k). Results go to
    the folder of --out: report.html to look at, tables/ as CSV, Markdown and LaTeX, figures/ as PNG, SVG and
    PDF, and results.jsonl with one line per finished cell. Run it again to go on after an interruption: what
    is finished is not computed again. Tables and figures of another selection in the same folder stay;
    report.html is about the last one.
    """
    from lrml.cli._console import advise
    from lrml.datasets import fetch_mulan
    from lrml.experiments import is_at_hand, make_plan
    from lrml.experiments import reproduce as run
    from lrml.experiments.runner import Store, WorkerError

    if data_home is not None:
        if not Path(data_home).is_dir():
            raise CommandError(
                f"--data-home {data_home!r} is no folder. Pass one with a folder per dataset, or leave it "
                "out to look in the cache."
            )
        os.environ["LRML_DATA_HOME"] = data_home  # worker processes look there, too
    plan = make_plan(target, datasets, protocol, seeds)
    _check_choice(plan, target, "--datasets", datasets, "datasets")
    _check_choice(plan, target, "--protocol", protocol, "protocols")
    folder = writable_folder(out)
    store = Store(folder)
    with user_errors():
        for name in plan.datasets:  # those that were asked for by name
            if not is_at_hand(name):
                fetch_mulan(name)
    with _progress(len(plan.jobs), quiet=quiet) as report:
        try:
            summary = run(plan, store, n_workers=jobs or _cores(), on_event=report)
        except WorkerError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            advise(
                f"{len(store.records())} cells are finished and kept; the same command goes on from there."
            )
            raise
    with store.writer():  # no other run writes the report, or removes our temporary files
        written = _write(folder, summary, with_figures=not no_plots)
    if not quiet:  # the files are safe before anything is printed
        _print(summary, _PRINTED + (_PAPER_LAYOUT if target == "table2" else ()), folder, written)
    if failures := summary["failures"]:
        advise(
            f"lrml reproduce: {len(failures)} of {len(plan.jobs)} cells failed, the first one is "
            f"{failures[0]['cell']} ({failures[0]['error']}). The report has the others; run again to try "
            "the failed ones once more."
        )
    return 1 if failures else 0


def _check_choice(plan: Plan, target: str, option: str, given: list[str] | None, attribute: str) -> None:
    """Refuse datasets or protocols that the target does not have."""
    names = [name for experiment in plan.experiments.values() for name in getattr(experiment, attribute)]
    if names and given and not set(names) & set(given):
        raise CommandError(
            f"{option} is {', '.join(given)}, but {target} has {', '.join(dict.fromkeys(names))} only. Leave "
            f"{option} out, or choose another target."
        )


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function to call after every finished cell.

    It draws a bar on standard error, or, if that is no terminal, writes a line every half minute.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console, best, last = Console(stderr=True, highlight=False), dict[str, tuple[float, str]](), 0.0
    drawn, written = console.is_terminal and not quiet, not (console.is_terminal or quiet)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}  {task.description}"))
    with Bar(*columns, console=console, transient=True, disable=not drawn) as bar:
        task = bar.add_task("starting", total=total, left="")

        def tell(event: Progress) -> None:
            nonlocal last
            words, left = _words(event.record, best), _time_left(event)
            bar.update(task, completed=event.done, left=left, description=words)
            if written and event.seconds - last >= _SECONDS_BETWEEN_LINES:
                last = event.seconds
                console.print(f"{event.done} of {event.total} cells, {left}; {words}", soft_wrap=True)

        yield tell


def _words(record: dict[str, Any], best: dict[str, tuple[float, str]]) -> str:
    """Describe a record in a few words, with the best average precision on its dataset so far."""
    payload = record["payload"]
    dataset: str = payload["dataset"]
    if record["status"] != "ok":
        return f"{record['key']} failed"
    value = record["result"].get("metrics", {}).get("average_precision")
    if value is not None:
        found = value, f"{payload['method']}, {payload['protocol']}"
        best[dataset] = max(best.get(dataset, found), found)
    if dataset not in best:
        return dataset
    value, name = best[dataset]
    return f"{dataset}: best average precision {value:.4f} ({name})"


def _time_left(event: Progress) -> str:
    if event.seconds_left is None or event.seconds < _SECONDS_TO_JUDGE:
        return ""  # the time of the first cells includes the start of the workers
    return f"about {timedelta(seconds=round(event.seconds_left))} left"


def _write(folder: Path, summary: dict[str, Any], *, with_figures: bool) -> list[Path]:
    """Write the report; without the libraries for figures and page, the tables."""
    from lrml.cli._console import advise
    from lrml.experiments import report_files

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


def _print(summary: dict[str, Any], printed: tuple[str, ...], folder: Path, written: list[Path]) -> None:
    from lrml.cli._console import answer

    answer(
        None,
        *(table for table in summary["tables"] if table["id"] in printed),
        *(f"{number}. {sentence}" for number, sentence in enumerate(summary["summary"], start=1)),
        "",
        *summary["left_out"],
        *(f"failed: {failure['cell']}: {failure['error']}" for failure in summary["failures"]),
        f"wrote {len(written)} files to {folder}",
        *(f"look at {path}" for path in written if path.suffix == ".html"),
        as_json=False,
    )
