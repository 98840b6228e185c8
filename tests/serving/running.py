"""A server in a process of its own, and applications without one: helpers of the tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrml
from forking import CAN_FORK, Program
from lrml import MLFro, TextTagger
from waiting import wait_until

HARMFUL = '<script>document.title = "harm"</script>'
TEXTS = [
    "fast image viewer for photos",
    "edit photos and images",
    "chess engine that plays blitz",
    "play chess with friends over the network",
] * 3
TAGS = [["viewer", "image"], ["editor", "image"], ["game"], ["game", HARMFUL]] * 3


def text_model() -> TextTagger:
    return TextTagger(MLFro(0.3)).fit(TEXTS, TAGS)


def row_model() -> MLFro:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.random((40, 3)), columns=["length", "width", "<b>height</b>"])
    Y = pandas.DataFrame(rng.integers(0, 2, (40, 4)), columns=["a", "b", "c", "d"])
    return MLFro(1.0).fit(X, Y)


@contextmanager
def serving(
    model: Any, folder: Path, *options: str, code: str | None = None
) -> Iterator[tuple[str, Program]]:
    """Run `lrml serve`, or code that does, on a free port; yield its address and the process."""
    if not CAN_FORK:
        pytest.skip("needs fork")
    path = folder / "model.lrml"
    lrml.save(model, path, summary={"data": "toy texts"})
    with Program("serve", path, "--port", "0", "--json", *options, code=code) as process:
        wait_until(lambda: process.poll() is not None or process.out.read_text().rstrip().endswith("}"))
        yield json.loads(process.out.read_text())["address"], process


def without_server(app: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run requests against an application in this process; a failure inside it becomes an answer."""
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")

    async def run() -> Any:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://lrml") as client:
            return await work(client)

    return asyncio.run(run())
