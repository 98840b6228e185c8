"""Rows for commands: those to learn from, and those in the form that a model knows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor scikit-learn

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lrml._shown import counted, shown
from lrml.cli._options import Data
from lrml.datasets import mulan_entries

if TYPE_CHECKING:
    from lrml.datasets import Source


_ROWS = 1000  # whose scores are in memory at one time


class Training(NamedTuple):
    """Rows to learn from, in memory, and how they were read."""

    rows: Any  # a Dataset or a TextDataset
    source: Source
    whole: Any  # with the test rows

    @classmethod
    def read(cls, source: Source) -> Training:
        """Read the rows to learn from; of a dataset with a split, those of its training set."""
        whole = source.read()
        n_train = getattr(whole, "n_train", None)
        rows = whole if n_train is None else whole.rows(slice(0, n_train))
        if not source.roles.has_labels and rows.targets is None:
            raise _without_labels(source, source.name, "learn from")
        if not hasattr(rows, "texts"):
            check_complete(rows.X)
        return cls(rows, source, whole)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def notes(self) -> list[str]:
        """Say what was read."""
        rows, n = self.rows, len(self.rows)
        part = "" if n == len(self.whole) else f" (the training rows of {len(self.whole):,d})"
        if hasattr(rows, "texts"):
            tags = counted(len(rows.label_names), "different tag")
            notes = [f"{rows.name}: {counted(n, 'text')}{part}, {tags}"]
            notes += [f"{rows.n_empty:,d} of the texts are empty"] if rows.n_empty else []
        else:
            notes = [f"{rows.name}: {counted(n, 'row')}{part}, {sizes_of(self.source)}"]
        return notes + explained(self.source)

    def fit(self, estimator: Any) -> Any:
        """Return the fitted estimator, with the names of the columns."""
        return with_names(estimator.fit(self.rows.X, self.rows.targets), self.source)

    def split(self, held_out: float, seed: int) -> tuple[Training, Any]:
        """Return rows to learn from and rows to judge by: a share, drawn at random, unless there are some."""
        if len(self.rows) == len(self.whole):
            train, test = split_rows(len(self.rows), held_out, seed)
            return self._replace(rows=self.rows.rows(train)), self.rows.rows(test)
        judged = self.whole.rows(slice(len(self.rows), None))
        if not hasattr(judged, "texts"):
            check_complete(judged.X)
        return self, judged


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
        from lrml.datasets import Columns, DatasetFormatError, NumberedNames, Roles

        inner = inner_model(model, "lrml")
        texts, first = inner.reads_texts, (*inner.steps, inner.model)[0]
        self.remarks, self.n_done = list[str](), 0
        self.inner = inner.unnamed()  # columns are put in order here
        options = {} if data.name in mulan_entries() else {"unlabelled": not labelled}
        data = data.with_defaults({"rows": _ROWS})
        kept = Roles.of({**summary.get("reading", {}), "kind": "text" if texts else "numbers"})
        said = data.reading.keys() & {"text", "tags"}
        try:
            source = data.open(None if said and texts else kept, **options)
        except DatasetFormatError:  # another table than that of training
            if not (texts and kept.text):
                raise
            try:
                source = data.open(replace(kept, delimiter=None, tag_separator=None), **options)
            except DatasetFormatError:
                source = data.open(Roles(kind="text"), **options)
                there = ", ".join(map(shown, source.roles.text))
                self.remarks.append(
                    f"there is no column {shown(', '.join(kept.text))} as in training, so {there} is read"
                )
        if (source.roles.kind == "text") != texts:
            takes = "texts" if texts else f"rows of {first.n_features_in_} numbers"
            raise ValueError(f"The model takes {takes}, and {source.name} has none. Pass another file.")
        self.has_split, source = source.has_split, getattr(source, part)
        if labelled and not (source.roles.has_labels or source.columns.labels):
            raise _without_labels(source, data.name, "judge by")
        features: Any = None
        if not texts:
            named = getattr(first, "feature_names_in_", None)
            features = NumberedNames("feature", first.n_features_in_) if named is None else tuple(named)
        labels: Any = tuple(map(str, inner.model.classes_))
        if not isinstance(inner.model.classes_[0], str):
            labels = NumberedNames("label", len(labels))
        self.source, self.aligned = source, source.aligned(Columns(features, labels))

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
        lines = list(self.remarks)
        for what in ("feature", "label"):
            if unknown := getattr(self.aligned, f"unknown_{what}s"):
                first = ", ".join(shown(name) for name in list(unknown)[:3])
                lines.append(
                    f"left out {counted(len(unknown), what)} that the model has not seen in training, in "
                    f"{counted(unknown.total(), 'cell')}: {first}{', ...' if len(unknown) > 3 else ''}"
                )
        return lines


def _without_labels(source: Source, name: str, purpose: str) -> ValueError:
    remedy = "Say where they are, for example with --tags or --labels."
    if source.roles.format == "npy":
        remedy = "Pass a table of them after the array, such as tags.csv."
    return ValueError(f"{name!r} has no tags or labels to {purpose}. {remedy}")


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


def explained(source: Source) -> list[str]:
    """Say which column is what, where there was something to decide."""
    return source.roles.explain() if source.roles.format in ("csv", "jsonl", "parquet", "text") else []


def sizes_of(source: Source) -> str:
    """Say how many features and labels there are."""
    d, n_labels = map(len, source.columns)  # type: ignore[arg-type]
    return f"{counted(d, 'feature')}, {counted(n_labels, 'label')}"


def reading_of(source: Source) -> dict[str, Any]:
    """Return how later files are to be read: columns by name, and numbers from where these began."""
    kept: dict[str, Any] = source.roles.kept()
    if kept.get("format") == "svmlight":
        kept["zero_based"] = getattr(source.columns.features, "start", 0) == 0
    return kept


def with_names(model: Any, source: Source) -> Any:
    """Store the names of features and labels, which arrays do not have, as a fit on frames would."""
    import numpy as np

    from lrml.datasets import NumberedNames

    features, labels = source.columns
    if features is not None:
        numbered = isinstance(features, NumberedNames)
        names = None if numbered else np.array(features, dtype=object)
        model._rename(names, np.array(labels, dtype=object))
    return model


def files_of(data: Data) -> list[Any]:
    """Return name, size and time of change of each file, by which the data is known again."""
    paths = [Path(path) for path in data.paths if path not in mulan_entries()]
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths if path.is_file()]


def check_complete(X: Any) -> None:
    """Refuse features with missing values, which no linear model can use."""
    import numpy as np

    missing = int(np.isnan(X if isinstance(X, np.ndarray) else X.data).sum())
    if missing:
        raise ValueError(
            f"the features have {missing:,d} missing values. Fill them in, for example with "
            "lrml.completion.LowRankImputer, or leave out their columns with --ignore."
        )


def check_share(option: str, share: float) -> None:
    """Refuse a share that is not between 0 and 1, before anything is read."""
    from lrml.core.checks import check_number

    check_number(option, share, below=1.0, above=True)


def split_rows(n_rows: int, share: float, seed: int, groups: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Draw rows to learn from, and rows to judge by; those of one group stay together."""
    import numpy as np
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    splitter = ShuffleSplit if groups is None else GroupShuffleSplit
    drawn = splitter(1, test_size=share, random_state=seed).split(np.empty(n_rows), groups=groups)
    train, test = next(drawn)
    return np.sort(train), np.sort(test)
