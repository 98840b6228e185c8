"""What goes to a worker, and what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numpy.typing import NDArray

from lrml._shown import shown

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+,-]{0,199}")


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Parameters
    ----------
    key : str
        A stable id; it names the file with the arrays.
    payload : mapping
        Plain data that JSON can hold; a copy is kept. ``payload["cost"]``, if all jobs have it, is a weight
        for the estimate of the time left.
    """

    key: str
    payload: Mapping[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(
                "the key of a job must be 1 to 200 of the characters A-Z a-z 0-9 . _ = + , - and begin with "
                f"a letter or digit, got {shown(self.key)}. Choose a key that can name a file."
            )
        try:
            payload = json.loads(json.dumps(dict(self.payload), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the payload of a job must be plain data that JSON can hold, got {shown(self.payload)} "
                f"({error}). Use str, int, finite float, bool, None, list and dict."
            ) from error
        object.__setattr__(self, "payload", payload)


@dataclass(frozen=True)
class Outcome:
    """What a work function returns.

    Parameters
    ----------
    result : mapping
        Plain data that JSON can hold; a number that is not finite is stored as null.
    arrays : mapping of str to array, default=None
        Arrays for the side file, in the type in which they are to be kept.
    """

    result: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] | None = None


@dataclass(frozen=True)
class Reply:
    """What a worker sends; it encodes result and arrays, so that the parent has only bytes to write."""

    status: str
    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()
    result: str = "{}"
    arrays: bytes | None = None


Work: TypeAlias = Callable[[dict[str, Any]], Outcome]
