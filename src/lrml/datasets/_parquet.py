"""Reader of Parquet tables, by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._table import TableBuilder, Tag
from lrml.datasets._table_columns import Columns, Request, choose_columns

_BATCH_CELLS = 1 << 22  # numbers in memory at a time, 32 MiB
_BATCH_ROWS = 1 << 16
_BATCH_ROWS_WITH_LISTS = 1 << 13  # they may be long
# A few bytes can repeat a value billions of times, or claim to. Tables with some content stay below this many
# values per byte of the file; below the second number (256 MiB) a file may be as empty as it likes.
_VALUES_PER_BYTE = 1 << 6
_VALUES_ALWAYS = 1 << 25
_MOST_IN_A_LIST = 1_000_000  # of the footer, as pyarrow has it
_WEIGHT_OF_LABEL = 16  # what a label in a list takes in memory, compared with a number
_WEIGHT_OF_BYTE = 1 / 8  # the same for a byte of a page
_WEIGHT_OF_STORED = 3  # the same for an entry of a sparse matrix, which is copied once


def read_parquet(
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | int | None = None,
    label_column: str | None = None,
    label_separator: str = ",",
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    sparse: bool = False,
    name: str | None = None,
) -> MultiLabelDataset:
    """Read a multi-label dataset from a Parquet file.

    The file is read in batches of rows, and only the columns that are needed. Exactly one of `labels` and
    `label_column` says where the labels are. This needs pyarrow: ``pip install "lrml[tables]"``.

    Parameters
    ----------
    path : path-like
        The file.
    labels : sequence of str, or int, default=None
        Names of the columns that are labels, one column per label, in the order wanted; or n for the first
        n columns of the file, -n for the last n. Values are 0 or 1, or true or false; null means that it
        is unknown whether the label applies.
    label_column : str, default=None
        Name of one column that lists the labels of a row: text such as ``"red, round"``, or a list of
        text or of integers. Blanks around a label are dropped, an empty text or list and null mean no
        label, a label twice in a row counts once. The labels are sorted, text by code points and integers
        by size, and Y is sparse.
    label_separator : str, default=","
        What separates two labels in the text of `label_column`.
    features : sequence of str, default=None
        Names of the columns that are features, in the order wanted; None takes all columns that are
        neither labels nor in `ignore`.
    ignore : sequence of str, default=()
        Names of columns to leave out, such as identifiers and text.
    sparse : bool, default=False
        Whether X, and Y, are sparse; nothing is made dense as a whole on the way.
    name : str, default=None
        Name of the dataset; None takes the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset, without a split. In X, null is NaN.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    DatasetFormatError
        If the file is damaged, declares more values than its size makes credible, a column has a type
        that is not supported, a feature is infinite, or a named column is not there.

    Notes
    -----
    What pandas wrote as the index of a frame is no column of the table. A file may not have more than 64
    values per byte, or 2**25 if that is more, as damaged and malicious files do, nor declare pages of more
    bytes than so many numbers have. Memory is bounded by what is read and by one row group as it is in the
    file, except that the list of labels of one row is read as a whole.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toys.parquet")
    ...     pd.DataFrame({"size": [2.5, None], "red": [1, 0], "round": [1, 1]}).to_parquet(path)
    ...     toys = read_parquet(path, labels=["red", "round"])
    >>> toys
    <MultiLabelDataset toys: X (2, 1) dense, Y (2, 2) dense, no split>
    >>> toys.X
    array([[2.5],
           [nan]])
    """
    request = Request(labels, label_column, label_separator, features, ignore, sparse)
    arrow = _import_pyarrow()
    with _damage_reported(path, arrow), arrow.OSFile(os.fspath(path)) as source:
        file, columns = _open(path, source, arrow, request)
        builder = TableBuilder(columns, request)
        stored = 0
        for batch in _batches(file, columns, arrow):
            values = _values(columns, batch, arrow, builder.rows)
            if sparse:
                stored += int(np.count_nonzero(values))
                _check_size(columns, stored, _WEIGHT_OF_STORED)
            builder.add(values, () if columns.tags is None else _tags(builder, batch, request, arrow))
        declared = file.metadata.num_rows
    if builder.rows != declared:
        rule = f"the file must have the {declared} rows that it declares"
        raise DatasetFormatError.at(path, None, rule, builder.rows, "Get the file again.")
    return builder.finish(name)


def _import_pyarrow() -> Any:
    """Return pyarrow, with its Parquet module; it is needed only here."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            f'reading Parquet files needs pyarrow, got "{error}". Install it: pip install "lrml[tables]".'
        ) from error


