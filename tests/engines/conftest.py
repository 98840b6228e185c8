"""A cluster of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context
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
        connection = engine.connect(n_workers=2, memory_limit=MEMORY_LIMIT)
        own_context = copy_context()  # or it would be the current client of all tests from now on
        connected = own_context.run(connection.__enter__)
        with dask.config.set(scheduler=None):
            yield connected
        own_context.run(connection.__exit__, None, None, None)
