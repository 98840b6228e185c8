from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lrml.experiments import Difference, Row, compare, conclude
from lrml.metrics import Evaluation


def row(method, top1, *, theta=None, alpha=None):
    values = {"top1": np.asarray(top1, float), "hamming_loss": 1.0 - np.asarray(top1, float)}
    evaluation = Evaluation({name: float(np.nanmean(v)) for name, v in values.items()}, values)
    return Row("paper", method, None, theta, alpha, 0.0, 1, evaluation, None, "converged", 0.5)


def test_paired_difference_equals_the_paired_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 40))
    found = Difference.paired(first, second)
    assert found.ratio == pytest.approx(stats.ttest_rel(first, second).statistic)


def test_examples_without_a_value_are_left_out():
    found = Difference.paired(np.array([1.0, 3.0, np.nan]), np.array([0.0, 0.0, 5.0]))
    assert (found.mean, found.standard_error) == pytest.approx((2.0, 1.0))


@pytest.mark.parametrize(("shift", "ratio"), [(0.0, 0.0), (1.0, math.inf), (-1.0, -math.inf)])
def test_constant_differences(shift, ratio):
    assert Difference.paired(np.ones(4) + shift, np.ones(4)).ratio == ratio


def test_every_metric_of_every_theta_is_compared(small_result):
    found = compare(small_result.rows)
    assert len(found) == 2 * 2 * 6
    first, reference = small_result.rows[0].evaluation, small_result.rows[2].evaluation
    assert found[0].difference.mean == pytest.approx(first["top1"] - reference["top1"])


def test_a_clear_advantage_is_said_in_words():
    good, bad = np.tile([1.0, 1.0, 1.0, 0.0], 20), np.tile([0.0, 0.0, 0.0, 1.0], 20)
    rows = [row("LRML", good, theta=3, alpha=1.0), row("LRML", good, theta=6, alpha=2.0), row("Ridge", bad)]
    (sentence,) = conclude(rows, compare(rows), weakest=1.0)
    assert sentence.startswith("paper: top-1 is the same for every theta;")
    assert "better by more than 2 standard errors in 4 (top1 2, hamming_loss 2) and worse in none" in sentence
    assert "weakest" not in sentence


def test_noise_is_called_noise():
    one, other = np.tile([1.0, 0.0], 50), np.tile([0.0, 1.0], 50)
    other[0] = 1.0
    rows = [row("LRML", v, theta=t, alpha=0.1) for t, v in ((3, one), (6, other))] + [row("Ridge", one)]
    (sentence,) = conclude(rows, compare(rows), weakest=0.1)
    assert "varies by 0.0100 over theta, 0.1 standard errors" in sentence
    assert "no more than chance explains" in sentence
    assert "in none and worse in none" in sentence
    assert "weakest penalty (alpha = 0.1) for every theta" in sentence
