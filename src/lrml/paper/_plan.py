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
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lrml._version import __version__
from lrml.datasets import dataset_status, mulan_entries

Cell: TypeAlias = dict[str, Any]
Spec: TypeAlias = Mapping[str, Any]

DATASETS = ("yeast", "corel5k", "bibtex", "delicious")
"""The paper's, the small ones first."""
EMBEDDED = "yeast"
PLANTED = "planted"
"""Simulated regressions, of the study alone."""
PROTOCOLS = ("paper", "tuned", "kernel", "exact-kernel", "predictions", "predictions-kernel")
DEFAULT_PROTOCOLS = PROTOCOLS[:3]
"""Those of a run that names none: it takes half an hour on two cores."""
EXPERIMENTS = ("table1", "fig1", "table2", "equal_rank", "fig2", "fig3", "study")
TARGETS = {
    "all": EXPERIMENTS[:-1],
    "table1": ("table1",),
    "table2": ("table2", "equal_rank"),
    "fig1": ("fig1",),
    "fig2": ("fig2",),
    "fig3": ("fig3",),
    "study": ("study",),
}
"""The targets, and the experiments that each needs."""
METHODS = {"LRML": "LRML", "LEML": "LEML", "CPLST": "CPLST", "MLTrace": "ML-trace", "MLFro": "ML-Fro"}
"""Methods in order, and their names in text."""
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
    _check_known("protocol", protocols or (), PROTOCOLS)
    experiments = {name: spec(name) for name in TARGETS[target]}
    experiments = {
        name: {**one, "seeds": one["seeds"][:n_seeds]} if "seeds" in one else one
        for name, one in experiments.items()
    }
    _check_known("dataset", [name for name in datasets or () if not Path(name).is_file()], known_datasets())
    chosen = {name: spec(name) for name in PROTOCOLS if name in (protocols or DEFAULT_PROTOCOLS)}
    of_target = list(dict.fromkeys(name for one in experiments.values() for name in datasets_of(one)))
    wanted = [name for name in of_target if datasets is None or name in datasets]
    if any(one["kind"] == "models" for one in experiments.values()):
        wanted += [name for name in datasets or () if name not in DATASETS]
    wanted = sorted(wanted, key=place_of)
    missing = [name for name in wanted if datasets is None and not is_at_hand(name)]
    wanted = [name for name in wanted if name not in missing]
    cells = [cell for one in experiments.values() for cell in _cells(one, chosen, wanted)]
    unique = {repr(cell): cell for cell in cells}.values()  # experiments share cells
    return Plan(experiments, chosen, wanted, missing, sorted(unique, key=_order))


def known_datasets() -> tuple[str, ...]:
    """Return the names of all datasets, the paper's first."""
    return tuple(dict.fromkeys((*DATASETS, *mulan_entries(), *mulan_entries(real=True), PLANTED)))


def _check_known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"There is no {what} {name!r}. Choose among {', '.join(known)}.")


def datasets_of(experiment: Spec) -> list[str]:
    """Return the datasets of an experiment; those of the study stand beside what is done with them."""
    parts = [experiment, *(experiment.get(part, {}) for part in ("labels", "targets", "planted"))]
    return [name for part in parts for name in part.get("datasets", ())]


def place_of(dataset: str) -> int:
    """Return the place of a dataset in the order of all; others than the paper's come first."""
    return DATASETS.index(dataset) if dataset in DATASETS else -1


def _order(cell: Cell) -> tuple[Any, ...]:
    """Let cells that share features be neighbours, so that a worker can use them again."""
    protocol = PROTOCOLS.index(cell["protocol"]) if "protocol" in cell else -1
    return place_of(cell["dataset"]), protocol, cell.get("seed", 0), cell.get("method", "")


def is_at_hand(name: str) -> bool:
    """Whether a dataset can be read without a download."""
    known = name in mulan_entries() or name in mulan_entries(real=True)
    return name == EMBEDDED or not known or dataset_status(name)[0] in ("data home", "cache")


@cache
def sizes(name: str) -> tuple[int, int, int]:
    """Return the numbers of labels, of features and of training rows; those of a file are read."""
    if name in mulan_entries():
        entry = mulan_entries()[name]
        return entry["n_labels"], entry["n_attributes"], entry["n_train"]
    from lrml.datasets import read_dataset  # noqa: PLC0415 - the command line's help needs no NumPy

    (X, Y) = read_dataset(name).train
    return Y.shape[1], X.shape[1], X.shape[0]


def theta_of(dataset: str, percent: int, protocol: Spec | None = None) -> int:
    """Return a share of the labels as a number of singular values, rounded and at most min(d, L).

    Examples
    --------
    >>> theta_of("yeast", 20)
    3
    """
    n_labels, n_features, n_train = sizes(dataset)
    kernel = protocol and _kernel(protocol, dataset)
    if kernel:
        n_features = kernel.get("n_components", n_train)
    return min(round(percent / 100 * n_labels), n_labels, n_features)