@contextmanager
def _damage_reported(path: str | os.PathLike[str], arrow: Any) -> Iterator[None]:
    """Turn whatever pyarrow raises about the content of a file into one kind of error."""
    try:
        yield
    except DatasetFormatError:
        raise
    except OSError as error:
        if error.errno is not None:  # a fault of the disk, or no such file
            raise
        raise _damaged(path, error) from error
    except (arrow.lib.ArrowException, ValueError, OverflowError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str | os.PathLike[str], error: Exception) -> DatasetFormatError:
    rule, remedy = "the file must be whole and in Parquet format", "Get the file again, or write it anew."
    return DatasetFormatError.at(path, None, rule, " ".join(str(error).split()), remedy)


def _open(path: str | os.PathLike[str], source: Any, arrow: Any, request: Request) -> tuple[Any, Columns]:
    """Open a file, choose columns, and check their types and the declared size."""
    options = {
        "pre_buffer": False,
        "page_checksum_verification": True,
        "arrow_extensions_enabled": False,
        # Room is made for all elements of a list before the first is read, as many as it claims to have, up
        # to 700 bytes each. Each takes a byte of the footer or more, and the length of that is in the file.
        "thrift_container_size_limit": min(max(_footer_bytes(source), 1), _MOST_IN_A_LIST),
    }
    file = arrow.parquet.ParquetFile(source, **options)
    schema, metadata = file.schema_arrow, file.metadata
    index = _index_of_frame(schema)
    names = [name for name in schema.names if name not in index]
    columns = choose_columns(path, names, request)
    _check_types(columns, schema, arrow.types)
    _check_size(columns, metadata.num_rows * len(columns.numeric))
    # What footers say about single columns would tell more, but if that is damaged pyarrow ends the process.
    # So two lies are found out late: a page may be decompressed to 2 GiB, whatever the footer says of its row
    # group, and each column may claim, and read, the whole file.
    unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    _check_size(columns, unpacked, _WEIGHT_OF_BYTE, "bytes in its pages")
    # Text comes as codes and their meaning, so that a long text that is often repeated is held once. There is
    # no buffer_size: for a page that claims to have 2 GiB the buffer would grow to 2 GiB, while a column that
    # is read at once (pyarrow checks that the file has so many bytes) shows that the page has fewer.
    leaves = _leaves(columns, metadata.schema)
    return arrow.parquet.ParquetFile(source, metadata=metadata, read_dictionary=leaves, **options), columns


def _footer_bytes(source: Any) -> int:
    """Return how long a file says that its footer is; 0 for a file that is too short to have one."""
    tail: bytes = source.read_at(8, max(source.size() - 8, 0))
    return int.from_bytes(tail[:-4], "little")


def _leaves(columns: Columns, schema: Any) -> list[str]:
    """Return the paths of the label column inside the file; that of a list is longer than its name."""
    if columns.tags is None:
        return []
    name = columns.names[columns.tags]
    paths = [schema.column(leaf).path for leaf in range(len(schema))]
    return [path for path in paths if f"{path}.".startswith(f"{name}.")]


def _index_of_frame(schema: Any) -> set[str]:
    """Return the names of the columns that hold the index of a pandas frame."""
    try:
        return {name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)}
    except (TypeError, KeyError, ValueError, RecursionError):  # not by pandas, or not as pandas writes it
        return set()


def _check_types(columns: Columns, schema: Any, types: Any) -> None:
    """Refuse columns whose type cannot be read."""
    for position, column in enumerate(columns.numeric):
        kind = schema.field(columns.names[column]).type
        inner = kind.value_type if types.is_dictionary(kind) else kind
        checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        if not any(check(inner) for check in checks):
            raise columns.wrong_value(position, Words(f"type {kind}"))
    if columns.tags is None:
        return
    name = columns.names[columns.tags]
    kind = schema.field(name).type
    inner = kind.value_type if _is_list(kind, types) else kind
    if not (_is_text(inner, types) or (inner is not kind and types.is_integer(inner))):
        raise DatasetFormatError.at(
            columns.path,
            None,
            f"label column {shown(name)} must hold text, or lists of text or of integers",
            Words(f"type {kind}"),
            "Convert the column, or name columns of 0 and 1 in labels.",
        )


