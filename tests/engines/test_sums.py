"""Sums over blocks on a cluster: the same bits whoever computes them, and whoever is lost on the way."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import cluster_blocks as cb

pytest.importorskip("distributed", reason="Dask is not installed")

import dask
import dask.array as da
from dask import delayed
from distributed import Client

from lrml import CPLST, LRML, MLFro, MLTrace
from lrml.blocks import Checkpoint, LocalBlocks, statistics_of
from lrml.core.moments import Statistics
from lrml.engines.dask import ClusterError, DaskBlocks, connect, fit


def delayed_blocks(n_blocks, special=None):
    special = special or {}
    return [special.get(number, delayed(cb.make)(number)) for number in range(n_blocks)]


def bits(statistics):
    return {name: array.tobytes() for name, array in statistics.to_arrays().items()}


def assert_close(found, expected):
    for name, array in expected.to_arrays().items():
        np.testing.assert_allclose(getattr(found, name), array, rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module")
def quiet(client):
    """The sum over 40 blocks while nothing happens."""
    return DaskBlocks.from_delayed(delayed_blocks(40), client=client).sum(statistics_of)


def test_any_number_of_workers_gives_the_same_bits(quiet):  # which two have summed up
    X, Y = cb.everything(40)
    assert_close(quiet, Statistics.from_arrays(X, Y))
    model = LRML(2, 1.0, tol=1e-10)
    whole = LRML(2, 1.0, tol=1e-10).fit(X, Y)
    with connect(None, n_workers=4, memory_limit=0) as client:
        for n_workers in (4, 2, 1):
            client.cluster.scale(n_workers)
            deadline = time.monotonic() + 120
            while len(client.nthreads()) != n_workers and time.monotonic() < deadline:
                time.sleep(0.02)
            fit(model, delayed_blocks(40), client=client)
            assert bits(model.statistics_) == bits(quiet)
            np.testing.assert_allclose(
                model.coef_, whole.coef_, rtol=0, atol=1e-10 * np.abs(whole.coef_).max()
            )


@pytest.mark.parametrize("model", [LRML(2, 1.0, tol=1e-10), MLTrace(2.0, tol=1e-10), MLFro(0.5), CPLST(3)])
def test_one_block_and_many_equal_a_fit_in_memory(model, client):
    X, Y = cb.everything(10)
    expected = type(model)(**model.get_params()).fit(X, Y)
    for rows in (300, 17):
        arrays = da.from_array(X, chunks=(rows, -1)), da.from_array(Y, chunks=(rows, -1))
        found = fit(model, *arrays, client=client)
        assert found is model
        scale = np.abs(expected.coef_).max()
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0, atol=1e-10 * scale)
        np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("n_blocks", [1, 6, 70])
def test_blocks_are_added_in_their_order(n_blocks, client):
    source = DaskBlocks(delayed_blocks(n_blocks), client)
    assert source.sum(cb.trail, np.ones(3)).steps == tuple(range(0, 3 * n_blocks, 3))


def test_killed_workers_change_no_bit(client, quiet, tmp_path):
    special = {number: delayed(cb.killing)(number, str(tmp_path)) for number in (2, 11, 30)}
    model = fit(MLFro(0.5), delayed_blocks(40, special), client=client)
    assert len(list(tmp_path.iterdir())) == 3
    assert bits(model.statistics_) == bits(quiet)
    calm = fit(MLFro(0.5), delayed_blocks(40), client=client)
    assert model.coef_.tobytes() == calm.coef_.tobytes()


def test_a_worker_that_exceeds_its_memory_limit_changes_no_bit(client, quiet, tmp_path):
    limit = next(iter(client.scheduler_info()["workers"].values()))["memory_limit"]
    special = {7: delayed(cb.greedy)(7, str(tmp_path), int(1.2 * limit))}
    model = fit(MLFro(0.5), delayed_blocks(40, special), client=client)
    assert len(list(tmp_path.iterdir())) == 1
    assert bits(model.statistics_) == bits(quiet)


def test_a_block_that_does_not_fit_is_tried_again_but_not_for_ever(client, quiet, tmp_path):
    once = {7: delayed(cb.short_of_memory)(7, str(tmp_path))}
    source = DaskBlocks.from_delayed(delayed_blocks(40, once), client=client)
    assert bits(source.sum(statistics_of)) == bits(quiet)
    always = {7: delayed(cb.short_of_memory)(7, None)}
    source = DaskBlocks.from_delayed(delayed_blocks(40, always), client=client)
    with pytest.raises(ClusterError, match="no room for this block"):
        source.sum(statistics_of)


def test_a_cluster_without_workers_is_not_waited_for_for_ever():
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "100 ms"}),
        connect(n_workers=0, processes=False) as empty,
        pytest.raises(ClusterError, match="no workers"),
    ):
        fit(MLFro(0.5), delayed_blocks(2), client=empty)


def test_no_checkpoint_is_named_that_was_not_written(client, tmp_path):
    path = tmp_path / "sums.npz"
    source = DaskBlocks.from_delayed(delayed_blocks(2), client=client)
    assert source.columns.n_labels  # learnt while there are workers
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "100 ms"}),
        connect(n_workers=0, processes=False) as empty,
    ):
        source.client = empty
        with pytest.raises(ClusterError, match=r"sums\.npz' was not written, as the first group"):
            source.sum(statistics_of, checkpoint=Checkpoint(path))
    assert not path.exists()


@pytest.fixture
def lost_cluster(tmp_path):
    """A client of a scheduler that is a process of its own, and the number of that process."""
    address = tmp_path / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(address)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(address)]
    quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    processes = [
        subprocess.Popen([*command, "--port", "0", "--no-dashboard"], **quietly),
        subprocess.Popen([*worker, "--no-nanny", "--nthreads", "1", "--no-dashboard"], **quietly),
    ]
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": "60s"}):
            client = Client(scheduler_file=str(address), set_as_default=False)
        with client:
            yield client, processes[0].pid
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_lost_scheduler_leaves_a_checkpoint_to_go_on_from(lost_cluster, client, tmp_path):
    lost, pid = lost_cluster
    path = tmp_path / "sums.npz"
    special = {35: delayed(cb.killing_scheduler)(35, pid)}
    with pytest.raises(
        ClusterError, match=r"scheduler was lost.*sums\.npz' has the sum of the first (16|32) of 40"
    ):
        fit(MLFro(0.5), delayed_blocks(40, special), client=lost, checkpoint=path)
    kept = Checkpoint(path).start()
    assert kept.n_blocks in (16, 32)
    assert_close(kept.total, Statistics.from_arrays(*cb.everything(kept.n_blocks)))
    others = delayed_blocks(40)[::-1]
    with pytest.raises(ValueError, match=r"sums\.npz' has the sum of .* of other rows"):
        fit(MLFro(0.5), others, client=client, checkpoint=path)
    resumed = fit(MLFro(0.5), delayed_blocks(40), client=client, checkpoint=path)
    calm = fit(MLFro(0.5), delayed_blocks(40), client=client, checkpoint=tmp_path / "calm.npz")
    assert bits(resumed.statistics_) == bits(calm.statistics_)
    assert_close(calm.statistics_, LocalBlocks(list(map(cb.make, range(40)))).sum(statistics_of))
