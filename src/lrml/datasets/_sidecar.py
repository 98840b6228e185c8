"""The file ``<path>.meta.json`` beside a dataset in a line format: what the format itself cannot hold.

It is a JSON object, in UTF-8; docs/data.md lists its keys.

A sidecar must not let a small file exhaust memory. So X, or Y, is made dense only if the array takes at most
128 MiB, or at most 256 bytes for each of its non-zero values; the writers refuse other arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from lrml._files import OutputError, atomic_file
from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._formats import sidecar_path, stem
from lrml.datasets._lines import compressor, is_unicode
from lrml.datasets._record import (
    FeatureMatrix,
    LabelMatrix,
    MultiLabelDataset,
    NumberedNames,
    check_dataset,
    check_has_features,
)

Names: TypeAlias = "tuple[str, ...] | NumberedNames"

MOST_COLUMNS = 2**31 - 1  # column indices are stored in 32 bits
_VERSION = 1
_FREE_BYTES = 1 << 27
_BYTES_PER_ENTRY = 256
_FAR = 2**63  # numbered names may start anywhere below
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_REMEDY = "Delete or rename this file if the data file is as you want it, else write the dataset again."


@dataclass(frozen=True, eq=False)
class Sidecar:
    """A sidecar whose fields are valid by themselves; docs/data.md says what they mean."""

    path: Path
    fields: dict[str, Any]

    def check(self, what: str, stored: object, found: object, agrees: bool | None = None) -> None:
        """Raise an error unless the sidecar agrees with the data file, or with an argument of the reader."""
        if not (stored == found if agrees is None else agrees):
            rule = f"{what} must agree with the data file and the arguments, which have {found}"
            raise DatasetFormatError.at(self.path, None, rule, stored, _REMEDY)

    def check_hash(self, sha256: str) -> None:
        """Raise an error unless the data file is the one that the sidecar was written for."""
        stored = self.fields["sha256"]
        if sha256 != stored:
            rule = f"sha256 must be that of the data file, {sha256}, which was edited or replaced"
            raise DatasetFormatError.at(self.path, None, rule, Words(stored), _REMEDY)

    def names(self, key: str, count: int) -> Names | None:
        """Return the names of the columns; None if they are numbered as the reader would do."""
        value = self.fields.get(key)
        if isinstance(value, dict):
            return NumberedNames(value["prefix"], count, value["start"])
        return None if value is None else tuple(value)


def read_sidecar(path: str | os.PathLike[str], file_format: str) -> Sidecar | None:
    """Read the sidecar of a data file, whatever is in it; None if there is none."""
    place = sidecar_path(path)
    if not place.is_file():
        return None
    try:
        fields: Any = json.loads(place.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        rule = "a sidecar must be JSON in UTF-8"
        raise DatasetFormatError.at(place, None, rule, str(error), _REMEDY) from error
    if type(fields) is not dict:
        raise _wrong(place, "a sidecar must be a JSON object", fields)
    shape: Any = fields.get("shape")
    if not (_is_list(shape, 3) and all(_is_integer(size, 1, MOST_COLUMNS) for size in shape)):
        raise _wrong(place, f"shape must be a list of 3 integers in [1, {MOST_COLUMNS}]", shape)
    for key, (rule, obeys) in _rules(file_format, *shape).items():
        value = fields.get(key)
        if not obeys(value):
            raise _wrong(place, f"{key} must be {rule}", value)
    return Sidecar(place, fields)


def _wrong(place: Path, rule: str, value: object) -> DatasetFormatError:
    # A container is not shown: it may be large, or nested too deeply for repr.
    got = f"a {type(value).__name__}" if isinstance(value, dict | list) else value
    return DatasetFormatError.at(place, None, rule, got, _REMEDY)


def _rules(file_format: str, n: int, d: int, n_labels: int) -> dict[str, tuple[str, Callable[[Any], bool]]]:
    """Return the rule of each field, in words and as a function, for a dataset of that shape."""
    text, flag = ("a text that UTF-8 can hold", _is_text), ("true or false", _is_flag)
    names = "left out, or be {} different texts, or a prefix and a start"
    cells = f"left out, or be a list of [row, column] below {n} and {n_labels}"
    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "version": (f"{_VERSION}", lambda value: value == _VERSION),
        "format": (repr(file_format), lambda value: value == file_format),
        "name": text,
        "provenance": text,
        "sha256": ("64 hexadecimal digits", lambda value: _is_text(value) and bool(_SHA256.fullmatch(value))),
        "dense_features": flag,
        "dense_labels": flag,
        "label_dtype": ("'int8' or 'uint8'", lambda value: value in ("int8", "uint8")),
        "n_train": (
            f"an integer in [1, {n - 1}] or null",
            lambda value: value is None or _is_integer(value, 1, n - 1),
        ),
        "feature_names": (names.format(d), lambda value: value is None or _are_names(value, d)),
        "label_names": (names.format(n_labels), lambda value: value is None or _are_names(value, n_labels)),
        "unknown": (cells, lambda value: value is None or _are_cells(value, n, n_labels)),
    }
    return rules | {"zero_based": flag} if file_format == "svmlight" else rules


def _is_text(value: object) -> bool:
    return type(value) is str and is_unicode(value)


def _is_flag(value: object) -> bool:
    return type(value) is bool


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_list(value: object, length: int) -> bool:
    return type(value) is list and len(value) == length


def _are_names(value: Any, count: int) -> bool:
    if type(value) is dict:
        return _is_text(value.get("prefix")) and _is_integer(value.get("start"), -_FAR, _FAR)
    if not _is_list(value, count) or set(map(type, value)) != {str}:
        return False
    return len(set(value)) == count and is_unicode("".join(value))


def _are_cells(value: Any, rows: int, columns: int) -> bool:
    return type(value) is list and all(
        _is_list(cell, 2) and _is_integer(cell[0], 0, rows - 1) and _is_integer(cell[1], 0, columns - 1)
        for cell in value
    )


def assemble(
    path: str | os.PathLike[str],
    sidecar: Sidecar | None,
    X: sparse.csr_array,
    Y: sparse.csr_array,
    names: tuple[Names | None, Names | None],
    name: str | None,
    sha256: str,
    first: int = 0,
) -> MultiLabelDataset:
    """Make a dataset of what was read from a file and from its sidecar, of the same shape.

    `X` has -0.0, and perhaps other zeros, as explicit entries. `names` and `name` are what the user has asked
    for, `first` is the number of the first feature, and `sha256` only matters if there is a sidecar.
    """
    features, labels = names_of(sidecar, (X.shape[1], Y.shape[1]), names, first)
    if sidecar is None or not sidecar.fields["dense_features"]:
        X.eliminate_zeros()
    if sidecar is None:
        given = stem(path) if name is None else name
        return MultiLabelDataset(given, X, Y, features, labels, provenance=Path(path).name)
    fields = sidecar.fields
    sidecar.check_hash(sha256)
    Y = Y.astype(np.dtype(fields["label_dtype"]))
    try:
        return MultiLabelDataset(
            name=fields["name"] if name is None else name,
            X=_to_array("X", X, sidecar.path) if fields["dense_features"] else X,
            Y=_to_array("Y", Y, sidecar.path) if fields["dense_labels"] else Y,
            feature_names=features,
            label_names=labels,
            n_train=fields.get("n_train"),
            provenance=fields["provenance"],
            unknown=_unknown(fields.get("unknown"), Y.shape),
        )
    except DatasetFormatError:
        raise
    except ValueError as error:  # the rules of the record, which only the sidecar can still break
        raise DatasetFormatError(f"{sidecar.path}: {error} {_REMEDY}") from error


def names_of(
    sidecar: Sidecar | None,
    counts: tuple[int, int],
    names: tuple[Names | None, Names | None],
    first: int = 0,
) -> tuple[Names, Names]:
    """Return the names of features and labels: those the user gave, of the sidecar, or numbers."""
    features, labels = names
    if sidecar is not None:
        features = features or sidecar.names("feature_names", counts[0])
        labels = labels or sidecar.names("label_names", counts[1])
    return features or NumberedNames("feature", counts[0], first), labels or NumberedNames("label", counts[1])


def stored_as(
    sidecar: Sidecar | None, X: sparse.csr_array, Y: sparse.csr_array, first_row: int
) -> tuple[FeatureMatrix, LabelMatrix, sparse.csr_array | None]:
    """Return some rows in the storage that the sidecar names, and which labels of them are unknown."""
    if sidecar is None or not sidecar.fields["dense_features"]:
        X.eliminate_zeros()
    if sidecar is None:
        return X, Y, None
    fields, stop = sidecar.fields, first_row + X.shape[0]
    Y = Y.astype(np.dtype(fields["label_dtype"]))
    cells = [
        [row - first_row, column] for row, column in fields.get("unknown") or () if first_row <= row < stop
    ]
    return (
        _to_array("X", X, sidecar.path) if fields["dense_features"] else X,
        _to_array("Y", Y, sidecar.path) if fields["dense_labels"] else Y,
        _unknown(cells, Y.shape) if cells else None,
    )


def _to_array(key: str, matrix: sparse.csr_array, place: Path) -> Any:
    if not _may_be_dense(matrix):
        rule = f"{key} must only be dense if it is small or has enough non-zero values"
        got = Words(f"{_entries(matrix)} values in shape {matrix.shape}")
        raise DatasetFormatError.at(place, None, rule, got, _REMEDY)
    array = np.zeros(matrix.shape, matrix.dtype)
    # Not toarray(), which adds to zeros and so loses the sign of -0.0.
    array[np.repeat(np.arange(len(array)), np.diff(matrix.indptr)), matrix.indices] = matrix.data
    return array


def _unknown(cells: list[list[int]] | None, shape: tuple[int, int]) -> sparse.csr_array | None:
    if cells is None:
        return None
    places = np.array(cells, np.int32).reshape(-1, 2)
    return sparse.csr_array((np.ones(len(places), np.bool_), (places[:, 0], places[:, 1])), shape)


def _entries(matrix: FeatureMatrix | LabelMatrix) -> int:
    """Count the values that are not 0."""
    return int(np.count_nonzero(matrix if isinstance(matrix, np.ndarray) else matrix.data))


def _may_be_dense(matrix: FeatureMatrix | LabelMatrix) -> bool:
    """Say whether a matrix has enough non-zero values to be made an array, or is small."""
    size = matrix.shape[0] * matrix.shape[1] * matrix.dtype.itemsize
    return bool(size <= max(_FREE_BYTES, _BYTES_PER_ENTRY * _entries(matrix)))


def write_with_sidecar(
    dataset: MultiLabelDataset,
    path: str | os.PathLike[str],
    file_format: str,
    blocks: Callable[[MultiLabelDataset], Iterable[bytes]],
    first: int = 0,
    zero_based: bool | None = None,
) -> None:
    """Write a data file, of which `blocks` makes the text, and its sidecar: both, or none.

    Both are complete under temporary names before the first is renamed. The name of the data file says
    whether it is compressed. Should the second renaming fail, an older sidecar is removed, as it would
    describe another file. `first` is the number of the first feature, if the reader numbers them.
    """
    check_dataset(dataset)
    _check_writable(dataset)
    place = sidecar_path(path)
    digest = hashlib.sha256()
    moved = False
    try:
        with atomic_file(place) as staged:
            with atomic_file(path) as stream:
                with compressor(path, stream) as out:
                    for block in blocks(dataset):
                        digest.update(block)
                        out.write(block)
                staged.write(_encode(dataset, file_format, digest.hexdigest(), first, zero_based))
                staged.flush()
            moved = True
    except OutputError as error:
        if not moved:
            raise
        with suppress(OSError):
            place.unlink()
        raise OutputError(
            f"{error} The data file is there, but has lost its names and split until then."
        ) from error


def _encode(
    dataset: MultiLabelDataset, file_format: str, sha256: str, first: int, zero_based: bool | None
) -> bytes:
    """Return the content of the sidecar of a dataset."""
    n, d, n_labels = dataset.shape
    fields: dict[str, Any] = {
        "version": _VERSION,
        "format": file_format,
        "name": dataset.name,
        "provenance": dataset.provenance,
        "shape": [n, d, n_labels],
        "sha256": sha256,
        "dense_features": isinstance(dataset.X, np.ndarray),
        "dense_labels": isinstance(dataset.Y, np.ndarray),
        "label_dtype": dataset.Y.dtype.name,
        "n_train": None if dataset.n_train is None else int(dataset.n_train),
        "feature_names": _names_field(dataset.feature_names, NumberedNames("feature", d, first)),
        "label_names": _names_field(dataset.label_names, NumberedNames("label", n_labels)),
        "unknown": None if dataset.unknown is None else np.transpose(dataset.unknown.nonzero()).tolist(),
        "zero_based": zero_based,
    }
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in fields.items()
        if value is not None or key == "n_train"
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _names_field(names: Sequence[str], default: NumberedNames) -> dict[str, Any] | list[str] | None:
    if not isinstance(names, NumberedNames) or abs(names.start) > _FAR:
        return list(names)
    return None if names == default else {"prefix": names.prefix, "start": names.start}


def _check_writable(dataset: MultiLabelDataset) -> None:
    check_has_features(dataset)
    if max(dataset.shape) > MOST_COLUMNS:
        raise ValueError(
            f"a dataset must have at most {MOST_COLUMNS} rows, features and labels to be written, got shape "
            f"{dataset.shape}. Write a part of it."
        )
    for key, matrix in (("X", dataset.X), ("Y", dataset.Y)):
        if isinstance(matrix, np.ndarray) and not _may_be_dense(matrix):
            raise ValueError(
                f"{key} must not be an array where nearly all values are 0, got {_entries(matrix)} others in "
                f"shape {matrix.shape}. Convert it with scipy.sparse.csr_array."
            )
    for key in ("feature_names", "label_names"):
        names = getattr(dataset, key)
        texts = [names[0]] if isinstance(names, NumberedNames) else names
        for text in [*texts, dataset.name, dataset.provenance]:
            if not _is_text(text):
                raise ValueError(
                    f"{key}, name and provenance must be texts that UTF-8 can hold, got {shown(text)}. "
                    "Rename it."
                )
