"""The label file of a Mulan dataset: a short XML list of attribute names."""

from __future__ import annotations

import os
from pathlib import Path
from xml.parsers import expat

from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._lines import check_is_file


def read_label_names(path: str | os.PathLike[str]) -> list[str]:
    """Read the names of the labels from a Mulan XML file.

    Nested labels (a hierarchy) are read as a flat list. A file with a document type declaration is
    rejected before anything in it is expanded or opened, so neither entity bombs nor external entities
    can do harm.

    Parameters
    ----------
    path : path-like
        The XML file.

    Returns
    -------
    list of str
        Names in the order of the file.

    Raises
    ------
    DatasetFormatError
        If the file is not such a list.
    FileNotFoundError
        If there is no such file.
    """
    check_is_file(path, "the XML file with the labels")
    collector = _LabelCollector(path)
    try:
        collector.parser.Parse(Path(path).read_bytes(), True)
    except DatasetFormatError:
        raise
    except expat.ExpatError as error:
        raise DatasetFormatError.at(
            path, error.lineno, "the label file must be well-formed XML", str(error), _REMEDY
        ) from error
    except (ValueError, LookupError) as error:  # how expat reports an encoding that it cannot decode
        raise DatasetFormatError.at(
            path, None, "the label file must be UTF-8 text", str(error), _REMEDY
        ) from error
    if not collector.names:
        raise DatasetFormatError.at(path, None, "the label file must name at least one label", 0, _REMEDY)
    return collector.names


_REMEDY = 'Write <labels><label name="..."></label>...</labels>, as Mulan does.'


class _LabelCollector:
    """Expat handlers that gather label names and refuse everything dangerous."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.names: list[str] = []
        self._depth = 0
        self._seen: set[str] = set()
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _error(self, rule: str, got: object, remedy: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, self.parser.CurrentLineNumber, rule, got, remedy)

    def _doctype(self, name: str, *_: object) -> None:
        # Entities can only be declared inside a DOCTYPE, and a Mulan file has no use for one.
        raise self._error(
            "a label file must not declare a document type or entities",
            f"<!DOCTYPE {name}",
            "Delete the declaration; it is not part of Mulan's format.",
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = tag.rpartition(" ")[2]  # the namespace comes first, if there is one
        expected = "label" if self._depth else "labels"
        if element != expected:
            raise self._error(f"a <{expected}> element must stand here", f"<{element}>", _REMEDY)
        self._depth += 1
        if element == "labels":
            return
        name = attributes.get("name")
        if not name:
            raise self._error("each <label> must have a name", name, _REMEDY)
        if name in self._seen:
            raise self._error("each label must be listed once", name, "Delete one of the two.")
        self._seen.add(name)
        self.names.append(name)

    def _end(self, _tag: str) -> None:
        self._depth -= 1
