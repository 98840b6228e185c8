"""Rows that Dask has in any form: the same model, and errors that say which block and what to do."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import cluster_blocks as cb

pytest.importorskip("distributed", reason="Dask is not installed")

import dask.array as da
import dask.dataframe as dd
from dask import delayed
from distributed import Client, futures_of

from lrml import LRML, MLFro
from lrml.blocks import BlockError
from lrml.core.moments import Statistics
from lrml.datasets import open_source
from lrml.engines.dask import ClusterError, DaskBlocks, connect, fit

FEATURES = [f"x{i}" for i in range(cb.N_FEATURES)]
LABELS = [f"y{i}" for i in range(cb.N_LABELS)]
X, Y = cb.everything(6)
WEIGHTS = cb.weights(len(X))
x, y = da.from_array(X, chunks=(60, -1)), da.from_array(Y, chunks=(60, -1))


def assert_same(model, weights=None):
    expected = MLFro(0.5).fit(X, Y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-10, atol=1e-12)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Names of files with 70, 30 and 80 rows, in a folder where the workers are not."""
    monkeypatch.chdir(tmp_path)
    names = []
    for start, stop in pairwise((0, 70, 100, 180)):
        names.append(f"{start}.svm")
        dump_svmlight_file(X[start:stop], Y[start:stop], names[-1], multilabel=True, zero_based=False)
    return names


def test_arrays_with_chunks_of_any_shape_and_sparse_delayed_blocks(client):
    arrays = da.from_array(X, chunks=(40, 5)), da.from_array(Y, chunks=(70, 2))
    weights = da.from_array(WEIGHTS, chunks=25)
    assert_same(fit(MLFro(0.5), *arrays, sample_weight=weights, client=client), WEIGHTS)
    model = fit(MLFro(0.5), x.map_blocks(sp.csr_array), Y, client=client)
    assert_same(model)
    assert not model.sparse_output_
    model = fit(MLFro(0.5), [delayed(cb.sparse)(number) for number in range(6)], client=client)
    assert_same(model, WEIGHTS)
    assert model.sparse_output_


@pytest.mark.filterwarnings("ignore:.*scheduler address.*")
def test_dataframes_name_features_and_labels(client):
    frame = pd.DataFrame(np.hstack([X, Y, WEIGHTS[:, None]]), columns=[*FEATURES, *LABELS, "w"])
    together = dd.from_pandas(frame, npartitions=4)
    model = fit(MLFro(0.5), together, LABELS, sample_weight="w", client=client.scheduler.address)
    assert_same(model, WEIGHTS)
    assert model.feature_names_in_.tolist() == FEATURES
    assert model.classes_.tolist() == LABELS
    assert_same(fit(MLFro(0.5), together[FEATURES], together[LABELS], client=client))
    with pytest.raises(KeyError, match="red"):
        DaskBlocks(together, ["red"])
    with pytest.raises(ValueError, match="partitions"):
        DaskBlocks(together[FEATURES], dd.from_pandas(frame[LABELS], npartitions=2))


def test_files_are_read_block_by_block_where_the_workers_are(client, files):
    source = DaskBlocks(open_source(files, rows=20))
    assert_same(fit(MLFro(0.5), source, client=client))
    with client.as_current():
        found = source.sum(cb.trail, np.ones(1)).steps
    assert found == tuple((file, piece) for file, n in enumerate((4, 2, 4)) for piece in range(n))


def test_the_first_bad_row_is_named_and_what_was_summed_before_stays(client, files, tmp_path):
    blocks = [delayed(cb.make)(number) for number in range(6)]
    blocks[2], blocks[4] = delayed(cb.spoiled)(2, 17), delayed(cb.spoiled)(4, 10)
    lines = Path(files[1]).read_text().splitlines()
    lines[25] = lines[25].split(" ")[0] + " 1:nan"
    Path(files[1]).write_text("\n".join(lines) + "\n")
    for rows, place, n_rows in ((blocks, (2, 17), 60), (open_source(files, rows=20), (1, 25), 90)):
        for checkpoint in (None, tmp_path / f"sums {n_rows}.npz"):
            with pytest.raises(BlockError) as caught:
                fit(MLFro(0.5), rows, client=client, checkpoint=checkpoint)
            assert (caught.value.block, caught.value.row) == place
            expected = Statistics.from_arrays(X[:n_rows], Y[:n_rows])
            np.testing.assert_allclose(caught.value.sums.xx, expected.xx, rtol=1e-10)
            assert caught.value.sums.n_rows == n_rows
    with pytest.raises(BlockError, match=r"11 .*12") as caught:
        fit(MLFro(0.5), [delayed(cb.make)(0), delayed((X[:, 1:], Y))], client=client)
    assert caught.value.block == 1


def test_wrong_collections(client):
    with pytest.raises(ValueError, match=r"compute_chunk_sizes\(\)"):
        fit(MLFro(), x[x[:, 0] > 0], y)
    with pytest.raises(ValueError, match="100"):
        fit(MLFro(), x, y[:100])
    for rows in ((X, Y), ([(X, Y)],)):
        with pytest.raises(TypeError, match="Delayed"):
            fit(MLFro(), *rows)
    with pytest.raises(ValueError, match="no block"):
        fit(MLFro(), [], client=client)
    for alone in (x, DaskBlocks(x, y)):  # without labels; with those that would be ignored
        with pytest.raises(BlockError, match="block 0"):
            fit(MLFro(), alone, None if alone is x else y, client=client)
    with pytest.raises(ClusterError, match="nonsense"), connect("nonsense://x"):
        pass


def test_a_connected_client_is_the_current_one():
    with connect(n_workers=1, processes=False) as own:
        assert Client.current() is own
        kept = x.persist()
        assert {future.client for future in futures_of(kept)} == {own}
        with connect() as same, connect(own) as again:
            assert same is again is own
        assert_same(fit(MLFro(0.5), kept, y))
    with pytest.raises(ValueError, match="No clients found"):
        Client.current()


@pytest.mark.parametrize("method", ["fit", "predict", "score"])
def test_estimators_refuse_what_they_would_load_as_a_whole(method):
    model = LRML(2, 1.0).fit(X, Y)
    for argument in (x, dd.from_dask_array(x)):
        with pytest.raises(TypeError, match=r"lrml\.engines\.dask"):
            getattr(model, method)(*((argument,) if method == "predict" else (argument, Y)))
    if method != "predict":
        with pytest.raises(TypeError, match=r"^Y .*lrml\.engines\.dask"):
            getattr(model, method)(X, y)
