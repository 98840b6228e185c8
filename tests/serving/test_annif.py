"""The routes that Annif asks: a form with one text, a batch of documents, and what a project is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lrml import MLFro, TextTagger
from lrml.serving import make_app
from serving.running import TAGS, TEXTS, row_model, text_model, without_server

pytest.importorskip("starlette", reason="Starlette is not installed")

PROJECT = "/v1/projects/toys"
TEXT = "play chess & show photos: 100 % ☃"


def post(path: str, model: Any = None, **how: Any) -> Any:
    app = make_app(model or text_model(), name="toys", max_batch=20)
    return without_server(app, lambda client: client.post(PROJECT + path, **how))


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("limit", [None, 2, 50])
def test_suggestions_are_the_best_tags_with_scores_from_0_to_1(loss: str, limit: int | None) -> None:
    model = TextTagger(MLFro(0.3, loss=loss)).fit(TEXTS, TAGS)
    form = {"text": TEXT, "project": "ignored", "metadata_title": "ignored"}
    answer = post("/suggest", model, data=form | ({} if limit is None else {"limit": limit}))
    assert answer.status_code == 200
    hits = answer.json()["results"]
    wanted = model.predict_top_k([TEXT], min(limit or 10, 5)).labels[0].tolist()
    assert [hit["uri"] for hit in hits] == [hit["label"] for hit in hits] == wanted
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] < scores[0] <= 1
    calibrated = TextTagger(MLFro(0.3, loss=loss, calibrate="sigmoid")).fit(TEXTS, TAGS)
    best = post("/suggest", calibrated, data=form).json()["results"]
    assert [hit["score"] for hit in best] == sorted((hit["score"] for hit in best), reverse=True)
    chances = dict(zip(calibrated.classes_, calibrated.predict_proba([TEXT])[0], strict=True))
    assert {hit["uri"]: hit["score"] for hit in best} == pytest.approx(chances)
    least = post("/suggest", model, data=form | {"threshold": scores[1]}).json()["results"]
    assert [hit["uri"] for hit in least] == wanted[:2]
    assert post("/suggest", model, data=form | {"limit": 0}).json() == {"results": []}


def test_a_batch_is_answered_in_its_order_as_texts_are_alone() -> None:
    texts = ["chess", "photos", ""]
    documents = [{"text": text, "document_id": str(place)} for place, text in enumerate(texts)]
    del documents[1]["document_id"]
    found = post("/suggest-batch?limit=3", json={"documents": documents}).json()
    assert [one["document_id"] for one in found] == ["0", None, "2"]
    for text, one in zip(texts, found, strict=True):
        alone = post("/suggest", data={"text": text, "limit": 3}).json()["results"]
        assert [hit["uri"] for hit in one["results"]] == [hit["uri"] for hit in alone]
        scores = [[hit["score"] for hit in hits] for hits in (one["results"], alone)]
        np.testing.assert_allclose(*scores, rtol=1e-6)


def test_a_project_is_trained_and_only_texts_have_one() -> None:
    ask = lambda app, path: without_server(app, lambda client: client.get(path))  # noqa: E731
    about = ask(make_app(text_model(), name="toys"), PROJECT).json()
    assert (about["project_id"], about["is_trained"]) == ("toys", True)
    assert ask(make_app(text_model(), name="others"), PROJECT).status_code == 404
    assert ask(make_app(row_model(), name="toys"), PROJECT).status_code == 404


@pytest.mark.parametrize(
    ("path", "how", "status"),
    [
        ("/suggest", {"data": {"limit": 3}}, 400),
        ("/suggest", {"content": b"text=%ff"}, 400),
        ("/suggest", {"content": b"\xff"}, 400),
        *(("/suggest", {"data": {"text": "a", "limit": bad}}, 400) for bad in ("-1", "x", "")),
        *(("/suggest", {"data": {"text": "a", "threshold": bad}}, 400) for bad in ("-1", "nan", "x")),
        ("/suggest-batch?limit=x", {"json": {"documents": [{"text": "a"}]}}, 400),
        *(("/suggest-batch", {"json": {"documents": bad}}, 400) for bad in (None, [], [1], [{}], {})),
        ("/suggest-batch", {"json": []}, 400),
        ("/suggest-batch", {"content": b"{"}, 400),
        ("/suggest-batch", {"json": {"documents": [{"text": "a"}] * 21}}, 413),
    ],
)
def test_bad_questions_are_told_what_is_wrong(path: str, how: dict[str, Any], status: int) -> None:
    answer = post(path, **how)
    assert answer.status_code == status
    assert list(json.loads(answer.text)) == ["error"]
