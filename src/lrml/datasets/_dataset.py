"""What every reader returns: rows with their labels and the names of the columns, which are matched here."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._files import load_arrays, save_arrays
from lrml._shown import counted, shown
from lrml.datasets._lines import BINARY, FINITE, CellError

FeatureMatrix: TypeAlias = "NDArray[np.float64] | sparse.csr_array"
LabelMatrix: TypeAlias = "NDArray[np.int8] | sparse.csr_array"
Tags: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True)
class NumberedNames(Sequence[str]):
    """The names ``prefix0``, ``prefix1``, ... from a start, not stored: files may number millions of columns.

    >>> from lrml.datasets import NumberedNames
    >>> names = NumberedNames("label", 1_000_000)
    >>> names[-1], names[:2], len(names)
    ('label999999', ('label0', 'label1'), 1000000)
    """

    prefix: str
    length: int
    start: int = 0

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        numbers = range(self.start, self.start + self.length)[index]
        if isinstance(numbers, range):
            return tuple(f"{self.prefix}{number}" for number in numbers)
        return f"{self.prefix}{numbers}"


class Columns(NamedTuple):
    """Names of features and of labels: None for texts, and where there are no labels."""

    features: Sequence[str] | None
    labels: Sequence[str] | None

    def joined(self, other: Columns, *, listed: bool = False) -> Columns:
        """Return the columns of two parts together; labels that come from lists are those of both, sorted."""
        labels = _joined("labels", self.labels, other.labels, listed)
        return Columns(_joined("features", self.features, other.features, False), labels)


def _joined(
    what: str, first: Sequence[str] | None, other: Sequence[str] | None, listed: bool
) -> Sequence[str] | None:
    if first == other or first is None or other is None:
        return None if other is None else first
    if isinstance(first, NumberedNames) and isinstance(other, NumberedNames):
        return max(first, other, key=len)
    if listed:
        return tuple(sorted({*first, *other}))
    if len(first) != len(other):
        raise ValueError(f"One part has {len(first)} {what}, another {len(other)}. Do they belong together?")
    column = next(k for k, pair in enumerate(zip(first, other, strict=True)) if pair[0] != pair[1])
    raise ValueError(
        f"Column {column} of the {what} is {shown(first[column])} in one part and {shown(other[column])} in "
        "another. Give all parts the same columns in the same order."
    )


def places_of(names: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64] | None:
    """Return the place of each name among those wanted, -1 if it is not there; None if they are the same.

    Numbered columns are matched by their order.
    """
    numbered = any(isinstance(each, NumberedNames) for each in (names, wanted))
    if names == wanted or (numbered and len(names) == len(wanted)):
        return None
    if numbered:
        places = np.arange(len(names))
        places[len(wanted) :] = -1
        return places
    known = {name: place for place, name in enumerate(wanted)}
    return np.array([known.get(name, -1) for name in names], np.int64)


def placed(matrix: Any, places: NDArray[np.int64] | None, width: int) -> Any:
    """Return a matrix of some width with its columns at these places; those without a place are left out."""
    if places is None:
        return matrix
    kept = np.flatnonzero(places >= 0)
    if isinstance(matrix, np.ndarray):
        result = np.zeros((len(matrix), width), matrix.dtype)
        result[:, places[kept]] = matrix[:, kept]
        return result
    ones = np.ones(len(kept), matrix.dtype)
    return matrix @ sparse.csr_array((ones, (kept, places[kept])), shape=(len(places), width))


def place_twice(row: NDArray[np.int64], column: NDArray[np.int64]) -> int | None:
    """Return which of some cells of a matrix is there for the second time; None if each is there once."""
    key = row * 2**31 + column
    if np.all(key[1:] > key[:-1]):  # as in most files
        return None
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    return int(order[twice[0] + 1]) if twice.size else None


def csr_of(
    shape: tuple[int, int], row: NDArray[np.int64], column: NDArray[np.int64], values: NDArray[Any]
) -> sparse.csr_array:
    """Return the matrix with these cells, each of which is there once; zeros are left out."""
    found = sparse.csr_array((values, (row.astype(np.int32), column.astype(np.int32))), shape=shape)
    found.eliminate_zeros()
    return found


def indicator(lists: Iterable[Iterable[str]], names: Sequence[str]) -> sparse.csr_array:
    """Return 0/1 labels of lists of them, each listed once; those that have no name here are left out."""
    known = {name: place for place, name in enumerate(names)}
    found = [sorted(known[tag] for tag in tags if tag in known) for tags in lists]
    ends = np.cumsum([0, *map(len, found)])
    indices = np.fromiter(chain.from_iterable(found), np.int32, ends[-1])
    return sparse.csr_array((np.ones(ends[-1], np.int8), indices, ends), shape=(len(found), len(names)))


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features and labels, the names of both, the original split and where it all came from.

    Parameters
    ----------
    name : str
        Short name of the dataset.
    X : array-like or sparse matrix of shape (n, d)
        Features; NaN is a missing value. Stored as float64, an array or a csr_array.
    Y : array-like or sparse matrix of shape (n, L), or None
        Labels, 1 (or True) where a label applies and 0 elsewhere; stored as int8. None if there are none.
    feature_names, label_names : sequence of str, default=None
        None takes the columns of a frame, or numbers them: ``feature0``, ...
    n_train : int or None, default=None
        The first rows are the training set, the others the test set; None means that there is no split.
    provenance : str, default=""
        Where the numbers come from, for people to read.
    unknown : csr_array of shape (n, L), bool, or None, default=None
        True where a label is unknown; `Y` is 0 there.
    first_row : int, default=0
        Number of the first row in its source, for blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml.datasets import Dataset
    >>> toy = Dataset("toy", np.eye(3), np.array([[1, 0], [0, 1], [1, 1]]), n_train=2)
    >>> toy
    <Dataset toy: X (3, 3) dense, Y (3, 2) dense, train 2 / test 1>
    >>> X_test, Y_test = toy.test
    >>> Y_test
    array([[1, 1]], dtype=int8)
    """

    name: str
    X: FeatureMatrix
    Y: LabelMatrix | None
    feature_names: Any = None  # a sequence of names, once it is made; those of labels too, if there are any
    label_names: Any = None
    n_train: int | None = None
    provenance: str = ""
    unknown: sparse.csr_array | None = None
    first_row: int = 0

    def __post_init__(self) -> None:
        X, Y = _to_matrix("X", self.X), None if self.Y is None else _to_matrix("Y", self.Y)
        found: dict[str, Any] = {"X": X if X.dtype == np.float64 else X.astype(np.float64), "Y": Y}
        found["feature_names"] = names = _checked_names("feature", self.feature_names, self.X, X.shape[1])
        _check_cells(X, names, np.isinf, FINITE)
        if Y is not None:
            if X.shape[0] != Y.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows, but Y has {Y.shape[0]}. Pass as many of both.")
            found["label_names"] = names = _checked_names("label", self.label_names, self.Y, Y.shape[1])
            _check_cells(Y, names, lambda values: (values != 0) & (values != 1), BINARY)
            found["Y"] = Y.astype(np.int8, copy=False)
        for key, value in found.items():
            object.__setattr__(self, key, value)
        if self.n_train is not None and not 0 < self.n_train < X.shape[0]:
            raise ValueError(
                f"n_train is {self.n_train}, which leaves no training or no test row of {X.shape[0]}. Pass "
                "None for a dataset without a split."
            )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        parts = [f"X {self.X.shape} {_storage(self.X)}"]
        parts.append("no labels" if self.Y is None else f"Y {self.Y.shape} {_storage(self.Y)}")
        split = f"train {self.n_train} / test {len(self) - (self.n_train or 0)}"
        return f"<Dataset {self.name}: {', '.join([*parts, split if self.n_train else 'no split'])}>"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of examples, of features and of labels: ``(n, d, L)``."""
        return *self.X.shape, 0 if self.Y is None else self.Y.shape[1]

    @property
    def columns(self) -> Columns:
        """The names of the columns."""
        return Columns(self.feature_names, self.label_names)

    @property
    def targets(self) -> Any:
        """Labels as ``fit`` takes them: `Y` itself, or floats with NaN where labels are unknown."""
        if self.Y is None or self.unknown is None or not self.unknown.nnz:
            return self.Y
        holes = self.unknown.tocoo()
        marks = sparse.csr_array((np.full(holes.nnz, np.nan), holes.coords), shape=self.Y.shape)
        marked = self.Y.astype(np.float64) + (marks.toarray() if isinstance(self.Y, np.ndarray) else marks)
        return marked if isinstance(marked, np.ndarray) else sparse.csr_array(marked)

    @property
    def train(self) -> tuple[FeatureMatrix, Any]:
        """Features and targets of the training set: ``X_train, Y_train = dataset.train``."""
        part = self.rows(slice(0, self._split()))
        return part.X, part.targets

    @property
    def test(self) -> tuple[FeatureMatrix, Any]:
        """Features and targets of the test set."""
        part = self.rows(slice(self._split(), None))
        return part.X, part.targets

    def _split(self) -> int:
        if self.n_train is None:
            raise ValueError(
                f"{shown(self.name)} has no split. Use X and Y, or split them with "
                "lrml.model_selection.iterative_train_test_split."
            )
        return self.n_train

    def rows(self, index: Any) -> Dataset:
        """Return some rows, by a slice or an array of their numbers, as a dataset without a split."""
        Y, unknown = (None if part is None else part[index] for part in (self.Y, self.unknown))
        first = self.first_row + (index.start or 0) if isinstance(index, slice) else 0
        return replace(self, X=self.X[index], Y=Y, unknown=unknown, n_train=None, first_row=first)

    def with_columns(self, columns: Columns) -> Dataset:
        """Return the rows with these columns, matched by name; others are left out, new ones are 0."""
        if self.columns == columns:
            return self
        features, labels = columns.features or (), None if self.Y is None else columns.labels
        X = placed(self.X, places_of(self.feature_names, features), len(features))
        Y = unknown = None
        if labels is not None:
            places = places_of(self.label_names, labels)
            Y, unknown = (p if p is None else placed(p, places, len(labels)) for p in (self.Y, self.unknown))
        return replace(self, X=X, Y=Y, unknown=unknown, feature_names=features, label_names=labels)

    @classmethod
    def concat(cls, parts: Sequence[Dataset], *, listed: bool = False) -> Dataset:
        """Put rows together, without a split.

        All parts have the same columns, except that numbered ones are widened to the longest, and that labels
        which come from lists (``listed``) are those of all parts, sorted.
        """
        first = parts[0]
        columns = reduce(lambda one, other: one.joined(other, listed=listed), (p.columns for p in parts))
        parts = [part.with_columns(columns) for part in parts]
        for key in ("X", "Y"):
            if len({_storage(getattr(part, key)) for part in parts}) > 1:
                raise ValueError(f"{key} is dense in some parts and sparse in others. Convert one of them.")
        unknown = None
        if any(part.unknown is not None for part in parts):
            known = (sparse.csr_array((len(part), part.shape[2]), dtype=np.bool_) for part in parts)
            marks = (part.unknown for part in parts)
            unknown = _stacked([k if mark is None else mark for k, mark in zip(known, marks, strict=True)])
        return replace(
            first,
            X=_stacked([part.X for part in parts]),
            Y=None if columns.labels is None else _stacked([part.Y for part in parts]),
            feature_names=columns.features,
            label_names=columns.labels,
            n_train=None,
            provenance="; ".join(dict.fromkeys(part.provenance for part in parts if part.provenance)),
            unknown=unknown,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one ``.npz`` file, which appears whole or not at all; `load` reads it."""
        arrays: dict[str, Any] = {}
        for key in ("X", "Y", "unknown"):
            matrix = getattr(self, key)
            if isinstance(matrix, np.ndarray):
                arrays[key] = matrix
            elif matrix is not None:
                parts = ("data", "indices", "indptr", "shape")
                arrays |= {f"{key}.{part}": np.asarray(getattr(matrix, part)) for part in parts}
        facts = {key: getattr(self, key) for key in ("name", "n_train", "provenance")}
        for key in ("feature_names", "label_names"):
            names = getattr(self, key)
            facts[key] = vars(names) if isinstance(names, NumberedNames) else names and list(names)
        text = json.dumps(facts, default=int).encode("utf-8", "surrogatepass")
        save_arrays(path, "dataset", arrays | {"facts": np.frombuffer(text, np.uint8)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Dataset:
        """Read a file of `save`; nothing in it is ever executed."""
        arrays = load_arrays(path, "dataset")
        facts = json.loads(arrays["facts"].tobytes().decode("utf-8", "surrogatepass"))
        for key in ("feature_names", "label_names"):
            if isinstance(facts[key], dict):
                facts[key] = NumberedNames(**facts[key])
        for key in ("X", "Y", "unknown"):
            facts[key] = arrays.get(key)
            if f"{key}.data" in arrays:
                csr = tuple(arrays[f"{key}.{part}"] for part in ("data", "indices", "indptr"))
                facts[key] = sparse.csr_array(csr, shape=tuple(arrays[f"{key}.shape"].tolist()))
        return cls(**facts)


@dataclass(frozen=True, eq=False, repr=False)
class TextDataset:
    """Texts ("" where there is none), and the tags of each, each once; None if there are none.

    ``provenance`` says where the texts come from. Of a dataset with a split, the first ``n_train`` texts are
    the training set.
    """

    name: str
    texts: Sequence[str]
    tags: Sequence[Tags] | None = None
    provenance: str = ""
    n_train: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        if self.tags is not None:
            object.__setattr__(self, "tags", tuple(map(tuple, self.tags)))
            if len(self.tags) != len(self.texts):
                raise ValueError(
                    f"There are {len(self.texts)} texts, but {len(self.tags)} lists of tags. Pass an empty "
                    "list for a text without tags."
                )

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        tags = "no tags" if self.tags is None else counted(len(self.label_names), "tag")
        empty = f", {self.n_empty} empty" if self.n_empty else ""
        split = f", train {self.n_train} / test {len(self) - self.n_train}" if self.n_train else ""
        return f"<TextDataset {self.name}: {counted(len(self), 'text')}{empty}, {tags}{split}>"

    @property
    def X(self) -> Sequence[str]:  # noqa: N802  # as of a `Dataset`
        """The texts."""
        return self.texts

    @property
    def targets(self) -> Sequence[Tags] | None:
        """The tags."""
        return self.tags

    @property
    def columns(self) -> Columns:
        """No names: texts are no columns, and the tags are those of the rows."""
        return Columns(None, None)

    @cached_property
    def label_names(self) -> Tags:
        """All tags that occur, sorted."""
        return tuple(sorted(set(chain.from_iterable(self.tags or ()))))

    @cached_property
    def Y(self) -> sparse.csr_array | None:  # noqa: N802
        """The tags as 0/1 labels."""
        return None if self.tags is None else indicator(self.tags, self.label_names)

    @cached_property
    def n_empty(self) -> int:
        """How many texts are blank."""
        return sum(not text.strip() for text in self.texts)

    def rows(self, index: Any) -> TextDataset:
        """Return some rows, by a slice or an array of their numbers, as a dataset without a split."""
        numbers = range(len(self))[index] if isinstance(index, slice) else index
        tags = self.tags and [self.tags[number] for number in numbers]
        return replace(self, texts=[self.texts[number] for number in numbers], tags=tags, n_train=None)

    @classmethod
    def concat(cls, parts: Sequence[TextDataset]) -> TextDataset:
        """Put texts together; they have tags if those of the first part do."""
        tags = None if parts[0].tags is None else [row for part in parts for row in part.tags or ()]
        return replace(parts[0], texts=[text for part in parts for text in part.texts], tags=tags)


def _storage(matrix: object) -> str:
    return "sparse" if sparse.issparse(matrix) else "dense"


def _stacked(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.vstack(parts) if isinstance(parts[0], np.ndarray) else sparse.vstack(parts, format="csr")


def _to_matrix(key: str, matrix: Any) -> Any:
    """Return an array, or a csr_array in canonical form."""
    found: Any = matrix
    if sparse.issparse(matrix):
        found = sparse.csr_array(found)
        if not found.has_canonical_format:
            found = found.copy()
            found.sum_duplicates()
    else:
        try:
            found = np.asarray(matrix)
        except ValueError:  # rows of different lengths
            found = np.empty(0, object)
    if found.ndim != 2 or found.dtype.kind not in "biuf":
        raise ValueError(
            f"{key} is {type(matrix).__name__} of shape {getattr(matrix, 'shape', None)}, not a "
            "two-dimensional array or sparse matrix of numbers. Texts with tags are a TextDataset."
        )
    if not found.shape[0]:
        raise ValueError(f"{key} has the shape {found.shape}. Check that the source of the data is complete.")
    return found


def _check_cells(matrix: Any, names: Sequence[str], wrong: Callable[[Any], Any], wanted: str) -> None:
    """Refuse cells that are wrong, by row and name."""
    if wrong(matrix if isinstance(matrix, np.ndarray) else matrix.data).any():
        cells = sparse.coo_array(matrix)
        at = int(np.argmax(wrong(cells.data)))
        row, column = (int(place[at]) for place in cells.coords)
        raise CellError(row, f"{cells.data[at]:g} in column {shown(names[column])} is not {wanted}")


def _checked_names(what: str, given: Sequence[str] | None, matrix: Any, count: int) -> Sequence[str]:
    """Return the names of columns: those given, those of a frame if they are texts, or numbers."""
    columns = tuple(getattr(matrix, "columns", ()))
    if given is None and columns and all(isinstance(name, str) for name in columns):
        given = columns
    names = NumberedNames(what, count) if given is None else given
    if not isinstance(names, NumberedNames):
        names = tuple(names)
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise ValueError(f"{what}_names has {shown(twice)} more than once. Rename one of the columns.")
    if len(names) != count:
        raise ValueError(f"There are {len(names)} {what}_names for {count} columns. Pass one per column.")
    return names