def _is_text(kind: Any, types: Any) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list(kind: Any, types: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _check_size(
    columns: Columns, count: int, weight: float = 1, what: str = "values in the columns to read"
) -> None:
    """Refuse a file that declares, or turns out to have, far more values than its size makes credible."""
    size = os.stat(columns.path).st_size
    limit = int(max(_VALUES_ALWAYS, size * _VALUES_PER_BYTE) / weight)
    if count > limit:
        raise DatasetFormatError.at(
            columns.path,
            None,
            f"a file of {size} bytes must not have more than {limit} {what}",
            count,
            "Get the file again if it may be damaged; else name fewer features, or do not compress it.",
        )


def _batches(file: Any, columns: Columns, arrow: Any) -> Iterator[Any]:
    """Yield record batches that are small, and sound: pyarrow does not check text or offsets by itself."""
    wanted = columns.numeric if columns.tags is None else (*columns.numeric, columns.tags)
    names = [columns.names[column] for column in wanted]
    most = _BATCH_ROWS if columns.tags is None else _BATCH_ROWS_WITH_LISTS
    rows = min(max(_BATCH_CELLS // len(wanted), 1), most)
    # One row group at a time: pyarrow cannot join lists of codes that have different meanings.
    for group in range(file.num_row_groups):
        options = {"row_groups": [group], "columns": names, "use_threads": False}
        for batch in file.iter_batches(batch_size=rows, **options):
            batch.validate(full=True)
            yield batch


def _values(columns: Columns, batch: Any, arrow: Any, start: int) -> NDArray[np.float64]:
    """Convert the numeric columns of a batch whose first row is `start`, and check the values."""
    values = np.empty((batch.num_rows, len(columns.numeric)))
    for position, column in enumerate(columns.numeric):
        # As in a CSV file, an integer beyond 2**53 becomes the nearest float.
        array = batch.column(columns.names[column]).cast(arrow.float64(), safe=False)
        values[:, position] = array.to_numpy(zero_copy_only=False)
    wrong = columns.first_wrong(values)
    if wrong is not None:
        row, position = wrong
        place = f" (row {start + row + 1})"
        raise columns.wrong_value(position, float(values[wrong]), place=place, finite=True)
    return values


def _tags(builder: TableBuilder, batch: Any, request: Request, arrow: Any) -> Iterator[Iterable[Tag]]:
    """Return the labels of each row of a batch."""
    columns, array = builder.columns, batch.column(request.label_column)
    lists = _is_list(array.type, arrow.types)
    words, codes = _decoded(array.flatten() if lists else array, arrow)
    if not lists:
        parts: list[list[Tag]] = [[] if word is None else [*request.split(word)] for word in words]
        ends = np.arange(1, len(codes) + 1)
    else:
        ends = np.cumsum(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        if None in words:
            row = builder.rows + int(np.searchsorted(ends, codes.index(words.index(None)), side="right"))
            rule = f"label column {shown(request.label_column)} must not list null (row {row + 1})"
            raise DatasetFormatError.at(columns.path, None, rule, None, "Remove it from the list.")
        tags = [word if isinstance(word, int) else word.strip() for word in words]
        parts = [[] if tag == "" else [tag] for tag in tags]
    lengths = np.array([len(part) for part in parts], np.int64)
    # Files declare this number only where they describe single columns: see _open.
    _check_size(columns, builder.listed + int(lengths[codes].sum()), _WEIGHT_OF_LABEL)
    bounds = pairwise([0, *ends.tolist()])
    return (chain.from_iterable(parts[code] for code in codes[begin:end]) for begin, end in bounds)


def _decoded(array: Any, arrow: Any) -> tuple[list[Any], list[int]]:
    """Return the distinct values of an array, as Python objects, and for each element which of them it is."""
    if not arrow.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.cast(arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used, inverse = np.unique(codes, return_inverse=True)
    words: list[Any] = array.dictionary.take(arrow.array(used[used >= 0])).to_pylist()
    return [None] * int(np.count_nonzero(used < 0)) + words, inverse.tolist()
