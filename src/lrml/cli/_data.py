"""Data for commands that learn and predict: rows to learn from, and rows in the form that a model knows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor scikit-learn

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from lrml._shown import counted, shown
from lrml.cli._options import Data
from lrml.datasets import mulan_entries

if TYPE_CHECKING:
    from lrml.datasets import Source

_SECONDS = 5.0  # between two lines of progress


def opened(path: str) -> tuple[Any, dict[str, Any]]:
    """Return the model in a file, and what `lrml fit` has kept of its training."""
    from lrml.storage import load, read_header

    return load(path), read_header(path)["summary"] or {}


def as_told(model: Any, *values: Any) -> tuple[Any, ...]:
    """Return whether scores of a model tell probabilities, and some of them as such if they do."""
    import numpy as np

    from lrml.core.losses import LogisticLoss

    likely = getattr(model, "model_", model).loss_ == "logistic"
    return likely, *(LogisticLoss().probability(np.asarray(one)) if likely else one for one in values)


class Training(NamedTuple):
    """Rows to learn from, and what to say and to keep of how they were read."""

    rows: Any  # a Dataset or a TextDataset
    notes: tuple[str, ...]
    reading: dict[str, Any]

    @classmethod
    def read(cls, source: Source) -> Training:
        """Read the rows to learn from; of a dataset with a split, those of its training set."""
        whole = source.read()
        n_train = getattr(whole, "n_train", None)
        rows = whole if n_train is None else whole.rows(slice(0, n_train))
        if not source.roles.has_labels and rows.targets is None:
            raise ValueError(
                f"{source.name!r} has no tags or labels to learn from{_columns(source)}. Say where they are, "
                "for example with --tags or --labels."
            )
        part = "" if n_train is None else f" (the training rows of {len(whole):,d})"
        if hasattr(rows, "texts"):
            notes = [f"{rows.name}: {len(rows):,d} texts{part}, {len(rows.tag_names):,d} different tags"]
            notes += [f"{rows.n_empty:,d} of the texts are empty"] if rows.n_empty else []
        else:
            check_complete(rows.X)
            _, d, n_labels = rows.shape
            notes = [f"{rows.name}: {len(rows):,d} rows{part}, {d:,d} features, {n_labels:,d} labels"]
        return cls(
            rows, (*notes, *explained(source)), reading_of(source, getattr(rows, "feature_names", None))
        )

    @property
    def name(self) -> str:
        """Name of the data."""
        return str(self.rows.name)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def fit(self, estimator: Any) -> Any:
        """Fit, and give the model the names of the columns, which arrays do not have."""
        if hasattr(self.rows, "texts"):
            return estimator.fit(list(self.rows.texts), list(self.rows.tags))
        model = estimator.fit(self.rows.X, self.rows.targets)
        name_columns(model, self.rows.feature_names, self.rows.label_names)
        return model


def _columns(source: Source) -> str:
    """Return the names of the first columns, as far as the file has any."""
    from lrml.datasets import NumberedNames

    names = [name for name in (*source.roles.text, *source.roles.ignore) if name]
    if not names and not isinstance(features := source.columns.features, NumberedNames):
        names = list(features or ())
    first = ", ".join(map(shown, names[:8]))
    return f" (columns: {first}{', ...' if names[8:] else ''})" if names else ""


def explained(source: Source) -> list[str]:
    """Say which column is what, where there was something to decide."""
    return source.roles.explain() if source.roles.format in ("csv", "jsonl", "parquet", "text") else []


def reading_of(source: Source, features: Any) -> dict[str, Any]:
    """Return how later files are to be read: columns by name, and numbers from where these began."""
    kept: dict[str, Any] = source.roles.kept()
    start = getattr(features, "start", None)  # of numbered names
    return kept | {"zero_based": start == 0} if kept.get("format") == "svmlight" else kept


def name_columns(model: Any, feature_names: Sequence[str], label_names: Sequence[str]) -> None:
    """Store the names of features and labels where a fit on frames would have stored them."""
    import numpy as np

    from lrml.datasets import NumberedNames

    numbered = isinstance(feature_names, NumberedNames)
    features = None if numbered else np.array(feature_names, dtype=object)
    model._rename(features, np.array(label_names, dtype=object))


def digest_of(data: Data) -> str | None:
    """Return the SHA-256 of a data file, so that it is known again; None for a name or several files."""
    if not Path(data.name).is_file() or data.name in mulan_entries() or data.others:
        return None
    with open(data.name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_complete(X: Any) -> None:
    """Refuse features with missing values, which no linear model can use."""
    import numpy as np

    missing = int(np.isnan(X if isinstance(X, np.ndarray) else X.data).sum())
    if missing:
        raise ValueError(
            f"the features have {missing:,d} missing values. Fill them in, for example with "
            "lrml.completion.LowRankImputer, or leave out their columns with --ignore."
        )


class RowsForModel:
    """Rows in the form that a model knows, in blocks: of a dataset with a split, the test rows."""

    def __init__(
        self, model: Any, data: Data, summary: Mapping[str, Any], labelled: bool, rows: int = 1000
    ) -> None:
        from lrml.datasets import Columns, DatasetFormatError, NumberedNames, Roles

        texts, self.rows, self.remarks, self.n_done = hasattr(model, "vectorizer_"), rows, list[str](), 0
        self.model = model if texts else model._unnamed()  # columns are put in order here
        options = {} if data.name in mulan_entries() else {"unlabelled": not labelled}
        kept = Roles.of({**summary.get("reading", {}), "kind": "text" if texts else "numbers"})
        said = data.reading.keys() & {"text", "tags"}
        try:
            source = data.open(None if said and texts else kept, **options)
        except DatasetFormatError:  # another table than that of training
            if not (texts and kept.text):
                raise
            source = data.open(Roles(kind="text"), **options)
            there = ", ".join(map(shown, source.roles.text))
            self.remarks.append(
                f"column {shown(', '.join(kept.text))} of training is not there: reads {there}"
            )
        if (source.roles.kind == "text") != texts:
            what = "texts" if texts else f"{model.n_features_in_} numbers"
            raise ValueError(f"{source.name} does not have what the model reads, {what}. Pass another file.")
        source = source.test
        if labelled and not (source.roles.has_labels or source.columns.labels):
            raise ValueError(
                f"{data.name!r} has no tags to compare with{_columns(source)}. Say where they are, for "
                "example with --tags or --labels."
            )
        features: Any = None
        if not texts:
            named = getattr(model, "feature_names_in_", None)
            features = NumberedNames("feature", model.n_features_in_) if named is None else tuple(named)
        labels = tuple(map(str, model.classes_))
        if not isinstance(model.classes_[0], str):
            labels = NumberedNames("label", len(labels))  # type: ignore[assignment]
        self.aligned, self.name = source.aligned(Columns(features, labels)), data.name

    def answers(
        self, method: Callable[[Any, Any], Any], tell: Callable[[str], None] | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield what the model says of each block, with its labels, and tell now and then how far it is."""
        last = monotonic()
        for X, labels in self.aligned.blocks(self.rows):
            texts = isinstance(X, list)
            if not texts:
                check_complete(X)
            yield method(self.model, X), labels
            self.n_done += len(X) if texts else X.shape[0]
            if tell is not None and monotonic() - last >= _SECONDS:
                last = monotonic()
                tell(f"{counted(self.n_done, 'row')} scored")

    def notes(self) -> list[str]:
        """Say what was left out, once all blocks are read."""
        lines = list(self.remarks)
        for what in ("features", "labels"):
            if unknown := getattr(self.aligned, f"unknown_{what}"):
                first = ", ".join(shown(name) for name in list(unknown)[:3])
                lines.append(
                    f"left out {len(unknown):,d} {what} that the model has not seen in training, in "
                    f"{unknown.total():,d} cells: {first}{', ...' if len(unknown) > 3 else ''}"
                )
        return lines
