"""What is refused, and what the message says."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrml.completion import complete, select_alpha
from lrml.penalties import TailSum, TraceNorm

NAN = np.nan
GOOD = np.array([[1.0, NAN, 2.0], [NAN, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("M", "penalty", "options", "message"),
    [
        (np.full((2, 3), NAN), TraceNorm(1.0), {}, r"at least one observed entry, got none.*\(2, 3\)"),
        (np.array([[1.0, np.inf]]), TraceNorm(1.0), {}, "finite, got inf at row 0, column 1"),
        (np.ones(3), TraceNorm(1.0), {}, "two dimensions, got 1"),
        (np.ones((2, 2)) * 1j, TraceNorm(1.0), {}, "must be real"),
        (GOOD, TailSum(3, 1.0), {}, r"theta must be in \[0, 2\].*got 3. Lower theta"),
        (GOOD, TraceNorm(1.0), {"method": "sparse"}, "'auto', 'dense' or 'factored', got 'sparse'"),
        (GOOD, TraceNorm(1.0), {"exact": True, "method": "factored"}, "exact=True needs full decompositions"),
        (GOOD, TraceNorm(1.0), {"exact": True, "max_rank": 1}, "belong to the noisy problem"),
        (GOOD, TraceNorm(0.0), {"method": "factored"}, "alpha must be positive"),
        (GOOD, TailSum(2, 1.0), {"max_rank": 1}, r"at least theta \(2\), got 1"),
        (GOOD, TraceNorm(1.0), {"max_rank": 1.5}, r"max_rank must be None or an int.*got 1\.5"),
        (GOOD * 1e160, TraceNorm(1.0), {}, "Rescale M"),
        (GOOD * 1e-200, TraceNorm(1.0), {}, "Rescale M"),
        (GOOD, TraceNorm(1.0), {"max_iter": 0}, "max_iter must be"),
        (GOOD, TraceNorm(1.0), {"tol": -1.0}, "tol must be finite and at least 0"),
    ],
)
def test_values(M, penalty, options, message):
    with pytest.raises(ValueError, match=message):
        complete(M, penalty, **options)


def test_types():
    with pytest.raises(TypeError, match="penalty must be a TailSum or TraceNorm"):
        complete(GOOD, 1.0)
    with pytest.raises(TypeError, match="rule='exact'"):
        complete(GOOD, TailSum(1, 1.0, rule="paper"))
    with pytest.raises(TypeError, match="M must hold numbers"):
        complete(np.array([["a", "b"]]), TraceNorm(1.0))
    with pytest.raises(TypeError, match="start must be a Completion or None, got 3"):
        complete(GOOD, TraceNorm(1.0), start=3)


def test_entries_stored_twice():
    M = sp.coo_array((np.ones(2), ([1, 1], [2, 2])), shape=(3, 3))
    with pytest.raises(ValueError, match="row 1, column 2 twice"):
        complete(M, TraceNorm(1.0))


def test_a_start_of_another_shape():
    with pytest.raises(ValueError, match=r"shape of M, \(2, 3\), got \(3, 2\)"):
        complete(GOOD, TraceNorm(0.1), start=complete(GOOD.T, TraceNorm(0.1)))


def test_values_wants_pairs():
    with pytest.raises(ValueError, match="of one length"):
        complete(GOOD, TraceNorm(0.1)).values([0, 1], [0])


def test_zeros_are_completed_by_zeros():
    done = complete(np.array([[0.0, NAN], [NAN, 0.0]]), TraceNorm(1.0))
    assert done.rank == 0
    np.testing.assert_array_equal(done.dense(), np.zeros((2, 2)))


def test_select_alpha_checks_its_share():
    with pytest.raises(ValueError, match=r"share must be between 0 and 1, got 1\.5"):
        select_alpha(GOOD, share=1.5)
    with pytest.raises(ValueError, match="n_alphas must be an int of at least 1, got 0"):
        select_alpha(GOOD, n_alphas=0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"share": "a"}, ValueError, "share must be between 0 and 1, got 'a'"),
        ({"share": None}, ValueError, "share must be between 0 and 1, got None"),
        ({"theta": 1.5}, TypeError, "theta of a penalty must be an int, got 1.5"),
        ({"random_state": "x"}, ValueError, "random_state must be an int of at least 0.*got 'x'"),
        ({"random_state": -1}, ValueError, "random_state must be an int of at least 0.*got -1"),
    ],
)
def test_choices_of_alpha(options, error, message):
    with pytest.raises(error, match=message):
        select_alpha(GOOD, **options)
