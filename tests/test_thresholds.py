"""The best thresholds against a search over every threshold that makes a difference."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

from lrml import metrics
from lrml.thresholds import Cut, best_threshold

NAMES = ["f1_micro", "f1_macro", "hamming_loss"]
each_metric = pytest.mark.parametrize("name", NAMES)
each_way = pytest.mark.parametrize("per_label", [False, True])


@st.composite
def cells(draw):
    """Labels, scores from so few values that most of them tie, and which cells are known."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 3)))
    Y = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 1)))
    S = draw(hnp.arrays(np.float64, shape, elements=st.integers(-2, 3).map(lambda value: value / 4)))
    known = draw(st.one_of(st.none(), hnp.arrays(np.bool_, shape).filter(np.any)))
    return Y, S.astype(draw(st.sampled_from([np.float64, np.float32]))), known


def make(n_rows=60, n_labels=12, seed=0, decimals=1):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, n_labels)) < rng.uniform(0, 0.5, n_labels)).astype(int)
    Y[:, 0], Y[:, 1] = 0, 1
    return Y, np.round(Y + rng.standard_normal(Y.shape), decimals)


def quality(name, Y, predicted, counted):
    """The metric as a fraction, from its definition; the loss is negated, so that larger is better."""
    tallies = []
    for y, p, c in zip(Y.T == 1, predicted.T, counted.T, strict=True):
        tallies.append((int((y & p & c).sum()), int(((y != p) & c).sum())))

    def f1(hits, wrong):
        return Fraction(2 * hits, 2 * hits + wrong) if hits + wrong else Fraction(0)

    if name == "f1_micro":
        return f1(*map(sum, zip(*tallies, strict=True)))
    if name == "f1_macro":
        return sum(f1(*tally) for tally in tallies) / len(tallies)
    return Fraction(-sum(wrong for _, wrong in tallies), int(counted.sum()))


def all_cuts(scores):
    """Just above the largest score, half way between neighbours, and the least score."""
    values = sorted(set(scores.tolist()))
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    return [values[0], *middles, just_above(scores)]


def just_above(scores):
    return float(np.nextafter(scores.max(), scores.dtype.type(np.inf)))


def search(name, Y, S, natural, per_label, counted):
    """Every combination of cuts: the best quality, and of the best ones the nearest to the natural one.

    Where F1 is 0 for want of a positive example, it is the one that predicts nothing.
    """
    if per_label:
        pools = [all_cuts(s[c]) if c.any() else [natural] for s, c in zip(S.T, counted.T, strict=True)]
        candidates = [np.array(cuts) for cuts in product(*pools)]
    else:
        candidates = [np.full(S.shape[1], cut) for cut in all_cuts(S[counted])]
    values = [quality(name, Y, cut <= S, counted) for cut in candidates]
    best = max(values)
    good = [cut for cut, value in zip(candidates, values, strict=True) if value == best]
    # The good cuts of each label can be chosen freely, so the nearest is taken label by label.
    nearest = [min(column, key=lambda cut: (abs(cut - natural), -cut)) for column in zip(*good, strict=True)]
    positive = (Y == 1) & counted
    for label in range(S.shape[1]) if name != "hamming_loss" else ():
        alone = name == "f1_macro" and per_label
        if not positive[:, label if alone else slice(None)].any():
            own = S[:, label][counted[:, label]] if per_label else S[counted]
            nearest[label] = just_above(own) if own.size else natural
    return best, np.array(nearest)


# All thresholds


@each_metric
@each_way
@settings(max_examples=40)
@given(cells(), st.sampled_from([0.5, 0.0, -3.0, 0.1]))
def test_no_threshold_is_better_and_no_equally_good_one_is_nearer(name, per_label, case, natural):
    Y, S, known = case
    counted = np.ones(Y.shape, dtype=bool) if known is None else known
    best, nearest = search(name, Y, S, natural, per_label, counted)
    options = {"per_label": per_label, "known": known} | ({} if natural == 0.5 else {"natural": natural})
    cut, value = best_threshold(Y, S, name, **options)
    assert value == pytest.approx(float(-best if name == "hamming_loss" else best), abs=1e-14)
    np.testing.assert_array_equal(cut, nearest.astype(S.dtype) if per_label else nearest[0])
    # What is in the other cells does not matter.
    other = best_threshold(np.where(counted, Y, 1 - Y), np.where(counted, S, -S), name, **options)
    np.testing.assert_array_equal(other.cut, cut)
    assert other.value == value


@each_metric
@each_way
def test_value_is_the_metric_at_the_cut_and_the_best_of_a_common_cut(name, per_label):
    Y, S = make(decimals=12)
    S = S.astype(np.float32)
    cut, value = best_threshold(Y, S, name, per_label=per_label)
    metric, sign = getattr(metrics, name), -1 if name == "hamming_loss" else 1
    assert value == pytest.approx(metric(Y, S, cut), rel=1e-12)
    best = max(sign * metric(Y, S, rival) for rival in [0.5, np.inf, *np.unique(S)[::7]])
    assert sign * value > best - 1e-12
    assert (cut.shape, cut.dtype) == ((Y.shape[1],), S.dtype) if per_label else isinstance(cut, float)


# Cuts of labels that are drawn towards the common one


