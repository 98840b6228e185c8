"""Models of feature rows, and what happens when the server is busy or fails; asked without a process."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler

from lrml import MLFro, TextTagger
from lrml.serving import make_app
from lrml.serving._requests import RequestError, Service
from serving.running import TAGS, TEXTS, row_model, without_server

pytest.importorskip("starlette", reason="Starlette is not installed")

NAMES = ["length", "width", "<b>height</b>"]


def ask(app: Any, document: Any = None, **options: Any) -> Any:
    return without_server(app, lambda client: client.post("/predict", json=document, **options))


def tags(answer: Any) -> list[list[str]]:
    assert answer.status_code == 200, answer.text
    return [[tag["tag"] for tag in one["tags"]] for one in answer.json()["predictions"]]


def test_rows_are_lists_or_objects_with_names() -> None:
    model = row_model()
    rows = [[0.5, 0.0, 2.0], [0.0, -1.0, 0.0]]
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    wanted = model.predict_top_k(pandas.DataFrame(rows, columns=NAMES), 4).labels.tolist()
    app = make_app(model)
    assert tags(ask(app, {"rows": rows, "k": 4})) == wanted
    named = [{"<b>height</b>": 2, "length": 0.5}, {"width": -1}]
    assert tags(ask(app, {"rows": named, "k": 4})) == wanted
    assert hasattr(model, "feature_names_in_")  # the model of the caller is as it was


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_names_columns_have_numbers(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    X = csr_array((rng.random((30, 12)) * (rng.random((30, 12)) < 0.3)).astype(dtype))
    model = MLFro(1.0).fit(X, rng.integers(0, 2, (30, 3)))
    app = make_app(model)
    wanted = model.predict_top_k(X[:4], 3)
    rows = [{str(j): float(row[j]) for j in np.flatnonzero(row)} for row in X[:4].toarray()]
    answer = ask(app, {"rows": rows})
    assert tags(answer) == wanted.labels.tolist()  # numbers of labels stay numbers
    scores = [[tag["score"] for tag in one["tags"]] for one in answer.json()["predictions"]]
    np.testing.assert_allclose(scores, wanted.scores, rtol=1e-6)
    assert tags(ask(app, {"rows": [{}]})) == model.predict_top_k(np.zeros((1, 12), dtype), 3).labels.tolist()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 2]], "row 0"),
        ([[1, 2, 3], [1, 2, 3, 4]], "row 1 (counted from 0) is [1, 2, 3, 4]"),
        ([[1, 2, "3"]], "'3'"),
        ([[1, 2, None]], "None"),
        ([[1, 2, True]], "True"),
        ([{"length": [1]}], "[1]"),
        ([1, 2, 3], "row 0 (counted from 0) is 1"),
        ([{"depth": 1}], "'depth'"),
        ({"length": 1}, "rows is {'length': 1}"),
    ],
)
def test_bad_rows_are_told_what_is_wrong(rows: Any, words: str) -> None:
    answer = ask(make_app(row_model()), {"rows": rows})
    assert answer.status_code == 400
    assert words in answer.json()["error"]


_NUMBERS = st.integers() | st.floats() | st.sampled_from([1e308, -1e308, 10**400])
_CELLS = st.none() | st.booleans() | _NUMBERS | st.text(max_size=3) | st.sampled_from(TEXTS)
_ROWS = st.lists(_NUMBERS, min_size=3, max_size=3) | st.dictionaries(
    st.sampled_from([*NAMES, "", "0"]), _NUMBERS
)
_ANY = st.recursive(_CELLS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner))
_FIELDS = {"texts": st.lists(st.text(), max_size=3), "rows": st.lists(_ROWS, max_size=3)}
_FIELDS |= dict.fromkeys(("k", "explain", "other"), st.integers(-1, 6))


@given(
    name=st.sampled_from(["rows", "texts"]),
    document=st.fixed_dictionaries({}, optional={name: one | _ANY for name, one in _FIELDS.items()}) | _ANY,
)
def test_any_request_is_answered_or_refused(name: str, document: Any) -> None:
    try:
        answer = services()[name].answer(json.dumps(document).encode())
    except RequestError as error:
        answer = json.dumps({"status": error.status, "error": str(error)}).encode()
    found = json.loads(answer)
    assert found.get("status") in (None, 400, 413)
    assert len(found.get("error", "")) < 500
    assert "error" in found or [bool(one["tags"]) for one in found["predictions"]] == [True] * len(
        document[name]
    )


@functools.cache
def services() -> dict[str, Service]:
    return {
        "rows": Service(row_model(), "rows", None, 2),
        "texts": Service(TextTagger(MLFro(0.3)).fit(TEXTS, TAGS), "texts", None, 2),
    }


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"1" * 400, b"NaN", b"Infinity"])
def test_numbers_are_finite(number: bytes) -> None:
    body = b'{"rows": [[1, 2, ' + number + b"]]}"
    answer = without_server(make_app(row_model()), lambda client: client.post("/predict", content=body))
    assert answer.status_code == 400
    assert "finite" in answer.json()["error"]


@pytest.mark.parametrize("name", ["-1", "12", "01", "1.0", "", "²", "١", "9" * 30])
def test_a_column_number_is_one_of_the_model(name: str) -> None:
    model = MLFro(1.0).fit(np.eye(12), np.ones((12, 2), dtype=int))
    answer = ask(make_app(model), {"rows": [{name: 1.0}]})
    assert answer.status_code == 400
    assert "from 0 to 11" in answer.json()["error"]


PIPELINES = [
    make_pipeline(StandardScaler(), MLFro(1.0)),
    make_pipeline(
        MaxAbsScaler(),
        Normalizer(),
        make_pipeline(TruncatedSVD(2, random_state=0), MLFro(1.0, loss="logistic")),
    ),
    make_pipeline(make_union(StandardScaler(), PCA(2)), MLFro(1.0)),
]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("pipeline", PIPELINES, ids=range(len(PIPELINES)))
def test_pipelines_are_served_as_models_are(pipeline: Any, named: bool, recwarn: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(rng.random((40, 3)), columns=NAMES)
    rows, new = (one if named else one.to_numpy() for one in (frame, frame[:4] + 1))
    model = clone(pipeline).fit(rows, (frame > 0.5).to_numpy().astype(int))
    recwarn.clear()
    app = make_app(model)
    objects = [
        dict(zip(NAMES if named else "012", row, strict=True)) for row in (frame[:4] + 1).to_numpy().tolist()
    ]
    for rows_given in ((frame[:4] + 1).to_numpy().tolist(), objects):
        answer = ask(app, {"rows": rows_given, "k": 3})
        found = [{tag["tag"]: tag["score"] for tag in one["tags"]} for one in answer.json()["predictions"]]
        wanted = model.decision_function(new)
        for tags_found, row in zip(found, wanted, strict=True):
            assert [tags_found[label] for label in range(3)] == pytest.approx(row.tolist())
    assert not recwarn.list
    assert without_server(app, lambda client: client.get("/model")).json()["n_features"] == 3


class Slow(MLFro):
    """Waits in every prediction until it is let go."""

    go: threading.Event

    def predict_top_k(self, X: Any, k: int | None = None) -> Any:
        assert self.go.wait(60)
        return super().predict_top_k(X, k)


def test_a_busy_server_tells_that_it_is_well_and_refuses_a_long_queue() -> None:
    model = Slow(1.0).fit(np.eye(3), np.ones((3, 2), dtype=int))
    model.go = threading.Event()

    async def work(client: Any) -> tuple[Any, Any, list[int]]:
        asked = [asyncio.create_task(client.post("/predict", json={"rows": [[1, 0, 0]]})) for _ in range(65)]
        answered, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        health = await client.get("/health")
        model.go.set()
        (refused,) = answered
        return await refused, health, [answer.status_code for answer in await asyncio.gather(*waiting)]

    refused, health, others = without_server(make_app(model), work)
    assert refused.status_code == 503
    assert "Try again" in refused.json()["error"]
    assert refused.headers["retry-after"] == "1"
    assert health.json() == {"status": "ok"}
    assert others == [200] * 64


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrml.serving._app._PATIENCE", 0.01)

    async def parts() -> Any:
        yield b'{"rows": [[1, '
        await asyncio.Event().wait()

    app = make_app(row_model())
    assert without_server(app, lambda client: client.post("/predict", content=parts())).status_code == 408


class Broken(MLFro):
    def predict_top_k(self, X: Any, k: int | None = None) -> Any:
        raise RuntimeError("a secret of the server")


def test_a_failure_inside_stays_inside() -> None:
    app = make_app(Broken(1.0).fit(np.eye(3), np.ones((3, 2), dtype=int)))
    answer = ask(app, {"rows": [[1, 0, 0]]})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Its log has the reason" in answer.json()["error"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(("kernel", "told"), [("linear", "scores"), ("poly", "kernel values")])
@pytest.mark.parametrize("row", [[1e308, 1e308, 0.0], {"0": -1e308, "1": 1.7e308}])
def test_finite_numbers_that_are_too_large_for_the_model_are_told(kernel: str, told: str, row: Any) -> None:
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [-1.0, 2.0, 0.5]])
    model = MLFro(1e-3, kernel=kernel).fit(5e-3 * X, np.eye(4, dtype=int))  # large coefficients
    answer = ask(make_app(model), {"rows": [row, row]})
    assert answer.status_code == 400
    assert f"{told} must be finite, got" in answer.json()["error"]
