"""Which column of a table is what: said by the caller, or guessed from the names and the first rows."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from statistics import fmean
from typing import Any, Literal

from lrml._shown import did_you_mean, shortened, shown
from lrml.core.checks import check_flag
from lrml.datasets._lines import DatasetFormatError

_TEXT_NAMES, _SHORT_TEXT_NAMES, _TAG_NAMES = (
    frozenset(words.split())
    for words in (
        "text texts description body abstract content contents document doc message review comment post "
        "article sentence question details notes",
        "title headline subject summary name heading",
        "tag tags label labels category categories keyword keywords topic topics class classes genre genres "
        "subjects codes uris",
    )
)
_SEPARATORS = ("\n", "|", ";", ",")  # the rarer inside a tag, the earlier
FLAGS = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}
_LISTED = 8  # names in a message
_ENOUGH_VALUES = 10  # different ones, to see whether blanks separate tags


@dataclass(frozen=True)
class Roles:
    """Which column of a file is what: what the caller says of it, and what was found.

    Attributes
    ----------
    kind : {"text", "numbers"}, optional
        Whether rows are texts or numbers.
    format : str, optional
    text : tuple of str
        The columns that make up the text, joined by a line end.
    tags : str, sequence of str, or False, optional
        The column that lists the tags (or labels) of a row; a list names columns of 0 and 1; False reads
        none.
    tag_separator : str, optional
        What stands between two tags; ``"json"`` for lists in brackets, None if a value is one tag, or a list.
    labels : tuple of str, or int
        Columns of 0 and 1, one for each label; n stands for the first n columns, -n for the last n.
    features, ignore : tuple of str
        Columns of numbers (None: all that are nothing else), and columns to leave out.
    delimiter : str, optional
        The character between two cells of CSV.
    zero_based : bool, optional
        Whether an svmlight file counts its features from 0.
    unlabelled : bool, default=False
        Leave labels out where the file has them: rows to predict.
    """

    kind: Literal["text", "numbers"] | None = None
    format: str | None = None
    text: tuple[str, ...] = ()
    tags: Any = None
    tag_separator: str | None = None
    labels: Any = ()
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    delimiter: str | None = None
    zero_based: bool | None = None
    unlabelled: bool = False

    def __post_init__(self) -> None:
        found = {key: getattr(self, key) for key in ("text", "features", "ignore", "labels", "tags")}
        for key, value in found.items():
            is_whole = isinstance(value, {"labels": int, "tags": str | bool}.get(key, ()))
            found[key] = value if value is None or is_whole else _names(key, value)
        if isinstance(found["tags"], tuple):  # columns of 0 and 1 beside a text
            found |= {"labels": found["tags"], "tags": False}
        found["delimiter"] = "\t" if self.delimiter == "\\t" else self.delimiter  # as it is typed in a shell
        for key, value in found.items():
            object.__setattr__(self, key, value)
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f'delimiter is {shown(self.delimiter)}. Pass one character, such as ";".')
        if self.zero_based is not None:
            check_flag("zero_based", self.zero_based)
        if self.tag_separator == "":
            raise ValueError('tag_separator is empty. Pass what stands between two tags, such as ",".')

    @property
    def has_labels(self) -> bool:
        """Whether the file says which labels its rows have."""
        return bool(self.tags or self.labels)

    def kept(self) -> dict[str, Any]:
        """Return what to keep in a model, so that later data is read alike, as JSON can hold it."""
        found = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {key: v for key, v in found.items() if v not in (None, []) and key != "unlabelled"}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Roles:
        """Return roles as a model has kept them."""
        return cls(**{one.name: kept[one.name] for one in fields(cls) if one.name in kept})

    def explain(self) -> list[str]:
        """Return a line for people about each role, such as ``text: column "body"``."""
        if self.format == "text":
            return ["text: each line of the file", "tags: none"]
        if self.format not in ("csv", "jsonl", "parquet"):
            return []
        tags = "none" if self.kind == "text" else ""
        if self.tags:
            tags = f"{_columns([self.tags])}, {_spelled(self.tag_separator)}"
        elif self.labels:
            tags = f"{_columns(self.labels)}, 0 or 1 each"
        lines = {
            "cells": "" if self.delimiter in (None, ",") else _spelled(self.delimiter),
            "text": _columns(self.text),
            "tags": tags,
            "features": _columns(self.features or ()),
            "ignored": _columns(self.ignore),
        }
        return [f"{what}: {line}" for what, line in lines.items() if line]


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"{key} is {shown(value)}. Pass names of columns, each once.")
    return names


def _columns(names: Sequence[str]) -> str:
    return f"column{'' if len(names) == 1 else 's'} {_listed(names)}" if names else ""


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _LISTED else ""
    return ", ".join(f'"{shortened(name, 60)}"' for name in names[:_LISTED]) + more


def _spelled(separator: str | None) -> str:
    known = {None: "one or a list in each cell", "json": "lists in brackets", "<>": "in angle brackets"}
    signs = {"\n": "line ends", " ": "blanks", "\t": "tabulators"}
    return known.get(separator) or f"separated by {signs.get(separator or '', repr(separator))}"


# Cells.


def is_number(value: object) -> bool:
    """Whether a cell holds a number."""
    try:
        return not isinstance(value, list | dict) and float(value) is not None  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def flag_of(value: object) -> float | None:
    """Return what a cell of a 0/1 column says; None if it says neither."""
    return FLAGS.get(str(value).strip().lower())


def counts_rows(values: Iterable[object]) -> bool:
    """Whether values count from 0 or 1, as the index of a pandas frame does."""
    found = [str(value).strip() for value in values]
    return any(found == [str(start + row) for row in range(len(found))] for start in (0, 1)) and bool(found)


def tags_in(value: Any, separator: str | None = None) -> tuple[str, ...]:
    """Return the tags that a cell lists: trimmed, each once; a ValueError if it does not list any."""
    if isinstance(value, str):
        return _tags_in_text(value, separator)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        value = [] if value is None else [str(value)]
    if not isinstance(value, list | tuple):
        raise ValueError("neither text nor a list")
    parts = [part.get("uri", part) if isinstance(part, dict) else part for part in value]
    if not all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
        raise ValueError("a list of other things than texts")
    return tuple(dict.fromkeys(tag for part in parts if (tag := str(part).strip())))


@lru_cache(100_000)  # lists of tags come again and again
def _tags_in_text(value: str, separator: str | None) -> tuple[str, ...]:
    if separator == "json":
        try:
            return tags_in(json.loads(value or "[]"))
        except json.JSONDecodeError:
            pass  # as pandas writes lists to CSV; literals only
        try:
            return tags_in(ast.literal_eval(value.strip()))
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError("not a list") from error
    if separator == "<>":  # addresses of subjects, as Annif writes them
        return tags_in(re.findall(r"<([^<>]*)>", value))
    return tags_in([value] if separator is None else value.split(None if separator == " " else separator))


def guess_separator(values: Sequence[str], *, known: bool = False) -> str | None:
    """Return what separates tags in some texts; None if each seems to be one tag.

    Blanks do only in a column that is ``known`` to list tags: if most values have several words, which come
    again twice as often as whole values do: "machine learning" is one tag.
    """
    if not values:
        return None
    for ends, name in (("<>", "<>"), ("[]", "json")):
        if all(value.strip()[:1] == ends[0] and value.strip()[-1:] == ends[1] for value in values):
            return name
    shares = {mark: sum(mark in value.strip() for value in values) / len(values) for mark in _SEPARATORS}
    best = next((mark for mark in _SEPARATORS if shares[mark] >= 0.1), max(shares, key=lambda m: shares[m]))
    if shares[best] > 0 or not known:
        return best if shares[best] > 0 else None
    words = [word for value in values for word in value.split()]
    n_words, n_values = len(set(words)), len(set(values))
    several = 2 * sum(len(value.split()) > 1 for value in values) > len(values)
    often = _ENOUGH_VALUES <= n_values > n_words and len(words) * n_values >= 2 * len(values) * n_words
    return " " if several and often else None


class _Column:
    """What the first rows say of a column."""

    def __init__(self, name: str, values: Iterable[Any]) -> None:
        self.name = name
        self.words = re.findall(r"[^\W_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
        self.filled = [value for value in values if not (value is None or value == "")]
        self.strings = [value for value in self.filled if isinstance(value, str)]
        n, flags = len(self.filled), sum(flag_of(value) is not None for value in self.filled)
        numbers = sum(is_number(value) or flag_of(value) is not None for value in self.filled)
        self.is_number, self.is_flag = n == numbers > 0, n == flags > 0
        # A few rows may be wrong: reading them says which.
        self.is_no_number = 2 * numbers <= n
        self.is_list = 2 * sum(isinstance(value, list) for value in self.filled) > n
        self.is_text = 2 * len(self.strings) > n and not self.is_number
        self.length = fmean(map(len, self.strings)) if self.strings else 0.0

    def is_prose(self) -> bool:
        """Whether values have several words, and seldom come again."""
        words = fmean(len(value.split()) for value in self.strings)
        return words >= 3 and 2 * len(set(self.strings)) > len(self.strings)

    def lists_tags(self) -> bool:
        """Whether the values look like lists of tags: short parts that come again and again."""
        if self.is_list:
            return all(isinstance(p, str | int) for v in self.filled if isinstance(v, list) for p in v)
        separator = guess_separator(self.strings) if self.is_text else None
        if separator is None:
            return False
        parts = [part for value in self.strings for part in tags_in(value, separator)]
        short = bool(parts) and fmean(map(len, parts)) <= 20 and max(map(len, parts)) <= 80
        return short and 2 * len(set(parts)) <= len(parts) and len(parts) > 1.2 * len(self.strings)


def _named(columns: Sequence[_Column], words: frozenset[str]) -> list[_Column]:
    """Return the columns whose name is one of some words, else those whose name has one of them."""
    wholly = [column for column in columns if " ".join(column.words) in words]
    return wholly or [column for column in columns if words.intersection(column.words)]


# Which column is what.


def find_roles(
    path: str | os.PathLike[str], names: Sequence[str], sample: Sequence[Sequence[Any]], asked: Roles
) -> Roles:
    """Decide which column of a file is what, from what was asked for and from the cells of its first rows.

    What is not clear is an error.
    """
    try:
        asked = _resolved(names, asked)
        columns = [_Column(name, (row[k] for row in sample)) for k, name in enumerate(names)]
        if names[0] == "" and counts_rows(row[0] for row in sample) and "" not in (asked.features or ()):
            asked = replace(asked, ignore=(*asked.ignore, ""))
        return _guessed(columns, asked)
    except ValueError as error:
        raise DatasetFormatError.at(path, None, str(error)) from error


def _resolved(names: Sequence[str], asked: Roles) -> Roles:
    """Return what was asked for by names that the file has; refuse others, and contradictions."""
    if isinstance(count := asked.labels, int):
        if not 0 < abs(count) <= len(names):
            raise ValueError(f"labels={count} of {len(names)} columns cannot be. Correct the number.")
        asked = replace(asked, labels=tuple(names[:count] if count > 0 else names[count:]))
    known = set(names)
    if len(known) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"Column {shown(twice)} is there twice. Rename one.")
    tags = (asked.tags,) if asked.tags else ()
    groups = {"text": asked.text, "tags": tags, "labels": asked.labels, "features": asked.features or ()}
    taken: dict[str, str] = dict.fromkeys(asked.ignore, "ignore")
    for key, name in ((key, name) for key, group in groups.items() for name in group):
        if name not in known and not (asked.unlabelled and key in ("tags", "labels")):
            guess = did_you_mean(name, names[:10_000])
            raise ValueError(f"There is no column {shown(name)}. {guess}The columns are {_listed(names)}.")
        if taken.setdefault(name, key) != key:
            raise ValueError(f"Column {shown(name)} is in {taken[name]} and in {key}. Take it out of one.")
    if asked.labels and asked.tags is None and not asked.text and asked.kind is None:
        asked = replace(asked, kind="numbers")
    gone = {*asked.ignore}
    if asked.unlabelled:
        gone |= {*asked.labels, asked.tags}
        asked = replace(asked, labels=(), tags=False)
    return replace(asked, ignore=tuple(name for name in names if name in gone))


def _guessed(columns: Sequence[_Column], asked: Roles) -> Roles:
    """Return the roles of all columns."""
    taken = {*asked.text, *asked.labels, *asked.ignore, asked.tags}
    free = [column for column in columns if column.name not in taken]
    tags = next((column for column in columns if column.name == asked.tags), None)
    if asked.tags is None and not asked.labels:
        tags = _listing_tags([column for column in free if column.filled])
        free = [column for column in free if column is not tags]
    text, labels = asked.text, asked.labels
    if not text and asked.kind != "numbers" and asked.features is None:
        text = _holding_text([column for column in free if column.is_text])
    if tags is not None and tags.is_flag and not asked.tags and not text:
        tags = None  # one of the labels, perhaps, but there may be others
    elif asked.tags is None and tags is None and not labels:
        flags = tuple(column.name for column in free if column.is_flag and column.name not in text)
        # Columns of 0 and 1 are tags beside a text, and labels where the features are elsewhere.
        labels = flags if (len(flags) > 1 if text else asked.features == ()) else ()
    if tags is not None:
        mark = asked.tag_separator or guess_separator(tags.strings, known=True)
        asked = replace(asked, tags=tags.name, tag_separator=mark)
    features = asked.features
    if not text:
        if not (tags or labels or asked.unlabelled):
            raise _no_text(columns)
        if features is None:  # all other numbers
            gone = {*labels, *asked.ignore, asked.tags}
            numbers = [column.name for column in columns if labels or not column.is_no_number]
            features = tuple(name for name in numbers if name not in gone)
            if not features or "" in features:
                others = tuple(filter(lambda column: column.name not in gone, columns))
                raise _no_features(features, others if not (labels or asked.kind) else ())
    used = {*text, *labels, *(features or ()), asked.tags}
    ignore = tuple(column.name for column in columns if column.name not in used)
    kind: Any = "text" if text else "numbers"
    return replace(asked, kind=kind, text=text, labels=labels, features=features, ignore=ignore)


def _listing_tags(columns: Sequence[_Column]) -> _Column | None:
    """Find the column that lists tags, by its name, else by its values; None if there is none."""
    # Short texts of few words look like lists of tags; what is called a text is none.
    others = [column for column in columns if not _TEXT_NAMES.intersection(column.words)]
    found = _named(columns, _TAG_NAMES) or [column for column in others if column.lists_tags()]
    found = [column for column in found if "uris" in column.words] or found  # beside labels
    if len(found) > 1:  # one that lists tags, rather than one with single words or numbers
        found = [column for column in found if column.lists_tags()] or found
    if len(found) > 1 and not all(column.is_flag for column in found):
        listed = _listed([column.name for column in found])
        raise ValueError(
            f'{listed} may all list tags. Pass one, as tags="..." (on the command line: --tags).'
        )
    return found[0] if len(found) == 1 else None


def _holding_text(columns: Sequence[_Column]) -> tuple[str, ...]:
    """Find the column that holds the text, by its name, else by its values; none if no column does."""
    found = _named(columns, _TEXT_NAMES) or [column for column in columns if column.is_prose()]
    found = sorted(found or _named(columns, _SHORT_TEXT_NAMES), key=lambda column: -column.length)
    if len(found) > 1 and found[0].length < 2 * found[1].length:
        raise ValueError(
            f"{_listed([column.name for column in found])} may all be the text. Pass one, as "
            'text="...", or several to be joined, as text=["...", "..."] (on the command line: --text).'
        )
    return tuple(column.name for column in found[:1])


def _no_features(features: Sequence[str], perhaps_texts: Sequence[_Column]) -> ValueError:
    """Return the error for a table of numbers without a feature, or with one that has no name."""
    if not features and perhaps_texts:
        return _no_text(perhaps_texts)
    what = "A feature has no name" if features else "No column of numbers is left as a feature"
    return ValueError(f"{what}. Name it, or pass the columns, as features=[...] or ignore=[...].")


def _no_text(columns: Sequence[_Column]) -> ValueError:
    """Return the error for a table without a text and without labels."""
    listed = _listed([column.name for column in columns])
    if not any(column.filled for column in columns):
        return ValueError(f"Columns {listed} are empty. Is the file complete?")
    if not any(column.is_number for column in columns):
        return ValueError(
            f'No column of {listed} holds texts, clearly. Pass one, as text="..." (on the command line: '
            "--text)."
        )
    flags = [column.is_flag for column in reversed(columns)]
    last = flags.index(False) if False in flags else len(flags)
    hint = f" The last {last} columns hold only 0 and 1." if last > 1 else ""
    return ValueError(
        f"Which columns of {listed} are labels? Pass labels=-n for the last n, labels=[...], or the column "
        f'that lists them as tags="..." (on the command line: --labels, --tags).{hint}'
    )
