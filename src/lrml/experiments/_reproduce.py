"""The whole run: compute what is missing, sum it up, and make the files of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lrml.experiments._plan import Plan
from lrml.experiments._work import is_whole, work
from lrml.experiments.runner import Progress, Store, run_jobs
from lrml.experiments.summary import Records, summarise
from lrml.report import render_figures, render_html, render_tables


def reproduce(
    plan: Plan, store: Store, *, n_workers: int, on_event: Callable[[Progress], None] | None = None
) -> dict[str, Any]:
    """Compute all cells of a plan that the store does not have yet, and return the summary of all.

    Parameters
    ----------
    plan : Plan
    store : Store
    n_workers : int
        Number of processes; results do not depend on it.
    on_event : callable, optional
        Told of every cell that is finished.

    Returns
    -------
    dict
        See `lrml.experiments.summary.summarise`.
    """
    found = run_jobs(plan.jobs, work, store, n_workers=n_workers, on_event=on_event, is_whole=is_whole)
    records = Records(found, store.arrays, plan.experiments, plan.protocols, plan.datasets)
    return summarise(records, plan.left_out)


def report_files(summary: dict[str, Any], *, with_figures: bool = True) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file of the report, the page last.

    Parameters
    ----------
    summary : dict
    with_figures : bool, default=True
        Whether to draw figures, which needs matplotlib, and make the page, which needs Jinja2 as well.
    """
    for name, content in render_tables(summary).items():
        yield f"tables/{name}", content
    if not with_figures:
        return
    for name, content in render_figures(summary).items():
        yield f"figures/{name}", content
    yield "report.html", render_html(summary).encode()
