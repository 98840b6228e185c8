"""Assessments and comparisons against scikit-learn, SciPy, plain resampling and closed forms."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.metrics as skm
from scipy import stats
from sklearn.calibration import calibration_curve

from lrml import MLFro, TextTagger
from lrml._significance import holm
from lrml.evaluation import assess, compare
from lrml.inspection import explain
from lrml.metrics import (
    evaluate,
    hamming_loss,
    label_ranking_average_precision,
    precision_at_k,
    roc_auc_samples,
)


def made(n_rows=300, n_labels=7, *, noise=0.5, seed=0):
    """Labels, some of them rare and one absent, and scores in [0, 1] that follow them."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, n_labels)) < np.linspace(0.0, 0.5, n_labels)).astype(int)
    return Y, 1 / (1 + np.exp(-(2 * Y - 1 + noise * rng.standard_normal(Y.shape))))


def test_values_are_those_of_evaluate():
    Y, S = made()
    found, expected = assess(Y, S, threshold=0.4, ks=[2]), evaluate(Y, S, threshold=0.4, ks=[2])
    assert list(found.metrics) == list(expected)
    for name, (value, low, high) in found.metrics.items():
        assert value == pytest.approx(expected[name], abs=1e-12)
        assert low <= value <= high
    assert found.left_out == expected.left_out
    assert found.threshold == 0.4


def test_labels_one_by_one():
    Y, S = made(noise=2.0)
    found = assess(Y, S, n_bootstrap=0, label_names=list("abcdefg"))
    predicted = S >= 0.5
    scores = skm.precision_recall_fscore_support(Y, predicted, zero_division=np.nan)
    for name, values in zip(("precision", "recall", "f1", "support"), scores, strict=True):
        np.testing.assert_allclose([label[name] for label in found.labels], values)
    assert [label["predicted"] for label in found.labels] == predicted.sum(axis=0).tolist()
    assert [label["name"] for label in found.labels] == list("abcdefg")
    assert np.isnan(found.labels[0]["auc"])  # it never occurs
    for place in range(1, 7):
        label = found.labels[place]
        assert label["auc"] == pytest.approx(skm.roc_auc_score(Y[:, place], S[:, place]))
        expected = skm.average_precision_score(Y[:, place], S[:, place])
        assert label["average_precision"] == pytest.approx(expected)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_unknown_labels_count_nowhere(form):
    rng = np.random.default_rng(0)
    Y, S = made(80, 6, noise=2.0)
    known = rng.random(Y.shape) < 0.6
    known[:2] = [[False] * 6, [True] + [False] * 5]
    found = assess(form(np.where(known, Y, np.nan)), S, n_bootstrap=30)
    measures = {"precision_at_1": partial(precision_at_k, k=1), "hamming_loss": hamming_loss}
    measures |= {
        "label_ranking_average_precision": label_ranking_average_precision,
        "roc_auc_samples": roc_auc_samples,
    }
    for name, one in measures.items():
        parts = [(Y[[i]][:, here], S[[i]][:, here]) for i, here in enumerate(known) if here.any()]
        each = [float(one(*part, per_example=True)[0]) for part in parts]
        np.testing.assert_allclose(found.per_example[name][known.any(axis=1)], each)
        assert np.isnan(found.per_example[name][~known.any(axis=1)]).all()
    predicted = S >= 0.5
    assert found.n_unknown == found.as_dict()["n_unknown"] == np.count_nonzero(~known)
    assert found.metrics["f1_micro"].value == pytest.approx(skm.f1_score(Y[known], predicted[known]))
    f1 = [skm.f1_score(Y[here, j], predicted[here, j], zero_division=0) for j, here in enumerate(known.T)]
    assert found.metrics["f1_macro"].value == pytest.approx(np.mean(f1))
    for j, here in enumerate(known.T):
        assert found.labels[j]["support"] == Y[here, j].sum()
        if Y[here, j].any():
            assert found.labels[j]["auc"] == pytest.approx(skm.roc_auc_score(Y[here, j], S[here, j]))
    assert sum(one["count"] for one in found.reliability.bins) == np.count_nonzero(known)


def resampled_f1(Y, S, average, rows):
    return skm.f1_score(Y[rows], S[rows] >= 0.5, average=average, zero_division=0)


