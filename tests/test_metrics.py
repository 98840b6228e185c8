"""The metrics against scikit-learn, against plain loops and against a table worked out by hand."""

from __future__ import annotations

import pickle
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn.metrics as skm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lrml import _ranking, metrics
from lrml.estimators import MLFro, TopK
from lrml.metrics import (
    METRICS,
    evaluate,
    f1_macro,
    f1_micro,
    hamming_loss,
    label_ranking_average_precision,
    precision_at_k,
    propensity_scored_precision_at_k,
    roc_auc_samples,
)
from model_checks import SPARSE_FORMATS

F1 = {"micro": f1_micro, "macro": f1_macro}

# One row per convention: a plain ranking, ties, no label, every label.
Y_HAND = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
S_HAND = np.array([[0.9, 0.6, 0.5, 0.1], [0.5, 0.5, 0.2, 0.5], [0.3, 0.7, 0.2, 0.1], [0.1, 0.9, 0.2, 0.3]])


@st.composite
def labels_and_scores(draw, max_rows=6, max_labels=8):
    """Labels with some empty and some full rows; integer scores from so few values that most of them tie."""
    shape = draw(st.tuples(st.integers(1, max_rows), st.integers(1, max_labels)))
    Y = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 1)))
    dtype = draw(st.sampled_from([np.float64, np.float32]))  # their ranks are found in different ways
    return Y, draw(hnp.arrays(np.int64, shape, elements=st.integers(-3, 3))).astype(dtype)


def make(n_rows, n_labels, *, density=0.2, ties=False, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, n_labels)) < density).astype(np.int64)
    S = 0.5 + rng.standard_normal((n_rows, n_labels))
    return Y, np.round(S, 1) if ties else S


def loop_precision_at(Y, S, k):
    """Python's sort is stable, so (−score) alone puts the lower index first."""
    best = [sorted(range(len(s)), key=lambda j, s=s: -s[j])[:k] for s in S.tolist()]
    return [sum(int(y[j]) for j in chosen) / k for y, chosen in zip(Y, best, strict=True)]


def loop_auc(y, s):
    pairs = [(a > b) + 0.5 * (a == b) for a in s[y == 1] for b in s[y == 0]]
    return sum(pairs) / len(pairs) if pairs else np.nan


# ---- values ----


def test_by_hand():
    expected = {
        "precision_at_2": [0.5, 0.5, 0, 1],
        # Row 0: ranks 1 and 3, (1/1 + 2/3) / 2. Row 1: label 1 ties for rank 3, label 2 is last.
        "label_ranking_average_precision": [5 / 6, (1 / 3 + 2 / 4) / 2, np.nan, 1],
        "roc_auc_samples": [3 / 4, (0.5 + 0.5) / 4, np.nan, np.nan],
        "hamming_loss": [0.25, 0.75, 0.25, 0.75],  # a score of exactly 0.5 is a prediction
    }
    found = evaluate(Y_HAND, S_HAND, ks=[2])
    for name, values in expected.items():
        np.testing.assert_allclose(found.per_example[name], values)
        assert found[name] == pytest.approx(np.nanmean(values))
    # Of 8 relevant and 8 predicted cells, 4 are both. No prediction of the last label is a hit.
    assert found["f1_micro"] == 2 * 4 / (8 + 8)
    assert found["f1_macro"] == pytest.approx((2 / 4 + 4 / 6 + 2 / 4 + 0) / 4)