@each_metric
@settings(max_examples=40)
@given(cells(), st.sampled_from([0.1, 0.5, 3.0, 40.0]))
@example((np.array([[1, 0, 0], [1, 0, 1]]), np.array([[0.6, 0.4, 0.8], [0.6, 0.6, 0.8]]), None), 0.1)
def test_with_a_prior_no_cut_is_better_for_the_counts_of_a_label_and_all_labels(name, case, prior):
    Y, S, known = case
    counted = np.ones(Y.shape, dtype=bool) if known is None else known
    positive = (Y == 1) & counted
    options = {"per_label": True, "prior": prior, "known": known}
    found = best_threshold(Y, S, name, **options).cut
    if not positive.any():
        np.testing.assert_array_equal(found, best_threshold(Y, S, name, per_label=True, known=known).cut)
        return
    common, share = best_threshold(Y, S, name, known=known).cut, prior / np.count_nonzero(positive)

    def counts(label, cut):
        """Hits, predicted and relevant cells, each with its share of those of all labels."""
        chosen = counted & (cut <= S)
        parts = positive & chosen, chosen, positive
        return np.array([part[:, label].sum() + share * part.sum() for part in parts])

    def goodness(cuts):
        hits, predicted, relevant = (tallies := np.array([counts(*one) for one in enumerate(cuts)])).T
        if name == "f1_micro":
            return 2 * tallies[:, 0].sum() / tallies[:, 1:].sum()
        return np.sum(2 * hits / (predicted + relevant) if name == "f1_macro" else 2 * hits - predicted)

    own = [[common]] * Y.shape[1]
    for label, (scores, y, c) in enumerate(zip(S.T, positive.T, counted.T, strict=True)):
        if c.any():  # just below a positive example, or above all
            least = {cut: scores[c & (cut <= scores)].min() for cut in all_cuts(scores[c])[:-1]}
            cuts = [cut for cut, score in least.items() if score in scores[y]]
            own[label] = [common, *cuts, just_above(scores[c])]
    best = max(map(goodness, product(*own)))
    assert goodness(found) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_a_large_prior_leaves_one_cut_for_all():
    Y, S = make(decimals=12)
    common = best_threshold(Y, S).cut
    np.testing.assert_array_equal(best_threshold(Y, S, per_label=True, prior=1e9).cut, common)
    alone, drawn = (best_threshold(Y, S, per_label=True, prior=prior).cut for prior in (0.0, 5.0))
    assert np.abs(drawn - common).sum() < np.abs(alone - common).sum()


# Where a cut lies


@each_metric
@each_way
def test_neighbouring_numbers_are_separated(name, per_label):
    for dtype, number in product((np.float64, np.float32, np.float16), (1.0, -1.0, 0.0, 1e-7, 3e4)):
        low = dtype(number)
        high = np.nextafter(low, dtype(np.inf))
        S = np.array([[high], [low], [low]])
        cut, value = best_threshold([[1], [0], [0]], S, name, per_label=per_label)
        assert value == (0 if name == "hamming_loss" else 1)
        assert low < dtype(np.asarray(cut).item()) <= high


def test_rounding_does_not_part_equally_good_common_cuts_for_f1_macro():
    # Above 2 the labels have an F1 of 0 and 1, above 0 (and 1 in label 1) one of 2/3 and 1/3.
    Y = [[0, 1], [1, 0], [0, 0], [0, 0], [1, 0]]
    S = [[2, 3], [1, 2], [4, 2], [0, 1], [1, 2]]
    assert best_threshold(Y, S, "f1_macro", natural=1) == (0.5, 0.5)
    assert best_threshold(Y, S, "f1_macro", natural=2) == (2.5, 0.5)


@each_way
@pytest.mark.parametrize("name", ["f1_micro", "f1_macro"])
def test_nearly_as_good_is_not_as_good(name, per_label):
    # F1 is 2000/2001 above 2, but 2002/2003 above 1: better by 5e-7.
    Y = np.repeat([1, 1, 0, 0], [1000, 1, 1, 500])[:, None]
    S = np.repeat([3.0, 2.0, 2.0, 1.0], [1000, 1, 1, 500])[:, None]
    cut, value = best_threshold(Y, S, name, per_label=per_label, natural=2.5)
    assert (cut, value) == (1.5, 2002 / 2003)


# Inputs


def test_form_of_the_input_does_not_matter():
    Y, S = make()
    known = pd.DataFrame(np.ones(Y.shape, dtype=bool))
    found = best_threshold(sp.coo_matrix(Y), S.astype(np.longdouble), "f1_macro", known=known)
    assert found == best_threshold(Y, S, "f1_macro")


@pytest.mark.parametrize(
    ("options", "error", "where"),
    [
        ({"metric": "auc"}, ValueError, "^metric .*'auc'"),
        ({"per_label": "yes"}, TypeError, "^per_label .*'yes'"),
        ({"prior": -1.0}, ValueError, "^prior .*-1"),
        ({"Y": [[0, 2]]}, ValueError, "^Y .*2 at row 0, column 1"),
        ({"natural": np.nan}, ValueError, "^natural .*nan"),
        ({"natural": "half"}, ValueError, "^natural .*'half'"),
        ({"known": [[True]]}, ValueError, r"^known .*\(1, 1\)"),
        ({"known": [[1, 0]]}, ValueError, "^known .*int64"),
        ({"known": sp.csr_array([[True, False]])}, ValueError, "^known .*csr_array"),
        ({"known": [[False, False]]}, ValueError, "^known .*False, False"),
    ],
)
def test_refused(options, error, where):
    with pytest.raises(error, match=where):
        best_threshold(**({"Y": [[0, 1]], "S": [[0.1, 0.2]]} | options))
    if options.keys() <= {"metric", "per_label", "prior"}:
        with pytest.raises(error, match=where):
            Cut(**options)


def test_what_to_cut_for_is_a_value():
    assert clone(Cut("f1_macro"), safe=False) == Cut("f1_macro") != Cut()
    assert eval(repr(Cut("hamming_loss", True))) == Cut("hamming_loss", True)
