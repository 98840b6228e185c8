"""The rows of the table, against a recomputation that shares nothing but the estimators."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import hamming_loss, label_ranking_average_precision_score, roc_auc_score

from lrml import LRML
from lrml.experiments import render_tables, reproduce


def unit_rows(X):
    return X / np.sqrt((X**2).sum(axis=1, keepdims=True))


def independent_metrics(Y, S):
    best = np.argsort(-S, axis=1)
    hits = np.take_along_axis(Y, best, axis=1)
    ranked, paired = Y.any(axis=1), Y.any(axis=1) & ~Y.all(axis=1)
    return {
        "top1": hits[:, :1].mean(),
        "top3": hits[:, :3].mean(),
        "top5": hits[:, :5].mean(),
        "average_precision": label_ranking_average_precision_score(Y[ranked], S[ranked]),
        "average_auc": roc_auc_score(Y[paired], S[paired], average="samples"),
        "hamming_loss": hamming_loss(Y, S >= 0.5),
    }


@pytest.fixture(scope="module")
def cells(small_result):
    text = render_tables(small_result)["yeast_table.csv"].decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_rows_come_in_the_order_of_the_spec(cells):
    found = [(row["protocol"], row["method"], row["theta_percent"], row["theta"]) for row in cells]
    expected = [("LRML", "20", "3"), ("LRML", "60", "8"), ("Ridge", "", "")]
    assert found == [(protocol, *row) for protocol in ("paper", "tuned") for row in expected]


@pytest.mark.parametrize("index", [0, 1, 3, 4])
def test_lrml_rows_equal_a_recomputation(yeast, cells, index):
    row = cells[index]
    tuned = row["protocol"] == "tuned"
    prepare = unit_rows if tuned else np.asarray
    (X, Y), (X_test, Y_test) = yeast.train, yeast.test
    model = LRML(int(row["theta"]), float(row["alpha"]), ridge=float(row["ridge"]), fit_intercept=tuned)
    model.fit(prepare(X), Y)
    scores = prepare(X_test) @ model.coef_.T + model.intercept_
    expected = independent_metrics(Y_test, scores)
    assert {name: float(row[name]) for name in expected} == pytest.approx(expected, abs=1e-9)
    assert (int(row["rank"]), int(row["iterations"])) == (model.rank_, model.n_iter_)
    assert row["status"] == "converged"


@pytest.mark.parametrize("index", [2, 5])
def test_reference_rows_equal_a_recomputation(yeast, cells, index):
    row = cells[index]
    tuned = row["protocol"] == "tuned"
    prepare = unit_rows if tuned else np.asarray
    (X, Y), (X_test, Y_test) = yeast.train, yeast.test
    model = Ridge(alpha=float(row["ridge"]), fit_intercept=tuned).fit(prepare(X), Y)
    expected = independent_metrics(Y_test, model.predict(prepare(X_test)))
    assert {name: float(row[name]) for name in expected} == pytest.approx(expected, abs=1e-9)
    assert (row["theta"], row["alpha"], row["iterations"]) == ("", "", "")


def test_the_same_seed_gives_the_same_bytes(yeast, small_spec, small_result):
    assert render_tables(reproduce(yeast, small_spec, seed=1)) == render_tables(small_result)
