"""Model files, and rows in the form that a model knows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor scikit-learn

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lrml._shown import counted, shown
from lrml.cli._options import Data
from lrml.cli.learn import check_complete, without_labels
from lrml.datasets import mulan_entries

_ROWS = 1000  # whose scores are in memory at one time


def opened(path: str, *, for_labels: bool = False) -> tuple[Any, dict[str, Any]]:
    """Return the model in a file, and what `lrml fit` has kept of its training; refuse what commands lack."""
    from lrml._inner import inner_model
    from lrml.storage import load, read_header

    model = load(path)
    inner = inner_model(model, "lrml").model
    if inner.flat_output_:
        raise ValueError(f"{path!r}: The model was fitted to a 1-D y. Fit it to y.reshape(-1, 1).")
    if for_labels and not hasattr(inner, "predict_top_k"):
        raise ValueError(
            f"{path!r}: The model predicts real targets, and this command is for labels. In Python, pass the "
            f"features to lrml.load({path!r}).predict."
        )
    return model, read_header(path)["summary"] or {}


class RowsForModel:
    """Rows in the form that a model knows, in blocks; of a dataset with a split, one ``part``."""

    def __init__(
        self,
        model: Any,
        data: Data,
        summary: Mapping[str, Any],
        *,
        labelled: bool = False,
        part: str = "test",
    ) -> None:
        from lrml._inner import inner_model
        from lrml.datasets import Columns, NumberedNames, Roles

        inner = inner_model(model, "lrml")
        texts, first = inner.reads_texts, (*inner.steps, inner.model)[0]
        self.n_done = 0
        self.inner = inner.unnamed()  # columns are put in order here
        kept = Roles.of({**summary.get("reading", {}), "kind": "text" if texts else "numbers"})
        source = self._opened(data.with_defaults({"rows": _ROWS}), kept, labelled)
        if (source.roles.kind == "text") != texts:
            takes = "texts" if texts else f"rows of {first.n_features_in_} numbers"
            raise ValueError(f"The model takes {takes}, and {source.name} has none. Pass another file.")
        self.has_split, self.source = source.has_split, getattr(source, part)
        if labelled and not (source.roles.has_labels or self.source.columns.labels):
            raise without_labels(source, data.name, "judge by")
        features: Any = None
        if not texts:
            named = getattr(first, "feature_names_in_", None)
            features = NumberedNames("feature", first.n_features_in_) if named is None else tuple(named)
        labels: Any = tuple(map(str, inner.model.classes_))
        if not isinstance(inner.model.classes_[0], str):
            labels = NumberedNames("label", len(labels))
        self.aligned = self.source.aligned(Columns(features, labels))

    def _opened(self, data: Data, kept: Any, labelled: bool) -> Any:
        """Open the data as that of training, or, where a table has other marks between cells, by its own."""
        from lrml.datasets import DatasetFormatError

        options: dict[str, Any] = {} if data.name in mulan_entries() else {"unlabelled": not labelled}
        if kept.kind == "text" and data.reading.keys() & {"text", "tags"}:
            return data.open(**options)
        try:
            return data.open(kept, **options)
        except DatasetFormatError:
            if not kept.text:
                raise
            return data.open(replace(kept, delimiter=None, tag_separator=None), **options)

    def answers(
        self, method: Callable[[Any, Any], Any], tell: Callable[[str], None] | None = None
    ) -> Iterator[tuple[Any, Any, Any]]:
        """Yield method(model, features), labels and rows of each block; tell now and then how far it is."""
        from lrml._progress import Reading

        told = Reading(tell)
        told.begin()
        for number, (X, labels) in enumerate(self.aligned, start=1):
            texts = isinstance(X, list)
            if not texts:
                check_complete(X)
            yield method(self.inner.model, self.inner.features(X)), labels, X
            more = len(X) if texts else X.shape[0]
            self.n_done += more
            told.update(number, self.n_done, more)

    def notes(self) -> list[str]:
        """Say what was left out, once all blocks are read."""
        lines = []
        for what, unknown in self.aligned.unknown.items():
            if unknown:
                first = ", ".join(shown(name) for name in list(unknown)[:3])
                lines.append(
                    f"left out {counted(len(unknown), what)} that the model has not seen in training, in "
                    f"{counted(unknown.total(), 'cell')}: {first}{', ...' if len(unknown) > 3 else ''}"
                )
        return lines
