"""The losses against their formulas, in extended precision and by finite differences."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from lrml.core.arrays import to_numpy
from lrml.core.losses import LOSSES, LogisticLoss
from namespaces import assert_same, put

EACH = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
SCORES = st.floats(-30.0, 30.0)
QUIET = settings(max_examples=60, deadline=None)
LABELS = st.sampled_from([0.0, 1.0])


def by_formula(name, y, s):
    """ℓ(y, s) as it is written in a book, in extended precision."""
    y, s = np.longdouble(y), np.longdouble(s)
    m = 2 * y - 1
    if name == "squared":
        return (y - s) ** 2
    if name == "logistic":
        return np.log1p(np.exp(-m * s))
    return max(np.longdouble(0), 1 - m * s) ** 2


def at(loss, y, s, dtype=np.float64):
    return tuple(
        float(part[0, 0]) for part in loss.terms(np.full((1, 1), y, dtype), np.full((1, 1), s, dtype))
    )


@EACH
@QUIET
@given(y=LABELS, s=SCORES)
def test_terms_are_the_formula_and_its_derivatives(loss, y, s):
    value, slope, curvature = at(loss, y, s)
    assert value == pytest.approx(float(by_formula(loss.name, y, s)), rel=1e-12, abs=1e-300)
    assert 0 <= curvature <= loss.largest_curvature * (1 + 1e-15)
    if loss.name == "squared_hinge" and abs(1 - (2 * y - 1) * s) < 1e-4:
        return  # the second derivative jumps here
    h = np.longdouble(1e-6)
    rise = (by_formula(loss.name, y, s + h) - by_formula(loss.name, y, s - h)) / (2 * h)
    assert slope == pytest.approx(float(rise), rel=1e-8, abs=1e-11)
    rise = (at(loss, y, s + 1e-5)[1] - at(loss, y, s - 1e-5)[1]) / 2e-5
    assert curvature == pytest.approx(rise, rel=1e-5, abs=1e-8)


@EACH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_scores(loss, dtype):
    """Warnings are errors: an overflow would fail here."""
    S = np.array([[-1e4, -800.0, -90.0, 0.0, 90.0, 800.0, 1e4]], dtype=dtype)
    for y in (0.0, 1.0):
        terms = loss.terms(np.full_like(S, y), S)
        for part in terms:
            assert part.dtype == dtype
            assert part.shape == S.shape
            assert np.all(np.isfinite(part))
        expected = [float(by_formula(loss.name, y, s)) for s in S[0]]
        np.testing.assert_allclose(terms.values[0], expected, rtol=1e-6, atol=1e-300)


def test_logistic_loss_of_a_good_fit_has_its_digits_in_single_precision():
    """max(s, 0) − sy and p − y would be left with rounding."""
    values, slopes, _ = at(LogisticLoss(), 1.0, 12.0, np.float32)
    assert values == pytest.approx(math.log1p(math.exp(-12)), rel=1e-6)
    assert slopes == pytest.approx(-1 / (1 + math.exp(12)), rel=1e-6)
    assert at(LogisticLoss(), 0.0, -12.0, np.float32)[:2] == (values, -slopes)


@EACH
@settings(max_examples=25, deadline=None)
@given(share=st.floats(0.01, 0.99))
def test_constant_is_the_best_constant_score(loss, share):
    def mean(s):
        return float(share * by_formula(loss.name, 1.0, s) + (1 - share) * by_formula(loss.name, 0.0, s))

    best = minimize_scalar(mean, bracket=(-1, 1), tol=1e-12)
    constant = float(loss.constant(np.array([share]))[0])
    assert constant == pytest.approx(best.x, abs=1e-5)
    assert mean(constant) <= best.fun + 1e-12


@EACH
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_anywhere_have_the_terms_of_numpy(loss, dtype, place):
    digits = 1e-14 if dtype == "float64" else 1e-6
    S = np.array([[-800.0, -30.0, -1.0, -1e-9, 0.0], [1e-9, 0.3, 1.0, 30.0, 800.0]], dtype=dtype)
    for label in (0.0, 1.0):
        Y = np.full_like(S, label)
        expected = loss.terms(Y, S.copy())
        found = loss.terms(put(place, Y), put(place, S))
        for part, other in zip(found, expected, strict=True):
            assert_same(part, other, place, dtype, rtol=digits)
            np.testing.assert_allclose(to_numpy(part), other, rtol=digits, atol=1e-40)  # each entry
    share = np.array([0.0, 1e-12, 0.2, 0.5, 1.0])
    assert_same(loss.constant(put(place, share)), loss.constant(share), place, rtol=1e-14)
