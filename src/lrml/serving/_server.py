"""uvicorn, with a socket of our own: its errors are told, and its port is known before the first request."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

_LAST_SECONDS = 30  # for running requests, once the server is told to stop


class _Server(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def run(app: Any, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until a signal comes: see `lrml.serving.run_app`."""
    with _listening(host, port) as listening:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        server = _Server(config, lambda: ready(address))
        if threading.current_thread() is threading.main_thread():
            # uvicorn takes signals over, and raises them again when all is closed. SIGTERM then ends nothing.
            signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        server.run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address, family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise OSError(
            f"a server needs an address of this machine and a free port, got {host}, port {port} "
            f"({reason}). Pass another port (0: any free one) or host."
        ) from error
    # Connections inherit it; otherwise a small answer waits 40 ms for the client's acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
