"""Records of finished cells, found again by what they are about; means and spreads over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.experiments._cells import WITH_THETA, theta_of
from lrml.experiments._spec import Experiment, Protocol

_Arrays = Mapping[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Cell:
    """A method at one theta under one protocol: its records, one per seed.

    Attributes
    ----------
    records : list of dict
        Those that did not fail; not empty.
    load : callable
        Gives the arrays of a record's key.
    """

    records: list[Mapping[str, Any]]
    load: Callable[[str], _Arrays]

    def mean(self, metric: str) -> float:
        """Return the mean test value over the seeds."""
        return float(np.mean(self._values(metric)))

    def spread(self, metric: str) -> float:
        """Return the standard deviation of the test value over the seeds."""
        return float(np.std(self._values(metric)))

    def _values(self, metric: str) -> list[float]:
        return [record["result"]["metrics"][metric] for record in self.records]

    def per_example(self, metric: str) -> npt.NDArray[np.float64]:
        """Values per test example, averaged over the seeds; NaN where the metric has none."""
        rows = [self._arrays[record["key"]][metric].astype(np.float64) for record in self.records]
        mean: npt.NDArray[np.float64] = np.mean(rows, axis=0)
        return mean

    @cached_property
    def _arrays(self) -> dict[str, _Arrays]:
        return {record["key"]: self.load(record["key"]) for record in self.records}

    def chosen(self, name: str, criterion: str = "average_precision") -> list[Any]:
        """Return what a criterion chose, per seed: alpha, ridge, loss, threshold, model_rank and others."""
        return [record["result"]["chosen"][criterion].get(name) for record in self.records]

    def rank(self, criterion: str = "average_precision") -> float:
        """Mean rank of the chosen models."""
        return float(np.mean(self.chosen("model_rank", criterion)))

    def seconds(self, name: str) -> float:
        """Return the median of ``fit_seconds`` or ``search_seconds``."""
        return float(np.median([record["result"][name] for record in self.records]))


class Results:
    """All records of a run.

    Parameters
    ----------
    records : iterable of dict
        As `lrml.experiments.runner.run_jobs` returns them.
    load : callable
        Gives the arrays of a key.
    experiments, protocols : dict by name
        What was asked for.
    datasets : list of str
        What there is data for, in the order of presentation.
    """

    def __init__(
        self,
        records: Iterable[Mapping[str, Any]],
        load: Callable[[str], _Arrays],
        experiments: Mapping[str, Experiment],
        protocols: Mapping[str, Protocol],
        datasets: list[str],
    ) -> None:
        self.records = list(records)
        self.load, self.experiments, self.protocols, self.datasets = load, experiments, protocols, datasets

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        """Records of cells that failed."""
        return [record for record in self.records if record["status"] != "ok"]

    def cell(
        self, dataset: str, protocol: str, method: str, percent: int | None, kind: str = "model"
    ) -> Cell | None:
        """Return a cell, or None if all of its seeds failed or were not asked for."""
        theta = None
        if method in WITH_THETA:
            assert percent is not None
            theta = theta_of(dataset, percent, self.protocols[protocol])
        found = self._by_place.get((kind, dataset, protocol, method, theta), [])
        return Cell(found, self.load) if found else None

    def plain(self, kind: str, dataset: str) -> list[Mapping[str, Any]]:
        """Return the records of another kind, "statistics" or "convergence", that did not fail."""
        return [
            record
            for record in self.records
            if record["status"] == "ok"
            and (record["payload"]["kind"], record["payload"]["dataset"]) == (kind, dataset)
        ]

    @cached_property
    def _by_place(self) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
        found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for record in self.records:
            payload = record["payload"]
            if record["status"] == "ok" and payload["kind"] in ("model", "equal_rank"):
                place = tuple(payload[name] for name in ("kind", "dataset", "protocol", "method", "theta"))
                found.setdefault(place, []).append(record)
        return found
