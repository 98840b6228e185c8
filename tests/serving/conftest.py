from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from serving.running import serving, text_model


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """Address and process of a server for texts, for tests that leave it running."""
    pytest.importorskip("starlette", reason="Starlette is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    with serving(text_model(), tmp_path_factory.mktemp("serve"), "--max-batch", "20") as running:
        yield running


@pytest.fixture(scope="package")
def client(server: tuple[str, Any]) -> Iterator[Any]:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    with httpx.Client(base_url=server[0], timeout=30) as made:
        yield made
