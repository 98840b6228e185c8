"""The file ``<path>.meta.json`` beside a dataset in a line format: what the format itself cannot hold.

It is a JSON object, in UTF-8, with these keys:

================== ====================================================================================
``version``        1
``format``         ``"xmc"`` or ``"svmlight"``
``name``           name of the dataset
``provenance``     where the numbers come from
``shape``          ``[n, d, L]``
``sha256``         the hash of the bytes of the data file, uncompressed: it tells the file from another one
                   of the same shape, and from itself after it was edited
``dense_features`` whether X is an array; else it is a sparse matrix
``dense_labels``   likewise for Y
``label_dtype``    ``"int8"`` or ``"uint8"``
``n_train``        rows of the training set, or null
``feature_names``  list of d names, or ``{"prefix": ..., "start": ...}`` for numbered ones; left out if they
                   are those that the reader would give
``label_names``    likewise for the L labels
``unknown``        list of ``[row, column]``, both from 0, of labels that are not known; left out if all are
``zero_based``     whether features are counted from 0; only for svmlight
================== ====================================================================================

A sidecar must not make a small file fill the memory. So X, or Y, is only made dense if the array takes at
most 128 MiB, or at most 256 bytes for each of its non-zero values; the writers refuse other arrays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._pairs import MOST_COLUMNS
from lrml.datasets._record import FeatureMatrix, LabelMatrix, MultiLabelDataset, NumberedNames, check_dataset
from lrml.datasets._sidecar_fields import FAR, REMEDY, Fields, Names, is_unicode

_VERSION = 1
_FREE_BYTES = 1 << 27
_BYTES_PER_ENTRY = 256


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Return the place of the sidecar of a data file."""
    return Path(f"{os.fspath(path)}.meta.json")


@dataclass(frozen=True, eq=False)
class Sidecar:
    """A sidecar whose fields obey the rules of their own; the module's docstring says what they mean."""

    path: Path
    name: str
    provenance: str
    shape: tuple[int, ...]
    sha256: str
    dense_features: bool
    dense_labels: bool
    label_dtype: str
    n_train: int | None
    feature_names: Names | None
    label_names: Names | None
    unknown: list[list[int]] | None
    zero_based: bool

    def check(self, what: str, stored: object, found: object, agrees: bool | None = None) -> None:
        """Raise an error unless the sidecar agrees with the data file, or with an argument of the reader."""
        if not (stored == found if agrees is None else agrees):
            rule = f"{what} must agree with the data file and the arguments, which have {found}"
            raise DatasetFormatError.at(self.path, None, rule, stored, REMEDY)

    def check_sha256(self, found: str) -> None:
        """Raise an error unless the data file has the bytes that it had when the sidecar was written."""
        if found != self.sha256:
            rule = f"sha256 must be that of the data file, {found}, which was edited or replaced"
            raise DatasetFormatError.at(self.path, None, rule, Words(self.sha256), REMEDY)


