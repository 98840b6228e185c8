"""Blocks in threads: the same results, in order, whatever the number of threads."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lrml import MLFro
from lrml import rows as rows_module
from lrml._threads import map_in_threads


@pytest.fixture(params=[1, 2, 4])
def threads(request):
    with threadpool_limits(request.param, user_api="blas"):
        yield request.param


def test_results_come_in_order(threads):
    assert list(map_in_threads(lambda number: number**2, range(50))) == [number**2 for number in range(50)]


@pytest.mark.parametrize("ahead", [0, 1, 5, 50])
def test_no_more_is_begun_ahead_than_allowed_and_nothing_is_lost(threads, ahead):
    begun = []

    def work(number):
        begun.append(number)
        if number == 0:
            time.sleep(0.05)  # the first comes last, and still is first in line
        return number**2

    results = map_in_threads(work, range(30), ahead=ahead)
    first = next(results)
    # Alone, one thread works on demand.
    assert len(begun) <= (1 if threads == 1 else threads + ahead)
    assert [first, *results] == [number**2 for number in range(30)]
    assert sorted(begun) == list(range(30))


def test_as_many_threads_as_blas_has_and_one_blas_thread_each(threads):
    seen = set()
    barrier = threading.Barrier(threads, timeout=300)

    def work(_):
        if threads > 1:
            barrier.wait()  # passes only if all of them are at work at once
            seen.add(
                max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
            )

    list(map_in_threads(work, range(2 * threads)))
    assert seen == (set() if threads == 1 else {1})


def test_an_error_in_a_block_reaches_the_caller(threads):
    def fail(number):
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError, match="0"):
        list(map_in_threads(fail, range(10)))


def test_a_fit_does_not_depend_on_the_number_of_threads(monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    Y = (X @ random.normal(size=(4, 3)) > 0).astype(int)
    monkeypatch.setattr(rows_module, "_BLOCK_SCORES", 120)
    coefs = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            coefs.append(MLFro(1.0, loss="logistic").fit(X, Y).coef_)
    np.testing.assert_array_equal(*coefs)
