"""Which column of a table is what: said by the caller, or guessed from the names and the first rows."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from statistics import fmean
from typing import Any, Literal

from lrml._shown import did_you_mean, shortened, shown
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
    reasons: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for key in ("text", "features", "ignore", "labels", "tags"):
            value = getattr(self, key)
            if key == "tags" and (value is None or value is False or isinstance(value, str)):
                continue
            if value is not None and not (key == "labels" and isinstance(value, int)):
                object.__setattr__(self, key, _names(key, value))
        if isinstance(self.tags, tuple):  # where the text is guessed, unless no column holds any
            object.__setattr__(self, "labels", self.tags)
            object.__setattr__(self, "tags", False)
        if self.delimiter == "\\t":  # as it is typed in a shell
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f'delimiter is {shown(self.delimiter)}. Pass one character, such as ";".')
        if self.tag_separator == "":
            raise ValueError('tag_separator is empty. Pass what stands between two tags, such as ",".')

    @property
    def has_labels(self) -> bool:
        """Whether the file says which labels its rows have."""
        return bool(self.tags or self.labels)

    def kept(self) -> dict[str, Any]:
        """Return what to keep in a model, so that later data is read alike, as JSON can hold it."""
        plain = {key: value for key, value in asdict(self).items() if key not in ("reasons", "unlabelled")}
        found = {key: list(v) if isinstance(v, tuple) else v for key, v in plain.items()}
        return {key: value for key, value in found.items() if value not in (None, [])}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Roles:
        """Return roles as a model has kept them."""
        known = {one.name for one in fields(cls)} - {"reasons", "unlabelled"}
        return cls(**{key: value for key, value in kept.items() if key in known})

    def explain(self) -> list[str]:
        """Return a line for people about each role, such as ``text: column "body" (by its name)``."""
        if self.format not in ("csv", "jsonl", "parquet"):
            whole = "text: each line of the file" if self.kind == "text" else f"numbers: {self.format}"
            return [whole, "tags: none"] if self.kind == "text" and not self.has_labels else [whole]
        lines = []
        if "delimiter" in self.reasons:
            lines.append(f"cells: {_spelled(self.delimiter)} (by the first rows)")
        if self.text:
            lines.append(f"text: {_columns(self.text)}{self._why('text')}")
        if self.tags:
            how = "lists" if "list" in self.reasons else _spelled(self.tag_separator)
            doubt = f". {self.reasons['blanks']}" if "blanks" in self.reasons else ""
            lines.append(f"tags: {_columns([self.tags])}, {how}{self._why('tags')}{doubt}")
        elif self.labels:
            lines.append(f"tags: {_columns(self.labels)}, 0 or 1 each{self._why('tags')}")
        elif self.kind == "text":
            lines.append("tags: none")
        if self.features:
            lines.append(f"features: {_columns(self.features)}")
        return [*lines, f"ignored: {_columns(self.ignore)}"] if self.ignore else lines

    def _why(self, role: str) -> str:
        return f" ({self.reasons[role]})" if role in self.reasons else ""


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"{key} is {shown(value)}. Pass names of columns, each once.")
    return names


def _columns(names: Sequence[str]) -> str:
    return f"column{'' if len(names) == 1 else 's'} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _LISTED else ""
    return ", ".join(f'"{shortened(name, 60)}"' for name in names[:_LISTED]) + more


def _spelled(separator: str | None) -> str:
    if separator is None:
        return "one tag each"
    if separator == "json":
        return "lists in brackets"
    names = {"<>": "angle brackets around them", "\n": "line ends", " ": "blanks", "\t": "tabulators"}
    return f"separated by {names.get(separator, repr(separator))}"


class _Column:
    """What the first rows say of a column."""

    def __init__(self, name: str, values: Iterable[Any]) -> None:
        self.name = name
        self.key = " ".join(re.findall(r"[^\W_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name))).lower()
        self.words = frozenset(self.key.split())
        self.filled = [value for value in values if not (value is None or value == "")]
        self.strings = [value for value in self.filled if isinstance(value, str)]
        lists = sum(isinstance(value, list) for value in self.filled)
        self.is_list = 2 * lists > len(self.filled)  # a few rows may be wrong: reading them says which
        numbers = sum(is_number(value) or flag_of(value) is not None for value in self.filled)
        self.is_number = bool(self.filled) and numbers == len(self.filled)
        self.is_no_number = 2 * numbers <= len(self.filled)
        self.is_flag = self.is_number and all(flag_of(value) is not None for value in self.filled)
        self.is_text = bool(self.strings) and not self.is_number and 2 * len(self.strings) > len(self.filled)

    @cached_property
    def length(self) -> float:
        """Mean number of characters."""
        return fmean(map(len, self.strings))

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


def guess_separator(values: Sequence[str]) -> str | None:
    """Return what separates tags in some texts; None if each seems to be one tag."""
    if not values:
        return None
    if all(value.strip()[:1] == "<" and value.strip()[-1:] == ">" for value in values):
        return "<>"
    if all(value.strip()[:1] == "[" and value.strip()[-1:] == "]" for value in values):
        return "json"
    shares = {mark: sum(mark in value.strip() for value in values) / len(values) for mark in _SEPARATORS}
    best = next((mark for mark in _SEPARATORS if shares[mark] >= 0.1), max(shares, key=lambda m: shares[m]))
    if shares[best] > 0:
        return best
    # Blanks separate tags only if the same words come again in other company: "machine learning" is one tag.
    whole, parts = set(values), {part for value in values for part in value.split()}
    return " " if len(whole) >= _ENOUGH_VALUES and 2 * len(parts) <= len(whole) else None


def split_tags(value: str, separator: str | None) -> Any:
    """Split a list of tags; parts are not trimmed yet. Raises ValueError for a list that is none."""
    if separator is None:
        return [value]
    if separator == "<>":  # addresses of subjects, as Annif writes them
        return re.findall(r"<([^<>]*)>", value)
    if separator != "json":
        return value.split() if separator == " " else value.split(separator)
    try:
        return json.loads(value or "[]")
    except ValueError:
        return ast.literal_eval(value.strip())  # as pandas writes lists to CSV; literals only


def tags_in(value: Any, separator: str | None) -> tuple[str, ...]:
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
    try:
        return tags_in(split_tags(value, separator), None)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("not a list") from error


class RoleFinder:
    """Decides which column of a file is what, from what was asked for and from the cells of its first rows.

    ``reasons`` say why a guess was made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        names: Sequence[str],
        sample: Sequence[Sequence[Any]],
        asked: Roles,
    ) -> None:
        self.path, self.names = path, names
        self.asked = asked = self._resolved(asked)
        self.reasons = dict(asked.reasons)
        self.columns = [_Column(name, (row[k] for row in sample)) for k, name in enumerate(names)]
        if names[0] == "" and counts_rows(row[0] for row in sample) and "" not in (asked.features or ()):
            self.asked = asked = replace(asked, ignore=(*asked.ignore, ""))
        taken = {*asked.text, *asked.labels, *asked.ignore, asked.tags}
        self.free = [column for column in self.columns if column.name not in taken]

    def roles(self) -> Roles:
        """Return the roles of all columns."""
        asked = self.asked
        if asked.kind == "numbers" and (asked.has_labels or asked.unlabelled):
            return self._numbers(asked.labels)
        tags = next((column for column in self.columns if column.name == asked.tags), None)
        if asked.tags is None and not asked.labels:
            tags = self._guessed_tags()
            self.free = [column for column in self.free if column is not tags]
        text = asked.text
        if not text and asked.kind != "numbers" and asked.features is None:
            text = self._guessed_text()
        flags = tuple(column.name for column in self.free if column.is_flag and column.name not in text)
        if not text:
            if tags is not None and tags.is_flag and not asked.tags:
                flags, tags = (), None  # one of the labels, perhaps, but there may be others
            beside = asked.features == () and flags  # the features are elsewhere
            if tags is None and not asked.labels and not asked.unlabelled and not beside:
                raise self._no_text()
            dropped = () if asked.labels else tuple(c.name for c in self.free if c.is_no_number)
            self.asked = replace(asked, ignore=(*asked.ignore, *dropped))
            self._list_tags(tags)
            return self._numbers(asked.labels or (flags if beside and tags is None else ()))
        self._list_tags(tags)
        if asked.tags is None and tags is None and not asked.labels and len(flags) > 1:
            self.asked, self.reasons["tags"] = replace(self.asked, labels=flags), "their values"
        used = {*text, *self.asked.labels, self.asked.tags}
        ignore = tuple(name for name in self.names if name not in used)
        return replace(self.asked, kind="text", text=text, ignore=ignore, reasons=self.reasons)

    def _numbers(self, labels: tuple[str, ...]) -> Roles:
        """Return the roles in a table of numbers: all columns that are nothing else are features."""
        asked, features = self.asked, self.asked.features
        taken = {*labels, *asked.ignore, *([asked.tags] if asked.tags else [])}
        if features is None:
            features = tuple(name for name in self.names if name not in taken)
            if "" in features:
                raise self._unclear('A feature has no name. Ignore the column (--ignore "") or name it')
            if not features:
                raise self._unclear("No column is left as a feature. Name fewer as labels, or features=[]")
        used = {*features, *labels, asked.tags}
        ignore, reasons = tuple(name for name in self.names if name not in used), self.reasons
        asked = replace(asked, features=features, labels=labels, ignore=ignore, reasons=reasons)
        return replace(asked, kind="numbers")

    def _resolved(self, asked: Roles) -> Roles:
        """Return what was asked for by names that the file has; refuse others, and contradictions."""
        names = self.names
        if isinstance(count := asked.labels, int):
            if not 0 < abs(count) <= len(names):
                raise self._unclear(f"labels={count} of {len(names)} columns cannot be. Correct the number")
            asked = replace(asked, labels=tuple(names[:count] if count > 0 else names[count:]))
        self._check_known(asked)
        if asked.labels and asked.tags is None and not asked.text and asked.kind is None:
            asked = replace(asked, kind="numbers")
        gone = {*asked.ignore}
        if asked.unlabelled:
            gone |= {*asked.labels, asked.tags}
            asked = replace(asked, labels=(), tags=False)
        return replace(asked, ignore=tuple(name for name in names if name in gone))

    def _check_known(self, asked: Roles) -> None:
        known = set(self.names)
        if len(known) < len(self.names):
            twice = next(name for name in self.names if list(self.names).count(name) > 1)
            raise self._unclear(f"Column {shown(twice)} is there twice. Rename one")
        tags = (asked.tags,) if asked.tags else ()
        groups = {"text": asked.text, "tags": tags, "labels": asked.labels, "features": asked.features or ()}
        taken: dict[str, str] = {}
        for key, name in ((key, name) for key, group in groups.items() for name in group):
            if name not in known and not (asked.unlabelled and key in ("tags", "labels")):
                guess = did_you_mean(name, self.names[:10_000])
                there = f"{guess}The columns are {_listed(self.names)}"
                raise self._unclear(f"There is no column {shown(name)}. {there}")
            if taken.setdefault(name, key) != key or name in asked.ignore:
                other = taken[name] if taken[name] != key else "ignore"
                raise self._unclear(f"Column {shown(name)} is in {other} and in {key}. Take it out of one")

    def _list_tags(self, tags: _Column | None) -> None:
        """Take a column for the one that lists tags, and say what separates them."""
        if tags is None:
            return
        if tags.is_list:
            self.reasons["list"] = "its type"
        mark, values = self.asked.tag_separator or guess_separator(tags.strings), tags.strings
        if mark is None and 2 * sum(len(value.split()) > 1 for value in values) > len(values):
            # The column is known to hold tags, so less is asked of blanks than of those of an unknown column:
            # words repeat at least twice as often as whole values, and are fewer.
            words = [word for value in values for word in value.split()]
            n_words, n_values = len(set(words)), len(set(values))
            often = len(words) * n_values >= 2 * len(values) * n_words
            mark = " " if n_values >= _ENOUGH_VALUES and n_words < n_values and often else None
            case, other = ("each value is one tag", ";") if mark else ("blanks separate tags", " ")
            self.reasons["blanks"] = (
                f'If {case}, pass tag_separator="{other}" (on the command line: --tag-separator "{other}")'
            )
        self.asked = replace(self.asked, tags=tags.name, tag_separator=mark)

    def _guessed_tags(self) -> _Column | None:
        """Find the column that lists tags, by its name, else by its values; None if there is none."""
        possible, reason = [column for column in self.free if column.filled], "by its name"
        found = _called(possible, _TAG_NAMES)
        found = [c for c in found if "uris" in c.words] or found  # beside labels
        if len(found) > 1:  # one that lists tags, rather than one with single words or numbers
            found = [column for column in found if column.lists_tags()] or found
        elif not found:
            # Short texts of few words look like lists of tags; what is called a text is none.
            unnamed = [column for column in possible if not column.words & _TEXT_NAMES]
            found, reason = [column for column in unnamed if column.lists_tags()], "its values"
        if len(found) > 1 and not all(column.is_flag for column in found):
            listed = _listed([column.name for column in found])
            raise self._unclear(
                f'{listed} may all list tags. Pass one, as tags="..." (on the command line: --tags)'
            )
        if len(found) != 1:
            return None
        self.reasons["tags"] = reason
        return found[0]

    def _guessed_text(self) -> tuple[str, ...]:
        """Find the column that holds the text, by its name, else as the longest; none if no column does."""
        possible, reason = [column for column in self.free if column.is_text], "by its name"
        found = _called(possible, _TEXT_NAMES)
        if not found and (found := [column for column in possible if column.is_prose()]):
            reason = "longest text" if len(possible) > 1 else "the only text"
        found = found or _called(possible, _SHORT_TEXT_NAMES)
        if not found:
            return ()
        found.sort(key=lambda column: -column.length)
        if len(found) > 1:
            reason = "longest text"
            if found[0].length < 2 * found[1].length:
                listed = _listed([column.name for column in found])
                raise self._unclear(
                    f'{listed} may all be the text. Pass one, as text="...", or several to be joined, as '
                    'text=["...", "..."] (on the command line: --text)'
                )
        self.reasons["text"] = reason
        return (found[0].name,)

    def _no_text(self) -> DatasetFormatError:
        """Return the error for a table without a text and without labels."""
        listed = _listed(self.names)
        if not any(column.is_number for column in self.columns):
            return self._unclear(f'No column of {listed} holds texts, clearly. Pass one, as text="..."')
        flags = [column.is_flag for column in reversed(self.columns)]
        last = flags.index(False) if False in flags else len(flags)
        hint = f". The last {last} columns hold only 0 and 1" if last > 1 else ""
        return self._unclear(
            f"Which columns of {listed} are labels? Pass labels=-n for the last n, labels=[...], or the "
            f'column that lists them as tags="..." (on the command line: --labels, --tags){hint}'
        )

    def _unclear(self, message: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, None, f"{message}.")


def _called(columns: Sequence[_Column], words: frozenset[str]) -> list[_Column]:
    """Return the columns whose name is one of some words, else those whose name has one of them."""
    wholly = [column for column in columns if column.key in words]
    return wholly or [column for column in columns if column.words & words]
