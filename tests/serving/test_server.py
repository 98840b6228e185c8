"""`lrml serve` as a process, asked by a real client."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrml
from lrml import LRML, MLFro, TextTagger
from lrml.cli import main
from serving.running import HARMFUL, TAGS, TEXTS, serving, text_model, without_server

httpx = pytest.importorskip("httpx", reason="httpx is not installed")


def test_texts_get_the_best_tags_of_the_model(client: Any) -> None:
    texts = ["a chess engine", "photos", "", "日本語", "\ud800 chess"]
    body = json.dumps({"texts": texts, "k": 3})  # with half a letter as an escape
    answer = client.post("/predict", content=body)
    assert answer.status_code == 200
    wanted = text_model().predict_top_k(texts, 3)
    found = [[tag["tag"] for tag in one["tags"]] for one in answer.json()["predictions"]]
    assert found == wanted.labels.tolist()
    scores = [[tag["score"] for tag in one["tags"]] for one in answer.json()["predictions"]]
    np.testing.assert_allclose(scores, wanted.scores, rtol=1e-12)
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
    assert about["model"] == "MLFro"
    assert about["takes"] == "texts"
    assert set(about["labels"]) == {"viewer", "image", "editor", "game", HARMFUL}
    assert about["n_labels"] == 5
    assert about["n_features"] == text_model().transform(["x"]).shape[1]
    assert about["summary"] == {"data": "toy texts"}
    assert about["lrml_version"] == lrml.__version__
    assert about["limits"]["max_batch"] == 20
    assert client.head("/health").status_code == 200


BAD = [
    (b"", 400, "must be JSON"),
    (b"{", 400, "must be JSON"),
    (b"\xff\xfe\xfd", 400, "must be JSON"),
    (b"[" * 50_000, 400, "too deep"),
    (b'{"texts": ["a"], "k": ' + b"1" * 5000 + b"}", 400, "JSON"),
    (b'["a"]', 400, "must be a JSON object, got ['a']"),
    (b"null", 400, "must be a JSON object, got None"),
    (b"{}", 400, "must have the field 'texts'"),
    (b'{"text": ["a"]}', 400, "got 'text'. Did you mean texts?"),
    (b'{"texts": ["a"], "rows": [[1]]}', 400, "got 'rows'"),
    (b'{"texts": ["a"], "<b>": 1}', 400, "got '<b>'"),
    (b'{"texts": ["a"], "texts": ["b"]}', 400, "'texts' twice"),
    (b'{"texts": "a"}', 400, "must be a list, got 'a'"),
    (b'{"texts": []}', 400, "1 to 20 entries, got 0"),
    (b'{"texts": ["a", null]}', 400, "got None at place 1"),
    (b'{"texts": [["a"]]}', 400, "must be a string, got ['a']"),
    (b'{"texts": ["a"], "k": 0}', 400, "k must be a whole number from 1 to 5, got 0"),
    (b'{"texts": ["a"], "k": 6}', 400, "got 6"),
    (b'{"texts": ["a"], "k": 2.0}', 400, "got 2.0"),
    (b'{"texts": ["a"], "k": true}', 400, "got True"),
    (b'{"texts": ["a"], "k": "3"}', 400, "got '3'"),
    (b'{"texts": ["a"], "k": null}', 400, "got None"),
    (b'{"texts": ["a"], "k": NaN}', 400, "must be finite, got NaN"),
    (b'{"texts": ["a"], "k": -Infinity}', 400, "must be finite, got -Infinity"),
    (b'{"texts": ["a"], "explain": -1}', 400, "explain must be a whole number from 0 to 100"),
    (b'{"texts": ["a", "b"], "explain": 1}', 400, "one text at a time, got 2"),
    (json.dumps({"texts": ["a"] * 21}).encode(), 413, "1 to 20 entries, got 21"),
    (json.dumps({"texts": ["ab" * 50_001]}).encode(), 413, "100000 characters, got 100002 at place 0"),
]


@pytest.mark.parametrize(("body", "status", "words"), BAD, ids=[str(body[:40]) for body, _, _ in BAD])
def test_a_bad_request_is_told_what_is_wrong(client: Any, body: bytes, status: int, words: str) -> None:
    answer = client.post("/predict", content=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]
    assert "Traceback" not in answer.text
    assert len(answer.text) < 500  # what is shown of a value is short


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [(1 << 20) + 1, 5 << 20])
def test_a_body_has_a_limit_whether_its_length_is_announced_or_not(
    client: Any, chunked: bool, size: int
) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(size // 4096):
            yield b" " * 4096
        yield b" " * (size % 4096)

    answer = client.post("/predict", content=parts() if chunked else b" " * size)
    assert answer.status_code == 413
    assert "at most 1048576 bytes" in answer.json()["error"]
    assert client.get("/health").status_code == 200


def test_a_body_at_the_limit_is_read(client: Any) -> None:
    body = b'{"texts": ["chess"]}'.ljust(1 << 20)
    assert client.post("/predict", content=body).status_code == 200


def test_wrong_addresses_and_methods_are_answered_in_json(client: Any) -> None:
    lost = client.get("/<script>")
    assert (lost.status_code, lost.headers["content-type"]) == (404, "application/json")
    assert "/predict" in lost.json()["error"]
    for method, path, allowed in (("GET", "/predict", "POST"), ("POST", "/health", "GET, HEAD")):
        wrong = client.request(method, path)
        assert wrong.status_code == 405
        assert sorted(wrong.headers["allow"].split(", ")) == allowed.split(", ")
        assert f"got {method}" in wrong.json()["error"]


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/health", "/nothing"])
def test_every_answer_forbids_browsers_what_it_does_not_need(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_many_clients_at_once_get_their_own_answers(client: Any) -> None:
    texts = [f"{word} {number}" for number in range(8) for word in ("chess", "photos", "viewer", "edit")]
    wanted = text_model().predict_top_k(texts, 1).labels[:, 0].tolist()

    def ask(text: str) -> str:
        answer = client.post("/predict", json={"texts": [text], "k": 1})
        return str(answer.json()["predictions"][0]["tags"][0]["tag"])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, texts)) == wanted


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_lets_a_running_request_finish(tmp_path: Path, number: int, code: int) -> None:
    with serving(text_model(), tmp_path) as (address, process):
        host, port = address.removeprefix("http://").split(":")
        body = b'{"texts": ["a chess engine"], "k": 1}'
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body[:10])
            httpx.get(f"{address}/health")  # answered after the first part above has been read
            process.send_signal(number)
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
        assert process.stderr is not None
        errors = process.stderr.read()
        assert process.wait(300) == code, errors
        assert "Traceback" not in errors


def test_a_taken_port_is_told(server: tuple[str, Any], tmp_path: Path, capsys: Any) -> None:
    port = server[0].rpartition(":")[2]
    path = tmp_path / "model.lrml"
    lrml.save(text_model(), path)
    assert main(["serve", str(path), "--port", port]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"a free port, got 127.0.0.1, port {port} (Address already in use). Pass another" in said.err
    assert len(said.err.splitlines()) == 1


def test_probabilities_come_with_the_logistic_loss() -> None:
    model = TextTagger(LRML(1, 0.5, loss="logistic", ridge=0.5)).fit(TEXTS, TAGS)
    app = lrml.serving.make_app(model)
    answer = without_server(app, lambda client: client.post("/predict", json={"texts": ["chess"], "k": 2}))
    probabilities = np.sort(model.predict_proba(["chess"])[0])[::-1]
    found = [tag["probability"] for tag in answer.json()["predictions"][0]["tags"]]
    np.testing.assert_allclose(found, probabilities[:2])


@pytest.mark.parametrize("threshold", [None, 0.3, [0.1, 0.6, 0.2, 0.9, 0.3]])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_tags_that_predict_gives_are_assigned(threshold: Any, loss: str) -> None:
    model = TextTagger(MLFro(0.3, loss=loss, threshold=threshold)).fit(TEXTS, TAGS)
    texts = [*TEXTS[:4], "chess photos", ""]
    answer = without_server(
        lrml.serving.make_app(model), lambda client: client.post("/predict", json={"texts": texts, "k": 5})
    )
    found = [{tag["tag"] for tag in one["tags"] if tag["assigned"]} for one in answer.json()["predictions"]]
    assert found == [set(tags) for tags in model.predict(texts)]
    about = without_server(lrml.serving.make_app(model), lambda client: client.get("/model")).json()
    natural = 0.5 if loss == "squared" else 0.0
    assert about["threshold"] == (natural if threshold is None else 0.3 if threshold == 0.3 else None)


def test_other_models_are_refused() -> None:
    with pytest.raises(TypeError, match="must be a fitted estimator of lrml or a TextTagger, got 3"):
        lrml.serving.make_app(3)
    with pytest.raises(ValueError, match="got one fitted to a 1-D y"):
        lrml.serving.make_app(MLFro(1.0).fit(np.eye(4), [0, 1, 0, 1]))
    with pytest.raises(ValueError, match="not fitted"):
        lrml.serving.make_app(MLFro())
    with pytest.raises(ValueError, match="max_batch must be an int of at least 1, got 0"):
        lrml.serving.make_app(text_model(), max_batch=0)
