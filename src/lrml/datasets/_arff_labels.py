"""Which attributes of an ARFF file are labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lrml._shown import shown
from lrml.datasets._arff_header import Attribute
from lrml.datasets._arff_meka import MekaHeader
from lrml.datasets._arff_words import unescape
from lrml.datasets._errors import DatasetFormatError, Words


@dataclass(frozen=True, eq=False)
class LabelChoice:
    """The attributes that are labels.

    Parameters
    ----------
    is_label : ndarray of bool
        Whether an attribute is a label.
    source : str
        Who says so, for people to read.
    order : ndarray of int or None, default=None
        Columns of Y, counted in file order, in the order that was asked for; None keeps the file order.
    """

    is_label: NDArray[np.bool_]
    source: str
    order: NDArray[np.int64] | None = None


def check_label_arguments(
    xml: str | os.PathLike[str] | None, labels: Iterable[str] | int | None, label_order: str
) -> tuple[str, ...] | int | None:
    """Refuse arguments of `read_arff` that are wrong whatever the files hold; return `labels`."""
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
    names = tuple(labels) if isinstance(labels, Iterable) and not isinstance(labels, str | bytes) else ()
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


def labels_of_xml(
    path: str | os.PathLike[str],
    xml: str | os.PathLike[str],
    attributes: Sequence[Attribute],
    listed: list[str],
    label_order: str,
) -> LabelChoice:
    """Choose the attributes that an XML file lists."""
    names = {attribute.name for attribute in attributes}
    # An XML file may repeat a name as it is written inside quotes in the ARFF file, with its escapes.
    labels = [label if label in names else unescape(label) for label in listed]
    missing = sorted(set(labels) - names)
    if missing:
        raise DatasetFormatError.at(
            xml,
            None,
            f"each label must be an attribute of {os.fspath(path)}",
            missing[0],
            f"{len(missing)} of {len(listed)} labels are not; check that the two files belong together.",
        )
    if len(set(labels)) != len(labels):
        twice = Counter(labels).most_common(1)[0][0]
        raise DatasetFormatError.at(
            xml, None, "each label must be listed once", twice, "Delete one of the two."
        )
    if len(labels) == len(names):
        raise DatasetFormatError.at(
            xml,
            None,
            f"some attribute of {os.fspath(path)} must be a feature, so not be listed as a label",
            Words(f"{len(listed)} labels and no feature"),
            "List only the labels.",
        )
    chosen = set(labels)
    is_label = np.array([attribute.name in chosen for attribute in attributes])
    source = f"labels of {Path(xml).name}"
    if label_order == "arff":
        return LabelChoice(is_label, source)
    in_file = [attribute.name for attribute in attributes if attribute.name in chosen]
    column = {name: place for place, name in enumerate(in_file)}
    return LabelChoice(is_label, source, np.array([column[label] for label in labels]))


def labels_of_argument(
    path: str | os.PathLike[str], attributes: Sequence[Attribute], labels: tuple[str, ...] | int
) -> LabelChoice:
    """Choose the attributes that the caller names or counts."""
    if isinstance(labels, int):
        return LabelChoice(_counted(path, None, attributes, labels), f"{abs(labels)} labels by position")
    missing = sorted(set(labels) - {attribute.name for attribute in attributes})
    if missing:
        rule = "labels must be attributes of the file"
        raise DatasetFormatError.at(path, None, rule, missing[0], "Check the spelling in labels.")
    if len(labels) == len(attributes):
        rule = "some attribute must be a feature, so not be one of labels"
        raise DatasetFormatError.at(path, None, rule, Words(f"{len(labels)} labels"), "Name only the labels.")
    chosen = set(labels)
    return LabelChoice(np.array([attribute.name in chosen for attribute in attributes]), "labels by name")


def labels_of_meka(
    path: str | os.PathLike[str], attributes: Sequence[Attribute], meka: MekaHeader
) -> LabelChoice:
    """Choose the attributes that the header of the file counts."""
    count = meka.n_labels
    if count is None:
        raise DatasetFormatError.at(
            path,
            meka.line,
            "the labels must be given: by xml, Mulan's list of labels; by labels, their names or number; or "
            "by MEKA's header (@relation 'name: -C 6')",
            Words("none of them"),
            "Give xml or labels.",
        )
    return LabelChoice(_counted(path, meka.line, attributes, count), "labels of its MEKA header")


def _counted(
    path: str | os.PathLike[str], line: int | None, attributes: Sequence[Attribute], count: int
) -> NDArray[np.bool_]:
    """Apply MEKA's rule: n > 0 are the first n attributes, n < 0 the last |n|."""
    n = len(attributes)
    if not 0 < abs(count) < n:
        raise DatasetFormatError.at(
            path,
            line,
            f"the number of labels must be at least 1 and below {n}, the number of attributes, with a minus "
            "if they come last",
            count,
            "Correct it.",
        )
    place = np.arange(n)
    return place < count if count > 0 else place >= n + count
