"""Reader of multi-label ARFF files: the labels are given by Mulan's XML file, MEKA's header or by hand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

import numpy as np
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._formats import check_is_file, stem
from lrml.datasets._lines import Row, chunks, numbered_lines
from lrml.datasets._record import Block, MultiLabelDataset
from lrml.datasets.arff._header import Header, read_header, unescape
from lrml.datasets.arff._rows import DenseRows, Layout, Matrices, SparseRows

_XML_REMEDY = 'Write <labels><label name="..."></label>...</labels>, as Mulan does.'


def read_arff(
    path: str | os.PathLike[str],
    xml: str | os.PathLike[str] | None = None,
    *,
    labels: Iterable[str] | int | None = None,
    label_order: Literal["arff", "xml"] = "arff",
    name: str | None = None,
) -> MultiLabelDataset:
    r"""Read a multi-label dataset from an ARFF file, in the manner of Mulan or of MEKA.

    A sparse file (rows such as ``{3 1,17 0.5}``) gives sparse matrices and is never made dense on the way;
    a dense file gives arrays.

    Parameters
    ----------
    path : path-like
        The ARFF file, in UTF-8, plain or compressed (``.gz``, ``.bz2``, ``.xz``). It is read line by line.
    xml : path-like, default=None
        Mulan's XML file, which lists the names of the labels.
    labels : iterable of str, or int, default=None
        The labels, if there is no such file: names of attributes, or their number by MEKA's rule (n > 0:
        the first n attributes, n < 0: the last \|n\|). If neither `xml` nor `labels` is given, the header
        must be one of MEKA, see Notes.
    label_order : {"arff", "xml"}, default="arff"
        Order of the labels. Mulan's XML files may list them in another order than the ARFF file: yeast.xml
        has Class1, Class2, Class3, Class6, Class4, ...
    name : str, default=None
        Name of the dataset; None takes the name in MEKA's header (one with ``-C``) if there is one, or else
        the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset. It has a split only if MEKA's header gives one; two files that are a training and a
        test set are joined by :meth:`MultiLabelDataset.from_split`.

    Raises
    ------
    DatasetFormatError
        If one of the files breaks a rule of its format. The message names the line. String, date and
        relational attributes, and instance weights, are not supported.

    See Also
    --------
    lrml.datasets.write_arff : The way back.

    Notes
    -----
    **Features.** A numeric attribute, and a nominal one whose values are 0 and 1, is one column. Any other
    nominal attribute of k values becomes k-1 columns of 0 and 1, named ``attribute=value``, for all values
    but the first declared one, which is the baseline (treatment coding). This agrees with sparse files,
    where an omitted entry means the first declared value.

    **Labels** are numbers 0 and 1, or nominal with those values, or with two values such as ``{false,true}``,
    ``{no,yes}``, ``{f,t}`` or ``{n,y}``, in any order and case. In a sparse file what means 0 must be
    declared first.

    **Missing values** (``?``) are NaN in `X`, in all columns of their attribute; a sparse `X` stores them.
    A missing label is 0 in `Y` and True in `unknown`.

    **MEKA's header** has options after the name of the relation: in
    ``@relation 'Music: -C 6 -split-number 391'`` the first 6 attributes are labels (with ``-C -6`` the last
    6), and the first 391 rows are the training set. ``-split-percentage 67`` is understood as well; halves
    of a row are rounded up, as MEKA does. The split is used, and must be valid, even if `xml` or `labels`
    overrule ``-C``. Other options are ignored.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import read_arff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arff, xml = pathlib.Path(folder, "toy.arff"), pathlib.Path(folder, "toy.xml")
    ...     _ = arff.write_text("@attribute size numeric\n@attribute red {0,1}\n@data\n{0 2.5,1 1}\n{0 4}\n")
    ...     _ = xml.write_text('<labels><label name="red"/></labels>')
    ...     toy = read_arff(arff, xml)
    >>> toy
    <MultiLabelDataset toy: X (2, 1) sparse, Y (2, 1) sparse, no split>
    >>> toy.X.toarray()
    array([[2.5],
           [4. ]])
    """
    lines = _significant_lines(path)
    plan = _Plan(path, lines, xml, labels, label_order)
    X, Y, unknown = next(_read_rows(plan.layout, *_first_row(plan.layout, lines)))
    name = plan.header.meka_name if name is None else name
    return MultiLabelDataset(
        name=stem(path) if name is None else name,
        X=X,
        Y=plan.in_order(Y),
        feature_names=plan.layout.feature_names,
        label_names=plan.label_names,
        n_train=plan.header.n_train(X.shape[0]),
        provenance=f"{Path(path).name} with the {plan.source}",
        unknown=plan.in_order(unknown),
    )


def arff_blocks(
    path: str | os.PathLike[str],
    rows: int,
    *,
    xml: str | os.PathLike[str] | None = None,
    labels: Iterable[str] | int | None = None,
    label_order: Literal["arff", "xml"] = "arff",
    labelled: bool = True,
    skip: int = 0,
) -> Generator[Block, None, int]:
    """Read an ARFF file block by block; see `iter_blocks`."""
    lines = _significant_lines(path)
    plan = _Plan(path, lines, xml, labels, label_order, labels_needed=False, missing_allowed=not labelled)
    names = plan.label_names if labelled and plan.label_names else None
    first, lines = _first_row(plan.layout, lines)
    first_row = sum(1 for _ in islice(lines, skip))
    for X, Y, unknown in _read_rows(plan.layout, first, lines, rows):
        targets = None if names is None else plan.in_order(Y)
        marks = None if names is None else plan.in_order(unknown)
        yield Block(X, targets, plan.layout.feature_names, names, first_row, marks)
        first_row += X.shape[0]
    return first_row


def says_split(path: str | os.PathLike[str]) -> bool:
    """Whether the header, as MEKA writes it, says that some rows are a test set."""
    options = read_header(path, _significant_lines(path)).options
    return b"-split-number" in options or b"-split-percentage" in options


class _Plan:
    """The header of a file, which of its attributes are labels and in which order, and who said so."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        lines: Iterator[Row],
        xml: str | os.PathLike[str] | None,
        labels: Iterable[str] | int | None,
        label_order: str,
        labels_needed: bool = True,
        missing_allowed: bool = False,
    ) -> None:
        given = _check_label_arguments(xml, labels, label_order)
        listed = None if xml is None else _read_label_names(xml)
        self.header = header = read_header(path, lines)
        if missing_allowed:  # labels that are left out anyway
            names = {attribute.name for attribute in header.attributes}
            listed = None if listed is None else [name for name in listed if {name, unescape(name)} & names]
            given = [name for name in given if name in names] if isinstance(given, list) else given
        if xml is not None and listed is not None:
            chosen, self.source = _names_of_xml(header, xml, listed), f"labels of {Path(xml).name}"
        elif isinstance(given, list):
            chosen, self.source = given, "labels by name"
            _check_label_names(header, path, given, "check the spelling in labels")
        elif not labels_needed and given is None and header.n_labels is None:
            chosen, self.source = [], "attributes alone"
        else:
            chosen, self.source = _names_by_position(header, given)
        known = set(chosen)
        is_label = np.array([attribute.name in known for attribute in header.attributes])
        self.layout = Layout(path, header.attributes, is_label)
        self.label_names, self._order = tuple(self.layout.label_names), None
        if label_order == "xml":
            column = {label: place for place, label in enumerate(self.label_names)}
            self.label_names = tuple(chosen)
            self._order = np.array([column[label] for label in chosen])

    def in_order(self, matrix: Any) -> Any:
        """Return the columns of labels in the order wanted."""
        if matrix is None or self._order is None:
            return matrix
        result = matrix[:, self._order]
        if isinstance(result, sparse.csr_array):
            result.sort_indices()
        return result


