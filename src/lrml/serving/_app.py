"""The application: routes, limits on what a request may cost, errors as JSON, headers for browsers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.report import page_style
from lrml.serving._predictor import Predictor, to_json
from lrml.serving._requests import RequestError

_BODY_SECONDS = 30.0  # for a client to send its request
_MOST_WAITING = 64  # requests that are read or wait for a thread; more are refused
_DRAINED = 16 << 20  # bytes beyond the limit that are read, and dropped, so that a client hears the answer
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make(model: Any, summary: Mapping[str, Any] | None, limits: dict[str, int]) -> Starlette:
    """Return the application of a model: see `lrml.serving.make_app`."""
    for name, value in limits.items():
        if not is_integer(value) or value < 1:
            raise ValueError(f"{name} must be an int of at least 1, got {shown(value)}. Leave it out.")
    service = _Service(Predictor(model, summary, limits), limits["max_body"])
    page = files("lrml.serving") / "page"
    style = page_style() + (page / "page.css").read_text("utf-8")
    served = [
        ("/", "text/html", (page / "page.html").read_text("utf-8")),
        ("/page.css", "text/css", style),
        ("/page.js", "text/javascript", (page / "page.js").read_text("utf-8")),
    ]
    routes = [Route(path, partial(_content, text, kind)) for path, kind, text in served]
    routes += [
        Route("/predict", service.predict, methods=["POST"]),
        Route("/model", service.about),
        Route("/health", service.health),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_SafeHeaders)],
        exception_handlers={
            HTTPException: _http_error,
            RequestError: _request_error,
            ClientDisconnect: _nobody_listens,
            Exception: _failure,
        },
    )


class _Service:
    """What the routes share: the model, loaded once, and the number of requests at work."""

    def __init__(self, predictor: Predictor, max_body: int) -> None:
        self.predictor, self.max_body, self.waiting = predictor, max_body, 0
        self.threads = asyncio.Semaphore(min(4, os.cpu_count() or 1))

    async def predict(self, request: Request) -> Response:
        try:
            with self._counted():
                body = await self._body(request)
                async with self.threads:
                    # Reading JSON takes time too: in the thread, it does not hold up other requests.
                    answer = await _in_thread(self.predictor.answer, body)
        except asyncio.CancelledError:  # by the server, when its time is up
            raise RequestError("the server has been told to stop. Ask it again later.", 503) from None
        return Response(answer, media_type="application/json")

    async def about(self, _: Request) -> Response:
        return _json(self.predictor.about())

    async def health(self, _: Request) -> Response:
        return _json({"status": "ok"})

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self.waiting >= _MOST_WAITING:
            raise RequestError(
                f"at most {_MOST_WAITING} requests may wait, got one more. Try again in a moment.", 503
            )
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def _body(self, request: Request) -> bytes:
        """Read a body, whose length may be announced or not; never keep more than the limit."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size <= self.max_body:
                        parts.append(part)
                    else:
                        parts.clear()
                        if size > self.max_body + _DRAINED:
                            break
        except TimeoutError:
            raise RequestError(
                f"a body must arrive within {_BODY_SECONDS:g} seconds, got {size} bytes. Send it again.", 408
            ) from None
        if size > self.max_body:
            raise RequestError(
                f"a body must have at most {self.max_body} bytes, got more. Send several requests.", 413
            )
        return b"".join(parts)


async def _in_thread(work: Callable[[bytes], bytes], body: bytes) -> bytes:
    """Return the result of a function that is called in a thread.

    The thread is a daemon: a server that is told to stop ends when its time is up, and does not wait for a
    busy thread, as it would for those of asyncio and anyio.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[bytes] = loop.create_future()

    def tell(result: bytes | None, error: BaseException | None) -> None:
        if outcome.done():  # it was cancelled
            return
        if error is None:
            outcome.set_result(result or b"")
        else:
            outcome.set_exception(error)

    def run() -> None:
        found: tuple[bytes | None, BaseException | None]
        try:
            found = work(body), None
        except BaseException as error:
            found = None, error
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(tell, *found)

    threading.Thread(target=run, daemon=True).start()
    return await outcome


async def _content(text: str, kind: str, _: Request) -> Response:
    return Response(text, media_type=kind)


def _json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(document), status, headers, "application/json")


async def _request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return _json({"error": str(error)}, error.status, {"Retry-After": "1"} if error.status == 503 else None)


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer a wrong address or method."""
    assert isinstance(error, HTTPException)
    path = shown(request.url.path)
    messages = {
        404: f"the address must be /, /predict, /model or /health, got {path}. Check the spelling.",
        405: f"{path} must be asked with another method, got {request.method}. "
        f"Use {(error.headers or {}).get('Allow', 'GET')}.",
    }
    message = messages.get(error.status_code, error.detail)
    return _json({"error": message}, error.status_code, error.headers)


async def _nobody_listens(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # the client has gone while it sent its request


async def _failure(_request: Request, _error: Exception) -> Response:
    """Answer without details, which are for the log: Starlette passes the error on to the server."""
    message = "the server must answer, got an error of its own. Its log has the reason."
    return _json({"error": message}, 500, _HEADERS)  # such answers do not pass through the middleware


class _SafeHeaders:
    """Adds headers to every answer that forbid browsers what the page does not need."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        await self.app(scope, receive, send_with_headers)
