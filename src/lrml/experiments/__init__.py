"""Reproduction of the paper: specifications as data, cells as records, a summary as plain data."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.experiments._plan import Plan, is_at_hand, make_plan, theta_of
    from lrml.experiments._published import published_table1, published_table2
    from lrml.experiments._reproduce import report_files, reproduce
    from lrml.experiments._specs import (
        DATASETS,
        EXPERIMENTS,
        METHODS,
        PROTOCOLS,
        TARGETS,
        Experiment,
        Protocol,
        load_experiment,
        load_protocol,
    )
    from lrml.experiments._work import is_whole, work

# Worker processes and the command line's help need only a part.
_HOMES = {
    "lrml.experiments._plan": ("Plan", "is_at_hand", "make_plan", "theta_of"),
    "lrml.experiments._published": ("published_table1", "published_table2"),
    "lrml.experiments._reproduce": ("report_files", "reproduce"),
    "lrml.experiments._specs": (
        *("DATASETS", "EXPERIMENTS", "METHODS", "PROTOCOLS", "TARGETS"),
        *("Experiment", "Protocol", "load_experiment", "load_protocol"),
    ),
    "lrml.experiments._work": ("is_whole", "work"),
}

__all__ = [
    "DATASETS",
    "EXPERIMENTS",
    "METHODS",
    "PROTOCOLS",
    "TARGETS",
    "Experiment",
    "Plan",
    "Protocol",
    "is_at_hand",
    "is_whole",
    "load_experiment",
    "load_protocol",
    "make_plan",
    "published_table1",
    "published_table2",
    "report_files",
    "reproduce",
    "theta_of",
    "work",
]

if not TYPE_CHECKING:  # with this, a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__, {name: home for home, names in _HOMES.items() for name in names}, ("runner", "summary")
    )
