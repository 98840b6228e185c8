"""Names of columns that have none of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload


class NumberedNames(Sequence[str]):
    """The names ``prefix0``, ``prefix1``, ... without storing them.

    Files such as those of the Extreme Classification repository number their features and labels, up to
    millions of them; a tuple of strings would take more memory than the data.

    Parameters
    ----------
    prefix : str
        What comes before the number.
    count : int
        How many names.
    start : int, default=0
        The first number.

    Examples
    --------
    >>> from lrml.datasets import NumberedNames
    >>> names = NumberedNames("label", 1_000_000)
    >>> names[-1], names[:2], len(names)
    ('label999999', ('label0', 'label1'), 1000000)
    """

    def __init__(self, prefix: str, count: int, start: int = 0) -> None:
        self._prefix = prefix
        self._numbers = range(start, start + count)

    @property
    def prefix(self) -> str:
        """What comes before the number."""
        return self._prefix

    @property
    def start(self) -> int:
        """The first number."""
        return self._numbers.start

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(f"{self._prefix}{number}" for number in self._numbers[index])
        return f"{self._prefix}{self._numbers[index]}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumberedNames):
            return NotImplemented
        return (self._prefix, self._numbers) == (other._prefix, other._numbers)

    def __hash__(self) -> int:
        return hash((self._prefix, self._numbers))

    def __repr__(self) -> str:
        numbers = self._numbers
        return f"NumberedNames({self._prefix!r}, {len(numbers)}, start={numbers.start})"
