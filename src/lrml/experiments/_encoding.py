"""Results as bytes of a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any


def to_csv(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Encode records with the same keys as CSV; None becomes an empty cell."""
    rows = [{key: _rounded(value) for key, value in record.items()} for record in records]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def to_json(document: Any) -> bytes:
    """Encode plain data as indented JSON, keys in the order given."""
    text = json.dumps(_rounded(document), indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _rounded(value: Any) -> Any:
    """Round every float to ten digits: beyond that, machines differ in the order of their sums."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
