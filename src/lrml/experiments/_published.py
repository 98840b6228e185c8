"""Numbers that the paper prints."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


def published_table1(name: str) -> dict[str, str]:
    """Return one row of the paper's Table 1, as printed.

    Parameters
    ----------
    name : {"bibtex", "delicious", "yeast", "corel5k"}

    Returns
    -------
    dict of str to str
        The cells as text, which keeps the number of decimals; the keys are those of
        `lrml.datasets.describe(…)`.

    Examples
    --------
    >>> published_table1("yeast")["cardinality"]
    '4.237'
    """
    rows = {row["dataset"]: row for row in _read("published_table1.csv")}
    if name not in rows:
        raise ValueError(f"Table 1 has rows for {', '.join(rows)}, got {name!r}. Choose one of them.")
    return rows[name]


def published_table2(name: str, method: str, percent: int) -> dict[str, float]:
    """Return the values that the paper's Table 2 prints for a method.

    Parameters
    ----------
    name : {"bibtex", "delicious"}
    method : {"LRML", "LEML", "CPLST"}
    percent : {20, 40, 60, 80}
        theta, or the rank, as a share of the number of labels.

    Returns
    -------
    dict of str to float
        precision_at_1, precision_at_3, precision_at_5, hamming_loss and average_auc.

    Examples
    --------
    >>> published_table2("bibtex", "LRML", 20)["precision_at_1"]
    0.6002
    """
    wanted = (name, method, percent)
    cells = {
        metric: value
        for (dataset, share, metric, rival), (value, _) in published_cells().items()
        if (dataset, rival, share) == wanted
    }
    if not cells:
        raise ValueError(
            f"Table 2 has bibtex and delicious, LRML, LEML and CPLST, 20 to 80 percent, got {wanted}. "
            "Choose among them."
        )
    return cells


@cache
def published_cells() -> dict[tuple[str, int, str, str], tuple[float, str]]:
    """Return Table 2 by dataset, percent, metric and method: the value, and how LRML differs significantly.

    The latter is "better", "worse", "none", or empty for LRML itself.
    """
    return {
        (row["dataset"], int(row["theta_percent"]), row["metric"], row["method"]): (
            float(row["value"]),
            row["lrml_is_significantly"],
        )
        for row in _read("published_table2.csv")
    }


def _read(name: str) -> list[dict[str, str]]:
    table = resources.files("lrml.experiments").joinpath(f"data/{name}")
    return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
