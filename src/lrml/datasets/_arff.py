"""Reader of multi-label ARFF files: the labels are given by Mulan's XML file, MEKA's header or by hand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml.datasets._arff_header import read_header
from lrml.datasets._arff_labels import (
    check_label_arguments,
    labels_of_argument,
    labels_of_meka,
    labels_of_xml,
)
from lrml.datasets._arff_layout import Layout
from lrml.datasets._arff_meka import MekaHeader
from lrml.datasets._arff_rows import DenseRows, Matrices, RowReader
from lrml.datasets._arff_sparse import SparseRows
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._labels_xml import read_label_names
from lrml.datasets._lines import Row, chunks, numbered_lines, stem
from lrml.datasets._record import MultiLabelDataset


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
    given = check_label_arguments(xml, labels, label_order)
    listed = None if xml is None else read_label_names(xml)
    lines = _significant_lines(path)
    header = read_header(path, lines)
    meka = MekaHeader.of(path, header)
    if xml is not None and listed is not None:
        choice = labels_of_xml(path, xml, header.attributes, listed, label_order)
    elif given is not None:
        choice = labels_of_argument(path, header.attributes, given)
    else:
        choice = labels_of_meka(path, header.attributes, meka)
    if name is None and b"-C" in meka.options:
        name = meka.decoded_name()
    layout = Layout(path, header.attributes, choice.is_label)
    X, Y, unknown = _read_rows(layout, lines)
    label_names = layout.label_names
    if choice.order is not None:
        label_names = tuple(label_names[column] for column in choice.order)
        Y = _reordered(Y, choice.order)
        unknown = None if unknown is None else _reordered(unknown, choice.order)
    return MultiLabelDataset(
        name=stem(path) if name is None else name,
        X=X,
        Y=Y,
        feature_names=layout.feature_names,
        label_names=label_names,
        n_train=meka.n_train(X.shape[0]),
        provenance=f"{Path(path).name} with the {choice.source}",
        unknown=unknown,
    )


def _significant_lines(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Leave out comments and blank lines."""
    for number, line in numbered_lines(path):
        text = line.strip()
        if text and not text.startswith(b"%"):
            yield number, text


def _read_rows(layout: Layout, lines: Iterator[Row]) -> Matrices:
    """Read the data section; its first row decides whether it is sparse or dense."""
    first = next(lines, None)
    if first is None:
        raise DatasetFormatError.at(
            layout.path,
            None,
            "the data section must have a row",
            Words("none"),
            "Check that the file is complete.",
        )
    reader: RowReader = SparseRows(layout) if first[1].startswith(b"{") else DenseRows(layout)
    for rows in chunks(chain([first], lines)):
        reader.add(rows)
    return reader.finish()


def _reordered(matrix: Any, order: NDArray[np.int64]) -> Any:
    """Return the columns in another order."""
    result = matrix[:, order]
    if isinstance(result, sparse.csr_array):
        result.sort_indices()
    return result
