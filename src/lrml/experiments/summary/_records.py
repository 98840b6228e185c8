"""Records of finished cells, looked up by their subject; means and spreads over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.experiments._plan import theta_of
from lrml.experiments._specs import WITH_THETA, Experiment, Protocol
from lrml.experiments.runner import Record

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class MethodRecords:
    """The records of a method at one theta under one protocol, one for each seed that did not fail."""

    records: list[Record]
    load: Callable[[str], Arrays]

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
        rows = [arrays[metric].astype(np.float64) for arrays in self._arrays]
        mean: npt.NDArray[np.float64] = np.mean(rows, axis=0)
        return mean

    @cached_property
    def _arrays(self) -> list[Arrays]:
        return [self.load(record["key"]) for record in self.records]

    def chosen(self, name: str) -> list[Any]:
        """Return what average precision chose, per seed: alpha, ridge, loss, threshold, model_rank."""
        return [record["result"]["chosen"]["average_precision"].get(name) for record in self.records]


class Records:
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
        records: Iterable[Record],
        load: Callable[[str], Arrays],
        experiments: Mapping[str, Experiment],
        protocols: Mapping[str, Protocol],
        datasets: list[str],
    ) -> None:
        self.records = list(records)
        self.load, self.experiments, self.protocols, self.datasets = load, experiments, protocols, datasets

    @property
    def failures(self) -> list[Record]:
        """Records of cells that failed."""
        return [record for record in self.records if record["status"] != "ok"]

    def of_method(
        self, dataset: str, protocol: str, method: str, percent: int | None, kind: str = "model"
    ) -> MethodRecords | None:
        """Return the records of a method, or None if all of its seeds failed or were not asked for."""
        theta = None
        if method in WITH_THETA:
            assert percent is not None
            theta = theta_of(dataset, percent, self.protocols[protocol])
        found = self._by_place.get((kind, dataset, protocol, method, theta), [])
        return MethodRecords(found, self.load) if found else None

    def of_kind(self, kind: str, dataset: str) -> list[Record]:
        """Return the records of another kind, such as "statistics", that did not fail."""
        return self._by_place.get((kind, dataset, None, None, None), [])

    @cached_property
    def _by_place(self) -> dict[tuple[Any, ...], list[Record]]:
        found: dict[tuple[Any, ...], list[Record]] = {}
        for record in self.records:
            if record["status"] == "ok":
                kind, payload = record["payload"]["kind"], record["payload"]
                names = ("dataset", "protocol", "method", "theta")
                place = [payload.get(name) for name in names]
                if kind not in ("model", "equal_rank"):
                    place[1:] = [None] * 3
                found.setdefault((kind, *place), []).append(record)
        return found
