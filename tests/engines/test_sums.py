"""Fits on a cluster: the same bits whoever sums what, and whoever is lost on the way."""

from contextlib import ExitStack

import numpy as np
import pytest
from sklearn.base import clone

import cluster_blocks as cb

pytest.importorskip("distributed", reason="Dask is not installed")

import dask
import dask.array as da
from dask import delayed
from distributed import Client

from forking import CAN_FORK, Program
from lrml import CPLST, LRML, LRMLCV, MLFro, MLTrace
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
    with client.as_current():
        return DaskBlocks(delayed_blocks(40)).sum(statistics_of)


@pytest.mark.parametrize("rows", [300, 17])
@pytest.mark.parametrize("model", [LRML(2, 1.0, tol=1e-10), MLTrace(2.0, tol=1e-10), MLFro(0.5), CPLST(3)])
def test_one_block_and_many_equal_a_fit_in_memory(model, rows, client):
    X, Y = cb.everything(10)
    expected = clone(model).fit(X, Y)
    found = fit(model, *(da.from_array(part, chunks=(rows, -1)) for part in (X, Y)), client=client)
    assert found is model
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize(
    "options", [{"loss": "logistic", "tol": 1e-3}, {"solver": "compressed", "tol": 1e-6}]
)
def test_fits_that_read_the_rows_again_make_a_round_for_each_pass(client, options):
    blocks = [cb.make(number, rows) for number, rows in enumerate((30, 5, 55, 20, 5))]
    if "loss" in options:
        blocks[2][1][:20, 1] = np.nan
    local = LRML(1, 2.0, ridge=0.5, **options).fit_blocks(blocks)
    found = fit(clone(local), [delayed(block) for block in blocks], client=client)
    assert found.n_passes_ == local.n_passes_ > 1
    np.testing.assert_allclose(found.coef_, local.coef_, rtol=0, atol=1e-6 * np.abs(local.coef_).max())


def test_a_search_finds_what_it_finds_in_this_process(client):
    search = LRMLCV(thetas=[0, 2], alphas=[0.1, 10.0], cv=3)
    expected = clone(search).fit_blocks(list(map(cb.make, range(6))))
    found = fit(search, delayed_blocks(6), client=client)
    assert found.best_params_ == pytest.approx(expected.best_params_, rel=1e-9)
    np.testing.assert_allclose(found.best_score_, expected.best_score_, rtol=1e-10)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


def test_killed_workers_and_a_lack_of_memory_change_no_bit(client, quiet, tmp_path):
    special = {30: delayed(cb.killing)(30, str(tmp_path))}
    special[7] = delayed(cb.short_of_memory)(7, str(tmp_path))
    model = fit(MLFro(0.5), delayed_blocks(40, special), client=client)
    assert len(list(tmp_path.iterdir())) == 2
    assert bits(model.statistics_) == bits(quiet)
    calm = fit(MLFro(0.5), delayed_blocks(40), client=client)
    assert model.coef_.tobytes() == calm.coef_.tobytes()


@pytest.mark.parametrize("options", [{}, {"checkpoint": "sums.npz"}])
def test_what_a_cluster_cannot_do_is_not_tried_for_ever(options, client, tmp_path):
    options = {name: tmp_path / value for name, value in options.items()}
    always = delayed_blocks(3, {1: delayed(cb.short_of_memory)(1, None)})
    with pytest.raises(ClusterError, match="no room for this block"):
        fit(MLFro(0.5), always, client=client, **options)
    with pytest.raises(FileNotFoundError):  # which is no lost connection
        fit(MLFro(0.5), delayed_blocks(3, {1: delayed(open)("absent")}), client=client, **options)
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "100 ms"}),
        connect(n_workers=0, processes=False) as empty,
        pytest.raises(ClusterError, match="no workers"),
    ):
        fit(MLFro(0.5), delayed_blocks(2), client=empty, **options)
    assert not list(tmp_path.iterdir())


_DASK = "from distributed.cli.dask_{} import main; main()"


@pytest.fixture
def lost_cluster(tmp_path):
    """A client of a scheduler that is a process of its own, and the number of that process."""
    address = tmp_path / "scheduler.json"
    shared = ["--scheduler-file", str(address), "--no-dashboard"]
    programs = {"scheduler": ["--port", "0"], "worker": ["--no-nanny", "--nthreads", "1"]}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(Program(*options, *shared, code=_DASK.format(name)))
            for name, options in programs.items()
        ]
        with dask.config.set({"distributed.comm.timeouts.connect": "60s"}):
            client = stack.enter_context(Client(scheduler_file=str(address), set_as_default=False))
        yield client, processes[0].pid


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_a_lost_scheduler_leaves_a_checkpoint_to_go_on_from(lost_cluster, client, tmp_path):
    lost, pid = lost_cluster
    path = tmp_path / "sums.npz"
    blocks = [delayed(cb.killing_scheduler)(number, pid, str(path)) for number in range(40)]
    checkpoint = Checkpoint(path, seconds=0)  # written after every group
    with pytest.raises(ClusterError, match="scheduler was lost"):
        fit(MLFro(0.5), blocks, client=lost, checkpoint=checkpoint)
    kept = Checkpoint(path).start()
    assert kept.n_blocks in (16, 32)
    assert_close(kept.total, Statistics.from_arrays(*cb.everything(kept.n_blocks)))
    with pytest.raises(ValueError, match=r"sums\.npz"):
        fit(MLFro(0.5), delayed_blocks(40)[::-1], client=client, checkpoint=path)
    resumed = fit(MLFro(0.5), delayed_blocks(40), client=client, checkpoint=path)
    calm = fit(MLFro(0.5), delayed_blocks(40), client=client, checkpoint=tmp_path / "calm.npz")
    assert bits(resumed.statistics_) == bits(calm.statistics_)
    assert_close(calm.statistics_, LocalBlocks(list(map(cb.make, range(40)))).sum(statistics_of))
