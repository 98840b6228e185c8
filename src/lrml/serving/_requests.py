"""Requests are checked field by field, so that the model sees nothing it does not know; and their answers."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags

from lrml._inner import Prediction, inner_model, threshold_of
from lrml._shown import did_you_mean, shown
from lrml._version import __version__
from lrml.core.checks import check_integer, is_real
from lrml.text import TextTagger

_NO_WORD = "no known word"
_MOST_NAMES = 1000  # of labels and features in the answer about the model


class RequestError(Exception):
    """A request cannot be answered; the message, for the client, says what was found and what to do."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """Answers requests with a model; safe for several threads, as it changes nothing."""

    def __init__(self, model: Any, summary: Mapping[str, Any] | None, limits: dict[str, int]) -> None:
        self.limits = {name: check_integer(name, value) for name, value in limits.items()}
        self.kind = type(model).__name__
        self.tagger = model if isinstance(model, TextTagger) else None
        inner = inner_model(model, "make_app")
        if not hasattr(inner.model, "predict_top_k") or inner.model.flat_output_:
            raise ValueError(
                f"{shown(model)} has no tags: it was not fitted to a label matrix. Fit a model of labels, to "
                "y.reshape(-1, 1) if there is only one."
            )
        first, kernel = (*inner.steps, inner.model)[0], getattr(inner.model, "kernel_", None)
        self.takes = "texts" if inner.reads_texts else "rows"
        self.n_features = inner.model.n_features_in_ if inner.reads_texts else first.n_features_in_
        names = None if inner.reads_texts else getattr(first, "feature_names_in_", None)
        self.names = None if names is None else list(map(str, names))
        self.columns = {name: column for column, name in enumerate(self.names or ())}
        self.sparse = all(get_tags(one).input_tags.sparse for one in (*inner.steps, inner.model))
        self.sparse = self.sparse and not (kernel is not None and kernel.is_precomputed)
        self.explains = self.tagger is not None and kernel is None
        self.inner = inner.unnamed()
        self.classes = np.asarray(inner.model.classes_).tolist()
        self.summary = json.loads(json.dumps(dict(summary or {}), allow_nan=False))

    def about(self) -> bytes:
        """Return what is known about the model; of very many names only the first."""
        model, cut = self.inner.model, np.asarray(threshold_of(self.inner.model))
        facts: dict[str, Any] = {"kind": self.kind, "takes": self.takes}
        facts |= {"model": type(model).__name__} if self.inner.steps else {}
        facts |= {
            "loss": model.loss_,
            "rank": len(model.factors_.s),
            "n_features": self.n_features,
            "n_labels": len(self.classes),
            "threshold": None if cut.ndim else float(cut),  # None: one for each label
            "labels": self.classes[:_MOST_NAMES],
        }
        facts |= {} if self.names is None else {"features": self.names[:_MOST_NAMES]}
        known = {"explains": self.explains, "limits": self.limits, "lrml_version": __version__}
        return to_json(facts | known | {"summary": self.summary})

    def answer(self, body: bytes) -> bytes:
        """Return the answer to a request, both as JSON; raise `RequestError` if it is wrong."""
        given, k, explain = self._read(body)
        try:
            X = self.inner.features(given)
            found = Prediction.of(self.inner.model, X, k)
        except (OverflowError, ValueError) as error:  # numbers too large for this model, or kernel
            raise RequestError(str(error)) from error
        columns = {"tag": found.tags, "score": found.scores, "assigned": found.assigned}
        columns |= {} if found.probabilities is None else {"probability": found.probabilities}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        predictions: list[dict[str, Any]] = [
            {"tags": [dict(zip(columns, values, strict=True)) for values in zip(*row, strict=True)]}
            for row in rows
        ]
        if self.tagger is not None:
            frequent = self.explains and self.inner.model.intercept_.any()
            n_known = np.asarray(X.astype(bool).sum(axis=1)).ravel()
            for place in np.flatnonzero(n_known == 0):
                predictions[place]["note"] = _NO_WORD + (": the most frequent tags" if frequent else "")
        if explain and self.tagger is not None:
            constants = dict(zip(self.classes, self.inner.model.intercept_.tolist(), strict=True))
            for tag in predictions[0]["tags"]:
                tag["constant"] = constants[tag["tag"]]
                spoke = self.tagger.explain(given[0], tag["tag"], explain)
                tag["features"] = [{"feature": name, "contribution": value} for name, value in spoke]
        return to_json({"predictions": predictions})

    def _read(self, body: bytes) -> tuple[Any, int, int]:
        """Return texts or rows, how many tags to give, and how many words to explain each."""
        document = _parsed(body)
        known = (self.takes, "k", *(["explain"] if self.explains else []))
        example = '{"texts": ["a text"], "k": 5}' if self.takes == "texts" else '{"rows": [[0.5, …]], "k": 5}'
        wrong = [name for name in document if name not in known] if isinstance(document, dict) else []
        if wrong or not isinstance(document, dict) or self.takes not in document:
            found = f"has {shown(wrong[0])}" if wrong else f"is {shown(document)}"
            raise RequestError(
                f"the body {found}. {did_you_mean(wrong[0], known) if wrong else ''}Send {example}."
            )
        batch, most = document[self.takes], min(len(self.classes), self.limits["max_k"])
        if not isinstance(batch, list) or not batch:
            raise RequestError(f"{self.takes} is {shown(batch)}. Send {example}.")
        if len(batch) > self.limits["max_batch"]:
            most = self.limits["max_batch"]
            raise RequestError(f"{self.takes} has {len(batch)} entries. Send at most {most} at a time.", 413)
        try:
            k = check_integer("k", document.get("k", min(5, most)), 1, most)
            explain = check_integer("explain", document.get("explain", 0), 0, 100)
        except ValueError as error:
            raise RequestError(str(error)) from None
        if explain and len(batch) > 1:
            raise RequestError(f"explain needs one text at a time, not {len(batch)}. Send one, or explain 0.")
        return self._texts(batch) if self.takes == "texts" else self._rows(batch), k, explain

    def _texts(self, texts: list[Any]) -> list[str]:
        most = self.limits["max_text"]
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise RequestError(f"text {place} (counted from 0) is {shown(text)}. Send strings.")
            if len(text) > most:
                found = f"text {place} (counted from 0) has {len(text)} characters"
                raise RequestError(f"{found}. Send at most {most} of them.", 413)
        return texts

    def _rows(self, rows: list[Any]) -> Any:
        """Return rows as an array, or if some are objects, as a sparse matrix where the model takes it."""
        numbers, columns, ends = list[float](), list[int](), [0]
        for place, row in enumerate(rows):
            if isinstance(row, dict):
                columns += map(self._column, row)
                numbers += [self._number(value, place) for value in row.values()]
            elif isinstance(row, list) and len(row) == self.n_features:
                columns += range(self.n_features)
                numbers += [self._number(value, place) for value in row]
            else:
                size = f" of length {len(row)}" if isinstance(row, list) else ""
                raise RequestError(
                    f"row {place} (counted from 0) is {shown(row)}{size}. Send a list of {self.n_features} "
                    "numbers, or an object with those that are not 0."
                )
            ends.append(len(columns))
        content = np.array(numbers, self.inner.model.intercept_.dtype), np.array(columns, np.int64), ends
        matrix = sp.csr_array(content, shape=(len(rows), self.n_features))
        matrix.sort_indices()
        return matrix if self.sparse and any(isinstance(row, dict) for row in rows) else matrix.toarray()

    def _column(self, name: str) -> int:
        if self.names is None and name.isdecimal() and len(name) < 19 and name == str(int(name)):
            column = int(name)
        else:
            column = self.columns.get(name, self.n_features)
        if column >= self.n_features:
            known = "the names in GET /model" if self.names else f"numbers from 0 to {self.n_features - 1}"
            raise RequestError(f"{shown(name)} is no feature that the model knows. Send {known}.")
        return column

    def _number(self, value: Any, row: int) -> float:
        dtype = self.inner.model.intercept_.dtype
        try:
            number = float(value) if is_real(value) else math.nan
        except OverflowError:  # an int beyond all floats
            number = math.inf
        if not abs(number) <= np.finfo(dtype).max:  # nor is NaN
            raise RequestError(
                f"row {row} (counted from 0) has {shown(value)}, which is no finite number of {dtype}. Send "
                "one that fits, or fill in what is missing."
            )
        return number


def _parsed(body: bytes) -> Any:
    def no_constants(name: str) -> Any:
        raise RequestError(f"the body has the number {name}. Send finite numbers only.")

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise RequestError(f"an object has {shown(twice)} twice. Send each name once.")
        return found

    try:
        return json.loads(body, parse_constant=no_constants, object_pairs_hook=no_repeats)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text, and of endless numbers
        reason = "too deep" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise RequestError(
            f"the body {shown(body[:200])} is no JSON in UTF-8 ({reason}). Check quotes and commas."
        ) from error


def to_json(document: Any) -> bytes:
    """Return JSON as bytes; half a letter in a label, which UTF-8 cannot write, becomes a question mark."""
    plain: dict[str, Any] = {"default": np.generic.item, "ensure_ascii": False, "allow_nan": False}
    return json.dumps(document, separators=(",", ":"), **plain).encode("utf-8", "replace")