def test_intervals_are_those_of_plain_resampling():
    """The resamples are drawn in the order of the rows, so drawing them here gives the same ones."""
    Y, S = made(40, 4, noise=2.0)
    found = assess(Y, S, n_bootstrap=60, random_state=3, level=0.9)
    rng = np.random.default_rng(3)
    draws = [rng.integers(40, size=40) for _ in range(60)]
    auc = evaluate(Y, S).per_example["roc_auc_samples"]
    plain = {
        "f1_micro": [resampled_f1(Y, S, "micro", rows) for rows in draws],
        "f1_macro": [resampled_f1(Y, S, "macro", rows) for rows in draws],
        "roc_auc_samples": [np.nanmean(auc[rows]) for rows in draws],
    }
    for name, values in plain.items():
        value = found.metrics[name].value
        ends = np.quantile(values, [0.05, 0.95]) + value - np.mean(values)
        np.testing.assert_allclose(found.metrics[name][1:], np.clip(ends, 0, 1))
        assert found.metrics[name].low < value < found.metrics[name].high


def test_f1_macro_of_labels_that_occur():
    Y, S = made(noise=2.0)
    Y[:, 3] = 0  # predicted, but never relevant
    found, predicted = assess(Y, S, n_bootstrap=0), S >= 0.5
    occurring = [1, 2, 4, 5, 6]
    expected = skm.f1_score(Y[:, occurring], predicted[:, occurring], average="macro")
    assert found.as_dict()["absent_labels"] == 2
    assert found.as_dict()["f1_macro_of_occurring"] == pytest.approx(expected)
    assert found.metrics["f1_macro"].value == pytest.approx(expected * 5 / 7)
    assert dict(found.summary("")["about"])["Macro-F1 of labels that occur"] == f"{expected:.4f}"
    assert np.isnan(assess([[0], [0]], [[1.0], [0.0]], n_bootstrap=0).f1_macro_of_occurring)


def test_reliability_of_probabilities():
    Y, S = made(2000, 6, noise=1.0)
    found = assess(Y, S, n_bootstrap=0).reliability
    frequency, score = calibration_curve(Y.ravel(), S.ravel(), n_bins=10)
    np.testing.assert_allclose([one["frequency"] for one in found.bins], frequency)
    np.testing.assert_allclose([one["score"] for one in found.bins], score)
    assert sum(one["count"] for one in found.bins) == Y.size
    counts = np.histogram(S, np.linspace(0, 1, 11))[0]
    assert found.error == pytest.approx(np.average(np.abs(frequency - score), weights=counts[counts > 0]))
    assert found.brier == pytest.approx(skm.brier_score_loss(Y.ravel(), S.ravel()))
    margins = np.log(S / (1 - S))
    assert assess(Y, margins, threshold=0.0, n_bootstrap=0).reliability is None
    assert assess(Y, margins, threshold=0.0, probabilities=S, n_bootstrap=0).reliability == found
    assert assess(Y, S, probabilities=False, n_bootstrap=0).reliability is None
    with pytest.raises(ValueError, match="probabilities"):
        assess(Y, S, probabilities=margins, n_bootstrap=0)


def test_worst_labels_and_what_has_no_value():
    Y, S = made(noise=2.0)
    found = assess(Y, S, n_bootstrap=0)
    f1 = [label["f1"] for label in found.worst_labels(3)]
    assert f1 == sorted(label["f1"] for label in found.labels if label["support"] >= 5)[:3]
    assert len(found.worst_labels(99, least_support=0)) == 6  # the absent one has no F1
    found = assess([[1], [0], [1]], [[0.9], [0.6], [0.2]], n_bootstrap=50)  # one label has no AUC of a row
    assert found.left_out["roc_auc_samples"] == 3
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["metrics"]["roc_auc_samples"] == {"value": None, "low": None, "high": None}
    same = assess([[1], [0], [0], [0]], np.ones((4, 1)), n_bootstrap=0).reliability
    assert same.bins == [{"low": 0.9, "high": 1.0, "score": 1.0, "count": 4, "frequency": 0.25}]


@pytest.mark.parametrize(("n_labels", "tables"), [(15, ["labels"]), (16, ["worst", "labels"])])
def test_worst_labels_are_shown_where_there_are_more(n_labels, tables):
    page = assess(*made(60, n_labels), n_bootstrap=0).summary("")
    assert [table["id"] for table in page["tables"] if table["id"] in ("worst", "labels")] == tables


def test_methods_with_the_same_predictions_are_told_once():
    Y, S = made(noise=2.0)
    found = compare(Y, {"a": S, "b": S, "c": 1 - S, "d": S + 1e-12}, n_bootstrap=20)
    assert found.alike == [["a", "b", "d"]]
    page = found.summary("")
    assert len(page["summary"]) == 1
    tables = {table["id"]: table["rows"] for table in page["tables"]}
    assert {(row["first"], row["second"]) for row in tables["tests"]} == {("a", "c"), ("b", "c"), ("c", "d")}
    best = {row["metric"]: row["best"] for row in tables["metrics"]}
    assert best["label ranking average precision"] == "a, b, d"
    equal = compare(Y, {"a": S, "b": S}, n_bootstrap=20).summary("")
    assert "tests" not in [table["id"] for table in equal["tables"]]
    (rows,) = (table["rows"] for table in equal["tables"] if table["id"] == "metrics")
    assert all((row["best"], list(row["_best"])) == ("all", []) for row in rows)


