"""Which column of a table of texts is what: said by the caller, or guessed from names and values."""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, TypeAlias

from lrml._shown import shortened, shown
from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._lines import numbers_rows

Record: TypeAlias = dict[str, Any]

_TEXT_NAMES, _SHORT_TEXT_NAMES, _TAG_NAMES = (
    frozenset(re.findall(r"\w+", words))
    for words in (
        "text texts description body abstract content contents document doc message review comment post "
        "article sentence question details notes",
        "title headline subject summary name heading",
        "tag tags label labels category categories keyword keywords topic topics class classes genre genres "
        "subjects codes",
    )
)
_SEPARATORS = ("\n", "|", ";", ",")  # the rarer inside a tag, the earlier
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf", re.ASCII | re.IGNORECASE)
_YES_OR_NO = {"0": False, "1": True, "0.0": False, "1.0": True} | {
    "false": False,
    "true": True,
    "no": False,
    "yes": True,
}
_FEW_WORDS = 3  # a column without a telling name is text if its values have as many words, on average
_CLEARLY_LONGER = 2
_LONGEST_TAG = 40
_LISTED_NAMES = 8  # in a message
_ENOUGH_VALUES = 10  # different ones, to see whether blanks separate tags
_BLANKS_SEPARATE, _ONE_TAG_EACH = (  # a mark that does not occur leaves values whole
    f'If {case}, pass tag_separator="{mark}" (on the command line: --tag-separator "{mark}")'
    for case, mark in (("blanks separate tags", " "), ("each value is one tag", ";"))
)


@dataclass(frozen=True)
class Roles:
    """Which column of a file is what.

    Attributes
    ----------
    kind : {"text", "numbers"}
        Whether rows are texts or numbers.
    format : str
        The format of the file, such as ``"csv"``; ``"text"`` is one text per line.
    text : tuple of str
        The columns that make up the text, joined by a line end; empty for plain text and numbers.
    tags : str or None
        The column that lists the tags of a row.
    tag_separator : str or None
        What stands between two tags; ``"json"`` for lists in brackets, None if a value is one tag or is a
        list already.
    labels : tuple of str
        Columns of 0 and 1, one for each tag, where there is no `tags` column.
    features : tuple of str
        Columns of numbers, where `kind` is "numbers".
    ignored : tuple of str
        The other columns.
    delimiter : str or None
        The character between two cells of CSV; None for other formats.
    """

    kind: Literal["text", "numbers"]
    format: str
    text: tuple[str, ...] = ()
    tags: str | None = None
    tag_separator: str | None = None
    labels: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    delimiter: str | None = None
    reasons: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def explain(self) -> list[str]:
        """Return a line for people about each role, such as ``text: column "body" (by its name)``."""
        lines = []
        if "delimiter" in self.reasons:
            lines.append(f"cells: {_spelled(self.delimiter)}{self._why('delimiter')}")
        if not (self.text or self.features):
            whole = (
                "text: each line of the file" if self.kind == "text" else f"numbers: a file of {self.format}"
            )
            lines.append(whole)
        elif self.text:
            lines.append(f"text: {_columns(self.text)}{self._why('text')}")
        if self.tags is not None:
            how = "lists" if "list" in self.reasons else _spelled(self.tag_separator)
            lines.append(f"tags: {_columns([self.tags])}, {how}{self._why('tags')}{self._doubt()}")
        elif self.labels:
            lines.append(f"tags: {_columns(self.labels)}, 0 or 1 each{self._why('tags')}")
        elif self.kind == "text":
            lines.append("tags: none")
        for role in ("features", "ignored"):
            if names := getattr(self, role):
                lines.append(f"{role}: {_columns(names)}")
        return lines

    def _why(self, role: str) -> str:
        return f" ({self.reasons[role]})" if role in self.reasons else ""

    def _doubt(self) -> str:
        return f". {self.reasons['blanks']}" if "blanks" in self.reasons else ""


def _columns(names: Sequence[str]) -> str:
    first = ", ".join(f'"{shortened(name, 60)}"' for name in names[:_LISTED_NAMES])
    more = f", ... ({len(names)} in all)" if len(names) > _LISTED_NAMES else ""
    return f"column{'' if len(names) == 1 else 's'} {first}{more}"


