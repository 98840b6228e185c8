"""What a run will compute: on which data, under which protocols, and what it says about the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forking import quick_workers
from lrml.datasets import mulan_entries
from lrml.experiments import is_at_hand, make_plan, reproduce
from lrml.experiments.runner import Progress, Store


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without data: an empty data home, which is returned, and an empty cache."""
    for variable in ("LRML_DATA_HOME", "LRML_CACHE"):
        folder = tmp_path / variable
        folder.mkdir()
        monkeypatch.setenv(variable, str(folder))
    quick_workers(monkeypatch)
    return tmp_path / "LRML_DATA_HOME"


def put(home: Path, name: str) -> None:
    """Make files of the right size, which is what is looked at before a run."""
    (home / name).mkdir()
    for file in mulan_entries()[name].files:
        with (home / name / file.name).open("wb") as stream:
            stream.truncate(file.size)


# Data


def test_without_data_there_is_yeast() -> None:
    plan = make_plan()
    assert plan.datasets == ["yeast"]
    assert {job.payload["dataset"] for job in plan.jobs} == {"yeast", "matrix"}
    assert len(plan.jobs) == 126 + 12 + 8 + 1 + 1  # by hand in test_cells


def test_what_is_left_out_is_said_with_the_command() -> None:
    (sentence,) = make_plan().left_out
    assert "not on this machine: corel5k, bibtex, delicious." in sentence
    assert "lrml datasets fetch corel5k bibtex delicious" in sentence
    assert "LRML_DATA_HOME" in sentence


def test_what_is_in_the_data_home_takes_part(home: Path) -> None:
    put(home, "bibtex")
    assert [is_at_hand(name) for name in ("yeast", "bibtex", "delicious")] == [True, True, False]
    plan = make_plan("table2")
    assert plan.datasets == ["yeast", "bibtex"]
    (sentence,) = plan.left_out
    assert "lrml datasets fetch corel5k delicious," in sentence


def test_what_is_in_the_cache_takes_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache" / "mulan").mkdir(parents=True)
    monkeypatch.setenv("LRML_CACHE", str(tmp_path / "cache"))
    put(tmp_path / "cache" / "mulan", "corel5k")
    assert make_plan("table1").datasets == ["yeast", "corel5k"]


def test_a_damaged_file_is_not_at_hand(home: Path) -> None:
    put(home, "bibtex")
    (home / "bibtex" / mulan_entries()["bibtex"].files[0].name).write_bytes(b"torn")
    assert not is_at_hand("bibtex")


def test_with_all_data_nothing_is_left_out(home: Path) -> None:
    for name in ("corel5k", "bibtex", "delicious"):
        put(home, name)
    plan = make_plan()
    assert plan.left_out == []
    assert plan.datasets == ["yeast", "corel5k", "bibtex", "delicious"]  # the small ones first


@pytest.mark.parametrize("names", [["bibtex"], ["delicious", "yeast"]])
def test_given_datasets_are_taken_and_nothing_else_is_spoken_of(names: list[str]) -> None:
    plan = make_plan("table2", names)
    assert sorted(plan.datasets) == sorted(names)
    assert {job.payload["dataset"] for job in plan.jobs} == set(names)
    assert plan.left_out == []


def test_a_dataset_that_a_target_is_not_about() -> None:
    assert make_plan("fig3", ["bibtex"]).jobs == []


# Targets, protocols, seeds


def test_every_target_has_its_experiments() -> None:
    assert list(make_plan("table1").experiments) == ["table1"]
    assert list(make_plan("table2").experiments) == ["table2", "equal_rank"]
    assert list(make_plan().experiments) == ["table1", "fig1", "table2", "equal_rank", "fig2", "fig3"]


def test_figure_3_misses_no_data() -> None:
    plan = make_plan("fig3")
    assert plan.datasets == ["yeast"]
    assert plan.left_out == []
    assert len(plan.jobs) == 8  # four thetas, two alphas


def test_figure_1_needs_no_data() -> None:
    plan = make_plan("fig1")
    assert (plan.datasets, plan.left_out) == ([], [])
    assert [job.key for job in plan.jobs] == ["completion-matrix"]


def test_given_protocols() -> None:
    plan = make_plan("table2", protocols=["kernel", "paper"])
    assert list(plan.protocols) == ["paper", "kernel"]
    assert {job.payload["protocol"] for job in plan.jobs} == {"paper", "kernel"}
    assert len(plan.jobs) == 2 * 3 * 4 * 3  # protocols, methods, thetas, seeds


@pytest.mark.parametrize("n_seeds", [1, 2, 3])
def test_given_number_of_seeds(n_seeds: int) -> None:
    plan = make_plan("table2", n_seeds=n_seeds)
    assert {job.payload["seed"] for job in plan.jobs} == set(range(n_seeds))
    assert len(plan.jobs) == (3 * 3 * 4 + 4) * n_seeds
    assert all(experiment.seeds == tuple(range(n_seeds)) for experiment in plan.experiments.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "table3"}, "target must be among all, table1, .*got 'table3'"),
        ({"datasets": ["yeast", "iris"]}, "datasets must be among yeast, .*got 'iris'"),
        ({"protocols": ["Paper"]}, "protocols must be among paper, tuned, kernel, got 'Paper'"),
    ],
)
def test_unknown_names_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan(**arguments)


# The whole run


def test_a_run_computes_the_plan_and_sums_it_up(tmp_path: Path) -> None:
    summary = reproduce(make_plan("table1"), Store(tmp_path / "run"), n_workers=1)
    assert summary["summary"] == ["Table 1: our statistics agree with every printed number of yeast."]
    assert [table["id"] for table in summary["tables"]] == ["table1"]
    assert summary["figures"] == []
    assert "lrml datasets fetch" in summary["left_out"][0]


def test_figure_1_is_a_cell_with_a_record(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    events: list[Progress] = []
    first = reproduce(make_plan("fig1"), store, n_workers=1, on_event=events.append)
    assert list(store.records()) == ["completion-matrix"]
    assert store.arrays("completion-matrix")["singular_values"].shape == (61, 61, 3)
    again = reproduce(make_plan("fig1"), store, n_workers=1, on_event=events.append)
    assert len(events) == 1  # the second run had nothing to compute
    assert again == first
    assert [figure["id"] for figure in first["figures"]] == ["figure1"]


def test_records_of_an_older_version_are_computed_again(tmp_path: Path) -> None:
    """Older code called metrics otherwise; its records have the same keys and other payloads."""
    store, plan = Store(tmp_path / "run"), make_plan("fig2", ["yeast"], ["tuned"], n_seeds=1)
    (job,) = (job for job in plan.jobs if job.payload["method"] == "MLFro")
    old = {"top1": "average_precision"}
    record = {"key": job.key, "payload": job.payload | {"criteria": old}, "status": "ok", "error": None}
    record |= {"result": {"metrics": {"top1": 0.5}}, "seconds": 1.0, "warnings": []}
    with store.writer() as writer:
        writer.append(record | {"versions": {}, "machine": {}})
    events: list[Progress] = []
    reproduce(replace(plan, jobs=[job]), store, n_workers=1, on_event=events.append)
    assert [event.record["status"] for event in events] == ["ok"]
    assert set(store.records()[job.key]["result"]["metrics"]) == set(job.payload["criteria"])