def _thetas(experiment: Spec, dataset: str, protocol: Spec | None = None) -> list[int]:
    """Return the thetas of an experiment; several shares of few labels may be one theta."""
    return list(dict.fromkeys(theta_of(dataset, percent, protocol) for percent in experiment["percents"]))


def _kernel(protocol: Spec, dataset: str) -> dict[str, Any] | None:
    """Return gamma and number of Nystroem features, never more than training rows; or how gamma is chosen."""
    if "kernel" not in protocol:
        return None
    kernel = protocol["kernel"]
    if "n_components" not in kernel:
        return dict(kernel)
    count = kernel["fewer"].get(dataset, kernel["n_components"])
    return {"gamma": kernel["gamma"], "n_components": min(count, sizes(dataset)[2])}


def _cells(experiment: Spec, protocols: Mapping[str, Spec], datasets: Sequence[str]) -> Iterator[Cell]:
    kind, version = experiment["kind"], {"version": __version__}
    settings = {key: value for key, value in experiment.items() if key not in ("title", "kind", "datasets")}
    if kind == "completion":
        matrix = [[None if math.isnan(value) else value for value in row] for row in experiment["matrix"]]
        yield {"kind": kind, "dataset": "matrix"} | version | settings | {"matrix": matrix}
        return
    if kind == "study":
        yield from (version | cell for cell in _study(experiment, datasets))
        return
    others = [name for name in datasets if name not in DATASETS and kind == "models"]
    for dataset in [name for name in datasets if name in experiment["datasets"]] + others:
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
                of_one = _families if "folds" in protocols[protocol] else _models
                yield from (place | rest for rest in of_one(experiment, protocols[protocol], dataset))


_CHOOSERS = {"roc_auc_samples": "roc_auc_samples", "hamming_loss": "squared_error"}


def _families(experiment: Spec, protocol: Spec, dataset: str) -> Iterator[Cell]:
    """Yield one cell for all methods and thetas: they share their decompositions."""
    thetas = [theta_of(dataset, percent, protocol) for percent in protocol["percents"]]
    ranking = "label_ranking_average_precision"
    for seed in experiment["seeds"]:
        yield {
            "kind": "family",
            "seed": seed,
            "thetas": [theta for theta in dict.fromkeys(thetas) if theta],
            "criteria": {name: _CHOOSERS.get(name, ranking) for name in _METRICS},
            "judged": protocol["folds"],
            "means_only": False,  # at each theta
            "kernel": _kernel(protocol, dataset),
        } | {key: protocol[key] for key in ("normalise", "folds", "spaces", "grid")}


def _study(experiment: Spec, datasets: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells of every condition: one axis at a time, but for rows and rank of planted truths."""
    planted = experiment["planted"]
    for dataset in datasets:
        real, seeds, part = dataset not in mulan_entries(), experiment["seeds"], "labels"
        if dataset == PLANTED:
            part, size = "planted", (planted["n_targets"], planted["n_features"], planted["n_rows"])
        elif real:
            entry = mulan_entries(real=True)[dataset]
            part, size = "targets", (entry["n_labels"], entry["n_attributes"], entry["n_instances"])
        else:
            size = sizes(dataset)
        large = size[2] > experiment["large"]
        axes = {axis: levels for axis, levels in experiment[part].items() if axis in AXES}
        for axis, level in ((axis, level) for axis, levels in axes.items() for level in levels):
            if axis == "rows" and level * size[2] < experiment["least_rows"]:
                continue
            n_labels = max(1, round(level * size[0])) if axis == "labels" else size[0]
            thetas = [round(percent / 100 * n_labels) for percent in experiment["percents"]]
            for seed in seeds[: experiment["large_seeds"]] if large else seeds:
                yield {
                    "kind": "study",
                    "part": part,
                    "dataset": dataset,
                    "axis": axis,
                    "level": level,
                    "seed": seed,
                    "thetas": [theta for theta in dict.fromkeys(thetas) if theta],
                    "criteria": _ERROR if real else _RANKING,
                    "judged": 1 if large else experiment["folds"],
                    "means_only": True,
                    "folds": experiment["folds"],
                    "kernel": None,
                    "grid": experiment["grid"],
                    "spaces": ["predictions", "coefficients"],
                    "targets": "real" if real else "binary",
                    "planted": planted if part == "planted" else None,
                    "logistic": [] if real else experiment["logistic"],
                }


AXES = ("rows", "hidden", "noise", "labels", "rank", "decay", "phase")
"""What the study varies."""
_RANKING = {"label_ranking_average_precision": "label_ranking_average_precision"}
_ERROR = {"squared_error": "squared_error"}
_METRICS = (*(f"precision_at_{k}" for k in (1, 3, 5)), *_RANKING, *_CHOOSERS)


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
