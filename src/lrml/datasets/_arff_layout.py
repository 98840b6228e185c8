"""Which attribute of an ARFF file becomes which columns, and what its values may be."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lrml._shown import shown
from lrml.datasets._arff_header import Attribute
from lrml.datasets._arff_words import NUMBER_PATTERN, Word
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import LONGEST_LINE

# Two-valued labels that are not 0 and 1: what says no, and what says yes.
_YES_OF_NO = {"false": "true", "no": "yes", "n": "y", "f": "t"}


class Layout:
    """The plan of reading the rows of one file.

    A numeric attribute, a label, and a nominal attribute whose values are 0 and 1 are one column each. Any
    other nominal attribute of k values is k-1 columns of 0 and 1, one for each value but the first declared
    one; while rows are read it is one number, the place of its value in the declaration.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    attributes : tuple of Attribute
        All attributes in file order.
    is_label : ndarray of bool
        Which of them are labels.

    Attributes
    ----------
    words : dict of int to dict of bytes or None to float
        For each attribute that is read by its words, not as a number: the number of each word.
    is_nominal : ndarray of bool
        Which attributes are such places in a declaration.
    first, span : ndarray of int
        First column of an attribute, counted among features or labels, and how many columns it has.
    feature_names, label_names : tuple of str
        Names of the columns.
    """

    def __init__(
        self, path: str | os.PathLike[str], attributes: tuple[Attribute, ...], is_label: NDArray[np.bool_]
    ) -> None:
        self.path, self.attributes, self.is_label = path, attributes, is_label
        self.words: dict[int, dict[Word, float]] = {}
        self.is_nominal = np.zeros(len(attributes), dtype=np.bool_)
        self.span = np.ones(len(attributes), dtype=np.int64)
        self._allowed = np.full((2, len(attributes)), np.nan)  # NaN: any finite number
        for index, attribute in enumerate(attributes):
            self._plan(index, attribute)
        self._is_restricted = ~np.isnan(self._allowed[0])
        ends = np.where(is_label, np.cumsum(self.span * is_label), np.cumsum(self.span * ~is_label))
        self.first = ends - self.span
        self.label_names = tuple(a.name for a, label in zip(attributes, is_label, strict=True) if label)
        self.feature_names = self._name_features()

    def _plan(self, index: int, attribute: Attribute) -> None:
        """Decide how one attribute is read."""
        domain, label = attribute.domain, bool(self.is_label[index])
        if domain is None:
            if label:
                self._allowed[:, index] = 0, 1
        elif attribute.is_binary:
            self._allowed[:, index] = float(domain[0]), float(domain[-1])
        elif label:
            yes = self._positive_value(attribute)
            self.words[index] = {None: np.nan} | {value.encode(): float(value == yes) for value in domain}
        else:
            places = {value.encode(): float(place) for place, value in enumerate(domain)}
            self.words[index] = {None: np.nan} | places
            self.is_nominal[index] = True
            self.span[index] = len(domain) - 1

    def _positive_value(self, attribute: Attribute) -> str:
        """Return which of two values says that a label applies."""
        domain = attribute.domain or ()
        for no, yes in (domain, domain[::-1]) if len(domain) == 2 else ():
            if _YES_OF_NO.get(no.lower()) == yes.lower():
                return yes
        raise self.error(
            attribute.line,
            f"label {shown(attribute.name)} must be numeric or have two values, such as {{0,1}} or "
            "{false,true}",
            f"{{{','.join(domain[:9])}}}",
            "Targets of several values are not supported: encode each value as a label of its own.",
        )

    def _name_features(self) -> tuple[str, ...]:
        """Name the columns of the features; those of a nominal attribute are ``attribute=value``."""
        size = 0
        names: list[str] = []
        taken = {attribute.name for attribute in self.attributes} if self.is_nominal.any() else set()
        for index in np.flatnonzero(~self.is_label):
            attribute = self.attributes[index]
            if not self.is_nominal[index]:
                names.append(attribute.name)
                continue
            # A long name times many values could fill the memory.
            size += int(self.span[index]) * len(attribute.name)
            if size > LONGEST_LINE:
                rule = f"the names of nominal columns must not take more than {LONGEST_LINE} bytes"
                remedy = "Shorten the name of the attribute, or drop it."
                raise self.error(attribute.line, rule, size, remedy)
            for value in (attribute.domain or ())[1:]:
                name = f"{attribute.name}={value}"
                if name in taken:
                    rule = "the column attribute=value of a nominal attribute must have a name of its own"
                    raise self.error(attribute.line, rule, name, "Rename one of the two attributes.")
                taken.add(name)
                names.append(name)
        if not names:
            raise DatasetFormatError.at(
                self.path,
                None,
                "some attribute must be a feature that can take two values",
                Words("none"),
                "Check the declarations.",
            )
        return tuple(names)

    @property
    def ones_allowed(self) -> bool:
        """Whether each attribute is a number that may be 1."""
        return not self.words and not np.any(self._allowed[1] == 0)

    def check_defaults(self) -> None:
        """Refuse attributes whose omitted value, in a sparse row, would be 1 where 0 is meant."""
        for index, attribute in enumerate(self.attributes):
            if attribute.domain is None or self.is_nominal[index]:
                continue
            no = next((value for value in attribute.domain if value.lower() in {"0", *_YES_OF_NO}), "0")
            if attribute.domain[0] != no:
                raise self.error(
                    attribute.line,
                    f"{shown(attribute.name)} must declare {no} first, as an omitted value of a sparse row "
                    "means the first value declared",
                    f"{{{','.join(attribute.domain)}}}",
                    f"Swap the values if omitted ones are meant to be {no}.",
                )

    def read(self, line: int, index: int, word: Word) -> float:
        """Return the number of a word: its value, its place in the declaration, or NaN if it is missing."""
        if word is None:
            return np.nan
        words = self.words.get(index)
        if words is None:
            if NUMBER_PATTERN.fullmatch(word) is None:
                remedy = "Write numbers such as 1, -0.5 or 2e-3, and ? for a missing value."
                raise self.error(line, "a value must be a finite number", word, remedy)
            return float(word)
        number = words.get(word)
        if number is None:
            name, domain = self.attributes[index].name, self.attributes[index].domain or ()
            rule = f"attribute {shown(name)} must have one of its {len(domain)} declared values"
            raise self.error(line, rule, word, "Correct the value, or declare it.")
        return number

    def read_column(self, index: int, words: Sequence[Word]) -> list[float] | None:
        """Do what `read` does for many words of one attribute, faster; None if one of them is wrong."""
        table = self.words.get(index)
        try:
            if table is not None:
                return [table[word] for word in words]
            # Of these characters float makes a number exactly if it is one by the rules of ARFF.
            joined = b"".join([word for word in words if word is not None])
            if joined.translate(None, b"0123456789+-.eE"):
                return None
            return [np.nan if word is None else float(word) for word in words]
        except (KeyError, ValueError):
            return None

    def is_wrong(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which numbers are not finite, or not 0 or 1 where they have to be."""
        low, high = self._allowed[0][indices], self._allowed[1][indices]
        not_allowed: NDArray[np.bool_] = self._is_restricted[indices] & (values != low) & (values != high)
        return not_allowed | ~np.isfinite(values)

    def wrong_value(self, line: int, index: int, value: float) -> DatasetFormatError:
        """Build the error for a number that `is_wrong` has found."""
        if self._is_restricted[index]:
            rule = " or ".join(f"{number:.0f}" for number in np.unique(self._allowed[:, index]))
        else:
            rule = "finite"
        name = self.attributes[index].name
        return self.error(line, f"attribute {shown(name)} must be {rule}", value, "Correct the value.")

    def mixed(self, line: int, text: bytes) -> DatasetFormatError:
        """Build the error for a dense row in a sparse file, or the other way round."""
        rule = "all rows must be of one kind, sparse {index value, ...} or dense"
        return self.error(line, rule, text, "Convert the file to one of the two.")

    def weighted(self, line: int, weight: bytes) -> DatasetFormatError:
        """Build the error for a row that is followed by a weight."""
        remedy = "Instance weights are not supported: delete them, or repeat rows."
        return self.error(line, "a row must not have a weight", weight, remedy)

    def error(self, line: int, rule: str, got: object, remedy: str) -> DatasetFormatError:
        """Build an error about a line of the file."""
        return DatasetFormatError.at(self.path, line, rule, got, remedy)
