"""Predictions and metrics on a cluster equal those in memory."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import cluster_blocks as cb

pytest.importorskip("distributed", reason="Dask is not installed")

import dask
import dask.array as da
import dask.dataframe as dd
from dask import delayed

from lrml import LRML, MLFro, SpectralRegressor
from lrml.engines.dask import decision_function, predict, predict_top_k, score

X, Y = cb.everything(6)
Y[[3, 50]] = 0  # rows without a label, which some metrics leave out
x, y = da.from_array(X, chunks=(50, 6)), da.from_array(Y, chunks=(180, -1))


@pytest.fixture(scope="module")
def model():
    return LRML(2, 1.0).fit(X, Y)


def test_answers_are_lazy_arrays(model, client):
    for found, expected in (
        (predict(model, x), model.predict(X)),
        (decision_function(model, x), model.decision_function(X)),
        (predict_top_k(model, x, 3).labels, model.predict_top_k(X, 3).labels),
        (predict_top_k(model, x).scores, model.predict_top_k(X).scores),
    ):
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype, found.chunks[0]) == (expected.shape, expected.dtype, x.chunks[0])
        np.testing.assert_allclose(client.compute(found).result(), expected, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="k is 6"):
        predict_top_k(model, x, 6)
    with pytest.raises(TypeError, match="Delayed"):
        predict(model, X)


def test_dataframes_and_delayed_rows_of_unknown_number(client):
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(cb.N_FEATURES)])
    labels = pd.DataFrame(Y, columns=list("abcde"))
    model = MLFro(0.5).fit(frame, labels)
    rows = dd.from_pandas(frame, npartitions=3)
    top = client.gather(client.compute(list(predict_top_k(model, rows, 2))))
    assert top[0].tolist() == model.predict_top_k(frame, 2).labels.tolist()
    assert np.array_equal(
        dask.compute(predict(model, [delayed(frame[:70]), delayed(frame[70:])]))[0], model.predict(frame)
    )
    targets = dd.from_pandas(labels, npartitions=3)
    assert score(model, rows, targets, client=client) == pytest.approx(model.score(frame, labels), rel=1e-12)
    with pytest.raises(ValueError, match="'x1'"):
        score(model, rows[[*frame.columns[1:], "x0"]], targets, client=client)
    with pytest.raises(ValueError, match="'b'"):
        score(model, rows, targets[list("bacde")], client=client)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame], ids=["dense", "sparse", "frame"])
def test_partitions_without_rows(form):
    data = form(X.astype(np.float32))  # single precision, which answers keep
    model = MLFro(0.5).fit(data, sp.csr_array(Y) if form is sp.csr_array else Y)
    rows = [delayed(data[cut]) for cut in (slice(0, 70), slice(70, 70), slice(70, None))]
    found, top = dask.compute(predict(model, rows), list(predict_top_k(model, rows, 2)), scheduler="sync")
    assert sp.issparse(found) == (form is sp.csr_array)
    assert (found != model.predict(data)).sum() == 0
    expected = model.predict_top_k(data, 2)
    np.testing.assert_allclose(top[1], expected.scores, rtol=1e-6)
    assert top[1].dtype == expected.scores.dtype or form is pd.DataFrame


def test_scores_equal_those_in_memory(model, client):
    targets = np.hstack([X[:, :2] ** 2, np.ones((len(X), 1))])
    words = np.where(Y[:, 0] == 1, "yes", "no")
    one_label = MLFro(0.5).fit(X, words)
    for fitted, given in (
        (model, Y),
        (SpectralRegressor(alpha=0.0, ridge=0.5).fit(X, targets), targets),
        (one_label, words),
    ):
        found = score(fitted, x, da.from_array(given, chunks=60), client=client)
        assert found == pytest.approx(fitted.score(X, given), rel=1e-12)
    assert np.array_equal(client.compute(predict(one_label, x)).result(), one_label.predict(X))
    assert decision_function(one_label, x).shape == (len(X),)
    with pytest.raises(ValueError, match="average precision"):
        score(model, x, da.zeros_like(y), client=client)
