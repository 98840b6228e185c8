"""Metrics of arrays of any namespace on any device: NumPy's values, and arrays where the scores are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lrml import _ranking
from lrml.estimators import TopK
from lrml.evaluation import assess
from lrml.metrics import (
    evaluate,
    f1_macro,
    f1_micro,
    hamming_loss,
    label_propensities,
    label_ranking_average_precision,
    precision_at_k,
    propensity_scored_precision_at_k,
    roc_auc_samples,
)
from lrml.thresholds import best_threshold
from namespaces import assert_same, places, put

PER_EXAMPLE = {
    "precision_at_k": lambda Y, S, **options: precision_at_k(Y, S, 3, **options),
    "label_ranking_average_precision": label_ranking_average_precision,
    "roc_auc_samples": roc_auc_samples,
    "hamming_loss": lambda Y, S, **options: hamming_loss(Y, S, 0.5, **options),
}
ELSEWHERE = places("strict-device1", "torch-cpu", "torch-cuda", "cupy-cuda")


@pytest.fixture(params=["float64", "float32"])
def case(request):
    """Labels and scores with ties, both zeros, and rows with no label and with all of them."""
    rng = np.random.default_rng(0)
    Y = (rng.random((40, 23)) < 0.2).astype(np.int64)
    Y[0], Y[1] = 0, 1
    S = np.round(0.5 + rng.standard_normal(Y.shape), 1)
    S[2], S[3] = 0.0, np.where(np.arange(23) % 2, 0.0, -0.0)
    S[20:] += 0.01 * rng.standard_normal((20, 23))
    return Y, S.astype(request.param)


def test_values_are_numpys_and_stay_with_the_scores(case, place):
    Y, S = case
    cut = np.linspace(0.3, 0.7, 23)
    there = put(place, Y), put(place, S)
    expected = evaluate(Y, S, ks=[1, 4], threshold=cut)
    found = evaluate(*there, ks=[1, 4], threshold=put(place, cut))
    assert found == pytest.approx(expected, rel=1e-12)
    assert all(type(mean) is float for mean in found.values())
    assert found.left_out == expected.left_out
    assert found.left_out["roc_auc_samples"] == 2
    for name, values in found.per_example.items():
        assert_same(values, expected.per_example[name], place, atol=1e-14)
    for name, metric in PER_EXAMPLE.items():
        own = metric(*there, per_example=True)
        assert_same(own, metric(Y, S, per_example=True), place, atol=1e-14)
        assert metric(*there) == pytest.approx(metric(Y, S), rel=1e-13), name
    assert (f1_macro(*there, 0.4), f1_micro(*there, 0.4)) == (f1_macro(Y, S, 0.4), f1_micro(Y, S, 0.4))


@pytest.mark.parametrize("place", ELSEWHERE, indirect=True)
def test_blocks_are_put_together(case, place, monkeypatch):
    Y, S = case
    whole = evaluate(put(place, Y), put(place, S), threshold=0.5)
    monkeypatch.setattr(_ranking, "_DEVICE_BLOCK_ENTRIES", 7 * Y.shape[1])
    blocks = evaluate(put(place, Y), put(place, S), threshold=0.5)
    assert blocks == whole
    for name, values in blocks.per_example.items():
        assert_same(values, evaluate(Y, S, threshold=0.5).per_example[name], place, atol=1e-14)


@pytest.mark.parametrize("place", ELSEWHERE, indirect=True)
@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, sp.csr_array, lambda Y: Y.astype(bool)])
def test_labels_follow_the_scores(case, place, form):
    Y, S = case
    found = label_ranking_average_precision(form(Y), put(place, S), per_example=True)
    assert_same(found, label_ranking_average_precision(Y, S, per_example=True), place, atol=1e-14)
    # And the other way round.
    home = label_ranking_average_precision(put(place, Y), S, per_example=True)
    np.testing.assert_array_equal(home, label_ranking_average_precision(Y, S, per_example=True))


def test_best_labels_and_propensities(case, place):
    Y, S = case
    p = label_propensities(Y)
    there = label_propensities(put(place, Y))
    assert_same(there, p, place, atol=1e-14)
    order = np.argsort(-S, axis=1, kind="stable")[:, :5]
    top = TopK(put(place, order), put(place, np.take_along_axis(S, order, axis=1)))
    for labels in (put(place, Y), Y, sp.csr_array(Y)):
        values = precision_at_k(labels, top, 4, per_example=True)
        assert_same(values, precision_at_k(Y, S, 4, per_example=True), place)
        expected = propensity_scored_precision_at_k(Y, S, 4, p)
        assert propensity_scored_precision_at_k(labels, top, 4, there) == pytest.approx(expected, rel=1e-13)
        found = propensity_scored_precision_at_k(labels, put(place, S), 4, there)
        assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("per_label", [False, True])
def test_thresholds_and_assessments_are_made_on_the_host(case, place, per_label):
    Y, S = case
    known = np.ones(Y.shape, dtype=bool)
    known[:, 0] = False
    expected = best_threshold(Y, S, "f1_macro", per_label=per_label, known=known)
    there = put(place, Y), put(place, S)
    cut, value = best_threshold(*there, "f1_macro", per_label=per_label, known=put(place, known))
    assert value == expected.value
    if per_label:
        assert_same(cut, expected.cut, place, dtype=S.dtype.name, rtol=0)
    else:
        assert cut == expected.cut
    on_host = assess(Y, S, threshold=expected.cut, n_bootstrap=20, random_state=0)
    assert assess(*there, threshold=cut, n_bootstrap=20, random_state=0).metrics == on_host.metrics
