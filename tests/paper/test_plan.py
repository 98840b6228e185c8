"""What a run will compute: on which data, under which protocols; and that the specifications are whole."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from lrml.datasets import mulan_entries
from lrml.paper import PROTOCOLS, TARGETS, is_at_hand, make_plan, published_table1
from lrml.paper._plan import EXPERIMENTS, Cell, spec, theta_of
from lrml.paper._published import published_table2
from lrml.paper._tables import METRICS


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without data: an empty data home, which is returned, and an empty cache."""
    for variable in ("LRML_DATA_HOME", "LRML_CACHE"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    return tmp_path / "LRML_DATA_HOME"


def put(home: Path, name: str) -> None:
    """Make files of the right size, which is what is looked at before a run."""
    (home / name).mkdir()
    for file in mulan_entries()[name]["files"]:
        with (home / name / file["name"]).open("wb") as stream:
            stream.truncate(file["size"])


def only(cells: list[Cell], **wanted: Any) -> Cell:
    (cell,) = (cell for cell in cells if all(cell.get(key) == value for key, value in wanted.items()))
    return cell


def test_by_default_all_data_that_is_at_hand(home: Path) -> None:
    plan = make_plan()
    assert (plan.datasets, plan.left_out) == (["yeast"], ["corel5k", "bibtex", "delicious"])
    put(home, "bibtex")
    assert [is_at_hand(name) for name in ("yeast", "bibtex", "delicious")] == [True, True, False]
    plan = make_plan("table2")
    assert (plan.datasets, plan.left_out) == (["yeast", "bibtex"], ["corel5k", "delicious"])
    (home / "bibtex" / mulan_entries()["bibtex"]["files"][0]["name"]).write_bytes(b"torn")
    assert not is_at_hand("bibtex")


def test_given_datasets_protocols_and_seeds() -> None:
    plan = make_plan("table2", ["delicious", "yeast"], ["kernel", "paper"], n_seeds=2)
    assert (plan.datasets, plan.left_out, list(plan.protocols)) == (
        ["yeast", "delicious"],
        [],
        ["paper", "kernel"],
    )
    assert len(plan.cells) == 2 * 2 * 3 * 4 * 2 - 3 * 2  # delicious has 3 thetas under the protocol paper
    assert {cell["seed"] for cell in plan.cells} == {0, 1}
    assert make_plan("fig3", ["bibtex"]).cells == []
    assert make_plan("fig1").datasets == []


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"target": "table3"}, "table3"), ({"datasets": ["iris"]}, "iris"), ({"protocols": ["Paper"]}, "Paper")],
)
def test_unknown_names_are_refused(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make_plan(**arguments)


def test_count_of_everything_on_yeast() -> None:
    # Table 2: 3 protocols × 3 methods × 4 thetas × 3 seeds = 108. Figure 2 adds, for 2 protocols and 3
    # seeds, LRML at 5 % and two methods without theta: 2 × 3 × 3 = 18. Figure 3: 4 thetas, 2 alphas.
    kinds = Counter(cell["kind"] for cell in make_plan(datasets=["yeast"]).cells)
    assert kinds == {"models": 126, "equal_rank": 12, "convergence": 8, "statistics": 1, "completion": 1}


def test_what_determines_a_model() -> None:
    cells = make_plan(datasets=["yeast"]).cells
    kernel = only(cells, protocol="kernel", method="LEML", theta=6, seed=2)
    assert kernel["features"] == {"normalise": True, "kernel": {"gamma": 0.3, "n_components": 300}}
    assert kernel["options"] == {"fit_intercept": True, "threshold": "auto", "held_out": 0.2}
    assert kernel["searches"] == [{"alphas": [0.3, 1.0, 3.0]}, {"alphas": [10.0, 30.0]}]
    large = make_plan("table2", ["delicious"], ["tuned"], n_seeds=1).cells
    (_, own) = only(large, kind="models", method="LRML", theta=393)["searches"]
    assert own["loss"] == "logistic"
    plain = only(cells, protocol="paper", method="MLFro", seed=1)
    assert (plain["theta"], plain["features"]) == (None, {"normalise": False, "kernel": None})
    assert only(cells, kind="equal_rank", theta=3, seed=0)["theta_shares"] == [0.5, 1.0]
    race = only(cells, kind="convergence", theta=11, alpha=100.0)
    assert (race["gammas"], race["steps"]) == ([1.01, 1.0], 1000)


@pytest.mark.parametrize(
    ("dataset", "protocol", "thetas"),
    [
        ("yeast", "paper", [1, 3, 6, 8, 11, 14]),  # of 14 labels
        ("delicious", "tuned", [49, 197, 393, 500, 500, 500]),  # of 983 labels, 500 features
        ("delicious", "kernel", [49, 197, 393, 590, 786, 983]),  # 2000 features
    ],
)
def test_theta_is_a_share_of_the_labels(dataset: str, protocol: str, thetas: list[int]) -> None:
    assert [theta_of(dataset, share, spec(protocol)) for share in (5, 20, 40, 60, 80, 100)] == thetas


# Specifications and published numbers


def test_every_file_belongs_to_a_target() -> None:
    files = {Path(file.name).stem for file in resources.files("lrml.paper").joinpath("specs").iterdir()}
    assert files == {*PROTOCOLS, *EXPERIMENTS}
    assert {name for names in TARGETS.values() for name in names} == set(EXPERIMENTS)


def test_published_numbers_are_whole() -> None:
    printed = published_table2()
    expected = {
        (dataset, percent, metric, method)
        for dataset in ("bibtex", "delicious")
        for percent in (20, 40, 60, 80)
        for metric in METRICS
        if metric != "label_ranking_average_precision"
        for method in ("LRML", "LEML", "CPLST")
    }
    assert set(printed) == expected
    assert all(0 < value < 1 for value, _ in printed.values())
    assert {word for key, (_, word) in printed.items() if key[3] == "LRML"} == {""}
    assert printed["bibtex", 20, "precision_at_1", "LRML"] == (0.6002, "")
    assert printed["bibtex", 20, "precision_at_1", "CPLST"] == (0.5555, "better")
    assert printed["delicious", 20, "precision_at_1", "LEML"] == (0.6716, "worse")
    assert (published_table1("bibtex")["instances"], published_table1("corel5k")["density"]) == (
        "7395",
        "0.009",
    )
    assert published_table1("iris") == {}
