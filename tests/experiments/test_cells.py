"""Cells: how many there are, what they are called, and what is written about them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from lrml.experiments import (
    EXPERIMENTS,
    PROTOCOLS,
    Experiment,
    load_experiment,
    load_protocol,
    make_plan,
    theta_of,
)
from lrml.experiments._plan import jobs_of
from lrml.experiments.runner import Job

DATASETS = ("yeast", "corel5k", "bibtex", "delicious")
EVERY_PROTOCOL = {name: load_protocol(name) for name in PROTOCOLS}
SMALL = Experiment(
    name="small",
    title="small",
    kind="models",
    datasets=("yeast", "bibtex"),
    protocols=("paper", "kernel"),
    methods=("LRML", "CPLST", "MLFro"),
    percents=(20, 80),
    seeds=(0, 1, 2),
    criteria={"precision_at_1": "average_precision"},
)


def everything() -> list[Job]:
    return jobs_of(map(load_experiment, EXPERIMENTS), EVERY_PROTOCOL, DATASETS)


# theta


@pytest.mark.parametrize(("percent", "theta"), [(5, 1), (20, 3), (40, 6), (60, 8), (80, 11), (100, 14)])
def test_theta_of_yeast(percent: int, theta: int) -> None:
    assert theta_of("yeast", percent, EVERY_PROTOCOL["paper"]) == theta  # of 14 labels
    assert theta_of("yeast", percent) == theta


@pytest.mark.parametrize(("percent", "theta"), [(5, 49), (20, 197), (40, 393), (60, 500), (80, 500)])
def test_theta_of_delicious_is_at_most_the_number_of_features(percent: int, theta: int) -> None:
    assert theta_of("delicious", percent, EVERY_PROTOCOL["tuned"]) == theta  # of 983 labels, 500 features


@pytest.mark.parametrize(("percent", "theta"), [(60, 590), (80, 786), (100, 983)])
def test_a_kernel_makes_more_features(percent: int, theta: int) -> None:
    assert theta_of("delicious", percent, EVERY_PROTOCOL["kernel"]) == theta  # 2000 features


def test_a_kernel_may_make_fewer_features_than_labels() -> None:
    kernel = EVERY_PROTOCOL["kernel"].kernel
    assert kernel is not None
    few = replace(EVERY_PROTOCOL["kernel"], kernel=replace(kernel, n_components=100))
    assert theta_of("bibtex", 80, few) == 100  # 127 without it


# Counts


def test_count_of_a_small_experiment() -> None:
    jobs = jobs_of([SMALL], EVERY_PROTOCOL, ["yeast", "bibtex"])
    # Two datasets, two protocols; LRML and CPLST at two thetas, MLFro once; three seeds.
    assert len(jobs) == 2 * 2 * (2 + 2 + 1) * 3
    assert Counter(job.payload["method"] for job in jobs) == {"LRML": 24, "CPLST": 24, "MLFro": 12}
    assert {job.payload["theta"] for job in jobs if job.payload["method"] == "MLFro"} == {None}


def test_only_what_was_asked_for() -> None:
    assert len(jobs_of([SMALL], EVERY_PROTOCOL, ["bibtex"])) == 30
    assert len(jobs_of([SMALL], {"kernel": EVERY_PROTOCOL["kernel"]}, ["yeast"])) == 15
    assert jobs_of([SMALL], EVERY_PROTOCOL, ["delicious"]) == []
    assert jobs_of([SMALL], {"tuned": EVERY_PROTOCOL["tuned"]}, ["yeast"]) == []


def test_equal_thetas_are_one_cell() -> None:
    delicious = replace(
        SMALL, datasets=("delicious",), protocols=("tuned",), methods=("LRML",), percents=(60, 80)
    )
    jobs = jobs_of([delicious], EVERY_PROTOCOL, DATASETS)
    assert [job.payload["theta"] for job in jobs] == [500, 500, 500]  # one per seed


def test_count_of_everything_on_yeast() -> None:
    jobs = jobs_of(map(load_experiment, EXPERIMENTS), EVERY_PROTOCOL, ["yeast"])
    kinds = Counter(job.payload["kind"] for job in jobs)
    # Table 2: 3 protocols × 3 methods × 4 thetas × 3 seeds = 108. Figure 2 adds, for 2 protocols and 3
    # seeds, LRML at 5 % and two methods without theta: 2 × 3 × 3 = 18. Figure 3: 4 thetas, 2 alphas.
    assert kinds == {"model": 126, "equal_rank": 12, "convergence": 8, "statistics": 1, "completion": 1}


def test_no_key_twice() -> None:
    keys = [job.key for job in everything()]
    assert len(set(keys)) == len(keys)


# What is written


def test_keys_say_what_a_cell_is() -> None:
    keys = {job.key for job in make_plan(datasets=["yeast"]).jobs}
    expected = {"model-yeast-paper-LRML-3-s0", "model-yeast-paper-MLFro-any-s2", "completion-matrix"}
    expected |= {"statistics-yeast", "convergence-yeast-3-10", "equal_rank-yeast-tuned-LRML-11-s2"}
    assert expected < keys


def test_a_cell_of_table_2_and_of_figure_2_is_the_same() -> None:
    table, figure = (
        {job.key: job.payload for job in jobs_of([load_experiment(name)], EVERY_PROTOCOL, DATASETS)}
        for name in ("table2", "fig2")
    )
    shared = table.keys() & figure.keys()
    # 2 protocols, 4 thetas, 3 seeds, on 4 datasets; delicious has only 3 different thetas.
    assert len(shared) == 2 * 3 * (4 + 4 + 4 + 3)
    assert all(table[key] == figure[key] for key in shared)
    both = jobs_of([load_experiment("table2"), load_experiment("fig2")], EVERY_PROTOCOL, DATASETS)
    assert len(both) == len(table) + len(figure) - len(shared)


def test_payloads_survive_json() -> None:
    for job in everything():
        assert json.loads(json.dumps(job.payload, allow_nan=False)) == job.payload


def test_payload_of_a_model() -> None:
    jobs = {job.key: job.payload for job in everything()}
    payload = jobs["model-yeast-kernel-LEML-6-s2"]
    assert payload["features"] == {"normalise": True, "gamma": 0.3, "n_components": 300, "seed": 2}
    options = {"fit_intercept": True, "threshold": "auto", "held_out": 0.2, "seed": 2}
    assert payload["options"] == options
    assert payload["searches"] == [{"alphas": [0.3, 1.0, 3.0]}, {"alphas": [10.0, 30.0]}]
    plain = jobs["model-yeast-paper-MLFro-any-s1"]
    assert plain["features"] == {"normalise": False, "gamma": None, "n_components": None, "seed": None}
    assert plain["options"]["threshold"] == 0.5
    assert jobs["equal_rank-yeast-tuned-LRML-3-s0"]["theta_shares"] == [0.5, 1.0]
    race = jobs["convergence-yeast-11-100"]
    assert (race["theta"], race["alpha"], race["gammas"], race["steps"]) == (11, 100.0, [1.01, 1.0], 1000)


def test_payloads_of_two_cells_share_nothing() -> None:
    """A cell that changes what it was given changes no other cell."""
    first, second = jobs_of([replace(SMALL, seeds=(0, 1), methods=("MLFro",))], EVERY_PROTOCOL, ["yeast"])[:2]
    first.payload["searches"][0]["alphas"].append(-1.0)
    assert -1.0 not in second.payload["searches"][0]["alphas"]


def test_cells_with_the_same_features_are_side_by_side() -> None:
    changes, places = 0, set()
    last = None
    for job in everything():
        if "features" not in job.payload:
            continue
        place = (job.payload["dataset"], json.dumps(job.payload["features"]))
        changes += place != last
        places.add(place)
        last = place
    # Per dataset: raw rows, unit rows, and kernel features of three seeds.
    assert len(places) == 4 * 5
    assert changes == len(places)


def test_datasets_come_in_the_given_order() -> None:
    for order in (DATASETS, DATASETS[::-1]):
        jobs = jobs_of(map(load_experiment, EXPERIMENTS), EVERY_PROTOCOL, order)
        assert list(dict.fromkeys(job.payload["dataset"] for job in jobs)) == ["matrix", *order]
