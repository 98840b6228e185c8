"""The application: routes, limits on what a request may cost, errors as JSON, headers for browsers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from importlib.resources import files
from typing import Any, TypeAlias

from lrml._shown import how_to_install, shown

try:
    import uvicorn  # noqa: F401 - needed by the server
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as missing:
    raise ImportError(
        f"Serving needs Starlette and uvicorn, and {missing.name} cannot be imported. "
        f"{how_to_install('serve')}"
    ) from missing

from lrml.core.checks import check_integer
from lrml.report import page_style
from lrml.serving._requests import RequestError, Service, to_json

_PATIENCE = 30.0  # seconds for a client to send the body of its request
_MOST_WAITING = 64  # requests that are read or wait for a thread; more are refused
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_Work: TypeAlias = Callable[[bytes, Mapping[str, str]], bytes]
"""Makes an answer of the body of a request, and of what its address has after the question mark."""


def make_app(
    model: Any,
    *,
    name: str = "model",
    summary: Mapping[str, Any] | None = None,
    max_body: int = 1 << 20,
    max_batch: int = 256,
) -> Starlette:
    """Return a web application (ASGI) that answers with the tags of a fitted model.

    ``POST /predict`` takes ``{"texts": [...], "k": 5}`` or ``{"rows": [...], "k": 5}``; ``GET /model`` and
    ``GET /health`` tell about the model and the server; ``GET /`` is a page where a person tries it. A model
    of texts answers as a project of Annif as well, at ``/v1/projects/NAME/suggest``. ``docs/serving.md`` has
    the fields of requests and answers. What is wrong with a request is answered with a 4xx status and
    ``{"error": "what was found, and what to do"}``. Predictions run in threads of their own, so that the
    application goes on answering; where too many wait, requests are answered with 503.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library, a `TextTagger`, or a pipeline that ends in one.
    name : str, default="model"
        What Annif calls it.
    summary : mapping, optional
        What is known about the training, shown by ``GET /model``; anything that JSON can hold.
    max_body : int, default=1048576
        Bytes of a request.
    max_batch : int, default=256
        Texts or rows of a request.

    Returns
    -------
    starlette.applications.Starlette
        For any ASGI server.
    """
    service = Service(model, name, summary, max_batch)
    door = _Door(check_integer("max_body", max_body))
    page = files("lrml.serving") / "page"
    texts = {part: (page / part).read_text("utf-8") for part in ("page.html", "page.css", "page.js")}
    contents: dict[str, tuple[str | bytes, str]] = {
        "/": (texts["page.html"], "text/html"),
        "/page.css": (page_style() + texts["page.css"], "text/css"),
        "/page.js": (texts["page.js"], "text/javascript"),
        "/model": (service.about(), "application/json"),
        "/health": (to_json({"status": "ok"}), "application/json"),
    }
    works: dict[str, _Work] = {"/predict": service.answer}
    if service.takes == "texts":
        project = f"/v1/projects/{name}"
        contents[project] = service.project(), "application/json"
        works |= {f"{project}/suggest": service.suggest, f"{project}/suggest-batch": service.suggest_batch}
    app = Starlette(
        routes=[
            *(Route(path, partial(door.answer, work), methods=["POST"]) for path, work in works.items()),
            *(Route(path, partial(door.content, *content)) for path, content in contents.items()),
        ],
        exception_handlers=dict.fromkeys((HTTPException, RequestError, ClientDisconnect, 500), _failed),
    )
    app.router.redirect_slashes = False
    return app


class _Door:
    """Where requests come in: how many are at work, and how large one may be."""

    def __init__(self, max_body: int) -> None:
        self.max_body, self.waiting = max_body, 0
        self.threads = asyncio.Semaphore(min(4, os.cpu_count() or 1))

    async def content(self, content: str | bytes, kind: str, _: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    async def answer(self, work: _Work, request: Request) -> Response:
        if self.waiting >= _MOST_WAITING:
            raise RequestError(f"{_MOST_WAITING} requests wait already. Try again in a moment.", 503)
        self.waiting += 1
        try:
            body = await self._body(request)
            async with self.threads:
                # Reading JSON takes time too: in the thread, it does not hold up other requests.
                answer = await _in_thread(partial(work, body, request.query_params))
        except asyncio.CancelledError:  # by the server, when its time is up
            raise RequestError("the server has been told to stop. Ask it again later.", 503) from None
        finally:
            self.waiting -= 1
        return await self.content(answer, "application/json", request)

    async def _body(self, request: Request) -> bytes:
        """Read a body, whose length may be announced or not; never keep more than the limit.

        What comes beyond it is read as well, so that the client hears the answer, up to 16 times as much.
        """
        content, size, most = bytearray(), 0, self.max_body
        try:
            async with asyncio.timeout(_PATIENCE):
                async for part in request.stream():
                    size += len(part)
                    content += part[: max(0, most + 1 - len(content))]
                    if size > 16 * most:
                        break
        except TimeoutError:
            raise RequestError(
                f"only {size} bytes of the body came within {_PATIENCE:g} seconds. Send it again.", 408
            ) from None
        if size > most:
            raise RequestError(f"the body has more than {most} bytes. Send several requests.", 413)
        return bytes(content)


async def _in_thread(work: Callable[[], bytes]) -> bytes:
    """Return the result of a function that is called in a thread.

    The thread is a daemon: a server that is told to stop ends when its time is up, and does not wait for a
    busy thread, as it would for those of asyncio and anyio.
    """
    outcome: Future[bytes] = Future()
    outcome.set_running_or_notify_cancel()  # the thread goes on where nobody waits for it any more

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(outcome)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer what went wrong; an error of our own without details, which Starlette passes on to the log."""
    path, headers = shown(request.url.path), dict(_HEADERS)
    match error:
        case RequestError():
            status, message = error.status, str(error)
            headers |= {"Retry-After": "1"} if status == 503 else {}
        case HTTPException(status_code=404):
            known = ", ".join(route.path for route in request.app.routes)
            status, message = 404, f"{path} is no address here. Ask one of {known}."
        case HTTPException():
            status, headers = error.status_code, headers | dict(error.headers or {})
            message = f"{path} cannot be asked with {request.method}. Use {headers.get('Allow', 'GET')}."
        case ClientDisconnect():
            status, message = 400, "the client has gone while it sent its request"
        case _:
            status, message = 500, "the server failed. Its log has the reason."
    return Response(to_json({"error": message}), status, headers, "application/json")