@pytest.mark.parametrize("unknown", [False, True])
def test_precision_against_recall_is_that_of_scikit_learn(unknown):
    Y, S = made(noise=2.0)
    known = np.random.default_rng(0).random(Y.shape) < (0.7 if unknown else 2.0)
    cut = np.linspace(0.3, 0.7, 7)
    found = assess(np.where(known, Y, np.nan), S, threshold=cut, n_bootstrap=0)
    wanted = np.array(skm.precision_recall_curve(Y[known], (S - cut)[known])[:2])
    ours = np.array([found.curve["precision"], found.curve["recall"]])
    assert ours.shape == (2, 201)
    assert np.abs(wanted[:, :, None] - ours[:, None]).max(axis=0).min(axis=0).max() < 1e-12
    assert (found.curve["recall"][0], found.curve["recall"][-1]) == (pytest.approx(1 / Y[known].sum()), 1)


def test_errors_are_the_cells_furthest_on_the_wrong_side_one_of_each_row():
    Y, S = made(noise=3.0)
    cut = np.linspace(0.3, 0.7, 7)
    margins = S - cut
    names = list("abcdefg")
    found = assess(Y, S, threshold=cut, label_names=names, n_bootstrap=0).errors
    for kind, sign, wrong in (
        ("misses", -1, (Y == 1) & (margins < 0)),
        ("false_alarms", 1, (Y == 0) & (margins >= 0)),
    ):
        cells = sorted(((sign * margins[i, j], i, j) for i, j in np.argwhere(wrong)), reverse=True)
        seen, worst = set(), []
        for _, i, j in cells:
            if i not in seen:
                worst.append((i, j, names[j], S[i, j], pytest.approx(margins[i, j])))
            seen.add(i)
        assert [tuple(one.values()) for one in found[kind]] == worst[:10]
    assert assess(Y, Y.astype(float), n_bootstrap=0).errors == {"misses": [], "false_alarms": []}


def test_labels_by_support_are_judged_together():
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 30)) < np.geomspace(0.005, 0.6, 30)).astype(int)
    predicted = Y ^ (rng.random(Y.shape) < 0.02)
    predicted[:, 0] = 0
    found = assess(Y, predicted.astype(float), n_bootstrap=0).by_support
    support = Y.sum(axis=0)
    assert [(band["least"], band["most"]) for band in found] == [(1, 9), (10, 99), (100, 999)]
    for band in found:
        own = (support >= band["least"]) & (support <= band["most"])
        parts = Y[:, own], predicted[:, own]
        shares = skm.precision_recall_fscore_support(*parts, average="micro")[:3]
        assert [band[key] for key in ("precision", "recall", "f1")] == pytest.approx(shares)
        assert band["f1_macro"] == pytest.approx(skm.f1_score(*parts, average="macro", zero_division=0))
        assert (band["labels"], band["never"]) == (own.sum(), (parts[1].sum(axis=0) == 0).sum())


@pytest.mark.parametrize("form", ["texts", "frame", "array"])
def test_the_page_shows_errors_with_the_features_that_spoke(form):
    texts = ["red apple", "green apple", "red car", "fast car", "apple pie"] * 4
    tags = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"], ["vehicle"]] * 4
    tagger = TextTagger(MLFro(0.1)).fit(texts, tags)
    model, X, Y = tagger, texts, tags
    if form != "texts":
        X, Y = tagger.transform(texts).toarray(), tagger.binarize(tags).toarray()
        X = X if form == "array" else pd.DataFrame(X, columns=tagger.vectorizer_.get_feature_names_out())
        model = MLFro(0.1).fit(X, pd.DataFrame(Y, columns=tagger.classes_))
        Y = pd.DataFrame(Y, columns=tagger.classes_)
    found = assess(model, X, Y, threshold=2.0, n_bootstrap=0)
    tables = {table["id"]: table["rows"] for table in found.summary("", model=model, X=X)["tables"]}
    for row, error in zip(tables["misses"], found.errors["misses"], strict=True):
        given = X[error["row"]] if form != "frame" else X.iloc[[error["row"]]]
        assert row["text"] == (given if form == "texts" else str(error["row"]))
        name, value = explain(model, given, error["label"], 1)[0]
        assert row["words"].startswith(f"{name} {value:+.2f}".replace("-", "−"))


