"""Reproduction of the paper: specifications as data, results as records, files as bytes."""

from lrml.experiments._comparison import Comparison, Difference, compare, conclude
from lrml.experiments._convergence import Curve, Panel
from lrml.experiments._published import published_table1, published_table2
from lrml.experiments._reproduce import Reproduction, count_steps, render_figures, render_tables, reproduce
from lrml.experiments._spec import ConvergenceSpec, LogGrid, Protocol, Spec, load_spec
from lrml.experiments._table import Row

__all__ = [
    "Comparison",
    "ConvergenceSpec",
    "Curve",
    "Difference",
    "LogGrid",
    "Panel",
    "Protocol",
    "Reproduction",
    "Row",
    "Spec",
    "compare",
    "conclude",
    "count_steps",
    "load_spec",
    "published_table1",
    "published_table2",
    "render_figures",
    "render_tables",
    "reproduce",
]
