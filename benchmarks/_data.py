"""Data and machine description that the benchmarks share."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from lrml.datasets import fetch_mulan


def training_set(name: str, *, l2: bool) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the sparse training part of a Mulan set (from LRML_DATA_HOME, the cache, or the network)."""
    X, Y = fetch_mulan(name).train
    X, Y = sp.csr_array(X), sp.csr_array(Y, dtype=np.float64)
    return (normalize(X) if l2 else X), Y


def machine() -> dict[str, str | int]:
    """Return the facts about the machine that a reader needs to judge the numbers."""
    packages = ("lrml", "numpy", "scipy", "scikit-learn")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        **{package: version(package) for package in packages},
    }


def resident_gigabytes(field: str) -> float:
    """Read VmRSS (now) or VmHWM (peak since the last reset) of this process; Linux only."""
    for line in Path("/proc/self/status").read_text(encoding="utf8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e9
    raise RuntimeError(f"/proc/self/status does not list {field}. Run this on Linux.")
