"""Numbers that the paper prints."""

from __future__ import annotations

import csv
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
        `lrml.datasets.Description`.

    Examples
    --------
    >>> published_table1("yeast")["cardinality"]
    '4.237'
    """
    table = resources.files("lrml.experiments").joinpath("data/published_table1.csv")
    lines = table.read_text(encoding="utf-8").splitlines()
    rows = {row["dataset"]: row for row in csv.DictReader(lines)}
    if name not in rows:
        raise ValueError(f"Table 1 has rows for {', '.join(rows)}, got {name!r}. Choose one of them.")
    return rows[name]
