"""The best labels of every row in place of scores, and metrics that weigh labels by their propensities."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lrml import metrics
from lrml.estimators import MLFro, TopK
from lrml.metrics import (
    METRICS,
    label_propensities,
    precision_at_k,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
)
from test_metrics import labels_and_scores


@given(labels_and_scores(), st.integers(0, 100), st.booleans())
def test_the_best_labels_are_enough_for_precision(case, seed, sparse_labels):
    Y, S = case
    n, n_labels = Y.shape
    columns = np.argsort(-S, axis=1, kind="stable")
    top = TopK(columns, np.take_along_axis(S, columns, axis=1))
    given_labels = sp.csr_array(Y) if sparse_labels else Y
    propensities = np.random.default_rng(seed).uniform(0.1, 1.0, n_labels)
    for k in range(1, n_labels + 1):
        values = precision_at_k(given_labels, top, k, per_example=True)
        np.testing.assert_array_equal(values, precision_at_k(Y, S, k, per_example=True))
        if not Y.any():
            continue
        # By the definition: hits over propensities, and the best choice of k labels of every row.
        found = sum(Y[i, j] / propensities[j] for i in range(n) for j in columns[i, :k])
        most = sum(np.sort(Y[i] / propensities)[::-1][:k].sum() for i in range(n))
        # And with the discount of the rank, each row over the best gain without propensities.
        gain = 1 / np.log2(np.arange(2, k + 2))
        ideal = [gain[: int(y.sum())].sum() or 1.0 for y in Y]
        discounted = sum((Y[i] / propensities)[columns[i, :k]] @ gain / ideal[i] for i in range(n))
        best = sum(np.sort(Y[i] / propensities)[::-1][:k] @ gain / ideal[i] for i in range(n))
        for scores in (top, S):
            value = propensity_scored_precision_at_k(given_labels, scores, k, propensities)
            assert value == pytest.approx(found / most)
            value = propensity_scored_ndcg_at_k(given_labels, scores, k, propensities)
            assert value == pytest.approx(discounted / best)
        for name in (name for name in METRICS if name.endswith("_at_k")):
            metric = getattr(metrics, name)
            assert metric(given_labels, top, k) == pytest.approx(metric(Y, S, k)), name


@pytest.mark.parametrize("classes", [[2, 0, 1], [0, 1, 2], ["cat", "dog", "elk"]])
def test_best_labels_know_their_columns(classes):
    """Names may be numbers, but of other columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X[:, :3] + rng.normal(size=(60, 3)) > 0.3).astype(int)
    model = MLFro(1.0).fit_blocks([(X, Y)], classes=classes)
    expected = precision_at_k(Y, model.decision_function(X), 2)
    top = model.predict_top_k(X, 2)
    assert set(np.unique(top.labels).tolist()) <= set(classes)
    if isinstance(classes[0], str):  # names find the columns of a frame, even if the model's are not known
        assert precision_at_k(pd.DataFrame(Y, columns=classes), TopK(*top), 2) == expected
        with pytest.raises(ValueError, match=r"best labels.* below 3"):
            precision_at_k(Y, TopK(*top), 2)
    for given_labels in (Y, sp.csr_array(Y), pd.DataFrame(Y, columns=classes)):
        assert precision_at_k(given_labels, top, 2) == expected
    for copied in (pickle.loads(pickle.dumps(top)), top._replace(scores=top.scores + 1)):
        assert precision_at_k(Y, copied, 2) == expected
    if classes != [0, 1, 2]:
        turned = pd.DataFrame(Y, columns=classes).iloc[:, ::-1]
        assert precision_at_k(turned, top, 2) == expected  # a frame goes by its names
    with pytest.raises(ValueError, match="best labels"):
        precision_at_k(np.eye(60)[:, :4], top, 2)


@pytest.mark.parametrize(
    ("Y", "labels", "k", "where"),
    [
        (np.eye(2), [[0]], 1, r"\(2, 2\).*\(1, 1\)"),
        (np.eye(2), [[0], [1]], 2, "^k .*only 1"),
        (np.eye(2), [[0], [2]], 1, "best labels.*below 2"),
        (np.eye(2), [[0], [-1]], 1, "best labels.*below 2"),
        (2 * np.eye(2), [[0], [1]], 1, "^Y .*2.0 at row 0, column 0"),
    ],
)
def test_best_labels_that_do_not_fit_are_refused(Y, labels, k, where):
    with pytest.raises(ValueError, match=where):
        precision_at_k(Y, TopK(np.array(labels), np.zeros(np.shape(labels))), k)


def test_propensities_follow_the_formula():
    Y = np.repeat(np.eye(3, dtype=int), [1, 10, 100], axis=0)
    expected = [1 / (1 + (np.log(111) - 1) * 2.5**0.55 * (count + 1.5) ** -0.55) for count in (1, 10, 100)]
    np.testing.assert_allclose(label_propensities(Y), expected)
    np.testing.assert_allclose(label_propensities(sp.csr_array(Y)), expected)
    with pytest.raises(ValueError, match=r"2 rows.*at least 3"):
        label_propensities(np.eye(2))
    for wrong in ([0.5], [0.5, 0.0], [0.5, np.nan]):
        with pytest.raises(ValueError, match=r"^propensities"):
            propensity_scored_precision_at_k(np.eye(2), np.eye(2), 1, wrong)
    with pytest.raises(ValueError, match="relevant label"):
        propensity_scored_precision_at_k(np.zeros((2, 2)), np.eye(2), 1, [0.5, 0.5])