@settings(deadline=None, max_examples=40)
@given(labels_and_scores(), st.data())
def test_values_are_those_of_scikit_learn_and_of_loops(case, data):
    Y, S = case
    rows = list(zip(Y, S, strict=True))
    k = data.draw(st.integers(1, Y.shape[1]))
    np.testing.assert_array_equal(precision_at_k(Y, S, k, per_example=True), loop_precision_at(Y, S, k))
    expected = [skm.label_ranking_average_precision_score([y], [s]) if y.any() else np.nan for y, s in rows]
    np.testing.assert_allclose(label_ranking_average_precision(Y, S, per_example=True), expected, atol=1e-12)
    auc = [loop_auc(y, s) for y, s in rows]
    np.testing.assert_allclose(roc_auc_samples(Y, S, per_example=True), auc, atol=1e-12)
    own = data.draw(hnp.arrays(np.float64, Y.shape[1], elements=st.integers(-3, 3).map(float)))
    for threshold in (data.draw(st.integers(-3, 3)), own.tolist()):
        predicted = np.greater_equal(S, threshold).astype(int)
        wrong = [skm.zero_one_loss(y, p) for y, p in zip(Y, predicted, strict=True)]
        np.testing.assert_allclose(hamming_loss(Y, S, threshold, per_example=True), wrong, atol=1e-12)
        for average, metric in F1.items():  # a single column is one binary problem for scikit-learn
            labels = range(1, 2) if Y.shape[1] == 1 else None
            f1 = skm.f1_score(Y, predicted, average=average, labels=labels, zero_division=0)
            assert metric(Y, S, threshold) == pytest.approx(f1, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ties_go_to_the_lower_index_in_long_rows_too(dtype):
    # The default sort may be stable on short rows by chance; on long ones it is not.
    Y, S = make(20, 300, ties=True)
    S[0], S[1] = 0.0, np.where(np.arange(300) % 2, 0.0, -0.0)
    S = S.astype(dtype)
    for k in (1, 5, 300):
        np.testing.assert_allclose(precision_at_k(Y, S, k, per_example=True), loop_precision_at(Y, S, k))


# ---- containers and types ----

NAMES = [f"label{j}" for j in range(6)]
TYPES = ("bool", "uint8", "float16", "longdouble", "object")
LABELS = {
    **SPARSE_FORMATS,
    **{name: lambda Y, name=name: Y.astype(name) for name in TYPES},
    "sparse and bool": lambda Y: sp.csr_array(Y == 1),
    "half of each twice": lambda Y: sp.coo_array(
        (np.tile(Y.ravel() / 2, 2), tuple(np.tile(np.indices(Y.shape).reshape(2, -1), 2)))
    ),
    "list": np.ndarray.tolist,
    "Fortran's order": np.asfortranarray,
    "pandas": lambda Y: pd.DataFrame(Y == 1, columns=NAMES),
    "nullable": lambda Y: pd.DataFrame(Y).astype("Int64"),
    "sparse pandas": lambda Y: pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(Y)),
    "polars": lambda Y: pl.DataFrame(Y == 1, schema=NAMES),
}
SCORES = {
    **{name: lambda S, name=name: S.astype(name) for name in TYPES},
    "list": np.ndarray.tolist,
    "Fortran's order": np.asfortranarray,
    "pandas": lambda S: pd.DataFrame(S, columns=NAMES),
    "nullable": lambda S: pd.DataFrame(S).astype("Float64"),
    "polars": lambda S: pl.DataFrame(S, schema=NAMES),
}


