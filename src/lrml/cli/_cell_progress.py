"""Live progress of a long run: cells done, time left, the best so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from lrml.experiments.runner import Progress

_SECONDS_BETWEEN_LINES, _SECONDS_TO_JUDGE = 30.0, 5.0


@contextmanager
def cell_progress(total: int, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that is told of every finished cell.

    It draws a bar on standard error; where that is no terminal, it writes a line every half minute.
    """
    console, best = Console(stderr=True, highlight=False), Best()
    if quiet or not console.is_terminal:
        yield _lines(console, best, quiet=quiet)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}  {task.description}"))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total, left="")

        def show(event: Progress) -> None:
            bar.update(
                task, completed=event.done, left=_time_left(event), description=best.take(event.record)
            )

        yield show


class Best:
    """The best average precision on each dataset so far."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, str]] = {}

    def take(self, record: dict[str, Any]) -> str:
        """Take a record in, and say in a few words what it was and what is best on its dataset."""
        payload = record["payload"]
        dataset = payload["dataset"]
        if record["status"] != "ok":
            return f"{record['key']} failed"
        value = record["result"].get("metrics", {}).get("average_precision")
        if value is not None:
            name = f"{payload['method']}, {payload['protocol']}"
            self.found[dataset] = max(self.found.get(dataset, (value, name)), (value, name))
        if dataset not in self.found:
            return str(dataset)
        best, name = self.found[dataset]
        return f"{dataset}: best average precision {best:.4f} ({name})"


def _lines(console: Console, best: Best, *, quiet: bool) -> Callable[[Progress], None]:
    last = 0.0

    def write(event: Progress) -> None:
        nonlocal last
        words = best.take(event.record)
        if not quiet and event.seconds - last >= _SECONDS_BETWEEN_LINES:
            last = event.seconds
            console.print(
                f"{event.done} of {event.total} cells, {_time_left(event)}; {words}", soft_wrap=True
            )

    return write


def _time_left(event: Progress) -> str:
    if event.seconds_left is None or event.seconds < _SECONDS_TO_JUDGE:
        return ""  # the first cells carry the start of the workers
    return f"about {timedelta(seconds=round(event.seconds_left))} left"
