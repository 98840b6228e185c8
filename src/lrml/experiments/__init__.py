"""Reproduction of the paper: specifications as data, cells as records, a summary as plain data."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.experiments._plan import Plan, is_at_hand, make_plan
    from lrml.experiments._published import published_table1, published_table2
    from lrml.experiments._reproduce import report_files, reproduce
    from lrml.experiments._spec import DATASETS, PROTOCOLS, TARGETS, load_experiment, load_protocol

__all__ = [
    "DATASETS",
    "PROTOCOLS",
    "TARGETS",
    "Plan",
    "is_at_hand",
    "load_experiment",
    "load_protocol",
    "make_plan",
    "published_table1",
    "published_table2",
    "report_files",
    "reproduce",
]

# Worker processes and the command line's help need little of it.
_HOMES = {
    **dict.fromkeys(("Plan", "is_at_hand", "make_plan"), "lrml.experiments._plan"),
    **dict.fromkeys(("published_table1", "published_table2"), "lrml.experiments._published"),
    **dict.fromkeys(("report_files", "reproduce"), "lrml.experiments._reproduce"),
    **dict.fromkeys(
        ("DATASETS", "PROTOCOLS", "TARGETS", "load_experiment", "load_protocol"), "lrml.experiments._spec"
    ),
}

if not TYPE_CHECKING:  # a type checker that saw this would believe in every name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, ("runner", "summary"))
