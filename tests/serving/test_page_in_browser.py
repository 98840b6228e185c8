"""The page of the server in a real browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rendering.browser import DESKTOP, PHONE, Watched, started_browser
from serving.running import HARMFUL, row_model, serving, text_model

TEXT = "Play chess with friends, and show photos"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


class Visit(Watched):
    """A page, what went wrong in it, and every address that it asked for."""

    def __init__(self, browser: Any, address: str, size: tuple[int, int], scheme: str) -> None:
        super().__init__(browser, address)
        self.page = self.open(size, scheme)
        self.page.locator("#send:enabled").wait_for()

    def ask(self, given: str) -> None:
        self.page.fill("#given", given)
        self.page.click("#send")

    def tags(self) -> list[str]:
        self.page.locator(".tags li").first.wait_for()
        return [str(name) for name in self.page.locator(".tags .name").all_text_contents()]

    def close(self) -> None:
        """Leave, and make sure that all came from the server and nothing went wrong."""
        self.page.close()
        assert self.troubles == []
        assert [url for url in self.requests if not url.startswith((self.address, "data:"))] == []


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_a_person_pastes_a_text_and_sees_tags_and_what_spoke_for_them(
    browser: Any, server: tuple[str, Any], size: tuple[int, int], scheme: str
) -> None:
    model = text_model()
    visit = Visit(browser, server[0], size, scheme)
    page = visit.page
    assert page.locator("h1").text_content() == "Tags for a text"
    assert "TextTagger · MLFro: squared loss, alpha 0.3" in page.locator("#about").text_content()
    visit.ask(TEXT)
    wanted = model.predict_top_k([TEXT], 5)
    assert visit.tags() == wanted.labels[0].tolist()
    assert HARMFUL in visit.tags()  # shown as text, and not run: the title would be another
    assert page.title() == "lrml: try the model"
    scores = [score.replace("−", "-") for score in page.locator(".score").all_text_contents()]
    assert scores == [f"{score:z.3f}" for score in wanted.scores[0]]
    first = page.locator(".tags > li").first
    shown = first.locator(".features li span:first-child").all_text_contents()
    assert shown == [
        *(name for name, _ in model.explain(TEXT, wanted.labels[0, 0])),
        "other words",
        "constant",
    ]
    parts = [
        float(part.replace("−", "-")) for part in first.locator("li span:last-child").all_text_contents()
    ]
    assert sum(parts) == pytest.approx(wanted.scores[0, 0], abs=0.005)  # seven rounded numbers
    grey = [str(name) for name in page.locator(".tags .below .name").all_text_contents()]
    assert grey == [tag for tag in wanted.labels[0] if tag not in model.predict([TEXT])[0]] != []
    page.locator(".legend", has_text="0.500").wait_for()
    for name, wide in (
        ("filled", np.clip(wanted.scores[0], 0, 1)),
        ("cut", np.full(5, 0.5)),
    ):  # one scale for all
        side = "width" if name == "filled" else "left"
        lengths = page.locator(f".{name}").evaluate_all(
            f"parts => parts.map(part => parseFloat(part.style.{side}))"
        )
        np.testing.assert_allclose(lengths, 100 * wide, atol=0.01)
    assert page.locator(".note").count() == 0
    for name in (*model.explain(TEXT, HARMFUL),)[:1]:
        assert page.locator(".features .for", has_text=name[0]).count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in ground[4:-1].split(",")) < 300) == (scheme == "dark")
    page.fill("#k", "2")
    page.locator("#given").press("Control+Enter")
    page.locator(".tags > li").nth(2).wait_for(state="detached")
    assert visit.tags() == wanted.labels[0, :2].tolist()
    visit.ask("日本語")
    page.locator(".note", has_text="No known word: the most frequent tags.").wait_for()
    assert set(page.locator(".features li span:first-child").all_text_contents()) == {"constant"}
    visit.close()


def test_a_model_of_rows_takes_json_and_says_what_is_wrong(browser: Any, tmp_path: Path) -> None:
    with serving(row_model(), tmp_path) as (address, process):
        visit = Visit(browser, address, PHONE, "light")
        page = visit.page
        assert page.locator("h1").text_content() == "Tags for rows of features"
        assert page.input_value("#given") == '[{"length":1,"width":1}]'
        assert f"curl {address}/predict" in page.locator("#call").text_content()
        page.click("#send")
        assert len(visit.tags()) == 4
        spoke = page.locator(".tags > li").first.locator(".features li span:first-child").all_text_contents()
        assert {*spoke} == {"length", "width", "constant"}
        visit.ask('[{"<b>height</b>": 1}, {"length": 2}]')
        page.locator("h2", has_text="Row 2").wait_for()
        visit.ask("[1,")
        page.locator("#trouble", has_text="Rows must be JSON").wait_for()
        assert page.locator("#results").is_hidden()
        assert visit.troubles == []
        visit.ask('[{"<img src=x onerror=alert(1)>": 1}]')
        page.locator("#trouble", has_text="'<img src=x onerror=alert(1)>'").wait_for()
        visit.troubles.clear()  # the browser itself notes an answer of 400
        process.send_signal(signal.SIGKILL)
        process.result()
        page.click("#send")
        page.locator("#trouble", has_text="does not answer").wait_for()
        visit.troubles.clear()
        visit.close()
