"""Blocks in threads: the same results, in order, whatever the number of threads; and the limit of BLAS."""

import os
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lrml.core.arrays import (
    map_in_threads,
    one_blas_thread,
    one_blas_thread_if,
    threads_to_share,
)
from lrml.core.linalg import descending_eigh, thin_svd


def most_threads():
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch):
    """Let no other process decide how many threads there are."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)


@pytest.fixture(params=[1, 2, 4])
def threads(request):
    """The number of threads of BLAS, which is the same after the test."""
    with threadpool_limits(request.param, user_api="blas"):
        yield request.param
        assert most_threads() == threads_to_share() == request.param


@pytest.mark.parametrize("ahead", [0, 5])
@pytest.mark.parametrize("small", [False, True])
def test_results_come_in_order_and_no_more_is_begun_ahead_than_allowed(threads, ahead, small):
    begun = []

    def work(number):
        begun.append(number)
        if number == 0:
            time.sleep(0.02)  # the first comes last, and still is first in line
        return number**2, most_threads()

    results = map_in_threads(work, range(12), ahead=ahead, small=small)
    found = [next(results)]
    assert len(begun) <= (1 if threads == 1 or small else threads + ahead)  # alone, a thread works on demand
    found += results
    assert found == [(number**2, 1) for number in range(12)]
    assert sorted(begun) == list(range(12))
    assert [*map_in_threads(work, [7])] == [(49, threads)]  # one item has all threads of BLAS


def test_as_many_threads_as_blas_has_and_none_to_share_in_them(threads):
    barrier = threading.Barrier(threads, timeout=300)

    def work(_):
        barrier.wait()  # passes only if all of them are at work at once
        return threads_to_share()

    assert list(map_in_threads(work, range(2 * threads))) == [1] * (2 * threads)


def test_an_error_in_a_block_reaches_the_caller_and_ends_the_limit(threads):
    def fail(number):
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError, match="0"):
        list(map_in_threads(fail, range(10)))
    with pytest.raises(ZeroDivisionError), one_blas_thread:
        fail(1)


def test_small_matrices_are_decomposed_by_one_thread_and_large_ones_by_all(threads, monkeypatch):
    seen = {}

    def watched(matrix, **_):
        seen[len(matrix)] = most_threads()
        return np.ones(len(matrix)), matrix, matrix

    # Nothing is decomposed here: on busy cores, many threads would take seconds.
    monkeypatch.setattr("numpy.linalg.eigh", lambda matrix: watched(matrix)[:2])
    monkeypatch.setattr("numpy.linalg.svd", watched)
    for decompose, sizes in ((descending_eigh, (50, 300)), (thin_svd, (60, 310))):
        for size in sizes:
            decompose(np.eye(size))
    assert seen == {50: 1, 300: threads, 60: 1, 310: threads}


@pytest.mark.parametrize(("load", "busy"), [(3.0, True), (1.0, False)])
def test_blas_gets_one_thread_while_others_keep_the_cores_busy(threads, monkeypatch, load, busy):
    monkeypatch.setattr(os, "getloadavg", lambda: (load * (os.cpu_count() or 1), 0.0, 0.0))
    for wanted in (False, True):
        with one_blas_thread_if(wanted):
            assert most_threads() == (1 if busy or wanted else threads)
