"""A work function that fails in one cell, in a module that worker processes can import."""

from __future__ import annotations

from lrml.experiments import work


def fail_in_one_cell(payload):
    if (payload["method"], payload["theta"]) == ("LEML", 6):
        raise ArithmeticError("on purpose")
    return work(payload)
