"""A work function that fails in one cell, in a module that worker processes can import."""

from __future__ import annotations

from lrml.paper._work import work


def fail_in_one_cell(cell):
    if (cell["method"], cell["theta"]) == ("LEML", 6):
        raise ArithmeticError("on purpose")
    return work(cell)
