"""One experiment from the data to the bytes of its files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from threadpoolctl import threadpool_limits

from lrml.datasets import Description, MultiLabelDataset, describe
from lrml.experiments._comparison import Comparison, compare, conclude
from lrml.experiments._convergence import Panel, caption, convergence_curves, panels
from lrml.experiments._encoding import to_csv, to_json
from lrml.experiments._published import published_table1
from lrml.experiments._selection import CRITERION
from lrml.experiments._spec import Spec
from lrml.experiments._table import Row, table_rows

_FIGURE3 = "figure3_convergence"
_VERSIONED = ("lrml", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All results of an experiment, still as numbers.

    Attributes
    ----------
    spec : Spec
    seed : int
    description : Description
        The dataset's row of Table 1, computed.
    rows : sequence of Row
        The table.
    comparisons : sequence of Comparison
        Paired differences of its rows from the reference.
    conclusions : sequence of str
        One sentence per protocol, computed from the table.
    figure3 : sequence of Panel
    caption : str
        Of Figure 3.
    """

    spec: Spec
    seed: int
    description: Description
    rows: Sequence[Row]
    comparisons: Sequence[Comparison]
    conclusions: Sequence[str]
    figure3: Sequence[Panel]
    caption: str


def count_steps(spec: Spec) -> int:
    """Return how often `reproduce` reports progress."""
    rows = len(spec.protocols) * (len(spec.theta_shares) + 1)
    curves = len(spec.theta_shares) * (1 + len(spec.convergence.gammas))
    return rows + curves


def reproduce(
    dataset: MultiLabelDataset, spec: Spec, seed: int = 0, on_step: Callable[[str], None] = lambda _: None
) -> Reproduction:
    """Run an experiment: the table on the test set, and the convergence curves on the training set.

    Parameters
    ----------
    dataset : MultiLabelDataset
        With a split.
    spec : Spec
    seed : int, default=0
        Chooses the held-out rows of the training set; nothing else is random.
    on_step : callable, optional
        Receives a short text after each of the `count_steps` steps.

    Returns
    -------
    Reproduction
    """
    # One thread: the order of sums, and so the last digits, must not depend on the number of cores; and
    # products of matrices as small as these are slower on several.
    with threadpool_limits(limits=1, user_api="blas"):
        rows = []
        for row in table_rows(dataset, spec, seed):
            rows.append(row)
            on_step(f"table: {row.protocol}, {row.label}")
        curves = []
        for curve in convergence_curves(dataset, spec):
            curves.append(curve)
            on_step(f"figure 3: theta {curve.theta}, {curve.method}")
    comparisons, figure3 = compare(rows), panels(curves)
    return Reproduction(
        spec=spec,
        seed=seed,
        description=describe(dataset),
        rows=rows,
        comparisons=comparisons,
        conclusions=conclude(rows, comparisons, weakest=spec.strengths.values[0]),
        figure3=figure3,
        caption=caption(figure3, spec.convergence, dataset.name),
    )


def render_tables(result: Reproduction) -> dict[str, bytes]:
    """Return the files of numbers, by name; no clock goes into them, so the same run gives the same bytes."""
    name = result.description.name
    return {
        f"{name}_table.csv": to_csv(row.as_dict() for row in result.rows),
        f"{name}_table.json": to_json(_document(result)),
        f"{_FIGURE3}.csv": to_csv(_curve_records(result.figure3)),
    }


def render_figures(result: Reproduction) -> dict[str, bytes]:
    """Return the images, by name.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    from lrml.experiments._figure3 import draw_convergence  # noqa: PLC0415  (matplotlib is optional)

    note = f"{result.description.name}, alpha = {result.spec.convergence.alpha:g}"
    images = draw_convergence(result.figure3, note)
    return {f"{_FIGURE3}{suffix}": image for suffix, image in images.items()}


def _document(result: Reproduction) -> dict[str, Any]:
    name = result.description.name
    return {
        "dataset": result.description.as_dict(),
        "published_table1": {key: _number(cell) for key, cell in published_table1(name).items()},
        "seed": result.seed,
        "criterion": CRITERION,
        "spec": result.spec.as_dict(),
        "versions": {package: version(package) for package in _VERSIONED},
        "rows": [row.as_dict() for row in result.rows],
        "differences_from_reference": [comparison.as_dict() for comparison in result.comparisons],
        "conclusions": list(result.conclusions),
        "figure3_caption": result.caption,
    }


def _number(cell: str) -> str | int | float:
    """Return a printed cell as the number that it shows, if it shows one."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _curve_records(figure: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """One record per iteration of every curve; a residual that a method does not have is an empty cell."""
    for panel in figure:
        for curve in panel.curves:
            columns = (
                curve.history[key].tolist() for key in ("iteration", "phase", "objective", "residual", "rank")
            )
            excess = panel.excess(curve).tolist()
            for (iteration, phase, objective, residual, rank), above in zip(
                zip(*columns, strict=True), excess, strict=True
            ):
                yield {
                    "theta": panel.theta,
                    "method": curve.method,
                    "iteration": iteration,
                    "phase": phase,
                    "objective": objective,
                    "relative_excess": round(above, 12),
                    "residual": residual if math.isfinite(residual) else None,
                    "rank": rank,
                }