def _spelled(separator: str | None) -> str:
    if separator is None:
        return "one tag each"
    if separator == "json":
        return "lists in brackets"
    names = {"\n": "line ends", " ": "blanks", "\t": "tabulators"}
    return f"separated by {names.get(separator, repr(separator))}"


class Asked:
    """What the caller said of the roles, checked."""

    def __init__(self, text: object, tags: object, tag_separator: object) -> None:
        self.text = _names("text", text)
        self.no_tags = tags is False
        self.tags = None if tags is False else _names("tags", tags)
        self.labels: tuple[str, ...] = ()
        if self.tags is not None and not isinstance(tags, str):
            self.labels, self.tags = self.tags, None
        if not (tag_separator is None or (isinstance(tag_separator, str) and tag_separator)):
            raise ValueError(
                'tag_separator must be a text of at least one character, "json", or None to guess it, got '
                f'{shown(tag_separator)}. Pass what stands between two tags, such as ",".'
            )
        self.tag_separator = tag_separator


def _names(key: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        form = {"text": "a column, or a list of columns to be joined"}.get(
            key, "a column that lists tags, a list of columns of 0 and 1, or False for none"
        )
        raise ValueError(f"{key} must be {form}, each named once, got {shown(value)}. Name columns, or None.")
    return names


class _Column:
    """What the first rows say of a column."""

    def __init__(self, name: str, values: list[Any]) -> None:
        self.name = name
        self.filled = [value for value in values if not (value is None or value == "")]
        self.strings = [value for value in self.filled if isinstance(value, str)]
        lists = sum(isinstance(value, list) for value in self.filled)
        self.is_list = 2 * lists > len(self.filled)  # a few rows may be wrong: reading them says which
        self.is_number = bool(self.filled) and all(map(_is_number, self.filled))
        self.is_flag = self.is_number and all(flag_of(value) is not None for value in self.filled)
        self.is_text = bool(self.strings) and not self.is_number and 2 * len(self.strings) > len(self.filled)
        self.length = fmean(map(len, self.strings)) if self.is_text else 0.0
        self.words = fmean(len(value.split()) for value in self.strings) if self.is_text else 0.0
        self.distinct = len(set(self.strings)) / len(self.strings) if self.is_text else 0.0

    def lists_tags(self) -> bool:
        """Say whether the values look like lists of tags: short parts that come again and again."""
        if self.is_list:
            lists = [value for value in self.filled if isinstance(value, list)]
            return all(isinstance(part, str | int) for value in lists for part in value)
        if not self.is_text:
            return False
        separator = guess_separator(self.strings)
        if separator is None:
            return False
        parts = [part for value in self.strings for part in split_tags(value, separator)]
        short = bool(parts) and fmean(map(len, parts)) <= _LONGEST_TAG / 2 and max(map(len, parts)) <= 80
        return short and 2 * len(set(parts)) <= len(parts) and len(parts) > 1.2 * len(self.strings)


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        text = value.strip()
        return _NUMBER.fullmatch(text) is not None or text.lower() in _YES_OR_NO
    return isinstance(value, int | float)


def flag_of(value: object) -> bool | None:
    """Return what a cell of a 0/1 column says; None if it says neither."""
    return _YES_OR_NO.get(str(value).strip().lower())


def guess_separator(values: Sequence[str]) -> str | None:
    """Return what separates tags in some texts; None if each seems to be one tag."""
    if not values:
        return None
    if all(value.strip()[:1] == "[" and value.strip()[-1:] == "]" for value in values):
        return "json"
    shares = {mark: sum(mark in value.strip() for value in values) / len(values) for mark in _SEPARATORS}
    often = [mark for mark in _SEPARATORS if shares[mark] >= 0.1]
    if often:
        return often[0]
    best = max(_SEPARATORS, key=lambda mark: shares[mark])
    if shares[best] > 0:
        return best
    # Blanks separate tags only if the same words come again in other company: "machine learning" is one tag.
    whole, parts = set(values), {part for value in values for part in value.split()}
    return " " if len(whole) >= _ENOUGH_VALUES and 2 * len(parts) <= len(whole) else None


def split_tags(value: str, separator: str | None) -> list[str]:
    """Split a list of tags; parts are not trimmed yet. Raises ValueError for a list that is none."""
    if separator is None:
        return [value]
    if separator != "json":
        return value.split() if separator == " " else value.split(separator)
    if not value.strip():
        return []
    try:
        found = json.loads(value)
    except ValueError:
        found = ast.literal_eval(value.strip())  # as pandas writes lists to CSV; literals only
    if not isinstance(found, list | tuple) or not all(isinstance(part, str | int) for part in found):
        raise ValueError("not a list of tags")
    return [str(part) for part in found]


def find_roles(
    path: str | os.PathLike[str],
    file_format: str,
    names: Sequence[str],
    sample: Sequence[Record],
    asked: Asked,
) -> Roles:
    """Decide which column is what, from what was asked for and from the first rows."""
    _check_known(path, names, asked)
    columns = [_Column(name, [record.get(name) for record in sample]) for name in names]
    by_name = {column.name: column for column in columns}
    reasons: dict[str, str] = {}
    taken = {*(asked.text or ()), *(asked.tags or ()), *asked.labels}
    free = [column for column in columns if column.name not in taken]

    tags = None if asked.tags is None else by_name[asked.tags[0]]
    if tags is None and not (asked.no_tags or asked.labels):
        tags = _guess_tags(path, free, reasons)
        free = [column for column in free if column is not tags]
    if asked.text is not None:
        text = asked.text
    else:
        found = _guess_text(path, free, reasons)
        if found is None:
            return _numbers(path, file_format, columns, tags, asked)
        text = (found.name,)
    labels = asked.labels
    if tags is None and not (labels or asked.no_tags):
        flags = tuple(column.name for column in free if column.is_flag and column.name not in text)
        if len(flags) > 1:
            labels, reasons["tags"] = flags, "their values"
    used = {*text, *labels, *([] if tags is None else [tags.name])}
    return Roles(
        kind="text",
        format=file_format,
        text=text,
        tags=None if tags is None else tags.name,
        tag_separator=_separator(tags, asked, reasons),
        labels=labels,
        ignored=tuple(name for name in names if name not in used),
        reasons=reasons,
    )


def _separator(tags: _Column | None, asked: Asked, reasons: dict[str, str]) -> str | None:
    if tags is None:
        return None
    if tags.is_list:
        reasons["list"] = "its type"
    found = asked.tag_separator or guess_separator(tags.strings)
    if found is not None or not _mostly_several_words(tags.strings):
        return found
    # The column is known to hold tags, so less is asked of blanks than of those of an unknown column.
    if _words_come_again(tags.strings):
        reasons["blanks"] = _ONE_TAG_EACH
        return " "
    reasons["blanks"] = _BLANKS_SEPARATE
    return None


def _mostly_several_words(values: Sequence[str]) -> bool:
    return 2 * sum(len(value.split()) > 1 for value in values) > len(values)


def _words_come_again(values: Sequence[str]) -> bool:
    """Say whether words repeat at least twice as often as whole values, and are fewer."""
    words = [word for value in values for word in value.split()]
    n_words, n_values = len(set(words)), len(set(values))
    often = len(words) * n_values >= 2 * len(values) * n_words
    return n_values >= _ENOUGH_VALUES and n_words < n_values and often


def _numbers(
    path: str | os.PathLike[str],
    file_format: str,
    columns: Sequence[_Column],
    tags: _Column | None,
    asked: Asked,
) -> Roles:
    """Return the roles of a table of numbers with a column of tags; refuse other tables without text."""
    if tags is not None and tags.is_flag and asked.tags is None:
        tags = None  # one of the labels, perhaps, but there may be others
    rest = [column for column in columns if column is not tags and column.name not in asked.labels]
    index = columns[0] if columns[0].name == "" and numbers_rows(columns[0].filled) else None
    features = tuple(column.name for column in rest if column.is_number and column is not index)
    listed = _listed([column.name for column in columns])
    if not features:
        rule = "some column must hold texts, with blanks between words"
        raise _unclear(path, rule, f"none that is clear among {listed}", 'Pass the column, as text="...".')
    if tags is None and not asked.labels:
        flags = [column.is_flag for column in columns]
        last = next((k for k, flag in enumerate(reversed(flags)) if not flag), len(flags))
        hint = f" The last {last} columns hold only 0 and 1." if last > 1 else ""
        rule = "a table without texts must say which columns are labels"
        remedy = (
            f"Pass labels=-n for the last n columns, labels=[...] or label_column=... to "
            f"read_{'parquet' if file_format == 'parquet' else 'csv'} (on the command line: --labels, "
            f'--label-column), or text="..." if a column holds texts.{hint}'
        )
        raise _unclear(path, rule, f"{len(features)} columns of numbers among {listed}", remedy)
    reasons: dict[str, str] = {}
    return Roles(
        kind="numbers",
        format=file_format,
        tags=None if tags is None else tags.name,
        tag_separator=_separator(tags, asked, reasons),
        labels=asked.labels,
        features=features,
        ignored=tuple(column.name for column in rest if column.name not in features),
        reasons=reasons,
    )


def _guess_tags(
    path: str | os.PathLike[str], columns: Sequence[_Column], reasons: dict[str, str]
) -> _Column | None:
    """Find the column that lists tags, by its name, else by its values; None if there is none."""
    possible = [column for column in columns if column.filled]
    exact = [column for column in possible if _key(column.name) in _TAG_NAMES]
    found = exact or [column for column in possible if _TAG_NAMES & set(_key(column.name).split())]
    reason = "by its name"
    if len(found) > 1:  # one that lists tags, rather than one with single words or numbers
        found = [column for column in found if column.lists_tags()] or found
    elif not found:
        # Short texts of few words look like lists of tags; what is called a text is none.
        unnamed = [column for column in possible if not _TEXT_NAMES & set(_key(column.name).split())]
        found, reason = [column for column in unnamed if column.lists_tags()], "its values"
    if len(found) > 1 and not all(column.is_flag for column in found):
        raise _unclear(
            path,
            "which column lists the tags must be clear",
            f"{len(found)} possible columns, {_listed([column.name for column in found])}",
            'Pass one of them, as tags="..." (on the command line: --tags).',
        )
    if len(found) != 1:
        return None
    reasons["tags"] = reason
    return found[0]


def _guess_text(
    path: str | os.PathLike[str], columns: Sequence[_Column], reasons: dict[str, str]
) -> _Column | None:
    """Find the column that holds the text, by its name, else as the longest; None if no column does."""
    possible = [column for column in columns if column.is_text]
    for known in (_TEXT_NAMES, _SHORT_TEXT_NAMES):
        found = [column for column in possible if _key(column.name) in known]
        found = found or [column for column in possible if known & set(_key(column.name).split())]
        reason = "by its name"
        if not found and known is _TEXT_NAMES:
            found = [column for column in possible if column.words >= _FEW_WORDS and column.distinct > 0.5]
            reason = "longest text" if len(possible) > 1 else "the only text"
        if found:
            break
    else:
        return None
    found.sort(key=lambda column: -column.length)
    if len(found) > 1:
        if found[0].length < _CLEARLY_LONGER * found[1].length:
            names = _listed([column.name for column in found])
            raise _unclear(
                path,
                "which column holds the text must be clear",
                f"{len(found)} possible columns, {names}",
                'Pass one of them, as text="...", or several to be joined, as text=["...", "..."] (on the '
                "command line: --text).",
            )
        reason = "longest text"
    reasons["text"] = reason
    return found[0]


def _key(name: str) -> str:
    """Return the words of a column name in lower case, whether it is in snake or camel case."""
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return " ".join(re.findall(r"[^\W_]+", words)).lower()


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _LISTED_NAMES else ""
    return ", ".join(f'"{shortened(name, 40)}"' for name in names[:_LISTED_NAMES]) + more


def _check_known(path: str | os.PathLike[str], names: Sequence[str], asked: Asked) -> None:
    for key, wanted in (("text", asked.text), ("tags", asked.tags or asked.labels)):
        for name in wanted or ():
            if name not in names:
                close = difflib.get_close_matches(name, names[:10_000])
                remedy = f"Did you mean {_listed(close)}? " if close else ""
                remedy += f"The columns are {_listed(names)}."
                raise DatasetFormatError.at(path, None, f"{key} must name a column of the file", name, remedy)
    both = set(asked.text or ()) & {*(asked.tags or ()), *asked.labels}
    if both:
        rule = "a column must not be both text and tags"
        raise DatasetFormatError.at(path, None, rule, both.pop(), "Take it out of one of the two.")


def _unclear(path: str | os.PathLike[str], rule: str, got: str, remedy: str) -> DatasetFormatError:
    """Build an error whose value is shown in full: it lists columns."""
    return DatasetFormatError(f"{os.fspath(path)}: {rule}, got {got}. {remedy}")
