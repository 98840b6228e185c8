"""Pages of assessments, comparisons and models in a real Chromium: figures first, and fit for a phone."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrml import MLFro, TextTagger
from lrml.evaluation import assess, compare
from lrml.inspection import describe_model
from lrml.report import render_html
from rendering.browser import OVERLAPS, PHONE, WIDE, Watched, wait_until
from rendering.sample_page import HOSTILE


def judged() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    Y = (rng.random((80, 7)) < 0.3).astype(int)
    return Y, np.clip(0.6 * Y + 0.3 * rng.random(Y.shape), 0, 1)


@functools.cache
def summaries() -> dict[str, dict[str, Any]]:
    Y, scores = judged()
    names = ["a", "b", HOSTILE, "a name of many words that has no room on a phone", "e", "f", "g"]
    texts = [f"w{i % 7} w{i % 5} common" for i in range(70)]
    tagger = TextTagger(MLFro(0.1)).fit(texts, [[f"tag {i % 7}", f"<i>{i % 5}"] for i in range(70)])
    one = assess(Y, scores, label_names=names, n_bootstrap=30)
    noise = np.random.default_rng(1).random((4, *Y.shape))
    rivals = dict(zip(["<b>chance", "another one", "ml-trace", "a fifth"], noise, strict=True))
    several = compare(Y, {"ours": scores} | rivals, label_names=names, n_bootstrap=30)
    return {
        "assessment": one.summary("An evaluation & more"),
        "comparison": several.summary("A comparison"),
        "model": describe_model(tagger).summary("A model"),
    }


@pytest.fixture(scope="module", params=["assessment", "comparison", "model"])
def watched(request: Any, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render_html(summaries()[request.param]), "utf-8")
    return Watched(browser, path.as_uri())


def test_pages_stand_alone_and_fit(watched: Watched) -> None:
    page = watched.open(PHONE, "dark")
    order = page.locator("main > section").evaluate_all("(parts) => parts.map((part) => part.id)")
    assert order.index("section-figures") < order.index("section-tables")
    assert page.locator(".plot svg[role=img]").count() == page.locator(".plot").count() > 0
    for size in (PHONE, WIDE):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        wait_until(page, OVERLAPS, [])
        wait_until(page, "document.documentElement.scrollWidth <= innerWidth")
    page.close()
    watched.check()