def _significant_lines(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Leave out comments and blank lines."""
    for number, line in numbered_lines(path):
        text = line.strip()
        if text and not text.startswith(b"%"):
            yield number, text


def _first_row(layout: Layout, lines: Iterator[Row]) -> tuple[Row, Iterator[Row]]:
    """Return the first row of the data section, and all rows."""
    first = next(lines, None)
    if first is None:
        rule, remedy = "the data section must have a row", "Check that the file is complete."
        raise layout.error(None, rule, Words("none"), remedy)
    return first, chain([first], lines)


def _read_rows(
    layout: Layout, first: Row, lines: Iterator[Row], rows: int | None = None
) -> Iterator[Matrices]:
    """Yield rows, all or so many at a time; the first of the file decides whether they are sparse."""
    kind = SparseRows if first[1].startswith(b"{") else DenseRows
    while True:
        reader, empty = kind(layout), True
        for some in chunks(islice(lines, rows)):
            reader.add(some)
            empty = False
        if empty:
            return
        yield reader.finish()


# Which attributes are labels.


def _check_label_arguments(
    xml: str | os.PathLike[str] | None, labels: Iterable[str] | int | None, label_order: str
) -> list[str] | int | None:
    """Refuse arguments that are wrong for any files; return `labels`."""
    if xml is not None and labels is not None:
        raise ValueError(
            f"the labels must be given in one way, got both xml={os.fspath(xml)!r} and "
            f"labels={shown(labels)}. Pass one of them."
        )
    if label_order not in ("arff", "xml"):
        raise ValueError(f'label_order must be "arff" or "xml", got {label_order!r}. Choose one of them.')
    if label_order == "xml" and xml is None:
        raise ValueError('label_order="xml" needs an XML file, got xml=None. Pass one, or leave "arff".')
    if labels is None:
        return None
    if isinstance(labels, int | np.integer) and not isinstance(labels, bool) and labels != 0:
        return int(labels)
    names = list(labels) if isinstance(labels, Iterable) and not isinstance(labels, str | bytes) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            "labels must be names of attributes, or a number of attributes (n > 0 for the first, n < 0 for "
            f"the last of them), got {shown(labels)}. Pass a list such as ['red', 'round']."
        )
    if len(set(names)) != len(names):
        raise ValueError(
            f"labels must name each attribute once, got {shown(labels)}. Delete the repeated name."
        )
    return names


def _names_of_xml(header: Header, xml: str | os.PathLike[str], listed: list[str]) -> list[str]:
    """Return the attributes that an XML file lists."""
    names = {attribute.name for attribute in header.attributes}
    # An XML file may repeat a name as it is written inside quotes in the ARFF file, with its escapes.
    labels = [label if label in names else unescape(label) for label in listed]
    _check_label_names(header, xml, labels, "check that the two files belong together")
    if len(set(labels)) != len(labels):
        twice = Counter(labels).most_common(1)[0][0]
        rule = "each label must be listed once"
        raise DatasetFormatError.at(xml, None, rule, twice, "Delete one of the two.")
    return labels


def _check_label_names(
    header: Header, source: str | os.PathLike[str], labels: list[str], remedy: str
) -> None:
    """Refuse names that are not attributes, and a choice that leaves no feature."""
    names = {attribute.name for attribute in header.attributes}
    missing = sorted(set(labels) - names)
    if missing:
        rule = f"each label must be an attribute of {os.fspath(header.path)}"
        remedy = f"{len(missing)} of {len(labels)} labels are not; {remedy}."
        raise DatasetFormatError.at(source, None, rule, missing[0], remedy)
    if len(set(labels)) == len(names):
        rule = f"some attribute of {os.fspath(header.path)} must be a feature, so not be listed as a label"
        got = Words(f"{len(labels)} labels and no feature")
        raise DatasetFormatError.at(source, None, rule, got, "List only the labels.")


def _names_by_position(header: Header, given: int | None) -> tuple[list[str], str]:
    """Apply MEKA's rule: n > 0 are the first n attributes, n < 0 the last; return names and their source."""
    count = header.n_labels if given is None else given
    line = header.line if given is None else None
    if count is None:
        rule = (
            "the labels must be given: by xml, Mulan's list of labels; by labels, their names or number; or "
            "by MEKA's header (@relation 'name: -C 6')"
        )
        raise DatasetFormatError.at(header.path, line, rule, Words("none of them"), "Give xml or labels.")
    n = len(header.attributes)
    if not 0 < abs(count) < n:
        rule = (
            f"the number of labels must be at least 1 and below {n}, the number of attributes, with a minus "
            "if they come last"
        )
        raise DatasetFormatError.at(header.path, line, rule, count, "Correct it.")
    chosen = header.attributes[:count] if count > 0 else header.attributes[count:]
    source = "labels of its MEKA header" if given is None else f"{abs(count)} labels by position"
    return [attribute.name for attribute in chosen], source


def _read_label_names(path: str | os.PathLike[str]) -> list[str]:
    """Read the names of the labels from a Mulan XML file, in its order; a hierarchy becomes a flat list."""
    check_is_file(path, "the XML file with the labels")
    collector = _LabelCollector(path)
    try:
        collector.parser.Parse(Path(path).read_bytes(), True)
    except DatasetFormatError:
        raise
    except expat.ExpatError as error:
        rule = "the label file must be well-formed XML"
        raise DatasetFormatError.at(path, error.lineno, rule, str(error), _XML_REMEDY) from error
    except (ValueError, LookupError) as error:  # how expat reports an encoding that it cannot decode
        rule = "the label file must be UTF-8 text"
        raise DatasetFormatError.at(path, None, rule, str(error), _XML_REMEDY) from error
    if not collector.names:
        rule = "the label file must name at least one label"
        raise DatasetFormatError.at(path, None, rule, 0, _XML_REMEDY)
    return list(collector.names)


class _LabelCollector:
    """Expat handlers that gather label names.

    A document type is refused before anything in it is expanded or opened, so neither entity bombs nor
    external entities can do harm.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.names: dict[str, None] = {}
        self._path = path
        self._depth = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _error(self, rule: str, got: object, remedy: str = _XML_REMEDY) -> DatasetFormatError:
        return DatasetFormatError.at(self._path, self.parser.CurrentLineNumber, rule, got, remedy)

    def _doctype(self, name: str, *_: object) -> None:
        # Entities can only be declared inside a DOCTYPE, and a Mulan file has no use for one.
        rule = "a label file must not declare a document type or entities"
        remedy = "Delete the declaration; it is not part of Mulan's format."
        raise self._error(rule, f"<!DOCTYPE {name}", remedy)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = tag.rpartition(" ")[2]  # the namespace comes first, if there is one
        expected = "label" if self._depth else "labels"
        if element != expected:
            raise self._error(f"a <{expected}> element must stand here", f"<{element}>")
        self._depth += 1
        if element == "labels":
            return
        name = attributes.get("name")
        if not name:
            raise self._error("each <label> must have a name", name)
        if name in self.names:
            raise self._error("each label must be listed once", name, "Delete one of the two.")
        self.names[name] = None

    def _end(self, _tag: str) -> None:
        self._depth -= 1
