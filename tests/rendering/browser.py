"""A Chromium that opens pages from files: helpers of the tests, whose fixtures conftest has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PHONE, DESKTOP, WIDE = (375, 812), (1280, 900), (1400, 900)
# Milliseconds that nothing takes, not even on a busy machine: Playwright's own limit of 30 s may pass there.
PATIENCE = 300_000.0
# Texts of a drawing that are outside of it, or on top of each other.
OVERLAPS = """() => Array.from(document.querySelectorAll(".plot svg")).flatMap((plot) => {
    const frame = plot.getBoundingClientRect();
    const texts = Array.from(plot.querySelectorAll("text")).filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const outside = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 ||
        box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    const found = outside.map(([text]) => `${text} is outside`);
    boxes.forEach(([text, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) found.push(`${text} on ${other}`);
    }));
    return found;
})"""


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("LRML_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("Chromium is not installed (or set LRML_CHROMIUM to its executable)")
    return found


@contextmanager
def started_browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    executable = chromium()
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox"] if root else []
        started = driver.chromium.launch(executable_path=executable, args=options, timeout=PATIENCE)
        yield started
        started.close()


def new_page(browser: Any, **options: Any) -> Any:
    """Return an empty page that waits long for what it is asked to open or to find."""
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE)
    return page


class Watched:
    """Opens a page and collects what goes wrong in it, and every address that it asks for."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address
        self.troubles: list[str] = []
        self.requests: list[str] = []

    def open(self, size: tuple[int, int] = DESKTOP, scheme: str = "light", **options: Any) -> Any:
        viewport = {"width": size[0], "height": size[1]}
        page = new_page(self.browser, viewport=viewport, color_scheme=scheme, **options)
        page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.address)
        return page

    def check(self) -> None:
        assert self.troubles == []
        assert [url[:80] for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def wait_until(page: Any, script: str, wanted: Any = True) -> None:
    """Wait for a value; Playwright's own way is refused by the page's security policy."""
    for _ in range(600):
        if page.evaluate(script) == wanted:
            return
        page.wait_for_timeout(50)
    assert page.evaluate(script) == wanted
