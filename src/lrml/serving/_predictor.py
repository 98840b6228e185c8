"""One fitted model, and the answers that it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lrml._inner import threshold_of
from lrml._shown import shown
from lrml._version import __version__
from lrml.core.losses import LogisticLoss
from lrml.estimators import LowRankModel
from lrml.serving._requests import Request, RequestError, RequestReader
from lrml.text import TextTagger

_NO_WORD = "no known word"
_MOST_NAMES = 1000  # of labels and features in the answer about the model


class Predictor:
    """Answers requests with a model; safe for several threads, as it changes nothing."""

    def __init__(self, model: Any, summary: Mapping[str, Any] | None, limits: dict[str, int]) -> None:
        if not isinstance(model, TextTagger | LowRankModel):
            raise TypeError(
                f"model must be a fitted estimator of lrml or a TextTagger, got {shown(model)}. "
                "Load one with lrml.load."
            )
        check_is_fitted(model)
        self.kind = type(model).__name__
        self.tagger = model if isinstance(model, TextTagger) else None
        inner = model if self.tagger is None else self.tagger.model_
        if getattr(inner, "flat_output_", False):
            raise ValueError(
                "a served model must be fitted to a label matrix, got one fitted to a 1-D y. Fit it to "
                "y.reshape(-1, 1)."
            )
        names = getattr(inner, "feature_names_in_", None)
        if names is not None:  # rows get their names here; scikit-learn would miss a frame at every call
            inner = inner._unnamed()
        self.model, self.names = inner, None if names is None else list(map(str, names))
        self.classes = [name.item() if isinstance(name, np.generic) else name for name in inner.classes_]
        self.places = {name: place for place, name in enumerate(self.classes)}
        self.threshold = np.asarray(threshold_of(inner), dtype=np.float64)
        self.summary = json.loads(json.dumps(dict(summary or {}), allow_nan=False))
        kernel = getattr(inner, "kernel_", None)
        self.reader = RequestReader(
            limits,
            len(self.classes),
            "rows" if self.tagger is None else "texts",
            inner.n_features_in_,
            None if self.names is None else {name: column for column, name in enumerate(self.names)},
            inner.intercept_.dtype,
            sparse=kernel is None or not kernel.is_precomputed,
            explains=self.tagger is not None and kernel is None,
        )

    def answer(self, body: bytes) -> bytes:
        """Return the answer to a request, both as JSON; raise `RequestError` if it is wrong."""
        request = self.reader.read(body)
        return to_json({"predictions": self._predictions(request)})

    def _predictions(self, request: Request) -> list[dict[str, Any]]:
        X = request.given if self.tagger is None else self.tagger.transform(request.given)
        try:
            labels, scores = self.model.predict_top_k(X, request.k)
        except (OverflowError, ValueError) as error:  # numbers too large for this model, or kernel
            raise RequestError(str(error)) from error
        columns = {"tag": labels.tolist(), "score": scores.tolist()}
        places = [[self.places[tag] for tag in row] for row in columns["tag"]]
        cut = np.broadcast_to(self.threshold, len(self.classes))[places]
        columns["assigned"] = (scores >= cut).tolist()
        if self.model.loss_ == "logistic":
            columns["probability"] = LogisticLoss().probability(scores).tolist()
        predictions: list[dict[str, Any]] = [
            {"tags": [dict(zip(columns, values, strict=True)) for values in zip(*row, strict=True)]}
            for row in zip(*columns.values(), strict=True)
        ]
        if self.tagger is None:
            return predictions
        for prediction, known in zip(predictions, X.astype(bool).sum(axis=1), strict=True):
            if not known:
                frequent = self.reader.explains and self.model.intercept_.any()
                prediction["note"] = _NO_WORD + (": the most frequent tags" if frequent else "")
        if request.explain:
            for tag in predictions[0]["tags"]:
                tag["constant"] = float(self.model.intercept_[self.places[tag["tag"]]])
                spoke = self.tagger.explain(request.given[0], tag["tag"], request.explain)
                tag["features"] = [{"feature": name, "contribution": value} for name, value in spoke]
        return predictions

    def about(self) -> dict[str, Any]:
        """Return what is known about the model; of very many names only the first."""
        facts: dict[str, Any] = {"kind": self.kind, "takes": self.reader.takes}
        if self.tagger is not None:
            facts["model"] = type(self.model).__name__
        facts |= {
            "loss": self.model.loss_,
            "rank": len(self.model.factors_.s),
            "n_features": self.reader.n_features,
            "n_labels": len(self.classes),
            "threshold": None if self.threshold.ndim else float(self.threshold),  # None: one for each label
            "labels": self.classes[:_MOST_NAMES],
        }
        if self.names is not None:
            facts["features"] = self.names[:_MOST_NAMES]
        return facts | {
            "explains": self.reader.explains,
            "limits": self.reader.limits,
            "lrml_version": __version__,
            "summary": self.summary,
        }


def to_json(document: Any) -> bytes:
    """Return JSON as bytes; half a letter in a label, which UTF-8 cannot write, becomes a question mark."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
