"""What a worker process does with one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrml.datasets import describe
from lrml.experiments._convergence import convergence
from lrml.experiments._features import load_dataset, prepare
from lrml.experiments._models import run_equal_rank, run_model
from lrml.experiments.runner import Outcome


def work(payload: Mapping[str, Any]) -> Outcome:
    """Compute one cell."""
    kind, name = payload["kind"], payload["dataset"]
    if kind == "statistics":
        return Outcome(describe(load_dataset(name)).as_dict(), None)
    if kind == "convergence":
        return Outcome(convergence(load_dataset(name), payload), None)
    arena = prepare(name, **payload["features"])
    result, values = (run_model if kind == "model" else run_equal_rank)(arena, payload)
    return Outcome(result, values)
