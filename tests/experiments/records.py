"""Artificial records of a run, as the runner would give them, for tests of the summary."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.experiments import (
    EXPERIMENTS,
    METHODS,
    PROTOCOLS,
    Experiment,
    load_experiment,
    load_protocol,
    make_plan,
    theta_of,
    work,
)
from lrml.experiments.summary import Records, summarise

METRICS = (
    "precision_at_1",
    "precision_at_3",
    "precision_at_5",
    "hamming_loss",
    "average_auc",
    "average_precision",
)
CRITERIA = ("average_precision", "average_auc", "hamming_loss")
N_EXAMPLES = 40


class Run:
    """Collects records, and the arrays that belong to them.

    Examples
    --------
    >>> run = Run()
    >>> run.add_model("yeast", "paper", "LRML", 20, level=0.6)
    >>> round(run.all(["yeast"]).of_method("yeast", "paper", "LRML", 20).mean("precision_at_1"), 4)
    0.6
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.arrays: dict[str, dict[str, npt.NDArray[Any]]] = {}

    def add(
        self, key: str, payload: Mapping[str, Any], result: Mapping[str, Any], status: str = "ok"
    ) -> dict[str, Any]:
        """Add a record of any kind."""
        record = {
            "key": key,
            "payload": dict(payload),
            "status": status,
            "error": None if status == "ok" else "ValueError: artificial",
            "result": dict(result) if status == "ok" else {},
            "arrays": None,
            "seconds": 1.0,
            "warnings": [],
            "versions": {"lrml": "0.1.0"},
            "machine": {"cores": 2},
        }
        self.records.append(record)
        return record

    def add_model(
        self,
        dataset: str,
        protocol: str,
        method: str,
        percent: int | None,
        level: float | Mapping[str, float] = 0.5,
        seeds: Iterable[int] = (0, 1, 2),
        kind: str = "model",
        status: str = "ok",
        seconds: float = 1.0,
        metrics: Iterable[str] = METRICS,
        **chosen: Any,
    ) -> None:
        """Add a cell, one record per seed, whose mean test values are exactly ``level``.

        Parameters
        ----------
        level : float or dict of metric to float
            The same for all seeds. Values per example vary around it, in a way that depends on the method.
        seconds : float
            Of one fit; the search takes ten times as long.
        chosen : keywords
            What the record says was chosen, by every criterion; a list has one entry per seed.
        """
        theta = None if percent is None else theta_of(dataset, percent, load_protocol(protocol))
        for place, seed in enumerate(seeds):
            at = "any" if theta is None else theta
            key = f"{kind}-{dataset}-{protocol}-{method}-{at}-s{seed}"
            payload = {"kind": kind, "dataset": dataset, "protocol": protocol, "method": method}
            payload |= {"theta": theta, "seed": seed}
            levels = {name: level[name] if isinstance(level, Mapping) else level for name in metrics}
            choice = {"model_rank": 5, "converged": True, "threshold": 0.5, "validation_score": 0.5}
            choice |= {
                name: value[place] if isinstance(value, list) else value for name, value in chosen.items()
            }
            result = {
                "metrics": levels,
                "chosen": {name: dict(choice) for name in CRITERIA},
                "fit_seconds": seconds,
                "search_seconds": 10 * seconds,
            }
            self.add(key, payload, result, status)
            self.arrays[key] = {name: _examples(f"{method}{name}", value) for name, value in levels.items()}

    def add_statistics(self, dataset: str, **result: float) -> None:
        """Add what the data are: instances, attributes, labels, cardinality, …"""
        self.add(
            f"statistics-{dataset}", {"kind": "statistics", "dataset": dataset}, {"name": dataset} | result
        )

    def add_completion(self) -> None:
        """Add the cell of Figure 1, as a worker computes it."""
        (job,) = make_plan("fig1").jobs
        outcome = work(job.payload)
        self.add(job.key, job.payload, outcome.result)
        assert outcome.arrays is not None
        self.arrays[job.key] = dict(outcome.arrays)

    def tables(self, datasets: list[str], without: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        """Return the tables of the summary, by id."""
        return {table["id"]: table for table in summarise(self.all(datasets, without))["tables"]}

    def figures(self, datasets: list[str], without: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        """Return the figures of the summary, by id."""
        return {figure["id"]: figure for figure in summarise(self.all(datasets, without))["figures"]}

    def all(self, datasets: list[str], without: Iterable[str] = ()) -> Records:
        """Make what the summary reads, of all experiments but some."""
        return Records(
            self.records,
            self.arrays.__getitem__,
            {name: _experiment(name) for name in EXPERIMENTS if name not in without},
            {name: load_protocol(name) for name in PROTOCOLS},
            datasets,
        )


def every_model(dataset: str, protocol: str, levels: Mapping[str, float]) -> Run:
    """Make a run of one protocol on one dataset, with the given level of every method."""
    run = Run()
    for method in (name for name in METHODS if name in levels):
        with_theta = method in ("LRML", "LEML", "CPLST")
        for percent in (20, 40, 60, 80) if with_theta else (None,):
            run.add_model(dataset, protocol, method, percent, levels[method])
    return run


def rows_where(table: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    """Find the rows of a table that have the given values."""
    return [row for row in table["rows"] if all(row[key] == value for key, value in wanted.items())]


def only_row(table: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    """Find the row that has the given values; there is one."""
    (row,) = rows_where(table, **wanted)
    return row


def _examples(name: str, level: float) -> npt.NDArray[np.float32]:
    """Make values whose mean is ``level`` and which differ from method to method."""
    noise = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(N_EXAMPLES)
    values: npt.NDArray[np.float32] = (level + 0.01 * (noise - noise.mean())).astype(np.float32)
    return values


def _experiment(name: str) -> Experiment:
    """Read an experiment; Figure 2 at more shares than it has, two of which are one theta on yeast."""
    experiment = load_experiment(name)
    return replace(experiment, percents=(5, 10, 20, 40, 60, 80)) if name == "fig2" else experiment
