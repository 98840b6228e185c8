"""From experiments and protocols to cells: what has to be computed, each thing once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lrml import __version__
from lrml.datasets import mulan_entries
from lrml.experiments._spec import Experiment, Protocol
from lrml.experiments.runner import Job

# Methods that have a theta, or a rank; the others are the same for all.
WITH_THETA = ("LRML", "LEML", "CPLST")
# Rough seconds of a cell of a method beside each other, for the estimate of the time left.
_COSTS = {"LRML": 8.0, "LEML": 5.0, "CPLST": 3.0, "MLTrace": 6.0, "MLFro": 2.0}


def theta_of(dataset: str, percent: int, protocol: Protocol | None) -> int:
    """Count of singular values that a share of the labels is: rounded, and no more than there can be."""
    entry = mulan_entries()[dataset]
    kernel = protocol.kernel if protocol is not None else None
    n_features = kernel.count(dataset, entry.n_train) if kernel else entry.n_attributes
    return min(round(percent / 100 * entry.n_labels), entry.n_labels, n_features)


def cell_key(kind: str, dataset: str, protocol: str, method: str, theta: int | None, seed: int) -> str:
    """Name a cell."""
    return f"{kind}-{dataset}-{protocol}-{method}-{'any' if theta is None else theta}-s{seed}"


def jobs_of(
    experiments: Iterable[Experiment], protocols: Mapping[str, Protocol], datasets: Iterable[str]
) -> list[Job]:
    """List the cells of some experiments on some datasets, under some protocols; none twice."""
    wanted = list(datasets)
    found: dict[str, Job] = {}
    for experiment in experiments:
        for name in (name for name in experiment.datasets if name in wanted):
            for job in _jobs(experiment, protocols, name):
                found.setdefault(job.key, job)
    # Cells that share features side by side, so that a worker has them at hand.
    return sorted(found.values(), key=lambda job: _order(job, wanted, list(protocols)))


def _order(job: Job, datasets: list[str], protocols: list[str]) -> tuple[Any, ...]:
    payload = job.payload
    place = protocols.index(payload["protocol"]) if "protocol" in payload else -1
    return datasets.index(payload["dataset"]), place, payload.get("seed", 0), payload.get("method", "")


def _jobs(experiment: Experiment, protocols: Mapping[str, Protocol], dataset: str) -> Iterator[Job]:
    base = {"dataset": dataset, "version": __version__}
    if experiment.kind == "statistics":
        yield Job(f"statistics-{dataset}", base | {"kind": "statistics", "cost": 1.0})
    elif experiment.kind == "convergence":
        settings = {key: experiment.options[key] for key in ("gammas", "steps", "tol", "max_iter")}
        for theta in _thetas(experiment, dataset, None):
            for alpha in experiment.options["alphas"]:
                place = {"kind": "convergence", "theta": theta, "alpha": alpha, "cost": 2.0}
                payload = base | settings | place
                yield Job(f"convergence-{dataset}-{theta}-{alpha:g}", payload)
    elif experiment.kind in ("models", "equal_rank"):
        for name in experiment.protocols:
            if name in protocols:
                for payload in _model_payloads(experiment, protocols[name], dataset):
                    names = ("kind", "dataset", "protocol", "method", "theta", "seed")
                    yield Job(cell_key(*(payload[key] for key in names)), base | payload)


def _thetas(experiment: Experiment, dataset: str, protocol: Protocol | None) -> list[int]:
    return list(dict.fromkeys(theta_of(dataset, percent, protocol) for percent in experiment.percents))


def _features(protocol: Protocol, dataset: str, seed: int) -> dict[str, Any]:
    kernel = protocol.kernel
    n_train = mulan_entries()[dataset].n_train
    return {
        "normalise": protocol.normalise,
        "gamma": kernel.gamma if kernel else None,
        "n_components": kernel.count(dataset, n_train) if kernel else None,
        "seed": seed if kernel else None,
    }


def _model_payloads(experiment: Experiment, protocol: Protocol, dataset: str) -> Iterator[dict[str, Any]]:
    kind = "model" if experiment.kind == "models" else "equal_rank"
    for method in experiment.methods:
        thetas = _thetas(experiment, dataset, protocol) if method in WITH_THETA else [None]
        for theta in thetas:
            for seed in experiment.seeds:
                payload = {
                    "kind": kind,
                    "dataset": dataset,
                    "protocol": protocol.name,
                    "method": method,
                    "theta": theta,
                    "seed": seed,
                    "features": _features(protocol, dataset, seed),
                    "options": {
                        "fit_intercept": protocol.fit_intercept,
                        "threshold": protocol.threshold,
                        "held_out": experiment.held_out,
                        "seed": seed,
                    },
                    "searches": protocol.searches_for(method, dataset),
                    "criteria": dict(experiment.criteria),
                    "cost": _COSTS[method],
                }
                if kind == "equal_rank":
                    payload["theta_shares"] = list(experiment.options["theta_shares"])
                yield payload