@pytest.mark.parametrize("form", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_form(form):
    Y, S = make(50, 6, ties=True)
    Y.flags.writeable = S.flags.writeable = False
    labels = form(Y)
    before = (labels.format, labels.nnz) if sp.issparse(labels) else None
    assert evaluate(labels, S, threshold=0.5) == evaluate(Y, S, threshold=0.5)
    expected = propensity_scored_precision_at_k(Y, S, 2, np.ones(6))
    assert propensity_scored_precision_at_k(labels, S, 2, np.ones(6)) == expected
    assert before is None or (labels.format, labels.nnz) == before


@pytest.mark.parametrize("form", SCORES)
def test_scores_of_any_form(form):
    Y, S = make(30, 6)
    S = np.clip(np.rint(3 * S), 0, 1 if form == "bool" else 9)
    Y.flags.writeable = S.flags.writeable = False
    expected = evaluate(Y, S, threshold=0.5)
    assert evaluate(Y, SCORES[form](S), threshold=0.5) == expected
    assert evaluate(Y[::-1], SCORES[form](S[::-1]), threshold=0.5) == pytest.approx(expected)


def test_threshold_is_compared_in_the_precision_of_the_scores():
    # float32(0.7) < 0.7, and yet a score written 0.7 reaches the threshold 0.7.
    S = np.array([[0.7, 0.1]], dtype=np.float32)
    assert hamming_loss([[1, 0]], S, 0.7) == hamming_loss([[1, 0]], S, [0.7, 0.7]) == 0
    assert f1_micro([[1, 0]], S, 0.7) == f1_macro([[1, 1]], S, [0.7, 0.1]) == 1


# ---- blocks ----


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("entries", [1, 100])
def test_results_do_not_depend_on_the_size_of_a_block(monkeypatch, entries, dtype):
    Y, S = make(53, 7, density=0.15, ties=True)
    S = S.astype(dtype)
    expected = evaluate(Y, S, threshold=0.5)
    dense_rows, toarray = [], sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array, "toarray", lambda self: dense_rows.append(self.shape[0]) or toarray(self)
    )
    monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", entries)
    for labels in (Y, sp.csc_array(Y)):
        result = evaluate(labels, S, threshold=0.5)
        for name, values in expected.per_example.items():
            np.testing.assert_array_equal(result.per_example[name], values)
        assert result == expected
        assert f1_micro(labels, S, 0.5) == expected["f1_micro"]
    assert max(dense_rows) == min(53, max(1, entries // 7))  # a sparse Y is dense in blocks only


# ---- evaluate ----


def test_evaluate_is_the_metrics_one_by_one():
    Y, S = make(80, 10, density=0.1, ties=True)
    result = evaluate(Y, S, ks=(2, np.int32(7)), threshold=0.3)
    one_by_one = {
        "precision_at_2": precision_at_k(Y, S, 2, per_example=True),
        "precision_at_7": precision_at_k(Y, S, np.int32(7), per_example=True),
        "label_ranking_average_precision": label_ranking_average_precision(Y, S, per_example=True),
        "roc_auc_samples": roc_auc_samples(Y, S, per_example=True),
        "hamming_loss": hamming_loss(Y, S, 0.3, per_example=True),
    }
    assert list(result.per_example) == list(result.left_out) == list(one_by_one)
    assert list(result) == [*one_by_one, "f1_micro", "f1_macro"]
    for name, values in one_by_one.items():
        np.testing.assert_array_equal(result.per_example[name], values)
        assert result.left_out[name] == np.isnan(values).sum()
        assert result[name] == pytest.approx(np.nanmean(values))
    assert result.left_out["label_ranking_average_precision"] == (~Y.any(axis=1)).sum() > 0
    assert [result["f1_micro"], result["f1_macro"]] == [metric(Y, S, 0.3) for metric in F1.values()]
    assert pickle.loads(pickle.dumps(result)) == result
    for n_labels, usual in ((2, [1]), (4, [1, 3]), (5, [1, 3, 5])):
        names = list(evaluate(np.eye(n_labels), np.eye(n_labels)))[:-5]
        assert names == [f"precision_at_{k}" for k in usual]


# ---- all of them ----


def best_of(y, s, k):
    """The k best labels, the lower index first among equals."""
    return sorted(range(len(s)), key=lambda j: -s[j])[:k]


def mean_of_told(values):
    told = [value for value in values if not np.isnan(value)]
    return np.mean(told) if told else np.nan


def by_formula(Y, S, k):
    """The metrics at k, written out label by label."""
    rows = [(y, best_of(y, s, k)) for y, s in zip(Y.tolist(), S.tolist(), strict=True)]
    hits = [sum(y[j] for j in best) for y, best in rows]
    n = [sum(y) for y, _ in rows]
    dcg = [sum(y[j] / np.log2(2 + r) for r, j in enumerate(best)) for y, best in rows]
    ideal = [sum(1 / np.log2(2 + r) for r in range(min(k, m))) for m in n]
    each = {
        "precision": [h / k for h in hits],
        "recall": [h / m if m else np.nan for h, m in zip(hits, n, strict=True)],
        "r_precision": [h / min(k, m) if m else np.nan for h, m in zip(hits, n, strict=True)],
        "f1": [2 * h / (k + m) for h, m in zip(hits, n, strict=True)],
        "ndcg": [d / i if i else np.nan for d, i in zip(dcg, ideal, strict=True)],
    }
    chosen = np.zeros_like(Y)
    for i, (_, best) in enumerate(rows):
        chosen[i, best] = 1
    found = {f"{name}_at_{k}": mean_of_told(values) for name, values in each.items()}
    labels = {"zero_division": 0, "average": "macro", "labels": range(Y.shape[1])}
    for share, score in (
        ("precision", skm.precision_score),
        ("recall", skm.recall_score),
        ("f1", skm.f1_score),
    ):
        found[f"{share}_macro_at_{k}"] = np.mean(
            [score(Y[:, j], chosen[:, j], zero_division=0) for j in labels["labels"]]
        )
    return found | {f"coverage_at_{k}": np.mean((Y * chosen).any(axis=0))}


def by_scikit_learn(Y, S, cut):
    P, rows, columns = (cut <= S).astype(int), list(zip(Y, S, strict=True)), list(zip(Y.T, S.T, strict=True))
    both, some = ((lambda y: 0 < y.sum() < len(y)), np.any)
    ranked = {
        "label_ranking_average_precision": (rows, some, skm.label_ranking_average_precision_score, True),
        "label_ranking_loss": (rows, both, skm.label_ranking_loss, True),
        "coverage_error": (rows, some, skm.coverage_error, True),
        "roc_auc_samples": (rows, both, skm.roc_auc_score, False),
        "roc_auc_macro": (columns, both, skm.roc_auc_score, False),
        "roc_auc_micro": ([(Y.ravel(), S.ravel())], both, skm.roc_auc_score, False),
        "average_precision_macro": (columns, some, skm.average_precision_score, False),
        "average_precision_micro": ([(Y.ravel(), S.ravel())], some, skm.average_precision_score, False),
    }
    found = {
        name: mean_of_told([score([y], [s]) if of_rows else score(y, s) for y, s in pairs if told(y)])
        for name, (pairs, told, score, of_rows) in ranked.items()
    }
    found |= {"hamming_loss": skm.hamming_loss(Y, P), "accuracy": skm.accuracy_score(Y, P)}
    for share in ("precision", "recall", "f1", "jaccard"):
        score = partial(getattr(skm, f"{share}_score"), zero_division=0)
        for average in ("samples", "micro", "macro"):
            found[f"{share}_{average}"] = score(Y, P, average=average)
    return found


@settings(deadline=None, max_examples=40)
@given(labels_and_scores(max_labels=7), st.data())
def test_every_metric_is_scikit_learns_or_its_formula(case, data):
    Y, S = case
    if Y.shape[1] == 1:  # a single column is one binary problem for scikit-learn
        Y, S = np.hstack([Y, 1 - Y]), np.hstack([S, -S])
    k, cut = data.draw(st.integers(1, Y.shape[1])), data.draw(st.integers(-3, 3))
    expected = by_formula(Y, S, k) | by_scikit_learn(Y, S, cut)
    assert {name.replace(f"at_{k}", "at_k") for name in expected} == set(METRICS) - OF_PROBABILITIES
    told = [name for name, value in expected.items() if not np.isnan(value)]
    found = evaluate(Y, S, metrics=told, threshold=cut)
    assert found == pytest.approx({name: expected[name] for name in told}, abs=1e-12)
    for name in set(expected) - set(told):
        with pytest.raises(ValueError, match=f"^{name} has no value"):
            evaluate(Y, S, metrics=[name])


OF_PROBABILITIES = {"brier_score_loss", "log_loss"}


@given(labels_and_scores(), st.integers(0, 2**16))
def test_metrics_of_probabilities_are_scikit_learns_over_all_known_cells(case, seed):
    Y, S = case
    P, known = 1 / (1 + np.exp(-S.astype(np.float64))), np.random.default_rng(seed).random(Y.shape) < 0.7
    P[0, 0] = float(Y[0, 0])
    for name, options in (("brier_score_loss", {"pos_label": 1}), ("log_loss", {"labels": [0, 1]})):
        metric, theirs = getattr(metrics, name), partial(getattr(skm, name), **options)
        assert metric(Y, P) == pytest.approx(theirs(Y.ravel(), P.ravel()))
        values = metric(np.where(known, Y, np.nan), P, per_example=True) if known.any() else ()
        for y, p, told, value in zip(Y, P, known, values, strict=False):
            assert value == pytest.approx(theirs(y[told], p[told]) if told.any() else np.nan, nan_ok=True)
        with pytest.raises(ValueError, match=r"^scores from .* no probabilities"):
            metric(Y, P + 1.5)


def test_a_name_of_scikit_learns_is_its_number():
    """Whoever changes from our searches to scikit-learn's, or back, keeps the number."""
    Y, S = make(40, 6)
    model = SimpleNamespace(predict=lambda X: (S >= 0.4).astype(int))
    shared = set(METRICS) & set(skm.get_scorer_names())
    assert shared > {"accuracy", "f1_micro", "f1_macro", "f1_samples", "jaccard_macro", "recall_micro"}
    for name in shared:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = skm.get_scorer(name)._score_func(Y, model.predict(S), **skm.get_scorer(name)._kwargs)
        assert getattr(metrics, name)(Y, S, 0.4) == pytest.approx(expected), name


@given(labels_and_scores(), st.integers(0, 2**16))
def test_unknown_labels_do_not_count(case, seed):
    """A row is judged by its known labels alone, a label by the rows in which it is known."""
    Y, S = case
    known = np.random.default_rng(seed).random(Y.shape) < 0.6
    hidden = np.where(known, Y, np.nan)
    for given_labels in (hidden, sp.csr_array(hidden)) if known.any() else ():
        for name in ("recall_at_k", "ndcg_at_k", "f1_at_k", "r_precision_at_k", "precision_at_k"):
            values = getattr(metrics, name)(given_labels, S, 1, per_example=True)
            for row, value in enumerate(values):
                y, s = Y[row, known[row]][None], S[row, known[row]][None]
                alone = getattr(metrics, name)(y, s, 1, per_example=True)[0] if y.size else np.nan
                np.testing.assert_allclose(value, alone)
        for name in set(METRICS) & set(by_scikit_learn(np.eye(2), np.eye(2), 1)):
            if METRICS[name].finish is None and METRICS[name].over != "cells":
                cut = (0,) if METRICS[name].needs_cut else ()
                turn = np.transpose if METRICS[name].over == "labels" else np.asarray
                metric = getattr(metrics, name)
                values = metric(given_labels, S, *cut, per_example=True)
                for y, s, told, value in zip(turn(Y), turn(S), turn(known), values, strict=True):
                    alone = turn(y[told][None]), turn(s[told][None])
                    expected = metric(*alone, *cut, per_example=True)[0] if told.any() else np.nan
                    np.testing.assert_allclose(value, expected)
        cells = Y[known][None], S[known][None]
        for name in ("f1_micro", "precision_micro", "recall_micro", "jaccard_micro"):
            metric = getattr(metrics, name)
            assert metric(given_labels, S, 0) == pytest.approx(metric(*cells, 0))


def test_the_cut_is_the_models():
    """Margins have another cut than 0.5, which only the model knows."""
    X, Y = np.random.default_rng(0).standard_normal((60, 4)), make(60, 5, density=0.4)[0]
    model = MLFro(1.0, loss="squared_hinge", threshold=-0.3).fit(X, Y)
    S = model.decision_function(X)
    expected = evaluate(Y, S, threshold=-0.3)
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), model).fit(X, Y)
    for fitted in (model, pipeline):
        assert evaluate(fitted, X, Y) == expected
    assert expected["f1_micro"] == skm.f1_score(Y, model.predict(X), average="micro")
    assert evaluate(model, X, Y, threshold=0.2) == evaluate(Y, S, threshold=0.2) != expected
    for refused in (f1_micro, hamming_loss, evaluate):
        with pytest.raises(ValueError, match=r"^threshold .*no probabilities"):
            refused(Y, S)
    assert evaluate(Y, S, metrics=["ndcg_at_k"], ks=[2]).keys() == {"ndcg_at_2"}  # needs no cut
    with pytest.raises(TypeError, match="no threshold_"):
        evaluate(MLFro(1.0), X, Y)
    with pytest.raises(TypeError, match="a fitted model, X and Y"):
        evaluate(Y)
    for wrong in ("f1", "ndcg_at_9", "ndcg_at_0"):
        with pytest.raises(ValueError, match=wrong.replace("0", "")):
            evaluate(Y, S, metrics=[wrong])


