"""What the benchmarks share: data, clocks, memory, processes of their own, tuned rivals, tables, results."""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize

from lrml.datasets import fetch_mulan
from lrml.metrics import label_ranking_average_precision
from lrml.thresholds import best_threshold

HELD_OUT = 0.2


class Split(NamedTuple):
    """Features and labels of the training and the test rows."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


def mulan(name: str, scaling: str = "unit") -> Split:
    """Return a Mulan set in its original split (from LRML_DATA_HOME, the cache, or the network).

    Rows are "raw", have "unit" length, or are scaled as is "usual": emotions and yeast, whose features are
    measurements, are standardised, the others, which count words, have rows of unit length.
    """
    data = fetch_mulan(name)
    (X, Y), (X_test, Y_test) = data.train, data.test
    if scaling == "usual" and name in ("emotions", "yeast"):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    elif scaling != "raw":
        X, X_test = normalize(X), normalize(X_test)
    return Split(X, Y, X_test, Y_test)


def dense(A: Any) -> np.ndarray:
    """Return an array in double precision."""
    return np.ascontiguousarray(A.toarray() if sp.issparse(A) else A, dtype=np.float64)


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Time of all threads of this process, which other programs on the machine hardly change."""
    start = process_time()
    call()
    return process_time() - start


def in_turns(
    calls: Mapping[str, Callable[[], Any]], rounds: int = 3, enough: float = 60.0
) -> dict[str, float]:
    """Return the shortest CPU seconds of each call; they take turns, so that all share a busy while.

    Short calls get up to 30 rounds. A call that has taken more than ``enough`` in all is not made again.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(30):
        if turn >= rounds and sum(map(sum, found.values())) > 3.0:
            break
        for name, call in calls.items():
            if sum(found[name]) <= enough:
                found[name].append(cpu_seconds(call))
    return {name: min(spans) for name, spans in found.items()}


def peak_of(call: Callable[[], Any]) -> float | None:
    """Make the call; return how many GB it held beyond what was there before, None if this is not Linux."""
    status = Path("/proc/self/status")

    def gigabytes(field: str) -> float:
        lines = status.read_text(encoding="utf8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e9

    if not status.exists():
        call()
        return None
    ctypes.CDLL(None).malloc_trim(0)  # give freed memory back, and forget the peak so far
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = gigabytes("VmRSS")
    call()
    return gigabytes("VmHWM") - before


def in_a_process(work: Callable[[], Any], limit: float) -> Any:
    """Return what ``work()`` returns in a process of its own, or a str that says why there is nothing."""
    context = multiprocessing.get_context("fork")  # hands the data over without a copy
    receiver, sender = context.Pipe(duplex=False)

    def send() -> None:
        try:
            sender.send(work())
        except Exception as error:
            sender.send(f"{type(error).__name__}: {error}".splitlines()[0])

    process = context.Process(target=send)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else f"not done after {limit:.0f} s"
    except EOFError:
        return "its process was killed, for example because memory ran out"
    finally:
        process.kill()
        process.join()


def scores_of(model: Any, X: Any, Y_train: Any) -> np.ndarray:
    """Scores of rows; labels without a training example come last, as in lrml. Least squares gives them 0."""
    scores = np.array(model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X))
    scores[:, np.asarray(Y_train.sum(axis=0)).ravel() == 0] = scores.min() - 1.0
    return scores


class Tuned:
    """An estimator whose strength and cut are chosen on a held-out fifth, then fitted on all rows.

    ``make(strength)`` returns it. The strength is the best by average precision, the cut by micro F1.
    """

    def __init__(self, make: Callable[[float], Any], strengths: Iterable[float], cut: float = 0.0) -> None:
        self.make, self.strengths, self.cut = make, [float(value) for value in strengths], cut

    def fit(self, X: Any, Y: Any) -> Tuned:
        """Try every strength, then fit the best."""
        train, test = train_test_split(np.arange(X.shape[0]), test_size=HELD_OUT, random_state=0)
        scores = {
            strength: scores_of(self.make(strength).fit(X[train], Y[train]), X[test], Y[train])
            for strength in self.strengths
        }
        best = max(scores, key=lambda strength: label_ranking_average_precision(Y[test], scores[strength]))
        self.threshold_ = best_threshold(Y[test], scores[best], "f1_micro", natural=self.cut).cut
        self.best_params_ = {"strength": best}
        self.model = self.make(best).fit(X, Y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, n × L."""
        model = self.model
        return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over the rows that have a value, and its standard error s/√n."""
    values = np.asarray(values, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def shown(value: Any, form: str = ".3g") -> str:
    """Return a cell of a table: pairs are a value and its standard error, None is empty."""
    if isinstance(value, tuple):
        return f"{value[0]:+.4f} ± {value[1]:.4f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(one)}" for name, one in value.items())
    return "" if value is None else format(value, form) if isinstance(value, float) else str(value)


def line(cells: Iterable[Any]) -> str:
    """Return a row of a table in Markdown."""
    return "| " + " | ".join(cell if isinstance(cell, str) else shown(cell) for cell in cells) + " |"


def head(names: Iterable[str]) -> str:
    """Return the head of a table whose first column is words, the others numbers."""
    names = list(names)
    return line(names) + "\n| --- |" + " --: |" * (len(names) - 1)


def machine() -> dict[str, str | int]:
    """Return the facts about the machine that a reader needs to judge the numbers."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        **{package: version(package) for package in ("lrml", "numpy", "scipy", "scikit-learn")},
    }


def write_results(path: Path, results: Any, **more: Any) -> None:
    """Write what was found so far, with the machine, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), **more, "results": results}, indent=1, default=float)
    path.write_text(content + "\n", encoding="utf8")


def parser(documentation: str, out: str) -> argparse.ArgumentParser:
    """Return a parser that shows the documentation and knows where results go."""
    made = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=Path("results", out), help="results as JSON")
    return made
