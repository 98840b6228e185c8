"""Blocks in threads: the same results, in order, whatever the number of threads; and the limit of BLAS."""

import os
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lrml import LRML, LRMLCV, MLFro, lrml_path
from lrml.core import rows as rows_module
from lrml.core.arrays import descending_eigh, thin_svd
from lrml.core.threads import map_in_threads, one_blas_thread, one_blas_thread_if, threads_to_share


def most_threads():
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch):
    """Let no other process decide how many threads there are."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)


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
            seen.add(most_threads())

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


# The limit of BLAS


def test_the_limit_ends_with_its_context_and_after_an_error(threads):
    with one_blas_thread:
        assert most_threads() == 1
        assert threads_to_share() == threads  # what BLAS leaves may be shared by workers
    assert most_threads() == threads_to_share() == threads
    assert list(map_in_threads(lambda _: threads_to_share(), range(4))) == [1] * 4

    def fail():
        with one_blas_thread:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert most_threads() == threads


def test_a_nested_limit_ends_with_the_outer_one(threads):
    with one_blas_thread:
        with one_blas_thread:
            assert most_threads() == 1
        assert most_threads() == 1
        assert list(map_in_threads(lambda _: most_threads(), range(4))) == [1] * 4
        assert most_threads() == 1
    assert most_threads() == threads


def test_limits_of_several_threads_that_overlap_leave_nothing_behind(threads):
    entered, left = threading.Event(), threading.Event()
    seen = []

    def later():
        entered.wait(timeout=300)
        with one_blas_thread:  # begins inside the other's limit and outlasts it
            seen.append(most_threads())
            left.wait(timeout=300)
            with one_blas_thread:
                pass

    other = threading.Thread(target=later)
    other.start()
    with one_blas_thread:
        entered.set()
        while not seen:
            time.sleep(0.001)
    left.set()
    other.join()
    assert seen == [1]
    assert most_threads() == threads


def test_a_limit_in_another_thread_does_not_keep_this_one_from_setting_its_own():
    left, done = threading.Event(), threading.Event()

    def work():
        with one_blas_thread:
            pass
        left.set()
        done.wait(timeout=300)  # threadpoolctl listens to one thread, as long as that is alive

    other = threading.Thread(target=work)
    other.start()
    try:
        assert left.wait(timeout=300)
        with threadpool_limits(3, user_api="blas"):
            assert most_threads() == 3
    finally:
        done.set()
        other.join()


def test_many_threads_that_limit_at_random_leave_nothing_behind(threads):
    def work():
        for _ in range(200):
            with one_blas_thread, one_blas_thread:
                pass

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most_threads() == threads


@pytest.mark.parametrize("size", [3, 50, 100])
def test_decompositions_leave_the_number_of_threads_alone(threads, size):
    root = np.random.default_rng(0).normal(size=(size, size))
    values, vectors = descending_eigh(root @ root.T)
    np.testing.assert_allclose((vectors * values) @ vectors.T, root @ root.T, atol=1e-9 * size)
    U, s, Vt = thin_svd(root)
    np.testing.assert_allclose((U * s) @ Vt, root, atol=1e-10 * size)
    assert most_threads() == threads


def test_small_matrices_are_decomposed_by_one_thread_and_large_ones_by_all(threads, monkeypatch):
    seen = {}

    def watched(matrix):
        seen[len(matrix)] = most_threads()
        return np.ones(len(matrix)), matrix

    # Nothing is decomposed here: on busy cores, many threads would take seconds.
    monkeypatch.setattr("numpy.linalg.eigh", watched)
    for size in (50, 300):
        descending_eigh(np.eye(size))
    assert seen == {50: 1, 300: threads}


def test_fits_paths_and_searches_leave_the_number_of_threads_alone(threads):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 8))
    Y = (X @ random.normal(size=(8, 5)) > 0).astype(int)
    LRML(2, 1.0).fit(X, Y)
    lrml_path(X, Y, [0, 2], n_alphas=3)
    LRMLCV([0, 2], [1.0], [0.0], cv=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="theta"):
        LRML(99).fit(X, Y)
    assert most_threads() == threads


def test_blas_gets_one_thread_while_others_keep_the_cores_busy(threads, monkeypatch):
    cores = os.cpu_count() or 1
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0 * cores, 0.0, 0.0))
    with one_blas_thread_if(False):
        assert most_threads() == 1
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0 * cores, 0.0, 0.0))
    with one_blas_thread_if(False):
        assert most_threads() == threads
