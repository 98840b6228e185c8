from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lrml.report import render_html
from rendering.browser import Opener, Watched, started_browser
from rendering.sample_summary import sample_summary


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@pytest.fixture(scope="session")
def text() -> str:
    """The page of the sample, drawn once for all tests."""
    pytest.importorskip("jinja2", reason="Jinja2 is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    return render_html(sample_summary())


@pytest.fixture(scope="session")
def address(text: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(text, "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def watched(browser: Any, address: str) -> Watched:
    return Watched(browser, address)


@pytest.fixture(scope="module")
def shared(watched: Watched) -> Iterator[Any]:
    """A page of desktop size for tests that leave it as they found it."""
    page = watched.open()
    yield page
    page.close()


@pytest.fixture
def no_errors_and_no_network(watched: Watched) -> Iterator[None]:
    yield
    watched.check()


@pytest.fixture
def open_page(watched: Watched) -> Iterator[Opener]:
    pages: list[Any] = []

    def opened(*arguments: Any, **options: Any) -> Any:
        pages.append(watched.open(*arguments, **options))
        return pages[-1]

    yield opened
    for page in pages:
        page.close()
