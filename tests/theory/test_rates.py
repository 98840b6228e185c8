"""Risk bounds, fixed points and rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrml.theory import fixed_point, global_complexity, local_dual_bound, local_rate, theorem1, theorem2

SIZES = [10**k for k in range(3, 9)]
J = np.arange(1.0, 100_001.0)


def fitted_slope(x, y):
    """Slope of the least-squares line of log y on log x."""
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def test_theorems_by_hand():
    n, delta = 200, 0.02
    x = math.log(100.0) / n
    assert theorem1(0.3, n, delta).value == pytest.approx(1.2 + math.sqrt(2 * x))
    second = theorem2(0.3, n, 0.25, delta)
    assert second.terms == {
        "complexity": pytest.approx(2.4),
        "second moment": pytest.approx(math.sqrt(2 * x)),
        "confidence": pytest.approx(3 * x),
    }


def test_theorem_1_covers_the_excess_risk_of_threshold_rules():
    """Empirical risk minimisers over 20 thresholds, 300 samples: at most δ of them may exceed the bound."""
    rng = np.random.default_rng(0)
    cuts, n, delta = np.linspace(0.0, 1.0, 20), 100, 0.1
    risks = 0.2 + 0.6 * np.abs(cuts - 0.5)  # labels 1{x > ½} with 20 % noise, x uniform
    excess, suprema = [], []
    for _ in range(300):
        x = rng.uniform(size=n)
        y = (x > 0.5) ^ (rng.uniform(size=n) < 0.2)
        losses = ((x[:, None] > cuts) != y[:, None]).astype(float)
        excess.append(risks[losses.mean(axis=0).argmin()] - risks.min())
        suprema.append((rng.choice([-1.0, 1.0], size=n) @ losses / n).max())
    bound = theorem1(max(0.0, float(np.mean(suprema))), n, delta).value
    assert np.mean(np.array(excess) > bound) <= delta
    assert np.mean(excess) < bound


@pytest.mark.parametrize("delta", [0.0, 1.0, 2.0])
def test_delta_is_a_probability(delta):
    with pytest.raises(ValueError, match="delta must be"):
        theorem1(0.1, 10, delta)


@settings(max_examples=60, deadline=None)
@given(
    spectrum=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=20),
    n=st.integers(1, 10**8),
    start=st.floats(1e-8, 1e8),
)
def test_fixed_point_solves_its_equation_from_any_start(spectrum, n, start):
    def psi(r):
        return math.sqrt(2 / n * sum(min(r, value) for value in spectrum))

    r = fixed_point(psi, start)
    assert abs(psi(r) - r) <= 1e-10 * min(1.0, r)
    assert r == pytest.approx(local_rate(spectrum, n), rel=1e-9)


@pytest.mark.parametrize("power", [0.0, 0.1, 0.3, 0.5])
def test_fixed_point_of_powers(power):
    assert fixed_point(lambda r: 1e-3 * r**power) == pytest.approx(1e-3 ** (1 / (1 - power)), rel=1e-12)


@pytest.mark.parametrize(
    ("psi", "message"),
    [
        (lambda r: 2 * r, "must not rise"),
        (lambda r: 0.5 * r, "must not rise"),
        (lambda r: 1 / (1 + r), "must not fall"),
        (lambda r: 0.0, "finite and positive for r > 0, got psi"),
        (lambda r: math.nan, "finite and positive"),
    ],
)
def test_functions_that_are_not_sub_root_are_refused(psi, message):
    with pytest.raises(ValueError, match=message):
        fixed_point(psi)


def test_the_printed_local_bound_is_not_sub_root():
    """It grows like r, not like √r. Its fixed point would be τ/(√n − √theta), and 0 without a tail."""
    n, theta = 100, 49
    with pytest.raises(ValueError, match="must not rise"):
        fixed_point(lambda r: r * math.sqrt(theta / n) + math.exp(-theta) / math.sqrt(n))


def test_exponential_decay_gives_log_n_over_n():
    rates = [local_rate(np.exp(-J), n) for n in SIZES]
    slope = fitted_slope([math.log(n) / n for n in SIZES], rates)
    assert slope == pytest.approx(1.0, rel=0.05)
    # n r* = 2 log n − 2 log(n r*) + a constant, to lowest order.
    ends = np.array([rates[0] * SIZES[0], rates[-1] * SIZES[-1]])
    grown = 2 * (math.log(SIZES[-1] / SIZES[0]) - math.log(ends[1] / ends[0]))
    assert ends[1] - ends[0] == pytest.approx(grown, rel=0.02)


@pytest.mark.parametrize("power", [2.0, 4.0])
def test_polynomial_decay_gives_its_power(power):
    sizes = SIZES[:4]
    slope = fitted_slope(sizes, [local_rate(J**-power, n) for n in sizes])
    assert slope == pytest.approx(-power / (power + 1), rel=0.05)


def test_global_complexity_falls_like_one_over_root_n():
    rng = np.random.default_rng(0)
    sizes = [100, 200, 400, 800, 1600, 3200]
    X = rng.normal(size=(sizes[-1], 10)) * np.exp(-np.arange(10) / 2)
    for ball in ("trace", "frobenius", "operator"):
        found = [global_complexity(X[:n], 4, ball=ball, n_draws=100, random_state=1).mean for n in sizes]
        assert fitted_slope(sizes, found) == pytest.approx(-0.5, rel=0.05)


def test_finite_rank_gives_one_over_n():
    rates = [local_rate(np.ones(5), n, n_labels=3) for n in SIZES]
    np.testing.assert_allclose(rates, [2 * 3 * 5 / n for n in SIZES], rtol=1e-9)


def test_rate_bounds_the_fixed_point_of_the_dual_bound():
    s = np.exp(-0.7 * J[:60])
    dual = fixed_point(lambda r: local_dual_bound(s, 1000, 4, r, radius=2.0).value)
    assert dual <= local_rate(s, 1000, 4, radius=2.0)
    assert local_dual_bound(s, 1000, 4, dual, radius=2.0).value == pytest.approx(dual, rel=1e-10)
