"""MEKA's way to describe a dataset: options inside the name of the relation."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from lrml.datasets._arff_header import Header
from lrml.datasets._errors import DatasetFormatError

# The last colon that is followed by an option: a name may hold colons itself.
_RELATION = re.compile(rb"(?P<name>.*):\s*+(?P<options>-.*+)", re.DOTALL)
_INTEGER = re.compile(rb"[-+]?+\d{1,18}+")
_PERCENTAGE = re.compile(rb"\d{1,18}+(?:\.\d{0,18}+)?+")
_OPTIONS = frozenset({b"-C", b"-split-number", b"-split-percentage"})


@dataclass(frozen=True)
class MekaHeader:
    """The options of a relation such as ``'Music: -C 6 -split-number 391'``.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    line : int or None
        Line of the relation.
    name : bytes
        What comes before the options.
    options : dict of bytes to bytes
        The values, as they are written, of those options that matter here.
    """

    path: str | os.PathLike[str]
    line: int | None
    name: bytes
    options: dict[bytes, bytes]

    @classmethod
    def of(cls, path: str | os.PathLike[str], header: Header) -> MekaHeader:
        """Read the relation of a header; without options it is all name."""
        match = _RELATION.fullmatch(header.relation)
        if match is None:
            return cls(path, header.line, header.relation, {})
        words = match["options"].split()
        options: dict[bytes, bytes] = {}
        for option, value in zip(words, [*words[1:], b""], strict=True):
            if option in _OPTIONS:
                if option in options:
                    rule = "an option of MEKA's header must be given once"
                    raise DatasetFormatError.at(path, header.line, rule, option, "Delete one of the two.")
                options[option] = value
        return cls(path, header.line, match["name"], options)

    @property
    def n_labels(self) -> int | None:
        """Value of ``-C``: how many attributes are labels, at the beginning, or if negative at the end."""
        value = self.options.get(b"-C")
        return None if value is None else self._integer(b"-C", value)

    def decoded_name(self) -> str:
        """Return the name as text."""
        try:
            return self.name.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._error(
                "the name of the relation must be UTF-8 text", self.name, "Save the file in that encoding."
            ) from error

    def n_train(self, n: int) -> int | None:
        """Return how many of `n` rows are the training set; None if there is no split."""
        number, percentage = self.options.get(b"-split-number"), self.options.get(b"-split-percentage")
        if number is not None and percentage is not None:
            rule = "MEKA's header must have one of -split-number and -split-percentage"
            raise self._error(rule, "both", "Delete one of the two.")
        if number is not None:
            written, n_train = number, self._integer(b"-split-number", number)
        elif percentage is not None:
            if _PERCENTAGE.fullmatch(percentage) is None:
                rule = "-split-percentage must be a number between 0 and 100"
                raise self._error(rule, percentage, "Correct the @relation line.")
            # MEKA rounds halves up, and so in favour of the training set.
            written, n_train = percentage, math.floor(n * (float(percentage) / 100) + 0.5)
        else:
            return None
        if not 0 < n_train < n:
            rule = f"the split of MEKA's header must leave training and test rows, of {n} in all"
            raise self._error(rule, written, "Correct the @relation line, or delete the option there.")
        return n_train

    def _integer(self, option: bytes, value: bytes) -> int:
        if _INTEGER.fullmatch(value) is None:
            rule = f"{option.decode()} of MEKA's header must be an integer"
            raise self._error(rule, value, "Correct the @relation line.")
        return int(value)

    def _error(self, rule: str, got: object, remedy: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, self.line, rule, got, remedy)
