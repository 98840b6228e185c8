"""Work functions for the tests of cells; as a script, a run that can be killed.

Workers import this file as a module of its own, so it is not a test module. Cells that begin are logged to
the file that the environment variable CELL_LOG names.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from lrml.paper._cells import run_cells


def cells_that(*deeds: str, **more: Any) -> list[dict[str, Any]]:
    return [{"kind": deed, "seed": number} | more for number, deed in enumerate(deeds)]


def behave(cell: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do what the cell says; by default draw random numbers."""
    if path := os.environ.get("CELL_LOG"):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{cell['kind']} {cell['seed']} {os.getpid()}\n".encode())
        os.close(descriptor)
    match cell["kind"]:
        case "fail":
            raise KeyError("no such thing")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die once" if not Path(cell["flag"]).exists():
            Path(cell["flag"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            time.sleep(600)
        case "odd numbers":
            warnings.warn("not of interest", stacklevel=1)
            return {
                "nan": np.nan,
                "nested": [np.inf, {"x": -np.inf}],
                "scalars": (np.float32(0.5), np.int64(3)),
            }, {}
        case "threads":
            np.linalg.svd(np.eye(3))
            return {"threads": [library["num_threads"] for library in threadpool_info()]}, {}
    numbers = np.random.default_rng(cell["seed"]).normal(size=(50, 4))
    return {"sum": numbers.sum()}, {"numbers": numbers.astype(np.float32)}


if __name__ == "__main__":  # cell_work.py FOLDER
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    run_cells(cells_that("draw", "sleep", "sleep"), behave, sys.argv[1], n_workers=2)
