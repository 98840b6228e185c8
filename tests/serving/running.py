"""A server in a process of its own, and applications without one: helpers of the tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrml
from lrml import MLFro, TextTagger

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
def serving(model: Any, folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `lrml serve` on a free port; yield its address and the process."""
    path = folder / "model.lrml"
    lrml.save(model, path, summary={"data": "toy texts"})
    command = [sys.executable, "-m", "lrml", "serve", str(path), "--port", "0", "--json", *options]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield listening_at(process), process
        finally:
            process.kill()


def listening_at(process: subprocess.Popen[str]) -> str:
    """Return the address that a server prints when it is ready."""
    assert process.stdout is not None
    said = ""
    while not said.rstrip().endswith("}"):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        said += line
    address: str = json.loads(said)["address"]
    return address


def without_server(app: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run requests against an application in this process; a failure inside it becomes an answer."""
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")

    async def run() -> Any:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://lrml") as client:
            return await work(client)

    return asyncio.run(run())
