"""Artificial results, whose numbers can be told by hand."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.paper._cells import Result
from lrml.paper._plan import Plan, make_plan, spec, theta_of
from lrml.paper._tables import METRICS, Models, tables

N_EXAMPLES = 40
CRITERIA = ("label_ranking_average_precision", "roc_auc_samples", "hamming_loss")


class Run:
    """Results that are added one by one, and what is made of them."""

    def __init__(self, datasets: list[str], target: str = "all") -> None:
        self.plan: Plan = make_plan(target, datasets)._replace(cells=[])
        self.results: list[Result] = []

    def add(
        self,
        protocol: str,
        method: str,
        percent: int | None,
        level: float | Mapping[str, float],
        *,
        dataset: str | None = None,
        kind: str = "models",
        seeds: tuple[int, ...] = (0, 1, 2),
        **chosen: Any,
    ) -> Run:
        """Add a model, one result per seed, with a test value for all metrics, or one for each."""
        dataset = dataset or self.plan.datasets[0]
        theta = None if percent is None else theta_of(dataset, percent, spec(protocol))
        levels = {name: level[name] if isinstance(level, Mapping) else level for name in METRICS}
        choice = {"model_rank": 5, "converged": True} | chosen
        for seed in seeds:
            cell = {"kind": kind, "dataset": dataset, "protocol": protocol, "method": method}
            values = {
                "metrics": levels,
                "chosen": dict.fromkeys(CRITERIA, choice),
                "fit_seconds": 1.0 + seed,
                "search_seconds": 10.0,
            }
            arrays = {name: examples(f"{method}{name}", value) for name, value in levels.items()}
            self.results.append(Result(cell | {"theta": theta, "seed": seed}, values, arrays))
        return self

    def every(self, protocol: str, levels: Mapping[str, float], **more: Any) -> Run:
        """Add methods at all shares of Table 2, each at one level."""
        for method, level in levels.items():
            for percent in (20, 40, 60, 80) if method in ("LRML", "LEML", "CPLST") else (None,):
                self.add(protocol, method, percent, level, **more)
        return self

    @property
    def models(self) -> Models:
        return Models(self.plan, self.results)

    def tables(self, **statistics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return {table["id"]: table for table in tables(self.models, statistics)}


def examples(name: str, level: float) -> npt.NDArray[np.float32]:
    """Make values whose mean is the level, and which differ from method to method."""
    noise = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(N_EXAMPLES)
    values: npt.NDArray[np.float32] = (level + 0.01 * (noise - noise.mean())).astype(np.float32)
    return values


def rows_where(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def only_row(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (row,) = rows_where(rows, **wanted)
    return row
