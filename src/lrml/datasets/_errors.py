"""Errors of the dataset readers: where, which rule, what was found, what to do."""

from __future__ import annotations

import os

from lrml._shown import shortened, shown


class Words(str):
    """What was found, in words of this library: an error message shows them without quotes."""


class DatasetFormatError(ValueError):
    """A data file breaks a rule of its format.

    The message names the file, the line where there is one, the rule, the offending value and a remedy.
    """

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], line: int | None, rule: str, got: object, remedy: str
    ) -> DatasetFormatError:
        """Build the error in the one wording that all readers share.

        Parameters
        ----------
        path : path-like
            The file being read.
        line : int or None
            The line, counted from 1; None if the rule concerns the whole file.
        rule : str
            What the format asks for, without a full stop.
        got : object
            What was found; its ``repr``, or `Words` as they are, is shortened to fit on a line.
        remedy : str
            What the user can do, as a sentence.

        Returns
        -------
        DatasetFormatError
            The error, to be raised by the caller.
        """
        place = os.fspath(path) if line is None else f"{os.fspath(path)}, line {line}"
        text = shortened(got) if isinstance(got, Words) else shown(got)
        return cls(f"{place}: {rule}, got {text}. {remedy}")


class ChecksumError(DatasetFormatError):
    """A file is not, byte for byte, the file that the registry names."""


class DownloadError(OSError):
    """A file cannot be downloaded, or what was sent is not the file.

    The message names the rule, the value received and a remedy, and ends with how to do without a download.
    """
