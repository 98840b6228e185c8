"""A cluster of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

MEMORY_LIMIT = 900_000_000


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of two processes, which are restarted if they die or take more memory than the limit."""
    engine = pytest.importorskip("lrml.engines.dask", reason="Dask is not installed", exc_type=ImportError)
    with engine.connect(n_workers=2, memory_limit=MEMORY_LIMIT) as client:
        yield client
