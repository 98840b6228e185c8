"""Paired t-tests against SciPy's, Holm's correction against closed testing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lrml._significance import holm, paired_difference

P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=7)


@given(st.integers(0, 2**32 - 1), st.integers(3, 200), st.sampled_from([0.0, 0.05, 1.0]))
def test_t_test_is_scipys(seed: int, n: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.random(n) + shift, rng.random(n)
    first[0] = np.nan
    expected = stats.ttest_rel(first, second, nan_policy="omit")
    found = paired_difference(first, second)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-300)
    assert found.mean == pytest.approx(np.nanmean(first - second))
    assert found.standard_error == pytest.approx(stats.sem(first - second, nan_policy="omit"))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.1, 0.7, np.nan], [0.1, 0.7, np.nan], (0.0, 0.0, 1.0)),
        ([0.5, 0.25, 1.0], [0.0, -0.25, 0.5], (0.5, 0.0, 0.0)),  # one and the same difference
        ([0.3, np.nan], [0.0, 0.0], (0.3, np.nan, 1.0)),  # fewer than two rows tell nothing
        ([], [], (np.nan, np.nan, 1.0)),
    ],
)
def test_differences_without_a_t_statistic(
    first: list[float], second: list[float], expected: tuple[float, ...]
) -> None:
    given = np.array(first)
    found = paired_difference(given, np.array(second))
    np.testing.assert_equal((found.mean, found.standard_error, found.p_value), expected)
    np.testing.assert_array_equal(given, first)  # inputs are not changed


@given(P_VALUES)
def test_holm_is_closed_testing_by_bonferroni(p_values: list[float]) -> None:
    # A hypothesis falls if every set of hypotheses that contains it falls by Bonferroni's test.
    everything = range(len(p_values))
    for place, corrected in enumerate(holm(p_values)):
        expected = max(
            len(chosen) * min(p_values[i] for i in chosen)
            for size in range(1, len(p_values) + 1)
            for chosen in combinations(everything, size)
            if place in chosen
        )
        assert corrected == pytest.approx(min(1.0, expected))
