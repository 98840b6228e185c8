"""A fitted model behind HTTP: tags for texts or feature rows as JSON, and one page for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["make_app", "run_app"]


def __dir__() -> list[str]:
    return __all__


def make_app(
    model: Any,
    *,
    summary: Mapping[str, Any] | None = None,
    max_body: int = 1 << 20,
    max_batch: int = 256,
    max_text: int = 100_000,
    max_k: int = 100,
) -> Starlette:
    """Return a web application (ASGI) that answers with the tags of a fitted model.

    ``POST /predict`` takes ``{"texts": [...], "k": 5}`` for a `TextTagger` and ``{"rows": [...], "k": 5}``
    for others; ``GET /model`` and ``GET /health`` tell about the model and the server; ``GET /`` is a page
    where a person tries it. ``docs/serving.md`` has the fields of requests and answers. What is wrong with a
    request is answered with a 4xx status and ``{"error": "rule, value, remedy"}``.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library, or a `TextTagger`.
    summary : mapping, optional
        What is known about the training, shown by ``GET /model``; anything that JSON can hold.
    max_body : int, default=1048576
        Bytes of a request.
    max_batch : int, default=256
        Texts or rows of a request.
    max_text : int, default=100000
        Characters of a text.
    max_k : int, default=100
        Tags of an answer.

    Returns
    -------
    starlette.applications.Starlette
        For any ASGI server. Predictions run in threads of their own, so that the application goes on
        answering; where too many wait, requests are answered with 503.

    Raises
    ------
    ImportError
        Without the packages starlette and uvicorn.
    """
    limits = {"max_body": max_body, "max_batch": max_batch, "max_text": max_text, "max_k": max_k}
    app: Starlette = _module("_app").make(model, summary, limits)
    return app


def run_app(app: Any, host: str = "127.0.0.1", port: int = 8000, *, ready: Callable[[str], None]) -> None:
    """Serve an application with uvicorn until SIGINT or SIGTERM; running requests are finished first.

    Parameters
    ----------
    app : ASGI application
    host : str, default="127.0.0.1"
        Address to listen on: this machine alone by default; ``"0.0.0.0"`` for all of its networks.
    port : int, default=8000
        0 for any free port.
    ready : callable
        Called with the address, such as ``http://127.0.0.1:8000``, as soon as requests are answered.

    Raises
    ------
    KeyboardInterrupt
        After SIGINT, when all is closed.
    OSError
        If the address cannot be used.
    """
    _module("_server").run(app, host, port, ready)


def _module(name: str) -> ModuleType:
    try:
        for package in ("starlette", "uvicorn"):
            import_module(package)
    except ImportError as error:
        raise ImportError(
            f"Serving needs Starlette and uvicorn, and {error.name} cannot be imported. "
            'Install both with: pip install "lrml[serve]"'
        ) from error
    return import_module(f"lrml.serving.{name}")
