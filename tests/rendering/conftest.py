from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lrml.report import render_html
from rendering.browser import Watched, started_browser
from rendering.sample_page import sample_page


@pytest.fixture(scope="module")  # while it runs, no test of this process can have an event loop
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@pytest.fixture(scope="session")
def text() -> str:
    """The sample page, drawn once for all tests."""
    pytest.importorskip("jinja2", reason="Jinja2 is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    return render_html(sample_page())


@pytest.fixture(scope="module")
def watched(browser: Any, text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(text, "utf-8")
    found = Watched(browser, path.as_uri())
    yield found
    found.check()
