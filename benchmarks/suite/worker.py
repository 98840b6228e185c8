"""Measure one system on one dataset, in a process of its own.

    python worker.py DATA.pickle SYSTEM QUICK RESULT.pickle

The result is ``{"record": …, "average_precision": one value per test row or None}``. The unit, scikit-learn's
Ridge(alpha=1), is measured in this process right before and right after the system, and ratios are to the
median of both: a machine that is busy for a while is busy for both.

Peak memory is ``ru_maxrss`` at the end of the fit less its value right before, when the data is loaded and
the packages are imported. The unit that ran before must not count: on Linux the kernel resets the mark
(``clear_refs``, see proc(5)) after freed memory was given back. Elsewhere there is no such reset and the
record has null.
"""

from __future__ import annotations

import ctypes
import json
import pickle
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from install import FAILURES
from registry import SYSTEMS
from systems import System, UnitRidge, rank_unseen_last

from lrml.metrics import evaluate

ENOUGH = 0.3  # seconds; what takes less is measured several times


def seconds_of(work: Callable[[], Any]) -> float:
    clock = perf_counter()
    work()
    return perf_counter() - clock


def repeated(work: Callable[[], Any], least: int = 3, most: int = 20) -> list[float]:
    """Seconds of several runs: ``least``, and more of them while they are short."""
    times: list[float] = []
    while len(times) < least or (len(times) < most and sum(times) < ENOUGH):
        times.append(seconds_of(work))
    return times


def peak_bytes() -> int:
    """Return the most memory this process ever held (since the last reset)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux kibibytes


def reset_peak() -> bool:
    """Give freed memory back and forget the peak so far; tell whether that was possible."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (AttributeError, OSError):  # not Linux, not glibc, or not allowed
        return False
    return True


def timed(system: System, unit: UnitRidge, X_test: Any) -> tuple[dict[str, Any], np.ndarray | None]:
    """Fit and predict with the clock on, the unit before and after."""
    dense_test = unit.convert(X_test)
    unit.fit()  # the first fit pays for lazy imports and threads
    before = repeated(unit.fit)
    unit_predict = median(repeated(lambda: unit.scores(dense_test)))
    own_test = system.convert(X_test)
    knows_peak = reset_peak()
    baseline = peak_bytes()
    first = seconds_of(system.fit)
    peak = peak_bytes() - baseline
    fit = first if first > ENOUGH else median(repeated(system.fit, 1))
    S = system.scores(own_test)
    predict = None if S is None else median(repeated(lambda: system.scores(own_test), 1))
    unit_fit = median(before + repeated(unit.fit))
    if system.name == unit.name:  # one by definition; a single run would be noise
        fit, predict = unit_fit, unit_predict
    return {
        "unit_seconds": unit_fit,
        "fit_seconds": fit,
        "fit_ratio": fit / unit_fit,
        "candidates": system.candidates,
        "nominal_candidates": system.nominal_candidates or system.candidates,
        "seconds_per_candidate": fit / system.candidates,
        "ratio_per_candidate": fit / system.candidates / unit_fit,
        "predict_seconds": predict,
        "predict_ratio": None if predict is None else predict / unit_predict,
        "peak_bytes": peak if knows_peak else None,
        "chosen": system.chosen,
        "settings": system.settings,
        "mean_decompositions": system.mean_decompositions,
    }, S


def why_left_out(package: str, error: Exception) -> str:
    """Return the reason: what pip said if the package did not install, else what happened."""
    failures = json.loads(FAILURES.read_text(encoding="utf-8")) if FAILURES.exists() else {}
    if isinstance(error, ImportError) and package in failures:
        return f"{package} did not install: {failures[package]}"
    return f"{type(error).__name__}: {error}".splitlines()[0]


def measure(data: dict[str, Any], name: str, quick: bool) -> dict[str, Any]:
    kind = SYSTEMS[name]
    record: dict[str, Any] = {"dataset": data["name"], "system": name, "kind": kind.kind}
    try:
        system, unit = kind(quick), UnitRidge(quick)
        system.prepare(data["X"], data["Y"])
        unit.prepare(data["X"], data["Y"])
        times, S = timed(system, unit, data["X_test"])
        record |= times
        if S is None:
            return {"record": record, "average_precision": None}
        if system.kind != "ours":  # ours do it themselves
            S = rank_unseen_last(S, data["Y"], system.threshold)
        found = evaluate(data["Y_test"], S, threshold=system.threshold)
    except Exception as error:
        return {
            "record": record | {"left_out": why_left_out(kind.package, error)},
            "average_precision": None,
        }
    return {
        "record": record | {"metrics": dict(found)},
        "average_precision": found.per_example["average_precision"].astype(np.float32),
    }


def main(data: str, name: str, quick: str, result: str) -> None:
    warnings.simplefilter("ignore")  # one-vs-rest says for each label that no training example has it
    content = pickle.loads(Path(data).read_bytes())
    Path(result).write_bytes(pickle.dumps(measure(content, name, quick == "True")))


if __name__ == "__main__":
    main(*sys.argv[1:])
