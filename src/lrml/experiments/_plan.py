"""What a run will compute: experiments, protocols, the data at hand, and what has to be left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lrml.datasets import dataset_status
from lrml.experiments._cells import jobs_of
from lrml.experiments._spec import (
    DATASETS,
    EMBEDDED,
    PROTOCOLS,
    TARGETS,
    Experiment,
    Protocol,
    load_experiment,
    load_protocol,
)
from lrml.experiments.runner import Job


@dataclass(frozen=True)
class Plan:
    """A run that has not begun.

    Attributes
    ----------
    experiments, protocols : dict by name
    datasets : list of str
    left_out : list of str
        One sentence for everything that was not asked for and is not at hand.
    jobs : list of Job
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
    """Find out what there is to do.

    Parameters
    ----------
    target : {"table1", "table2", "fig1", "fig2", "fig3", "all"}
    datasets : sequence of str, optional
        By default those of the experiments that are on this machine.
    protocols : sequence of str, optional
        By default all.
    n_seeds : int, optional
        How many choices of the validation rows, if not as many as the experiments say.
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
