"""Data for commands that learn and predict: rows to learn from, and rows in the form that a model knows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor scikit-learn

from __future__ import annotations

import hashlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lrml._shown import shown
from lrml.cli._blocks import Stream, name_columns
from lrml.cli._options import Source
from lrml.datasets import mulan_entries

if TYPE_CHECKING:
    from scipy import sparse

    from lrml.cli._blocks import Blockwise
    from lrml.datasets import BlockFile, MultiLabelDataset, Roles

STANDARD_INPUT = "-"
_NUMBER_SUFFIXES = (".arff", ".xmc", ".svm", ".svmlight", ".libsvm")
_TABLE_FORMATS = ("csv", "jsonl", "parquet", "text")
_SVMLIGHT = ("svmlight", ".svm", ".svmlight", ".libsvm")
_COMPRESSED = (".gz", ".bz2", ".xz")
# Options of the readers that say that a table holds numbers.
_OF_NUMBERS = ("labels", "label_column", "features", "sparse", "test", "xml", "n_features", "n_labels")
_OF_TABLES = ("format", "name", "delimiter")
_BLOCK_ROWS = 1000


class Plan(NamedTuple):
    """How a source will be read: as texts or as numbers, decided by its first rows."""

    source: Source
    texts: bool
    roles: Roles | None  # of the columns, where they were looked at

    def load(self) -> Training:
        """Read the rows to learn from; of a dataset with a split, those of its training set."""
        if self.texts:
            return self._texts()
        dataset = self.source.load()
        rows = dataset.shape[0] if dataset.n_train is None else dataset.n_train
        X, Y = (dataset.X, dataset.targets) if dataset.n_train is None else dataset.train
        part = "" if dataset.n_train is None else f" (the training rows of {dataset.shape[0]:,d})"
        _, d, n_labels = dataset.shape
        notes = [f"{dataset.name}: {rows:,d} rows{part}, {d:,d} features, {n_labels:,d} labels"]
        check_complete(X)
        names = (dataset.feature_names, dataset.label_names)
        return Training(dataset.name, X, Y, names, (*notes, *self._explained()), self._reading(dataset))

    def stream(self, how: Blockwise, quiet: bool) -> Stream:
        """Return the rows to learn from as blocks, of which one is in memory at a time."""
        from lrml.cli._console import tell_progress
        from lrml.datasets import BlockFile

        source = self.source
        if self.texts or source.name in mulan_entries():
            what = "texts: weights of words are learned from all" if self.texts else "a dataset by name"
            remedy = "write features to an svmlight file, for example of sklearn's HashingVectorizer"
            raise ValueError(
                f"--blocks is for files of numbers, got {source.name!r}, {what}. Leave it out"
                f"{', or ' + remedy if self.texts else ''}."
            )
        options = dict(source.reading)
        if "test" in options:
            raise ValueError(
                f"--blocks reads rows to learn from, got --test {options['test']!r}. Leave it out, and judge "
                "the model with lrml evaluate."
            )
        name = options.pop("name", None)
        file = BlockFile((source.name, *source.others), rows=how.rows, **options)
        if file.has_split:
            raise ValueError(
                f"--blocks learns from all rows of a file, got {source.name!r}, which says that some are a "
                "test set. Write the training rows to a file of their own."
            )
        if file.has_first_pass and not quiet:
            remedy = "; --n-features and --n-labels would save that" if file.format == "svmlight" else ""
            tell_progress(f"reads all files once, to find features and labels{remedy}")
        if file.label_names is None:
            raise ValueError(
                f"DATA must have labels to learn from, got {source.name!r} without them. Say where they are, "
                "for example with --labels."
            )
        return Stream(how, quiet, file, name, self._explained(), self._reading(file))

    def _reading(self, dataset: MultiLabelDataset | BlockFile) -> dict[str, Any]:
        """Return how later files are to be read: columns by name, and numbers from where these began."""
        from lrml.datasets import NumberedNames

        reading = {key: value for key, value in self.source.reading.items() if key not in ("name", "test")}
        if isinstance(reading.get("labels"), int):
            reading["labels"] = list(dataset.label_names or ())
        kind = _kind(self.source)
        if kind in _SVMLIGHT and isinstance(dataset.feature_names, NumberedNames):
            reading["zero_based"] = dataset.feature_names.start == 0
        return reading | {"kind": kind}

    def _texts(self) -> Training:
        from lrml.datasets import read_texts

        dataset = read_texts(self.source.name, **_text_options(self.source))
        if dataset.tags is None:
            raise ValueError(
                f"DATA must have tags to learn from, got {self.source.name!r} without a column of tags. "
                "Name it with --tags."
            )
        head = f"{dataset.name}: {len(dataset):,d} texts, {len(dataset.tag_names):,d} different tags"
        roles = dataset.roles
        reading: dict[str, Any] = {}
        if roles is not None:
            tags = roles.tags or list(roles.labels)
            reading = {"text": list(roles.text), "tags": tags, "tag_separator": roles.tag_separator}
        empty = f"{dataset.n_empty:,d} of the texts are empty"
        notes = (head, *([empty] if dataset.n_empty else []), *self._explained())
        return Training(dataset.name, list(dataset.texts), list(dataset.tags), None, notes, reading)

    def _explained(self) -> list[str]:
        return [] if self.roles is None else self.roles.explain()


class Training(NamedTuple):
    """Rows to learn from: texts and lists of tags, or features and labels with their names."""

    name: str
    X: Any
    Y: Any
    names: tuple[Sequence[str], Sequence[str]] | None  # of features and labels; None for texts
    notes: tuple[str, ...]  # how the data was read, for people
    reading: dict[str, Any]  # the same for the model file, so that later data is read alike

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.X) if self.names is None else int(self.X.shape[0])

    def fit(self, estimator: Any) -> Any:
        """Fit, and give the model the names of the columns, which arrays do not have."""
        model = estimator.fit(self.X, self.Y)
        if self.names is not None:
            name_columns(model, *self.names)
        return model


def plan_reading(source: Source) -> Plan:
    """Decide whether a source holds texts; columns that are not named by options are guessed."""
    source.check()
    numbers = [key for key in _OF_NUMBERS if key in source.reading]
    if source.texts and numbers:
        raise ValueError(
            f"--{numbers[0].replace('_', '-')} is for tables of numbers, got it together with options for "
            "texts. Leave one of them out."
        )
    if source.name in mulan_entries() or numbers or not _is_table(source):
        return Plan(source, False, None)
    from lrml.datasets import guess_roles

    options = _text_options(source)
    options.pop("name", None)
    roles = guess_roles(source.name, **options)
    if roles.kind == "text":
        return Plan(source, True, roles)
    if roles.format in _TABLE_FORMATS:
        said = {"label_column": roles.tags, "ignore": [*roles.ignored, *source.reading.get("ignore", ())]}
        if roles.tag_separator is not None:
            said["label_separator"] = roles.tag_separator
        source = replace(source, reading=source.reading | said, texts={})
    return Plan(source, False, roles)


def digest_of(source: Source) -> str | None:
    """Return the SHA-256 of a data file, so that it is known again; None for a name or several files."""
    if not Path(source.name).is_file() or source.name in mulan_entries() or source.others:
        return None
    with open(source.name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kind(source: Source) -> str:
    """Return the format of a file, if it was named, or else its suffix."""
    path = Path(source.name)
    suffix = (Path(path.stem) if path.suffix.lower() in _COMPRESSED else path).suffix.lower()
    return str(source.reading.get("format", suffix))


def _is_table(source: Source) -> bool:
    if "format" in source.reading:
        return _kind(source) in _TABLE_FORMATS
    return bool(source.texts) or _kind(source) not in _NUMBER_SUFFIXES


def _text_options(source: Source) -> dict[str, Any]:
    return {**source.texts, **{key: source.reading[key] for key in _OF_TABLES if key in source.reading}}


def check_complete(X: Any) -> None:
    """Refuse features with missing values, which no linear model can use."""
    import numpy as np

    missing = int(np.isnan(X if isinstance(X, np.ndarray) else X.data).sum())
    if missing:
        raise ValueError(
            f"all features must be known, got {missing:,d} missing values. Fill them in, for example with "
            "lrml.completion.LowRankImputer, or leave out their columns with --ignore."
        )


class Block(NamedTuple):
    """Some rows for a model: texts, or its features in its order; and their labels, if asked for."""

    inputs: Any
    Y: sparse.csr_array | None


@dataclass
class RowsForModel:
    """Rows of a source in the form that a model knows, in blocks, so that memory does not grow with them.

    Columns are matched by name, where both sides have names, and by number otherwise. What the model does not
    know is left out, and counted in ``unknown_features`` and ``unknown_labels``.
    """

    model: Any
    source: Source
    reading: Mapping[str, Any]  # how the training data was read
    labelled: bool
    rows: int = _BLOCK_ROWS
    unknown_features: Counter[str] = field(default_factory=Counter)
    unknown_labels: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)  # on how the rows are read
    _order: list[int] | None = None  # where the model's features are
    _others: list[tuple[int, str]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Block]:
        return self._text_blocks() if hasattr(self.model, "vectorizer_") else self._number_blocks()

    def notes(self) -> list[str]:
        """Say what was left out, once all blocks are read."""
        lines = list(self.remarks)
        for what, unknown in (("features", self.unknown_features), ("labels", self.unknown_labels)):
            if unknown:
                first = ", ".join(shown(name) for name in list(unknown)[:3])
                lines.append(
                    f"left out {len(unknown):,d} {what} that the model has not seen in training, in "
                    f"{unknown.total():,d} cells: {first}{', ...' if len(unknown) > 3 else ''}"
                )
        return lines

    def _text_blocks(self) -> Iterator[Block]:
        from lrml.datasets import iter_texts

        if self.source.name == STANDARD_INPUT:
            if sys.stdin is None:
                raise ValueError("texts must come from standard input, got a closed one. Pass a file.")
            options: dict[str, Any] = _text_options(self.source)
            blocks = iter_texts(sys.stdin.buffer, **options, tags=False, rows=self.rows)
        else:
            self.source.check()
            blocks = iter_texts(self.source.name, **self._columns(), rows=self.rows)
        for texts, tags in blocks:
            Y = None
            if self.labelled:
                self.unknown_labels.update(self.model.unknown_tags(tags))
                Y = self.model.binarize(tags)
            yield Block(texts, Y)

    def _columns(self) -> dict[str, Any]:
        """Return which columns to read: as told, as in training if they are there, else guessed."""
        from lrml.datasets import DatasetFormatError, guess_roles

        given = _text_options(self.source)
        given.pop("name", None)
        wanted = {"tags": None if self.labelled else False} | given
        usual = {key: self.reading[key] for key in ("text", "tags", "tag_separator") if self.reading.get(key)}
        if not self.labelled:
            usual = {key: value for key, value in usual.items() if key == "text"}
        if usual and not self.source.texts:
            try:
                guess_roles(self.source.name, **wanted | usual)
            except DatasetFormatError:
                pass  # another table than that of training
            else:
                return wanted | usual
        roles = guess_roles(self.source.name, **wanted)
        if usual and not self.source.texts and roles.text:
            there = ", ".join(map(shown, roles.text))
            self.remarks.append(
                f"column {shown(', '.join(self.reading['text']))} of training is not there: reads {there}"
            )
        if self.labelled and roles.tags is None and not roles.labels:
            raise ValueError(
                f"DATA must have tags to compare with, got {self.source.name!r} without a column of tags. "
                "Name it with --tags."
            )
        return wanted

    def _number_blocks(self) -> Iterator[Block]:
        if self.source.name == STANDARD_INPUT:
            raise ValueError(
                "standard input must go to a model that reads texts, got a model of "
                f"{self.model.n_features_in_} numbers. Pass a file."
            )
        self.source.check()
        for X, Y, feature_names, label_names in self._tables():
            check_complete(X)
            Y_known = None if Y is None or not self.labelled else self._known_labels(Y, label_names)
            if self.labelled and Y is None:
                raise ValueError(
                    f"DATA must have labels to compare with, got {self.source.name!r} without them. Say "
                    "where they are, for example with --labels."
                )
            yield Block(self._known_features(X, feature_names), Y_known)

    def _tables(self) -> Iterator[tuple[Any, Any, Sequence[str], Sequence[str] | None]]:
        """Yield features and labels with their names: test rows of a dataset with a split, else all rows."""
        if self.source.name in mulan_entries() or "test" in self.source.reading:
            dataset: MultiLabelDataset = self.source.load()
            X, Y = (dataset.X, dataset.targets) if dataset.n_train is None else dataset.test
            for start in range(0, X.shape[0], self.rows):
                part = slice(start, start + self.rows)
                yield X[part], Y[part], dataset.feature_names, dataset.label_names
            return
        from lrml.datasets import iter_blocks

        usual = dict(self.reading)  # of a file of another format, they would mean nothing
        options = (usual if usual.pop("kind", None) == _kind(self.source) else {}) | self.source.reading
        for block in iter_blocks(self.source.name, rows=self.rows, labelled=self.labelled, **options):
            yield block.X, block.Y, block.feature_names, block.label_names

    def _known_features(self, X: Any, names: Sequence[str]) -> Any:
        """Return the model's features in its order; features that the model does not know are counted."""
        from lrml.datasets import NumberedNames

        wanted = getattr(self.model, "feature_names_in_", None)
        if wanted is None or isinstance(names, NumberedNames):
            return self._by_number(X, names)
        if self._order is None:
            places = {name: place for place, name in enumerate(names)}
            missing = [name for name in wanted if name not in places]
            if missing:
                raise ValueError(
                    f"DATA must have all {len(wanted)} features of the model, got none named "
                    f"{shown(missing[0])} ({len(missing)} are missing). Check the columns and their names."
                )
            self._order = [places[name] for name in wanted]
            known = set(wanted)
            self._others = [(place, name) for name, place in places.items() if name not in known]
        for place, name in self._others:
            self.unknown_features[name] += int((X[:, [place]] != 0).sum())
        return X[:, self._order]

    def _by_number(self, X: Any, names: Sequence[str]) -> Any:
        """Return the first features, as many as the model has; sparse rows may end earlier."""
        import numpy as np
        from scipy import sparse

        d, wanted = X.shape[1], self.model.n_features_in_
        if d == wanted:
            return X
        if isinstance(X, np.ndarray):
            raise ValueError(
                f"DATA must have the {wanted} features of the model, got {d}. Check the columns, and where "
                "the labels are."
            )
        for place in np.unique(X.indices[X.indices >= wanted]).tolist():
            self.unknown_features[names[place]] += int((X.indices == place).sum())
        if d > wanted:
            return X[:, :wanted]
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], wanted))

    def _known_labels(self, Y: Any, names: Sequence[str] | None) -> sparse.csr_array:
        """Return labels in the order of the model; those that it does not know are counted."""
        import numpy as np
        from scipy import sparse

        Y = sparse.csr_array(Y)
        classes = list(map(str, self.model.classes_))
        if names is None or not isinstance(self.model.classes_[0], str):  # columns by their numbers
            names, classes = list(map(str, range(Y.shape[1]))), list(map(str, range(len(classes))))
        places = {name: place for place, name in enumerate(classes)}
        entries = Y.tocoo()
        # Blocks of some formats have names of their own, those that occur in them.
        columns = np.array([places.get(names[column], -1) for column in entries.col.tolist()], dtype=np.intp)
        kept = entries.data != 0
        for column in entries.col[(columns < 0) & kept].tolist():
            self.unknown_labels[names[column]] += 1
        kept &= columns >= 0
        return sparse.csr_array(
            (entries.data[kept], (entries.row[kept], columns[kept])), shape=(Y.shape[0], len(classes))
        )


@contextmanager
def without_names() -> Iterator[None]:
    """Let a model that knows names of features take arrays, whose columns have been put in order here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield
