"""Whether a record from disk has all that the summary reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrml.experiments.summary._table1 import STATISTICS

_NUMBER = int | float
_MAYBE = int | float | None  # what is not finite is null in JSON
_CURVE = {"method": str, "objective": [_NUMBER], "residual": _MAYBE, "stop": int | None}
_CHOICE = {"model_rank": int, "converged": bool}


def is_whole(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has what `lrml.experiments._work.work` gives for its payload.

    A file can be damaged, or changed by hand, such that its lines still are records. A cell without a whole
    record is computed again.
    """
    payload = record["payload"]
    shape: dict[str, Any]
    if payload["kind"] == "statistics":
        shape = {name: _NUMBER for name, *_ in STATISTICS}
    elif payload["kind"] == "convergence":
        shape = {"curves": [_CURVE]}
    else:
        criteria = payload["criteria"]
        shape = {
            "metrics": dict.fromkeys(criteria, _MAYBE),
            "chosen": dict.fromkeys(criteria.values(), _CHOICE),
            "fit_seconds": _NUMBER,
            "search_seconds": _NUMBER,
        }
        if record["arrays"] is None:
            return False
    return _has_shape(record["result"], shape)


def _has_shape(value: Any, shape: Any) -> bool:
    """Tell whether a value has at least the given keys and types; a list has one item or more."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            name in value and _has_shape(value[name], part) for name, part in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and bool(value) and all(_has_shape(item, shape[0]) for item in value)
    return isinstance(value, shape)
