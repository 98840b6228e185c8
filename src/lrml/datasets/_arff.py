"""Reader of Mulan datasets: an ARFF file with the data, an XML file that says which attributes are labels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lrml.datasets._arff_header import Attribute, read_header, unescape
from lrml.datasets._arff_rows import DenseRows, Layout, RowReader, SparseRows
from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._labels_xml import read_label_names
from lrml.datasets._lines import Row, chunks, numbered_lines, stem
from lrml.datasets._record import FeatureMatrix, LabelMatrix, MultiLabelDataset


def read_arff(
    path: str | os.PathLike[str], xml: str | os.PathLike[str], *, name: str | None = None
) -> MultiLabelDataset:
    r"""Read a Mulan dataset from an ARFF file and an XML file.

    Numeric attributes and nominal ones with the values ``{0,1}`` are read. A sparse file (rows such as
    ``{3 1,17 0.5}``) gives sparse matrices and is never made dense on the way; a dense file gives arrays.

    Parameters
    ----------
    path : path-like
        The ARFF file, in UTF-8. It is read line by line.
    xml : path-like
        The XML file that lists the names of the labels.
    name : str, default=None
        Name of the dataset; None takes the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset, without a split. Two files that are a training and a test set are joined by
        :meth:`MultiLabelDataset.from_split`.

    Raises
    ------
    DatasetFormatError
        If one of the files breaks a rule of its format. The message names the line. Missing values
        (``?``), string and date attributes, and instance weights are not supported.

    Notes
    -----
    The labels are in the order of the *ARFF* file. Mulan's XML files may list them otherwise: yeast.xml
    has Class1, Class2, Class3, Class6, Class4, ... The XML file only says which attributes are labels.

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
    listed = read_label_names(xml)
    lines = _significant_lines(path)
    attributes = read_header(path, lines)
    is_label = _find_labels(path, xml, attributes, listed)
    nominal = np.array([attribute.domain is not None for attribute in attributes])
    names = tuple(attribute.name for attribute in attributes)
    X, Y = _read_rows(Layout(path, names, is_label, nominal | is_label), attributes, lines)
    return MultiLabelDataset(
        name=stem(path) if name is None else name,
        X=X,
        Y=Y,
        feature_names=tuple(compress(names, ~is_label)),
        label_names=tuple(compress(names, is_label)),
        provenance=f"{Path(path).name} with the labels of {Path(xml).name}",
    )


def _significant_lines(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Leave out comments and blank lines."""
    for number, line in numbered_lines(path):
        text = line.strip()
        if text and not text.startswith(b"%"):
            yield number, text


def _find_labels(
    path: str | os.PathLike[str],
    xml: str | os.PathLike[str],
    attributes: list[Attribute],
    listed: list[str],
) -> NDArray[np.bool_]:
    """Say of each attribute whether the XML file lists it as a label."""
    names = {attribute.name for attribute in attributes}
    # An XML file may repeat a name as it is written inside quotes in the ARFF file, with its escapes.
    labels = {label if label in names else unescape(label) for label in listed}
    missing = sorted(labels - names)
    if missing:
        raise DatasetFormatError.at(
            xml,
            None,
            f"each label must be an attribute of {os.fspath(path)}",
            missing[0],
            f"{len(missing)} of {len(listed)} labels are not; check that the two files belong together.",
        )
    if labels == names:
        raise DatasetFormatError.at(
            xml,
            None,
            f"some attribute of {os.fspath(path)} must be a feature, so not be listed as a label",
            f"{len(listed)} labels and no feature",
            "List only the labels.",
        )
    return np.array([attribute.name in labels for attribute in attributes])


def _read_rows(
    layout: Layout, attributes: list[Attribute], lines: Iterator[Row]
) -> tuple[FeatureMatrix, LabelMatrix]:
    """Read the data section; its first row decides whether it is sparse or dense."""
    first = next(lines, None)
    if first is None:
        raise DatasetFormatError.at(
            layout.path, None, "the data section must have a row", "none", "Check that the file is complete."
        )
    sparse = first[1].startswith(b"{")
    if sparse:
        _check_defaults(layout.path, attributes)
    reader: RowReader = SparseRows(layout) if sparse else DenseRows(layout)
    for rows in chunks(chain([first], lines)):
        reader.add(rows)
    return reader.finish()


def _check_defaults(path: str | os.PathLike[str], attributes: list[Attribute]) -> None:
    """Refuse nominal attributes whose omitted value would be 1."""
    for attribute in attributes:
        if attribute.domain is not None and attribute.domain[0] != "0":
            raise DatasetFormatError.at(
                path,
                attribute.line,
                f"{attribute.name!r} must declare 0 first, as an omitted value of a sparse row means the "
                "first value declared",
                f"{{{','.join(attribute.domain)}}}",
                "Declare {0,1} if omitted values are meant to be 0.",
            )
