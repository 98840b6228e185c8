"""Specifications: all files can be read, mistakes in them are named, and the published numbers are whole."""

from __future__ import annotations

import csv
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from lrml.datasets import mulan_entries
from lrml.experiments import (
    EXPERIMENTS,
    METHODS,
    PROTOCOLS,
    TARGETS,
    load_experiment,
    load_protocol,
    published_table1,
    published_table2,
)

METRICS = (
    "precision_at_1",
    "precision_at_3",
    "precision_at_5",
    "hamming_loss",
    "average_auc",
    "average_precision",
)

PROTOCOL = """
name = "own"
summary = "nothing is done"
normalise = false
fit_intercept = true
threshold = 0.5
"""


@pytest.fixture
def own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Let the package have one specification, ``own``, with the given text."""

    def write(text: str) -> None:
        (tmp_path / "specs").mkdir(exist_ok=True)
        (tmp_path / "specs" / "own.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(resources, "files", lambda package: tmp_path)

    return write


# The files of the package


def test_every_file_is_a_protocol_or_an_experiment() -> None:
    folder = resources.files("lrml.experiments").joinpath("specs")
    files = {Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".toml")}
    assert files == {*PROTOCOLS, *EXPERIMENTS}
    assert [load_protocol(name).name for name in PROTOCOLS] == list(PROTOCOLS)
    assert [load_experiment(name).name for name in EXPERIMENTS] == list(EXPERIMENTS)
    assert {name for names in TARGETS.values() for name in names} == set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_speak_of_what_there_is(name: str) -> None:
    experiment = load_experiment(name)
    assert set(experiment.datasets) <= set(mulan_entries())
    assert set(experiment.protocols) <= set(PROTOCOLS)
    assert set(experiment.methods) <= set(METHODS)
    assert all(0 < percent <= 100 for percent in experiment.percents)
    assert set(experiment.criteria) | set(experiment.criteria.values()) <= set(METRICS)
    if experiment.kind in ("models", "equal_rank"):
        assert experiment.protocols
        assert experiment.methods
        assert experiment.seeds == (0, 1, 2)
        assert 0 < experiment.held_out < 1
        for protocol in map(load_protocol, experiment.protocols):
            for dataset in experiment.datasets:
                assert all(protocol.searches_for(method, dataset) for method in experiment.methods)


def test_protocols_differ_as_they_say() -> None:
    paper, tuned, kernel = map(load_protocol, PROTOCOLS)
    assert (paper.normalise, paper.fit_intercept, paper.threshold, paper.kernel) == (False, False, 0.5, None)
    assert (tuned.normalise, tuned.fit_intercept, tuned.threshold, tuned.kernel) == (True, True, "auto", None)
    assert kernel.kernel is not None
    assert [kernel.kernel.count(name, 4500) for name in ("yeast", "corel5k", "bibtex")] == [300, 1000, 2000]
    assert kernel.kernel.count("bibtex", 1200) == 1200  # never more than rows


# Searches of a dataset


def test_searches_for_takes_what_is_for_all_and_for_the_dataset(own_file: Callable[[str], None]) -> None:
    own_file(
        PROTOCOL
        + '[[MLFro]]\nalphas = [1.0]\n[[MLFro]]\ndatasets = ["yeast"]\nalphas = [2.0]\n'
        + '[[MLFro]]\ndatasets = ["bibtex", "delicious"]\nalphas = [3.0]\n',
    )
    protocol = load_protocol("own")
    for _ in range(2):  # asking does not use anything up
        assert protocol.searches_for("MLFro", "yeast") == [{"alphas": [1.0]}, {"alphas": [2.0]}]
        assert protocol.searches_for("MLFro", "delicious") == [{"alphas": [1.0]}, {"alphas": [3.0]}]
        assert protocol.searches_for("MLFro", "corel5k") == [{"alphas": [1.0]}]


def test_only_delicious_has_a_logistic_loss() -> None:
    tuned = load_protocol("tuned")
    losses = {
        name: [search.get("loss") for search in tuned.searches_for("LRML", name)]
        for name in ("yeast", "bibtex", "delicious")
    }
    assert losses == {"yeast": [None, None], "bibtex": [None], "delicious": [None, "logistic"]}


# Mistakes


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (PROTOCOL + "normalize = true\n", "normalize"),
        (PROTOCOL.replace("normalise = false\n", ""), "normalise"),
        (PROTOCOL + "[kernel]\ngamma = 1.0\nn_components = 5\nwidth = 3\n", "width"),
        (PROTOCOL + "[kernel]\ngamma = 1.0\n", "n_components"),
    ],
)
def test_a_wrong_protocol_names_file_and_key(text: str, key: str, own_file: Callable[[str], None]) -> None:
    own_file(text)
    with pytest.raises(ValueError, match=rf"own\.toml must have the keys of .*'{key}'"):
        load_protocol("own")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "models"\n', "missing 1 required positional argument: 'title'"),
        ('title = "t"\n', "missing 1 required positional argument: 'kind'"),
        ('title = "t"\nkind = "models"\npercent = [20]\n', r"missing \[\], unknown \['percent'\]"),
        ('title = "t"\nkind = "equal_rank"\n', r"missing \['theta_shares'\], unknown \[\]"),
        ('title = "t"\nkind = "model"\n', "kind one of statistics, models, .*got 'model'"),
    ],
)
def test_a_wrong_experiment_names_file_and_key(
    text: str, message: str, own_file: Callable[[str], None]
) -> None:
    own_file(text)
    with pytest.raises(ValueError, match=rf"own\.toml must have .*{message}"):
        load_experiment("own")


# Published numbers


def _rows(name: str) -> list[dict[str, Any]]:
    file = resources.files("lrml.experiments").joinpath(f"data/{name}")
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_table_2_has_its_120_cells_once() -> None:
    rows = _rows("published_table2.csv")
    places = {(row["dataset"], row["metric"], row["theta_percent"], row["method"]) for row in rows}
    expected = {
        (dataset, metric, str(percent), method)
        for dataset in ("bibtex", "delicious")
        for metric in ("precision_at_1", "precision_at_3", "precision_at_5", "hamming_loss", "average_auc")
        for percent in (20, 40, 60, 80)
        for method in ("LRML", "LEML", "CPLST")
    }
    assert len(rows) == len(expected) == 120
    assert places == expected
    assert all(0 < float(row["value"]) < 1 for row in rows)
    marks = {(row["method"] == "LRML", row["lrml_is_significantly"]) for row in rows}
    assert marks <= {(True, ""), (False, "none"), (False, "better"), (False, "worse")}


def test_some_published_numbers() -> None:
    assert published_table2("bibtex", "LRML", 20)["precision_at_1"] == 0.6002
    assert published_table2("bibtex", "LEML", 20)["precision_at_1"] == 0.5833
    assert published_table2("bibtex", "CPLST", 20)["precision_at_1"] == 0.5555
    assert published_table2("delicious", "LRML", 20)["precision_at_1"] == 0.6713
    assert published_table1("bibtex")["instances"] == "7395"
    assert published_table1("delicious")["labels"] == "983"
    assert published_table1("yeast")["distinct_label_sets"] == "198"
    assert published_table1("corel5k")["density"] == "0.009"
    assert len(_rows("published_table1.csv")) == 4


def test_what_is_not_published_is_refused() -> None:
    with pytest.raises(ValueError, match="got 'iris'"):
        published_table1("iris")
    with pytest.raises(ValueError, match="got \\('yeast', 'LRML', 20\\)"):
        published_table2("yeast", "LRML", 20)