@pytest.mark.parametrize(
    ("judge", "options", "named"),
    [
        (assess, {"label_names": ["a", "b", "c"]}, "label_names"),
        (assess, {"n_bootstrap": -1}, "n_bootstrap"),
        (assess, {"n_bootstrap": 2.5}, "n_bootstrap"),
        (assess, {"level": 1}, "level"),
        (compare, {}, "assess"),
    ],
)
def test_bad_options(judge, options, named):
    Y, S = made(10, 2)
    with pytest.raises(ValueError, match=named):
        judge(Y, S if judge is assess else {"one": S}, **options)


# Comparisons


def three(n_rows=400):
    Y, good = made(n_rows, 6, noise=2.0)
    rng = np.random.default_rng(1)
    return Y, {"good": good, "same": good.copy(), "chance": rng.random(Y.shape)}


def test_paired_tests_are_those_of_scipy():
    Y, scores = three()
    found = compare(Y, scores, n_bootstrap=300)
    values = {name: evaluate(Y, own).per_example for name, own in scores.items()}
    by_place = {(test["metric"], test["first"], test["second"]): test for test in found.tests}
    assert len(by_place) == 3 * 8
    corrected = holm([test["p_value"] for test in found.tests])
    assert [test["corrected"] for test in found.tests] == corrected
    for name, own in scores.items():
        assert found.methods[name].metrics == assess(Y, own, n_bootstrap=300).metrics
    for (metric, one, other), test in by_place.items():
        if metric in ("f1_micro", "f1_macro"):
            continue
        first, second = values[one][metric], values[other][metric]
        if (one, other) == ("good", "same"):
            assert (test["difference"], test["p_value"], test["better"]) == (0, 1, None)
            continue
        expected = stats.ttest_rel(first, second, nan_policy="omit")
        assert test["p_value"] == pytest.approx(expected.pvalue, rel=1e-6)
        assert test["better"] == one
        # The bootstrap's interval is near that of the t distribution.
        ends = expected.confidence_interval(0.95)
        assert (test["low"], test["high"]) == pytest.approx(tuple(ends), abs=0.2 * (ends[1] - ends[0]))


def test_f1_is_compared_by_the_error_of_the_bootstrap():
    Y, scores = three()
    found = compare(Y, {name: scores[name] for name in ("good", "chance")}, n_bootstrap=400)
    (test,) = (test for test in found.tests if test["metric"] == "f1_micro")
    # The same difference as a ratio of sums over rows: its error by linearisation.
    influence = []
    for own in (scores["good"], scores["chance"]):
        predicted = own >= 0.5
        hits, both = (Y & predicted).sum(axis=1), (Y + predicted).sum(axis=1)
        ratio = 2 * hits.sum() / both.sum()
        influence.append((2 * hits - ratio * both) / both.mean())
    error = (influence[0] - influence[1]).std() / np.sqrt(len(Y))
    width = test["high"] - test["low"]
    assert width == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert test["p_value"] < 1e-6
    assert test["better"] == "good"


def test_a_threshold_for_each_model_and_lower_is_better():
    Y, scores = three()
    found = compare(
        Y, {"p": scores["good"], "m": scores["good"] - 0.5}, threshold={"p": 0.5, "m": 0.0}, n_bootstrap=20
    )
    for name in ("f1_micro", "hamming_loss"):
        assert found.methods["p"].metrics[name] == found.methods["m"].metrics[name]
    found = compare(Y, {"good": scores["good"], "chance": scores["chance"]}, n_bootstrap=20)
    (loss,) = (test for test in found.tests if test["metric"] == "hamming_loss")
    assert loss["difference"] < 0
    assert loss["better"] == "good"
    json.dumps(found.as_dict(), allow_nan=False)


def test_the_table_of_a_comparison_names_all_that_are_best_and_whom_they_beat():
    Y, scores = three()

    def rows(models, labels=Y):
        table = compare(labels, models, n_bootstrap=50).summary("")["tables"][0]
        return {row["metric"].split(" (")[0]: (row["best"], row["verdict"]) for row in table["rows"]}

    assert set(rows(scores).values()) == {("good, same", "chance")}
    nearly = Y.astype(float)
    nearly[0, 0] = 1 - nearly[0, 0]  # one mistake in 400 × 6 cells
    assert rows({"a": nearly, "b": Y})["Hamming loss"] == ("b", None)  # lower is better
    one = {name: own[:, -1:] for name, own in scores.items()}
    assert rows(one, Y[:, -1:])["average AUC"] == (None, None)  # one label has no AUC of a row
