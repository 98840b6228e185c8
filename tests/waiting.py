"""Tests wait for events, not for some time: for a condition, or the end of all processes of a session."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait_until(condition: Callable[[], Any], seconds: float = 300) -> None:
    """Wait for something that is sure to come; the time is for a test that would never end."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


def living(session: int) -> list[int]:
    """Return the processes of a session; those that have ended and wait to be taken notice of are none."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of_session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if int(of_session) == session and state != "Z":
            found.append(int(path.name))
    return found
