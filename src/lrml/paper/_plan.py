"""What a run computes: what the files in ``specs/`` ask for, as cells.

An experiment says what is computed (datasets, methods, theta, seeds, metrics), a protocol says how (features,
intercept, grids); the code holds no numbers. A cell is one method at one theta with one seed, the statistics
of a dataset, a comparison of solvers, or the completion of Figure 1; it is a dictionary of all that
determines it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

from lrml._version import __version__
from lrml.datasets import dataset_status, mulan_entries

Cell: TypeAlias = dict[str, Any]
Spec: TypeAlias = Mapping[str, Any]

DATASETS = ("yeast", "corel5k", "bibtex", "delicious")
"""The paper's, the small ones first."""
EMBEDDED = "yeast"
PROTOCOLS = ("paper", "tuned", "kernel")
EXPERIMENTS = ("table1", "fig1", "table2", "equal_rank", "fig2", "fig3")
TARGETS = {
    "all": EXPERIMENTS,
    "table1": ("table1",),
    "table2": ("table2", "equal_rank"),
    "fig1": ("fig1",),
    "fig2": ("fig2",),
    "fig3": ("fig3",),
}
"""The targets, and the experiments that each needs."""
WITH_THETA = ("LRML", "LEML", "CPLST")
"""Methods that have a theta, or a rank; the others are the same for all."""


class Plan(NamedTuple):
    """A run that has not begun."""

    experiments: dict[str, Spec]
    protocols: dict[str, Spec]
    datasets: list[str]
    left_out: list[str]  # datasets that were not asked for by name, and are not on this machine
    cells: list[Cell]

    @property
    def n_seeds(self) -> int:
        """How often the validation rows are drawn; 1 if nothing is chosen on them."""
        return max((len(one["seeds"]) for one in self.experiments.values() if "seeds" in one), default=1)


@cache
def spec(name: str) -> Spec:
    """Read an experiment or a protocol."""
    file = resources.files("lrml.paper").joinpath(f"specs/{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


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
    _check_known("dataset", datasets or (), DATASETS)
    _check_known("protocol", protocols or (), PROTOCOLS)
    experiments = {name: spec(name) for name in TARGETS[target]}
    experiments = {
        name: {**one, "seeds": one["seeds"][:n_seeds]} if "seeds" in one else one
        for name, one in experiments.items()
    }
    chosen = {name: spec(name) for name in PROTOCOLS if protocols is None or name in protocols}
    of_target = {name for one in experiments.values() for name in one.get("datasets", ())}
    wanted = [name for name in DATASETS if name in of_target and (datasets is None or name in datasets)]
    missing = [name for name in wanted if datasets is None and not is_at_hand(name)]
    wanted = [name for name in wanted if name not in missing]
    cells = [cell for one in experiments.values() for cell in _cells(one, chosen, wanted)]
    unique = {repr(cell): cell for cell in cells}.values()  # experiments share cells
    return Plan(experiments, chosen, wanted, missing, sorted(unique, key=_order))


def _check_known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"There is no {what} {name!r}. Choose among {', '.join(known)}.")


def _order(cell: Cell) -> tuple[Any, ...]:
    """Let cells that share features be neighbours, so that a worker can use them again."""
    dataset = DATASETS.index(cell["dataset"]) if cell["dataset"] in DATASETS else -1
    protocol = PROTOCOLS.index(cell["protocol"]) if "protocol" in cell else -1
    return dataset, protocol, cell.get("seed", 0), cell.get("method", "")


def is_at_hand(name: str) -> bool:
    """Whether a dataset can be read without a download."""
    return name == EMBEDDED or dataset_status(name)[0] in ("data home", "cache")


def theta_of(dataset: str, percent: int, protocol: Spec | None = None) -> int:
    """Return a share of the labels as a number of singular values, rounded and at most min(d, L).

    Examples
    --------
    >>> theta_of("yeast", 20)
    3
    """
    entry = mulan_entries()[dataset]
    kernel = protocol and _kernel(protocol, dataset)
    n_labels: int = entry["n_labels"]
    n_features: int = kernel["n_components"] if kernel else entry["n_attributes"]
    return min(round(percent / 100 * n_labels), n_labels, n_features)


def _thetas(experiment: Spec, dataset: str, protocol: Spec | None = None) -> list[int]:
    """Return the thetas of an experiment; several shares of few labels may be one theta."""
    return list(dict.fromkeys(theta_of(dataset, percent, protocol) for percent in experiment["percents"]))


def _kernel(protocol: Spec, dataset: str) -> dict[str, Any] | None:
    """Return gamma and number of Nystroem features, of which there are never more than training rows."""
    if "kernel" not in protocol:
        return None
    kernel = protocol["kernel"]
    count = kernel["fewer"].get(dataset, kernel["n_components"])
    return {"gamma": kernel["gamma"], "n_components": min(count, mulan_entries()[dataset]["n_train"])}


def _cells(experiment: Spec, protocols: Mapping[str, Spec], datasets: Sequence[str]) -> Iterator[Cell]:
    kind, version = experiment["kind"], {"version": __version__}
    settings = {key: value for key, value in experiment.items() if key not in ("title", "kind", "datasets")}
    if kind == "completion":
        matrix = [[None if math.isnan(value) else value for value in row] for row in experiment["matrix"]]
        yield {"kind": kind, "dataset": "matrix"} | version | settings | {"matrix": matrix}
        return
    for dataset in (name for name in datasets if name in experiment["datasets"]):
        base = {"kind": kind, "dataset": dataset} | version
        if kind == "statistics":
            yield base
        elif kind == "convergence":
            rest = {key: settings[key] for key in ("gammas", "steps", "tol", "max_iter")}
            for theta in _thetas(experiment, dataset):
                for alpha in experiment["alphas"]:
                    yield base | {"theta": theta, "alpha": alpha} | rest
        else:
            for protocol in (name for name in experiment["protocols"] if name in protocols):
                place = base | {"protocol": protocol}
                yield from (place | rest for rest in _models(experiment, protocols[protocol], dataset))


def _models(experiment: Spec, protocol: Spec, dataset: str) -> Iterator[Cell]:
    """Yield what the cells of models have besides their place: how each is chosen and judged."""
    kernel = _kernel(protocol, dataset)
    for method in experiment["methods"]:
        searches = [dict(entry) for entry in protocol[method]]
        searches = [entry for entry in searches if dataset in entry.pop("datasets", (dataset,))]
        thetas = _thetas(experiment, dataset, protocol) if method in WITH_THETA else [None]
        for theta in thetas:
            for seed in experiment["seeds"]:
                yield {
                    "method": method,
                    "theta": theta,
                    "seed": seed,
                    "features": {"normalise": protocol["normalise"], "kernel": kernel},
                    "options": {
                        "fit_intercept": protocol["fit_intercept"],
                        "threshold": protocol["threshold"],
                        "held_out": experiment["held_out"],
                    },
                    "searches": searches,
                    "criteria": experiment["criteria"],
                    "theta_shares": experiment.get("theta_shares"),
                }
