"""uvicorn, with a socket of our own: its errors are told, and its port is known before the first request.

Its connections get limits on time: uvicorn itself only has one for the pause between two requests.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_LAST_SECONDS = 30  # for running requests, once the server is told to stop
PATIENCE = 30.0
"""Seconds for a client to send the head of its next request, or its body, or to take an answer."""


class _Connection(H11Protocol):
    """A connection that is closed if its client falls silent in the middle of a request, or never begins one.

    From its start, and from the end of every answer, a client has `PATIENCE` to bring the head of a
    request, however many bytes come meanwhile. What of the last request is still on its way (a body that
    nobody asked for) is no new one. The application itself limits the time of a body.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait()  # no matter while the answer goes on

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(PATIENCE, self._end_unless_busy)

    def _end_unless_busy(self) -> None:
        waits_for_us = self.cycle is not None and not self.cycle.response_complete
        if not waits_for_us or self.flow.write_paused:
            self.transport.abort()  # to close it would wait for the client to read what is left


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
        Called with the address, such as ``http://127.0.0.1:8000``, as soon as clients may connect.

    Raises
    ------
    KeyboardInterrupt
        After SIGINT, when all is closed.
    OSError
        If the address cannot be used.
    """
    with _listening(host, port) as listening:
        config = uvicorn.Config(
            app,
            http=_Connection,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        server = uvicorn.Server(config)
        if threading.current_thread() is threading.main_thread():
            # uvicorn takes signals over, and raises them again when all is closed. SIGTERM then ends nothing.
            signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        ready(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
        server.run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address, family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise OSError(
            f"The server cannot listen on {host}, port {port} ({reason}). Pass another port (0: any free "
            "one), or an address of this machine."
        ) from error
    # Connections inherit it; otherwise a small answer waits 40 ms for the client's acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
