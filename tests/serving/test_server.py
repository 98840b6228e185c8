"""`lrml serve` as a process, asked by a real client."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import lrml
from lrml import MLFro, SpectralRegressor, TextTagger
from serving.running import HARMFUL, TAGS, TEXTS, serving, text_model, without_server

httpx = pytest.importorskip("httpx", reason="httpx is not installed")


def test_texts_get_the_best_tags_of_the_model(client: Any) -> None:
    texts = ["a chess engine", "photos", "", "日本語", "\ud800 chess"]
    body = json.dumps({"texts": texts, "k": 3})  # with half a letter as an escape
    answer = client.post("/predict", content=body)
    assert answer.status_code == 200
    model = text_model()
    wanted = [dict(zip(model.classes_, row, strict=True)) for row in model.decision_function(texts)]
    found = [
        {tag["tag"]: tag["score"] for tag in one["tags"]} for one in answer.json()["predictions"]
    ]  # another process rounds in another way, and labels whose scores are close may change places
    for tags, known in zip(found, wanted, strict=True):
        assert len(tags) == 3
        assert tags == pytest.approx({tag: known[tag] for tag in tags}, rel=1e-5)
        assert list(tags.values()) == pytest.approx(sorted(known.values())[:-4:-1], rel=1e-5)
    notes = [one.get("note") for one in answer.json()["predictions"]]
    no_word = "no known word: the most frequent tags"
    assert notes == [None, None, no_word, no_word, None]
    assert len(client.post("/predict", json={"texts": ["x"]}).json()["predictions"][0]["tags"]) == 5


def test_words_that_spoke_for_a_tag_add_up_to_its_score(client: Any) -> None:
    model, text = text_model(), "play chess with photos"
    (one,) = client.post("/predict", json={"texts": [text], "k": 5, "explain": 100}).json()["predictions"]
    assert len(one["tags"]) == 5
    for tag in one["tags"]:
        total = sum(part["contribution"] for part in tag["features"])
        assert tag["constant"] == model.model_.intercept_[list(model.classes_).index(tag["tag"])]
        assert total + tag["constant"] == pytest.approx(tag["score"], abs=1e-6)
        assert {part["feature"] for part in tag["features"]} <= {
            *("play", "chess", "with", "photos", "play chess", "chess with")
        }


def test_it_tells_about_the_model_and_itself(client: Any) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    about = client.get("/model").json()
    assert about["kind"] == "TextTagger"
    facts = about["fitted"]
    assert (facts["estimator"], facts["rank"]) == ("MLFro", text_model().model_.rank_)
    assert about["takes"] == "texts"
    assert set(about["labels"]) == {"viewer", "image", "editor", "game", HARMFUL}
    assert about["n_labels"] == 5
    assert about["n_features"] == text_model().transform(["x"]).shape[1]
    assert about["summary"] == {"data": "toy texts"}
    assert about["lrml_version"] == lrml.__version__
    assert about["limits"]["max_batch"] == 20
    assert client.head("/health").status_code == 200


K = {b"0": "0", b"6": "6", b"2.0": "2.0", b"true": "True", b'"3"': "'3'", b"null": "None"}
BAD = [  # a body, and what of it the answer names
    (b"", "JSON"),
    (b"{", "{"),
    (b"\xff\xfe\xfd", "xff"),
    (b"[" * 50_000, "too deep"),
    (b'{"texts": ["a"], "k": ' + b"1" * 5000 + b"}", "JSON"),
    (b'["a"]', "['a']"),
    (b"null", "None"),
    (b"{}", "texts"),
    (b'{"text": ["a"]}', "'text'. Did you mean texts?"),
    (b'{"texts": ["a"], "rows": [[1]]}', "'rows'"),
    (b'{"texts": ["a"], "<b>": 1}', "'<b>'"),
    (b'{"texts": "a"}', "'a'"),
    (b'{"texts": []}', "[]"),
    (b'{"texts": ["a", null]}', "text 1 (counted from 0) is None"),
    (b'{"texts": [["a"]]}', "['a']"),
    *((b'{"texts": ["a"], "k": %b}' % k, f"k is {shown}. ") for k, shown in K.items()),
    (b'{"texts": ["a"], "k": NaN}', "k is nan"),
    (b'{"texts": ["a"], "k": -Infinity}', "k is -inf"),
    (b'{"texts": ["a"], "explain": -1}', "explain is -1"),
    (b'{"texts": ["a", "b"], "explain": 1}', "one of texts at a time, not 2"),
    (json.dumps({"texts": ["a"] * 21}).encode(), "21 entries"),
]


@pytest.mark.parametrize(("body", "words"), BAD, ids=[str(body[:40]) for body, _ in BAD])
def test_a_bad_request_is_told_what_is_wrong(client: Any, body: bytes, words: str) -> None:
    answer = client.post("/predict", content=body)
    assert answer.status_code == (413 if "entries" in words else 400)
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]
    assert "Traceback" not in answer.text
    assert len(answer.text) < 500  # what is shown of a value is short


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_a_limit_whether_its_length_is_announced_or_not(client: Any, chunked: bool) -> None:
    for size in (1 << 20, (1 << 20) + 1, 5 << 20):
        body = b'{"texts": ["chess"]}'.ljust(size)
        parts = (body[start : start + 4096] for start in range(0, size, 4096))
        answer = client.post("/predict", content=parts if chunked else body)
        assert answer.status_code == (200 if size == 1 << 20 else 413)
    assert client.get("/health").status_code == 200


def test_wrong_addresses_and_methods_are_answered_in_json(client: Any) -> None:
    lost = client.get("/<script>")
    assert (lost.status_code, lost.headers["content-type"]) == (404, "application/json")
    assert "/predict" in lost.json()["error"]
    for method, path, allowed in (("GET", "/predict", "POST"), ("POST", "/health", "GET, HEAD")):
        wrong = client.request(method, path)
        assert wrong.status_code == 405
        assert sorted(wrong.headers["allow"].split(", ")) == allowed.split(", ")
        assert method in wrong.json()["error"]


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/health", "/nothing"])
def test_every_answer_forbids_browsers_what_it_does_not_need(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_a_signal_lets_a_running_request_finish(tmp_path: Path) -> None:
    with serving(text_model(), tmp_path) as (address, process):
        host, port = address.removeprefix("http://").split(":")
        body = b'{"texts": ["a chess engine"], "k": 1}'
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body[:10])
            httpx.get(f"{address}/health")  # answered after the first part above has been read
            process.send_signal(signal.SIGINT)
            while True:  # until it takes no new requests
                try:
                    socket.create_connection((host, int(port)), timeout=30).close()
                except ConnectionError:
                    break
            connection.sendall(body[10:])
            answer = b""
            while part := connection.recv(4096):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b'"tag":"game"' in answer
        ended = process.result()
        assert ended.returncode == 130, ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("threshold", [None, 0.3, [0.1, 0.6, 0.2, 0.9, 0.3]])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_tags_that_predict_gives_are_assigned(threshold: Any, loss: str) -> None:
    model = TextTagger(MLFro(0.3, loss=loss, threshold=threshold)).fit(TEXTS, TAGS)
    texts = [*TEXTS[:4], "chess photos", ""]
    app = lrml.serving.make_app(model)
    answer = without_server(app, lambda client: client.post("/predict", json={"texts": texts, "k": 5})).json()
    found = [{tag["tag"] for tag in one["tags"] if tag["assigned"]} for one in answer["predictions"]]
    assert found == [set(tags) for tags in model.predict(texts)]
    about = without_server(app, lambda client: client.get("/model")).json()
    natural = 0.5 if loss == "squared" else 0.0
    assert about["threshold"] == (natural if threshold is None else 0.3 if threshold == 0.3 else None)
    if loss == "logistic":
        probabilities = [tag["probability"] for tag in answer["predictions"][4]["tags"]]
        np.testing.assert_allclose(probabilities, np.sort(model.predict_proba(texts)[4])[::-1])


def test_other_models_are_refused() -> None:
    for model, error in (
        (3, TypeError),
        (MLFro(1.0).fit(np.eye(4), [0, 1, 0, 1]), ValueError),
        (SpectralRegressor().fit(np.eye(4), np.eye(4)), ValueError),
        (MLFro(), NotFittedError),
    ):
        with pytest.raises(error):
            lrml.serving.make_app(model)
    with pytest.raises(ValueError, match="max_batch is 0"):
        lrml.serving.make_app(text_model(), max_batch=0)
