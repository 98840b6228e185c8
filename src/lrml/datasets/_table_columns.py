"""Tables with named columns, whatever their format: which column is what."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words

_SEARCHED_NAMES = 10_000  # comparing names is slow; a table with more columns gets hints from the first ones


@dataclass(frozen=True)
class Request:
    """What the user asked for, before the columns of the file are known; checked as far as it can be.

    The parameters are those of `read_csv` and `read_parquet`.
    """

    labels: Sequence[str] | int | None
    label_column: str | None
    label_separator: str
    features: Sequence[str] | None
    ignore: Sequence[str]
    sparse: bool

    def __post_init__(self) -> None:
        if (self.labels is None) == (self.label_column is None):
            raise ValueError(
                "exactly one of labels (names of 0/1 columns, or their number) and label_column (one column "
                f"with a list of labels) must be given, got {'neither' if self.labels is None else 'both'}. "
                "Give the one that fits the file."
            )
        if self.label_column is not None and not isinstance(self.label_column, str):
            raise ValueError(
                f"label_column must be the name of one column, got {shown(self.label_column)}. "
                "Name columns of 0 and 1 in labels instead."
            )
        if not isinstance(self.label_separator, str) or not self.label_separator:
            raise ValueError(
                "label_separator must be a text of at least one character, got "
                f'{shown(self.label_separator)}. Pass what stands between two labels, such as ",".'
            )
        for key in ("labels", "features", "ignore"):
            value = getattr(self, key)
            if key == "labels" and isinstance(value, int | np.integer) and not isinstance(value, bool):
                object.__setattr__(self, key, int(value))
            elif value is not None:
                object.__setattr__(self, key, _check_list(key, value))

    def split(self, text: str) -> list[str]:
        """Return the labels in a cell of the label column; blanks around them and empty ones are dropped."""
        return [label for part in text.split(self.label_separator) if (label := part.strip())]


def _check_list(key: str, value: object) -> tuple[str, ...]:
    """Make sure that a parameter is a list of distinct names."""
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        form = "a list of column names" + (", or their number" if key == "labels" else "")
        raise ValueError(
            f'{key} must be {form}, got {shown(value)}. Pass a list such as ["a", "b"], even for one name.'
        )
    if key == "labels" and not names:
        raise ValueError("labels must name a column, got an empty list. Name the label columns.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{key} must not name a column twice, got {shown(twice[0])}. Delete one of the two.")
    return names


@dataclass(frozen=True)
class Columns:
    """Which column of a table is what; columns are numbered in file order.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    names : tuple of str
        Names of all columns.
    features : tuple of int
        The columns of X, in the order of X.
    labels : tuple of int
        The columns of Y, in the order of Y; empty if there is a label column.
    tags : int or None
        The column that lists the labels of a row.
    """

    path: str | os.PathLike[str]
    names: tuple[str, ...]
    features: tuple[int, ...]
    labels: tuple[int, ...]
    tags: int | None

    @property
    def numeric(self) -> tuple[int, ...]:
        """The columns that hold numbers, in the order of a block of values: features, then labels."""
        return self.features + self.labels

    def first_wrong(self, values: NDArray[np.float64]) -> tuple[int, int] | None:
        """Find the first value of a block that is infinite, or neither 0 nor 1 nor missing in a label column.

        Parameters
        ----------
        values : ndarray of shape (rows, number of numeric columns)
            The block.

        Returns
        -------
        tuple of int or None
            Row and position among the numeric columns.
        """
        wrong = np.isinf(values)
        labels = values[:, len(self.features) :]
        wrong[:, len(self.features) :] |= (labels != 0) & (labels != 1) & ~np.isnan(labels)
        if not wrong.any():
            return None
        row, position = np.argwhere(wrong)[0]
        return int(row), int(position)

    def wrong_value(
        self, position: int, got: object, *, line: int | None = None, place: str = "", finite: bool = False
    ) -> DatasetFormatError:
        """Build the error for a value that may not stand in its column.

        Parameters
        ----------
        position : int
            Position among the numeric columns.
        got : object
            The value, as the file has it.
        line : int, default=None
            The line of the file, if it has lines.
        place : str, default=""
            More about the place, such as ``" in row 3"``.
        finite : bool, default=False
            Whether the value is a number, so that only its size is wrong.
        """
        name = shown(self.names[self.numeric[position]])
        if position >= len(self.features):
            rule = f"label column {name} must hold 0 or 1, true or false, or be empty where unknown{place}"
            remedy = "Correct the value, or leave the column out of labels."
        elif finite:
            rule = f"column {name} must hold finite numbers{place}"
            remedy = "Correct the value, or leave it empty if it is missing."
        else:
            rule = f"column {name} must hold numbers, true or false, or be empty where one is missing{place}"
            remedy = "Encode the column as numbers, or list it in ignore."
        return DatasetFormatError.at(self.path, line, rule, got, remedy)


def choose_columns(
    path: str | os.PathLike[str], names: Sequence[str], request: Request, *, line: int | None = None
) -> Columns:
    """Decide which column is what; refuse names that the table does not have, and contradictions.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    names : sequence of str
        Names of all columns of the table, in file order.
    request : Request
        What the user asked for.
    line : int, default=None
        The line of the header, if the file has lines.
    """
    index = {name: column for column, name in enumerate(names)}
    if len(index) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DatasetFormatError.at(
            path, line, "the names of columns must be unique", twice, "Rename one of the columns."
        )
    labels = _label_names(path, names, request, line)
    taken = _check_roles(path, index, labels, request, line)
    features = request.features
    if features is None:
        features = _other_names(path, names, taken, line)
    if not features:
        got = Words(f"{len(names)} columns and no feature")
        rule = "some column must be a feature, so neither a label nor ignored"
        raise DatasetFormatError.at(path, line, rule, got, "Name fewer columns in labels or ignore.")
    found = tuple(index[name] for name in labels)
    single = request.label_column is not None
    return Columns(
        path,
        tuple(names),
        features=tuple(index[name] for name in features),
        labels=() if single else found,
        tags=found[0] if single else None,
    )


def _label_names(
    path: str | os.PathLike[str], names: Sequence[str], request: Request, line: int | None
) -> Sequence[str]:
    """Return the names of the label columns, or of the one that lists labels."""
    if request.label_column is not None:
        return [request.label_column]
    labels = request.labels
    if not isinstance(labels, int):
        return labels or ()
    if not 0 < abs(labels) < len(names):
        raise DatasetFormatError.at(
            path,
            line,
            f"labels must be n for the first n or -n for the last n of {len(names)} columns, n at least 1, "
            "and leave a feature",
            labels,
            "Pass another number, or the names of the label columns.",
        )
    return names[:labels] if labels > 0 else names[labels:]


def _check_roles(
    path: str | os.PathLike[str],
    index: dict[str, int],
    labels: Sequence[str],
    request: Request,
    line: int | None,
) -> dict[str, str]:
    """Return the parameter that names each named column; a column must have one role."""
    key_of_labels = "labels" if request.label_column is None else "label_column"
    groups = {key_of_labels: labels, "features": request.features or (), "ignore": request.ignore}
    taken: dict[str, str] = {}
    for key, group in groups.items():
        _check_known(path, index, key, group, line)
        for name in group:
            other = taken.setdefault(name, key)
            if other != key:
                rule = f"a column must not be in both {other} and {key}"
                raise DatasetFormatError.at(path, line, rule, name, "Take it out of one of the two.")
    return taken


def _check_known(
    path: str | os.PathLike[str], index: dict[str, int], key: str, group: Sequence[str], line: int | None
) -> None:
    unknown = [name for name in group if name not in index]
    if not unknown:
        return
    names = list(index)[:_SEARCHED_NAMES]
    close = difflib.get_close_matches(unknown[0], names)
    if close:
        remedy = f"Close matches: {', '.join(map(shown, close))}."
    else:
        first = ", ".join(map(shown, names[:5])) + (", ..." if len(index) > 5 else "")
        remedy = f"The columns are {first} ({len(index)} in all)."
    rule = f"{key} must name columns of the file ({len(unknown)} of {len(group)} names do not)"
    raise DatasetFormatError.at(path, line, rule, unknown[0], remedy)


def _other_names(
    path: str | os.PathLike[str], names: Sequence[str], taken: dict[str, str], line: int | None
) -> list[str]:
    """Return the names of the columns that have no role yet, to be features."""
    features = [name for name in names if name not in taken]
    # A column without a name most often holds the numbers of the rows: pandas writes them so.
    if "" in features:
        rule, remedy = "a feature must have a name", 'List "" in ignore if it numbers the rows, else name it.'
        raise DatasetFormatError.at(path, line, rule, "", remedy)
    return features
