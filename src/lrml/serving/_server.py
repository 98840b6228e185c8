"""uvicorn, with a socket of our own: its errors are told, and its port is known before the first request."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

_LAST_SECONDS = 30  # for running requests, once the server is told to stop


def run_app(app: Any, host: str = "127.0.0.1", port: int = 8000, *, ready: Callable[[str], None]) -> None:
    """Serve an application with uvicorn until SIGINT or SIGTERM; running requests are finished first.

    It listens on this machine alone, or at ``host="0.0.0.0"`` on all of its networks, on any free port if
    that is 0. ``ready`` is called with the address, such as ``http://127.0.0.1:8000``, as soon as clients may
    connect. After SIGINT, when all is closed, it raises KeyboardInterrupt, and OSError if the address cannot
    be used.
    """
    with _listening(host, port) as listening:
        config = uvicorn.Config(
            app,
            http="h11",
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
