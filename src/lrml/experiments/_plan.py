"""What a run will compute: its cells, each once, the available data, and what is left out.

A cell is one job of the runner: one method at one theta with one seed, the statistics of a dataset, a
comparison of solvers, or the completion of Figure 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lrml._version import __version__
from lrml.datasets import dataset_status, mulan_entries
from lrml.experiments._specs import (
    DATASETS,
    EMBEDDED,
    PROTOCOLS,
    TARGETS,
    WITH_THETA,
    Experiment,
    Protocol,
    load_experiment,
    load_protocol,
)
from lrml.experiments.runner import Job

# Rough relative times of the methods' cells, for the estimate of the time left.
_COSTS = {"LRML": 8.0, "LEML": 5.0, "CPLST": 3.0, "MLTrace": 6.0, "MLFro": 2.0}


@dataclass(frozen=True)
class Plan:
    """A run that has not begun.

    Attributes
    ----------
    experiments, protocols : dict by name
    datasets : list of str
    left_out : list of str
        One sentence for each thing that was not requested and is not available.
    jobs : list of Job
        One for every cell.
    """

    experiments: dict[str, Experiment]
    protocols: dict[str, Protocol]
    datasets: list[str]
    left_out: list[str]
    jobs: list[Job]


def make_plan(
    target: str = "all",
    datasets: Sequence[str] | None = None,
    protocols: Sequence[str] | None = None,
    n_seeds: int | None = None,
) -> Plan:
    """Plan a run.

    Parameters
    ----------
    target : {"table1", "table2", "fig1", "fig2", "fig3", "all"}
    datasets : sequence of str, optional
        By default those of the experiments that are on this machine.
    protocols : sequence of str, optional
        By default all.
    n_seeds : int, optional
        Number of choices of the validation rows; by default that of the experiments.
    """
    _check_known("target", [target], tuple(TARGETS))
    _check_known("datasets", datasets or (), DATASETS)
    _check_known("protocols", protocols or (), PROTOCOLS)
    chosen = {name: load_protocol(name) for name in PROTOCOLS if protocols is None or name in protocols}
    experiments = {name: _with_seeds(load_experiment(name), n_seeds) for name in TARGETS[target]}
    of_target = {name for experiment in experiments.values() for name in experiment.datasets}
    wanted = [name for name in DATASETS if name in of_target]
    left_out = []
    if datasets is None:
        missing = [name for name in wanted if not is_at_hand(name)]
        left_out = [_left_out(missing)] if missing else []
        wanted = [name for name in wanted if name not in missing]
    else:
        wanted = [name for name in wanted if name in datasets]
    return Plan(experiments, chosen, wanted, left_out, jobs_of(experiments.values(), chosen, wanted))


def is_at_hand(name: str) -> bool:
    """Whether a dataset can be read without a download."""
    return name == EMBEDDED or dataset_status(name).state in ("data home", "cache")


def _check_known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{what} must be among {', '.join(known)}, got {name!r}. Choose among them.")


def _with_seeds(experiment: Experiment, n_seeds: int | None) -> Experiment:
    return experiment if n_seeds is None else replace(experiment, seeds=experiment.seeds[:n_seeds])


def _left_out(names: Sequence[str]) -> str:
    return (
        f"Left out, because the data is not on this machine: {', '.join(names)}. Get it with "
        f"lrml datasets fetch {' '.join(names)}, or point --data-home (or LRML_DATA_HOME) to a folder that "
        "has it, and run again; what is finished is not computed again."
    )


def theta_of(dataset: str, percent: int, protocol: Protocol | None = None) -> int:
    """Return a share of the labels as a number of singular values, rounded and at most min(d, L).

    Examples
    --------
    >>> theta_of("yeast", 20)
    3
    """
    entry = mulan_entries()[dataset]
    kernel = protocol.kernel if protocol is not None else None
    n_features = kernel.count(dataset, entry.n_train) if kernel else entry.n_attributes
    return min(round(percent / 100 * entry.n_labels), entry.n_labels, n_features)


def jobs_of(
    experiments: Iterable[Experiment], protocols: Mapping[str, Protocol], datasets: Iterable[str]
) -> list[Job]:
    """List the cells of some experiments on some datasets, under some protocols; none twice."""
    wanted = list(datasets)
    found: dict[str, Job] = {}
    for experiment in experiments:
        if experiment.kind == "completion":
            job = _completion(experiment)
            found[job.key] = job
        for name in (name for name in experiment.datasets if name in wanted):
            for job in _jobs(experiment, protocols, name):
                found.setdefault(job.key, job)
    # Cells that share features are neighbours, so that a worker can reuse them.
    return sorted(found.values(), key=lambda job: _order(job, wanted, list(protocols)))


def _order(job: Job, datasets: list[str], protocols: list[str]) -> tuple[Any, ...]:
    payload = job.payload
    data = datasets.index(payload["dataset"]) if payload["dataset"] in datasets else -1
    place = protocols.index(payload["protocol"]) if "protocol" in payload else -1
    return data, place, payload.get("seed", 0), payload.get("method", "")


def _completion(experiment: Experiment) -> Job:
    matrix = [[None if math.isnan(value) else value for value in row] for row in experiment.options["matrix"]]
    base = {"kind": "completion", "dataset": "matrix", "version": __version__, "cost": 1.0}
    return Job("completion-matrix", base | dict(experiment.options) | {"matrix": matrix})


def _jobs(experiment: Experiment, protocols: Mapping[str, Protocol], dataset: str) -> Iterator[Job]:
    base = {"dataset": dataset, "version": __version__}
    if experiment.kind == "statistics":
        yield Job(f"statistics-{dataset}", base | {"kind": "statistics", "cost": 1.0})
    elif experiment.kind == "convergence":
        settings = {key: experiment.options[key] for key in ("gammas", "steps", "tol", "max_iter")}
        for theta in _thetas(experiment, dataset, None):
            for alpha in experiment.options["alphas"]:
                place = {"kind": "convergence", "theta": theta, "alpha": alpha, "cost": 2.0}
                yield Job(f"convergence-{dataset}-{theta}-{alpha:g}", base | settings | place)
    else:
        for protocol in (protocols[name] for name in experiment.protocols if name in protocols):
            for payload in _model_payloads(experiment, protocol, dataset):
                yield Job(_model_key(payload), base | payload)


def _model_key(payload: Mapping[str, Any]) -> str:
    """For example ``model-yeast-paper-LRML-3-s0``."""
    theta = "any" if payload["theta"] is None else payload["theta"]
    names = "-".join(payload[name] for name in ("kind", "dataset", "protocol", "method"))
    return f"{names}-{theta}-s{payload['seed']}"


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
    for method in experiment.methods:
        thetas = _thetas(experiment, dataset, protocol) if method in WITH_THETA else [None]
        for theta in thetas:
            for seed in experiment.seeds:
                yield {
                    "kind": "model" if experiment.kind == "models" else "equal_rank",
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
                } | dict(experiment.options)