def read_sidecar(path: str | os.PathLike[str], file_format: str) -> Sidecar | None:
    """Read the sidecar of a data file, whatever is in it; None if there is none.

    Raises
    ------
    DatasetFormatError
        If the sidecar breaks a rule. The message names it.
    """
    place = sidecar_path(path)
    if not place.is_file():
        return None
    try:
        content = json.loads(place.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        rule = "a sidecar must be JSON in UTF-8"
        raise DatasetFormatError.at(place, None, rule, str(error), REMEDY) from error
    fields = Fields(place, content)
    fields.one_of("version", (_VERSION,))
    fields.one_of("format", (file_format,))
    n, d, n_labels = shape = fields.integers("shape", 3, 1, MOST_COLUMNS)
    return Sidecar(
        path=place,
        name=fields.text("name"),
        provenance=fields.text("provenance"),
        shape=shape,
        sha256=fields.sha256("sha256"),
        dense_features=fields.flag("dense_features"),
        dense_labels=fields.flag("dense_labels"),
        label_dtype=fields.one_of("label_dtype", ("int8", "uint8")),
        n_train=None if fields["n_train"] is None else fields.integer("n_train", 1, n - 1),
        feature_names=fields.names("feature_names", d),
        label_names=fields.names("label_names", n_labels),
        unknown=fields.cells("unknown", n, n_labels),
        zero_based=file_format == "svmlight" and fields.flag("zero_based"),
    )


def entries(matrix: FeatureMatrix | LabelMatrix) -> int:
    """Count the values that are not 0."""
    return int(np.count_nonzero(matrix if isinstance(matrix, np.ndarray) else matrix.data))


def may_be_dense(matrix: FeatureMatrix | LabelMatrix) -> bool:
    """Say whether a matrix has enough non-zero values to be made an array, or is small."""
    size = matrix.shape[0] * matrix.shape[1] * matrix.dtype.itemsize
    return bool(size <= max(_FREE_BYTES, _BYTES_PER_ENTRY * entries(matrix)))


def sidecar_fields(
    dataset: MultiLabelDataset, file_format: str, first: int, zero_based: bool | None = None
) -> dict[str, Any]:
    """Return the sidecar of a dataset that is to be written, but for the hash of the data file.

    Parameters
    ----------
    dataset : MultiLabelDataset
        The dataset.
    file_format : {"xmc", "svmlight"}
        The format of the data file.
    first : int
        The number of the first feature, if the reader numbers them.
    zero_based : bool, default=None
        For svmlight: whether features are counted from 0.

    Returns
    -------
    dict
        The fields, for `encode_sidecar`.

    Raises
    ------
    ValueError
        If the formats cannot hold the dataset.
    """
    check_dataset(dataset)
    _check_writable(dataset)
    X, Y, (n, d, n_labels) = dataset.X, dataset.Y, dataset.shape
    fields: dict[str, Any] = {
        "version": _VERSION,
        "format": file_format,
        "name": dataset.name,
        "provenance": dataset.provenance,
        "shape": [n, d, n_labels],
        "sha256": "",
        "dense_features": isinstance(X, np.ndarray),
        "dense_labels": isinstance(Y, np.ndarray),
        "label_dtype": Y.dtype.name,
        "n_train": None if dataset.n_train is None else int(dataset.n_train),
        "feature_names": _names_field(dataset.feature_names, NumberedNames("feature", d, first)),
        "label_names": _names_field(dataset.label_names, NumberedNames("label", n_labels)),
        "unknown": None if dataset.unknown is None else np.transpose(dataset.unknown.nonzero()).tolist(),
        "zero_based": zero_based,
    }
    return {key: value for key, value in fields.items() if value is not None or key == "n_train"}


def encode_sidecar(fields: dict[str, Any], sha256: str) -> bytes:
    """Return the content of a sidecar, for a data file whose bytes have that hash."""
    whole = fields | {"sha256": sha256}
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in whole.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _names_field(names: Sequence[str], default: NumberedNames) -> dict[str, Any] | list[str] | None:
    if not isinstance(names, NumberedNames) or abs(names.start) > FAR:
        return list(names)
    return None if names == default else {"prefix": names.prefix, "start": names.start}


def _check_writable(dataset: MultiLabelDataset) -> None:
    if max(dataset.shape) > MOST_COLUMNS:
        raise ValueError(
            f"a dataset must have at most {MOST_COLUMNS} rows, features and labels to be written, got shape "
            f"{dataset.shape}. Write a part of it."
        )
    for key, matrix in (("X", dataset.X), ("Y", dataset.Y)):
        if isinstance(matrix, np.ndarray) and not may_be_dense(matrix):
            raise ValueError(
                f"{key} must not be an array where nearly all values are 0, got {entries(matrix)} others in "
                f"shape {matrix.shape}. Convert it with scipy.sparse.csr_array."
            )
    for key in ("feature_names", "label_names"):
        names = getattr(dataset, key)
        texts = [names[0]] if isinstance(names, NumberedNames) else names
        for text in [*texts, dataset.name, dataset.provenance]:
            if not isinstance(text, str) or not is_unicode(text):
                raise ValueError(
                    f"{key}, name and provenance must be texts that UTF-8 can hold, got {shown(text)}. "
                    "Rename it."
                )
