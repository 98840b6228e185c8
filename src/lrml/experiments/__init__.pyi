from . import runner, summary
from ._plan import Plan, is_at_hand, make_plan, theta_of
from ._published import published_table1, published_table2
from ._reproduce import report_files, reproduce
from ._specs import (
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
from ._work import is_whole, work

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
    "runner",
    "summary",
    "theta_of",
    "work",
]
