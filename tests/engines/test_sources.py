"""Rows that Dask has in any form: the same model, and errors that say which block and what to do."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

import cluster_blocks as cb

pytest.importorskip("distributed", reason="Dask is not installed")

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
from dask import delayed
from distributed import Client, futures_of

from lrml import LEMLCV, LRML, LRMLCV, MLFro
from lrml.blocks import BlockError, statistics_of
from lrml.core.moments import Statistics
from lrml.engines.dask import ClusterError, DaskBlocks, connect, fit

FEATURES = [f"x{i}" for i in range(cb.N_FEATURES)]
LABELS = [f"y{i}" for i in range(cb.N_LABELS)]
X, Y = cb.everything(6)
WEIGHTS = cb.weights(len(X))


def assert_same(model, weights=None):
    expected = MLFro(0.5).fit(X, Y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-10, atol=1e-12)


def files(folder, cuts=(0, 70, 100, 180)):
    paths = []
    for start, stop in pairwise(cuts):
        paths.append(folder / f"{start}.svm")
        dump_svmlight_file(X[start:stop], Y[start:stop], str(paths[-1]), multilabel=True, zero_based=False)
    return paths


def test_arrays_with_chunks_of_any_shape(client):
    arrays = da.from_array(X, chunks=(40, 5)), da.from_array(Y, chunks=(70, 2))
    weights = da.from_array(WEIGHTS, chunks=25)
    assert_same(fit(MLFro(0.5), *arrays, sample_weight=weights, client=client), WEIGHTS)
    sparse = da.from_array(X, chunks=(40, -1)).map_blocks(sp.csr_array)
    model = fit(MLFro(0.5), sparse, da.from_array(Y, chunks=(40, -1)), client=client)
    assert_same(model)
    assert not model.sparse_output_


def test_sparse_delayed_blocks_with_weights(client):
    model = fit(MLFro(0.5), [delayed(cb.sparse)(number) for number in range(6)], client=client)
    assert_same(model, WEIGHTS)
    assert model.sparse_output_


@pytest.mark.filterwarnings("ignore:.*scheduler address.*")
def test_dataframes_name_features_and_labels(client):
    frame = pd.DataFrame(np.hstack([X, Y, WEIGHTS[:, None]]), columns=[*FEATURES, *LABELS, "w"])
    together = dd.from_pandas(frame, npartitions=4)
    address = client.scheduler.address
    model = fit(MLFro(0.5), together, LABELS, sample_weight="w", client=address)
    assert_same(model, WEIGHTS)
    assert model.feature_names_in_.tolist() == FEATURES
    assert model.classes_.tolist() == LABELS
    assert_same(fit(MLFro(0.5), together[FEATURES], together[LABELS], client=client))
    mixed = fit(
        MLFro(0.5), together[[*FEATURES, *LABELS]], tuple(LABELS), sample_weight=together["w"], client=client
    )
    assert_same(mixed, WEIGHTS)
    with pytest.raises(TypeError, match="y is None"):
        fit(MLFro(0.5), together, client=client)
    with pytest.raises(ValueError, match="no column 'red'"):
        DaskBlocks.from_dataframes(together, ["red"])
    with pytest.raises(ValueError, match="4 and 2"):
        DaskBlocks.from_dataframes(together[FEATURES], dd.from_pandas(frame[LABELS], npartitions=2))


def test_files_are_read_block_by_block_where_the_workers_are(client, tmp_path):
    paths = files(tmp_path)
    source = DaskBlocks.from_files(paths, rows=20, client=client)
    assert_same(fit(MLFro(0.5), source))
    assert source.sum(cb.places).steps == (
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 1),
        *[(2, i) for i in range(4)],
    )


def test_a_search_finds_what_it_finds_in_this_process(client):
    search = LRMLCV(thetas=[0, 2], alphas=[0.1, 10.0], cv=3)
    blocks = list(map(cb.make, range(6)))
    expected = clone(search).fit_blocks(blocks)
    found = fit(search, [delayed(cb.make)(number) for number in range(6)], client=client)
    assert found.best_params_ == pytest.approx(expected.best_params_, rel=1e-9)
    np.testing.assert_allclose(found.best_score_, expected.best_score_, rtol=1e-10)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


def test_a_bag_of_files(client, tmp_path):
    names = []
    for path in files(tmp_path):
        names.append(str(path.with_suffix(".csv")))
        start = int(path.stem)
        stop = start + len(path.read_text().splitlines())
        frame = pd.DataFrame(
            np.hstack([X[start:stop], Y[start:stop].astype(int)]), columns=[*FEATURES, *LABELS]
        )
        frame.to_csv(names[-1], index=False)
    source = DaskBlocks.from_files(names, labels=LABELS, client=client)
    assert_same(fit(MLFro(0.5), source, client=client))
    with pytest.raises(BlockError, match="block 0"):  # nothing says which columns are labels
        fit(MLFro(0.5), db.from_sequence(names), client=client)


def test_a_bad_row_is_named_and_what_was_summed_before_stays(client):
    blocks = [delayed(cb.make)(number) for number in range(6)]
    blocks[2], blocks[4] = delayed(cb.spoiled)(2, 17), delayed(cb.spoiled)(4, 10)
    with pytest.raises(BlockError, match=r"block 2, row 17: .*NaN") as caught:
        fit(MLFro(0.5), DaskBlocks.from_delayed(blocks, client=client))
    assert (caught.value.block, caught.value.row) == (2, 17)
    expected = Statistics.from_arrays(X[:60], Y[:60])
    np.testing.assert_allclose(caught.value.sums.xx, expected.xx, rtol=1e-10)
    assert caught.value.sums.n_rows == 60
    assert MLFro(0.5).fit_statistics(caught.value.sums).rank_ == cb.N_LABELS


def test_a_bad_row_in_a_file_leaves_the_blocks_before_it(client, tmp_path):
    paths = files(tmp_path)
    lines = paths[1].read_text().splitlines()
    lines[25] = lines[25].split(" ")[0] + " 1:nan"
    paths[1].write_text("\n".join(lines) + "\n")
    source = DaskBlocks.from_files(paths, rows=20, client=client)
    with pytest.raises(BlockError, match="block 1, row 25") as caught:
        source.sum(statistics_of)
    assert caught.value.sums.n_rows == 90


def test_blocks_with_other_columns_are_refused(client):
    narrow = delayed(cb.narrow)(1)
    with pytest.raises(BlockError, match=r"block 1 .*11 features.*12"):
        fit(MLFro(0.5), [delayed(cb.make)(0), narrow], client=client)


def test_wrong_collections(client):
    x, y = da.from_array(X, chunks=(60, -1)), da.from_array(Y, chunks=(60, -1))
    unknown = x[x[:, 0] > 0]
    with pytest.raises(ValueError, match=r"nan.*X.compute_chunk_sizes\(\)"):
        fit(MLFro(), unknown, y, client=client)
    with pytest.raises(ValueError, match=r"180 rows.* 100"):
        fit(MLFro(), x, y[:100], client=client)
    with pytest.raises(TypeError, match="y is a ndarray"):
        fit(MLFro(), x, Y, client=client)
    with pytest.raises(TypeError, match=r"X is a ndarray and y a ndarray"):
        fit(MLFro(), X, Y, client=client)
    for model in (MLFro(), LRMLCV()):
        with pytest.raises(TypeError, match=r"lrml.engines.dask.fit\(model, X, y\)"):
            model.fit_blocks(x)
    with pytest.raises(TypeError, match="LEMLCV has no fit_blocks"):
        fit(LEMLCV(), x, y, client=client)
    for more in ({"y": y}, {"sample_weight": x[:, 0]}):  # which would be ignored
        with pytest.raises(TypeError, match=rf"of their own, and {next(iter(more))} "):
            fit(MLFro(), DaskBlocks.from_arrays(x, y, client=client), **more)
    with pytest.raises(ValueError, match="no block"):
        DaskBlocks.from_delayed([])
    with pytest.raises(TypeError, match="tuple, not a Delayed"):
        DaskBlocks.from_delayed([(X, Y)])
    with pytest.raises(TypeError, match=r"'tcp://.*connect\(address\)"):
        DaskBlocks.from_delayed([delayed(cb.make)(0)], client="tcp://127.0.0.1:1")
    with pytest.raises(ClusterError, match="no current client"):
        DaskBlocks.from_arrays(x, y).sum(statistics_of)
    with pytest.raises(ClusterError, match="'nowhere'"), connect("nowhere"):
        pass


def test_a_connected_client_is_the_current_one(monkeypatch):
    x, y = da.from_array(X, chunks=(60, -1)), da.from_array(Y, chunks=(60, -1))
    with connect(n_workers=1, processes=False) as own:
        monkeypatch.setattr("lrml.engines.dask.LocalCluster", None)  # there will be no other
        assert Client.current() is own
        kept = x.persist()
        assert {future.client for future in futures_of(kept)} == {own}
        found = fit(MLFro(0.5), kept, y)
        with connect(own) as same:
            assert same is own
    assert_same(found)
    with pytest.raises(ValueError, match="No clients found"):
        Client.current()
    with pytest.raises(TypeError, match=r"_GeneratorContextManager.* with .*connect\(address\) as client"):
        fit(MLFro(), x, y, client=connect("tcp://127.0.0.1:1"))


@pytest.mark.parametrize("method", ["fit", "predict", "score"])
def test_estimators_refuse_what_they_would_load_as_a_whole(method):
    x, y = da.from_array(X, chunks=(60, -1)), da.from_array(Y, chunks=(60, -1))
    model = LRML(2, 1.0).fit(X, Y)
    rule = r"values at hand, got a Dask (Array|DataFrame)\. Use fit\(model, X, y\).*lrml.engines.dask"
    for argument in (x, dd.from_dask_array(x)):
        with pytest.raises(TypeError, match=rule):
            getattr(model, method)(*((argument,) if method == "predict" else (argument, Y)))
    if method != "predict":
        with pytest.raises(TypeError, match=rf"^Y .*{rule}"):
            getattr(model, method)(X, y)
