"""A progress bar for long fits, driven by the solver's callback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lrml.solvers import Callback, IterationInfo


@contextmanager
def solver_progress(
    verbose: int, max_iter: int, callback: Callback | None, name: str = "LRML"
) -> Iterator[Callback | None]:
    """Yield a callback that draws a bar on standard error (``verbose`` > 0) and then calls ``callback``."""
    if not verbose:
        yield callback
        return
    columns = (
        TextColumn(name),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} at most"),
        TextColumn("objective {task.fields[objective]:.6g}  residual {task.fields[residual]:.1e}"),
        TextColumn("rank {task.fields[rank]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("fit", total=max_iter, objective=float("nan"), residual=float("nan"), rank=0)

        def report(info: IterationInfo) -> bool | None:
            progress.update(
                task,
                completed=info.iteration,
                objective=info.objective,
                residual=info.residual,
                rank=info.rank,
            )
            return callback(info) if callback is not None else None

        yield report
