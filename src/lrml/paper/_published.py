"""Numbers that the paper prints."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


def published_table1(name: str) -> dict[str, str]:
    """Return one row of the paper's Table 1, as printed; nothing for other datasets.

    The cells are text, which keeps the number of decimals; the keys are those of `lrml.datasets.describe(…)`.

    Examples
    --------
    >>> published_table1("yeast")["cardinality"]
    '4.237'
    """
    return next((row for row in _read("published_table1.csv") if row["dataset"] == name), {})


@cache
def published_table2() -> dict[tuple[str, int, str, str], tuple[float, str]]:
    """Return Table 2 by dataset, percent, metric and method: the value, and how LRML differs significantly.

    The latter is "better", "worse", "none", or empty for LRML itself.

    Examples
    --------
    >>> published_table2()["bibtex", 20, "precision_at_1", "LEML"]
    (0.5833, 'better')
    """
    return {
        (row["dataset"], int(row["theta_percent"]), row["metric"], row["method"]): (
            float(row["value"]),
            row["lrml_is_significantly"],
        )
        for row in _read("published_table2.csv")
    }


def _read(name: str) -> list[dict[str, str]]:
    table = resources.files("lrml.paper").joinpath(name)
    return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
