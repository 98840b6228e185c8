from ._plan import DATASETS, PROTOCOLS, TARGETS, Plan, is_at_hand, known_datasets, make_plan
from ._published import published_table1
from ._run import reproduce

__all__ = [
    "DATASETS",
    "PROTOCOLS",
    "TARGETS",
    "Plan",
    "is_at_hand",
    "known_datasets",
    "make_plan",
    "published_table1",
    "reproduce",
]
