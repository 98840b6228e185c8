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
    dask = pytest.importorskip("dask")
    utils = pytest.importorskip("distributed.utils")
    # Processes that are forked from one that has imported everything start in a fraction of the time.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        needed = ["distributed", "pandas", "lrml.engines.dask", "lrml.estimators", "cluster_blocks"]
        utils.get_mp_context().set_forkserver_preload(needed)
        with engine.connect(n_workers=2, memory_limit=MEMORY_LIMIT) as client:
            yield client
