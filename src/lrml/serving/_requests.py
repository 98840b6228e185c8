"""Requests: JSON that is checked field by field, so that the model sees nothing it does not know."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lrml._shown import did_you_mean, shown
from lrml.core.checks import is_integer, is_real


class RequestError(Exception):
    """A request cannot be answered; the message, for the client, names the rule, the value and the remedy."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """What is asked for: ``k`` tags of texts or of rows of features, and what spoke for them."""

    given: Any  # a list of str, or an array or CSR array
    k: int
    explain: int


@dataclass(frozen=True, eq=False)
class RequestReader:
    """Turns the body of a request into a `Request` for one model."""

    limits: dict[str, int]
    n_labels: int
    takes: str  # "texts" or "rows"
    n_features: int
    feature_names: dict[str, int] | None
    dtype: Any
    sparse: bool  # whether the model takes sparse rows
    explains: bool

    def read(self, body: bytes) -> Request:
        """Check the body and return what it asks for, or raise `RequestError`."""
        document = _parsed(body)
        if not isinstance(document, dict):
            raise RequestError(
                f"the body must be a JSON object, got {shown(document)}. Send {self._example()}."
            )
        known = (self.takes, "k", *(["explain"] if self.explains else []))
        for name in document:
            if name not in known:
                raise RequestError(
                    f"a request may have the fields {', '.join(known)}, got {shown(name)}. "
                    f"{did_you_mean(name, known)}Send {self._example()}."
                )
        if self.takes not in document:
            raise RequestError(
                f"a request must have the field {self.takes!r}, got {shown(list(document))}. "
                f"Send {self._example()}."
            )
        most = min(self.n_labels, self.limits["max_k"])
        k = _count("k", document.get("k", min(5, most)), 1, most)
        explain = _count("explain", document.get("explain", 0), 0, 100)
        batch = self._batch(document[self.takes])
        if explain and len(batch) > 1:
            raise RequestError(f"explain needs one text at a time, got {len(batch)}. Send one, or explain 0.")
        return Request(self._texts(batch) if self.takes == "texts" else self._rows(batch), k, explain)

    def _example(self) -> str:
        return '{"texts": ["a text"], "k": 5}' if self.takes == "texts" else '{"rows": [[0.5, …]], "k": 5}'

    def _batch(self, value: Any) -> list[Any]:
        most = self.limits["max_batch"]
        if not isinstance(value, list):
            raise RequestError(f"{self.takes} must be a list, got {shown(value)}. Send {self._example()}.")
        if not 1 <= len(value) <= most:
            status = 413 if value else 400
            raise RequestError(
                f"{self.takes} must have 1 to {most} entries, got {len(value)}. Send several requests.",
                status,
            )
        return value

    def _texts(self, texts: list[Any]) -> list[str]:
        most = self.limits["max_text"]
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise RequestError(
                    f"every text must be a string, got {shown(text)} at place {place} (counted from 0). "
                    f"Send {self._example()}."
                )
            if len(text) > most:
                raise RequestError(
                    f"a text must have at most {most} characters, got {len(text)} at place {place} (counted "
                    "from 0). Send a part of it.",
                    413,
                )
        return texts

    def _rows(self, rows: list[Any]) -> Any:
        kinds = {dict if isinstance(row, dict) else list if isinstance(row, list) else None for row in rows}
        if None in kinds or len(kinds) > 1:
            wrong = next((row for row in rows if not isinstance(row, dict | list)), "both")
            raise RequestError(
                f"rows must be lists of {self.n_features} numbers, or objects with a number for every "
                f"feature that is not zero, got {shown(wrong)}. Send rows of one kind."
            )
        return self._dense(rows) if kinds == {list} else self._sparse(rows)

    def _dense(self, rows: list[list[Any]]) -> Any:
        for place, row in enumerate(rows):
            if len(row) != self.n_features:
                raise RequestError(
                    f"a row must have {self.n_features} numbers, one for every feature, got {len(row)} in "
                    f"row {place} (counted from 0). Send all, or an object with those that are not 0."
                )
        return np.array(
            [[_number(value, place, self.dtype) for value in row] for place, row in enumerate(rows)],
            dtype=self.dtype,
        )

    def _sparse(self, rows: list[dict[str, Any]]) -> Any:
        numbers: list[float] = []
        columns: list[int] = []
        ends = [0]
        for place, row in enumerate(rows):
            for name, value in row.items():
                columns.append(self._column(name))
                numbers.append(_number(value, place, self.dtype))
            ends.append(len(columns))
        shape = (len(rows), self.n_features)
        matrix = sp.csr_array((np.array(numbers, self.dtype), np.array(columns, np.int64), ends), shape=shape)
        matrix.sort_indices()
        return matrix if self.sparse else matrix.toarray()

    def _column(self, name: str) -> int:
        if self.feature_names is None:
            if name.isdecimal() and len(name) < 19 and name == str(int(name)) and int(name) < self.n_features:
                return int(name)
            raise RequestError(
                f"a feature must be a column number from 0 to {self.n_features - 1}, got {shown(name)}. The "
                "model knows no names of features."
            )
        if name not in self.feature_names:
            raise RequestError(
                f"a feature must be one of the {self.n_features} that the model knows, got {shown(name)}. "
                "Leave it out, or see GET /model."
            )
        return self.feature_names[name]


def _parsed(body: bytes) -> Any:
    def no_constants(name: str) -> Any:
        raise RequestError(f"numbers must be finite, got {name}. Send a finite number, or leave it out.")

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise RequestError(
                f"a name must occur once in an object, got {shown(twice)} twice. Send it once."
            )
        return found

    try:
        return json.loads(body, parse_constant=no_constants, object_pairs_hook=no_repeats)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text, and of endless numbers
        raise RequestError(
            f"the body must be JSON in UTF-8, got {shown(body[:200])} ({_reason(error)}). Check "
            "the quotes and commas."
        ) from error


def _reason(error: Exception) -> str:
    return "too deep" if isinstance(error, RecursionError) else str(error).partition(";")[0]


def _count(name: str, value: Any, least: int, most: int) -> int:
    if not is_integer(value) or not least <= value <= most:
        raise RequestError(
            f"{name} must be a whole number from {least} to {most}, got {shown(value)}. Leave it out."
        )
    return int(value)


def _number(value: Any, row: int, dtype: Any) -> float:
    try:
        number = float(value) if is_real(value) else math.nan
    except OverflowError:  # an int beyond all floats
        number = math.inf
    if not abs(number) <= np.finfo(dtype).max:  # nor is NaN
        raise RequestError(
            f"a feature must be a finite number, got {shown(value)} in row {row} (counted from 0), for a "
            f"model of {np.dtype(dtype)}. Send a number that fits, or fill in what is missing."
        )
    return number