# ---- errors ----


@pytest.mark.parametrize("metric", [roc_auc_samples, hamming_loss, evaluate, f1_micro])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_every_metric_says_which_cell_is_wrong(metric, container, monkeypatch):
    monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", 6)
    Y, S = np.eye(3, 6), np.zeros((3, 6))
    for bad in (2.0, -1.0, 0.5):
        Y[1, 5] = bad
        with pytest.raises(ValueError, match=rf"^Y .* {bad} at row 1, column 5"):
            metric(container(Y), S)
    Y[1, 5] = 0
    for bad in (np.nan, np.inf, -np.inf):
        S[2, 4] = bad
        with pytest.raises(ValueError, match=rf"^S .* {bad} at row 2, column 4"):
            metric(container(Y), S)
    with pytest.raises(TypeError, match=r"^S .*csr_array"):
        metric(container(Y), sp.csr_array(np.eye(3, 6)))
    with pytest.raises(ValueError, match=r"\(3, 6\) and \(3, 7\)"):
        metric(container(Y), np.zeros((3, 7)))


@pytest.mark.parametrize(
    ("Y", "S", "error", "where"),
    [
        *((np.zeros(shape), np.zeros(shape), ValueError, "Y and S") for shape in ((6,), (2, 3, 4), (0, 6))),
        (sp.coo_array(np.zeros(6)), np.zeros(6), ValueError, "Y and S"),
        ([["rain", "snow"]], [[0.1, 0.2]], TypeError, "^Y .*<U4"),
        ([[0, 1]], [[0.1, 1j]], TypeError, "^S .*complex128"),
        (np.eye(1, 2), pd.DataFrame({"a": [1], "b": [None]}, dtype="Int64"), TypeError, "^S .*object"),
    ],
)
def test_no_labels_or_no_scores(Y, S, error, where):
    with pytest.raises(error, match=where):
        roc_auc_samples(Y, S)


@pytest.mark.parametrize("k", [0, 5, 1.0, True, None])
def test_wrong_k(k):
    for call, name in [
        (lambda: precision_at_k(Y_HAND, S_HAND, k), "k"),
        (lambda: evaluate(Y_HAND, S_HAND, ks=(1, k)), "each of ks"),
        (lambda: precision_at_k(Y_HAND, TopK(np.argsort(-S_HAND), S_HAND), k), "k"),
    ]:
        with pytest.raises(ValueError, match=f"^{name} .*{k}"):
            call()
