"""The parts of the benchmarks that decide what a table says."""

from importlib import import_module
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ttest_rel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def found(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_programs_find_what_they_import(path):
    if path.stem == "gpu":
        pytest.importorskip("torch")
    assert callable(run_path(str(path), run_name=path.stem)["main"])


def test_the_standard_error_is_that_of_the_paired_t_test_without_rows_that_have_no_value():
    rng = np.random.default_rng(0)
    reference = rng.random(200)
    values = reference + rng.normal(0.01, 0.1, 200)
    with_gap = np.append(values, np.nan) - np.append(reference, np.nan)
    difference, error = import_module("_bench").mean_and_error(with_gap)
    assert difference / error == pytest.approx(ttest_rel(values, reference).statistic)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_unseen_labels_rank_below_every_score(storage):
    class Model:
        def predict(self, X):
            return np.array([[0.2, 0.0, -3.0], [0.4, 0.9, 0.1]])

    Y = storage(np.array([[1, 0, 0], [0, 0, 1]], dtype=np.uint8))
    ranked = import_module("_bench").scores_of(Model(), None, Y)
    assert (ranked[:, 1] < -3.0).all()
    np.testing.assert_array_equal(ranked[:, [0, 2]], Model().predict(None)[:, [0, 2]])


def test_the_reference_is_the_best_linear_peer_neither_a_tree_nor_ours():
    suite = import_module("suite")
    means = {"Ridge": 0.5, "RidgeCV, leave-one-out": 0.6, "omikuji Parabel": 0.8, "LRMLCV": 0.9}
    records = [{"system": name, "AP": f"{mean:.4f}"} for name, mean in means.items()]
    records.append({"system": "himalaya RidgeCV", "left out": "no wheel"})
    best = suite.compare(records, {name: np.array([mean, mean + 0.1]) for name, mean in means.items()})
    assert best == "RidgeCV, leave-one-out"
    assert "difference" not in records[1]
    assert records[3]["difference"][0] == pytest.approx(0.3)
    text = suite.markdown("d", records, best)
    assert "left out: no wheel" in text
    assert "**RidgeCV, leave-one-out**" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(records)
    assert len({line.count("|") for line in table}) == 1
