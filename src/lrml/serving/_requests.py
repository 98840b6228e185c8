"""Requests are checked field by field, so that the model sees nothing it does not know; and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils import get_tags

from lrml._inner import Prediction, facts_of, in_words, inner_model, threshold_of
from lrml._shown import did_you_mean, shown
from lrml._version import __version__
from lrml.core.checks import check_integer, check_number, is_real
from lrml.core.losses import LOSSES

_NO_WORD = "no known word"
_MOST_NAMES = 1000  # of labels and features in the answer about the model
_MOST_TAGS = 100  # in an answer


class RequestError(Exception):
    """A request cannot be answered; the message, for the client, says what was found and what to do."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """Answers requests with a model; safe for several threads, as it changes nothing."""

    def __init__(self, model: Any, name: str, summary: Mapping[str, Any] | None, max_batch: int) -> None:
        self.name, self.max_batch = name, check_integer("max_batch", max_batch)
        self.kind, inner = type(model).__name__, inner_model(model, "make_app")
        if not hasattr(inner.model, "predict_top_k") or inner.model.flat_output_:
            raise ValueError(
                f"{shown(model)} has no tags: it was not fitted to a label matrix. Fit a model of labels, to "
                "y.reshape(-1, 1) if there is only one."
            )
        first, kernel = (*inner.steps, inner.model)[0], getattr(inner.model, "kernel_", None)
        self.takes = "texts" if inner.reads_texts else "rows"
        self.n_features = inner.model.n_features_in_ if inner.reads_texts else first.n_features_in_
        self.named = self.takes == "rows" and hasattr(first, "feature_names_in_")
        names = first.feature_names_in_ if self.named else range(0 if inner.reads_texts else self.n_features)
        self.columns = {str(name): column for column, name in enumerate(names)}
        self.sparse = all(get_tags(one).input_tags.sparse for one in (*inner.steps, inner.model))
        self.sparse = self.sparse and not (kernel is not None and kernel.is_precomputed)
        self.explains, self.features = kernel is None, inner.feature_names
        self.inner, self.fitted = inner.unnamed(), facts_of(model)
        self.classes = np.asarray(inner.model.classes_).tolist()
        self.most = min(len(self.classes), _MOST_TAGS)
        self.summary = json.loads(json.dumps(dict(summary or {}), allow_nan=False))

    def about(self) -> bytes:
        """Return what is known about the model; of very many names only the first."""
        cut = np.asarray(threshold_of(self.inner.model))
        facts: dict[str, Any] = {
            "kind": self.kind,
            "takes": self.takes,
            "fitted": self.fitted,
            "in_words": in_words(self.fitted),
            "n_features": self.n_features,
            "n_labels": len(self.classes),
            "threshold": None if cut.ndim else float(cut),  # None: one for each label
            "labels": self.classes[:_MOST_NAMES],
        }
        facts |= {"features": [*self.columns][:_MOST_NAMES]} if self.named else {}
        limits = {"max_batch": self.max_batch, "max_k": self.most}
        known = {"explains": self.explains, "limits": limits, "lrml_version": __version__}
        return to_json(facts | known | {"summary": self.summary})

    def answer(self, body: bytes, query: Mapping[str, str] | None = None) -> bytes:
        """Return the answer to a request, both as JSON; raise `RequestError` if it is wrong."""
        given, k, explain = self._read(body)
        X, found = self._predicted(given, k)
        columns = {"tag": found.tags, "score": found.scores, "assigned": found.assigned}
        columns |= {"threshold": found.thresholds}
        columns |= {} if found.probabilities is None else {"probability": found.probabilities}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        predictions: list[dict[str, Any]] = [
            {"tags": [dict(zip(columns, values, strict=True)) for values in zip(*row, strict=True)]}
            for row in rows
        ]
        if self.takes == "texts":
            frequent = self.explains and self.inner.model.intercept_.any()
            n_known = np.asarray(X.astype(bool).sum(axis=1)).ravel()
            for place in np.flatnonzero(n_known == 0):
                predictions[place]["note"] = _NO_WORD + (": the most frequent tags" if frequent else "")
        for tag in predictions[0]["tags"] if explain else []:
            place = self.classes.index(tag["tag"])
            tag["constant"] = float(self.inner.model.intercept_[place])
            spoke = self.inner.contributions(X, place, explain)
            names = (str(j if self.features is None else self.features[j]) for j, _ in spoke)
            parts = zip(names, (value for _, value in spoke), strict=True)
            tag["features"] = [{"feature": name, "contribution": value} for name, value in parts]
        return to_json({"predictions": predictions})

    def project(self) -> bytes:
        """Return what Annif's REST interface tells about a project."""
        facts = {"project_id": self.name, "name": self.name, "language": "und", "is_trained": True}
        return to_json(facts | {"backend": {"backend_id": "lrml"}, "modification_time": None})

    def suggest(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """Return Annif's answer for a form with one ``text``, a ``limit`` and a ``threshold``."""
        try:
            form = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
        except ValueError as error:
            raise RequestError(f"the body is no form in UTF-8 ({error}). Send text=…&limit=10.") from error
        if "text" not in form:
            raise RequestError(f"the form has the fields {shown([*form])}. Send text=…&limit=10.")
        return to_json(self._suggested([form["text"]], form)[0])

    def suggest_batch(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """Return Annif's answer for a JSON list of documents; limit and threshold stand in the address."""
        document, example = _parsed(body), '{"documents": [{"text": "a text", "document_id": "1"}]}'
        documents = document.get("documents") if isinstance(document, dict) else None
        if not isinstance(documents, list) or not all(isinstance(one, dict) for one in documents):
            raise RequestError(f"the body is {shown(document)}. Send {example}.")
        found = self._suggested([one.get("text") for one in documents], query)
        ids = ({"document_id": one.get("document_id")} for one in documents)
        return to_json([one | own for one, own in zip(found, ids, strict=True)])

    def _suggested(self, texts: list[Any], options: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return Annif's results for texts: tags as URIs, with scores from 0 to 1, of which 0 is none."""
        try:
            limit = check_integer("limit", int(options.get("limit", 10)), 0)
            least = check_number("threshold", float(options.get("threshold", 0)))
        except ValueError as error:
            raise RequestError(f"{error}. Send limit=10&threshold=0, for example.") from None
        _, found = self._predicted(self._batch("texts", texts), max(1, min(limit, self.most)))
        scores = found.probabilities
        if scores is None:  # cut at 1/2 as the loss cuts them, and in the same order
            scores = expit(found.scores - LOSSES[self.inner.model.loss_].threshold)
        results = []
        for tags, values in zip(found.tags.tolist(), scores.tolist(), strict=True):
            # Probabilities of different labels need not fall where their scores do.
            pairs = sorted(zip(map(str, tags[:limit]), values, strict=False), key=lambda pair: -pair[1])
            hits = [
                {"uri": tag, "label": tag, "notation": None, "score": score}
                for tag, score in pairs
                if score >= least
            ]
            results.append({"results": hits})
        return results

    def _predicted(self, given: Any, k: int) -> tuple[Any, Prediction]:
        """Return features, and the best k tags of each."""
        try:
            X = self.inner.features(given)
            return X, Prediction.of(self.inner.model, X, k)
        except (OverflowError, ValueError) as error:  # numbers too large for this model, or kernel
            raise RequestError(str(error)) from error

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
        batch = self._batch(self.takes, document[self.takes])
        try:
            k = check_integer("k", document.get("k", min(5, self.most)), 1, self.most)
            explain = check_integer("explain", document.get("explain", 0), 0, 100)
        except ValueError as error:
            raise RequestError(str(error)) from None
        if explain and len(batch) > 1:
            raise RequestError(
                f"explain needs one of {self.takes} at a time, not {len(batch)}. Send one, or explain 0."
            )
        return batch if self.takes == "texts" else self._rows(batch), k, explain

    def _batch(self, name: str, batch: Any) -> list[Any]:
        """Return some texts or rows, neither none nor too many."""
        if not isinstance(batch, list) or not batch:
            raise RequestError(f"{name} is {shown(batch)}. Send a list of at least one.")
        if len(batch) > self.max_batch:
            found = f"{name} has {len(batch)} entries"
            raise RequestError(f"{found}. Send at most {self.max_batch} at a time.", 413)
        for place, text in enumerate(batch if name == "texts" else []):
            if not isinstance(text, str):
                raise RequestError(f"text {place} (counted from 0) is {shown(text)}. Send strings.")
        return batch

    def _rows(self, rows: list[Any]) -> Any:
        """Return rows as an array, or if some are objects, as a sparse matrix where the model takes it."""
        dtype = self.inner.model.intercept_.dtype
        largest = float(np.finfo(dtype).max)
        numbers, columns, ends = list[float](), list[int](), [0]
        for place, given in enumerate(rows):
            whole = isinstance(given, list) and len(given) == self.n_features
            row = dict(zip(self.columns, given, strict=True)) if whole else given
            if not isinstance(row, dict):
                size = f" of length {len(row)}" if isinstance(row, list) else ""
                raise RequestError(
                    f"row {place} (counted from 0) is {shown(row)}{size}. Send a list of {self.n_features} "
                    "numbers, or an object with those that are not 0."
                )
            for name, value in row.items():
                if name not in self.columns:
                    last = self.n_features - 1
                    known = "the names in GET /model" if self.named else f"numbers from 0 to {last}"
                    raise RequestError(f"{shown(name)} is no feature that the model knows. Send {known}.")
                if not is_real(value) or not abs(value) <= largest:  # nor is NaN
                    raise RequestError(
                        f"row {place} (counted from 0) has {shown(value)}, which is no finite number of "
                        f"{dtype}. Send one that fits, or fill in what is missing."
                    )
                numbers.append(value)
                columns.append(self.columns[name])
            ends.append(len(columns))
        content = np.array(numbers, dtype), np.array(columns, np.int64), ends
        matrix = sp.csr_array(content, shape=(len(rows), self.n_features))
        matrix.sort_indices()
        return matrix if self.sparse and any(isinstance(row, dict) for row in rows) else matrix.toarray()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text, and of endless numbers
        reason = "too deep" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise RequestError(
            f"the body {shown(body[:200])} is no JSON in UTF-8 ({reason}). Check quotes and commas."
        ) from error


def to_json(document: Any) -> bytes:
    """Return JSON as bytes; half a letter in a label, which UTF-8 cannot write, becomes a question mark."""
    plain: dict[str, Any] = {"default": np.generic.item, "ensure_ascii": False, "allow_nan": False}
    return json.dumps(document, separators=(",", ":"), **plain).encode("utf-8", "replace")
