"""Data files as blocks of rows that can be read again, and from any block on."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lrml._files import pattern_of
from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._formats import (
    READ_FORMATS,
    blocks_after,
    check_is_file,
    check_rows,
    format_of,
    label_file_beside,
    reader_of_blocks,
    sidecar_path,
)
from lrml.datasets._record import Block


class BlockFile:
    r"""The rows of one or more data files in blocks, as an iterable that can be read again and again.

    It is what ``fit_blocks`` of the estimators takes. All blocks have the same columns. What a file does not
    say of its columns is found by reading it once before the first block: the width of an svmlight file
    without a sidecar, unless `n_features` and `n_labels` are given, and the labels of a table with
    `label_column`, unless `label_names` is given.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        The files, perhaps compressed (``.gz``, ``.bz2``, ``.xz``), all of one format and with the same
        columns, or patterns such as ``"folder/*.parquet"``, whose files are sorted by name. Their rows follow
        each other; a block ends where its file ends.
    rows : int, default=10_000
        Rows of a block; the last of a file may have fewer.
    labelled : bool, default=True
        Whether to read labels, as for `iter_blocks`.
    format : {"arff", "xmc", "svmlight", "csv", "parquet"}, default=None
        None takes it from the suffix, as for `read_dataset`.
    **options
        Those of the reader of the format, as for `iter_blocks`.

    Attributes
    ----------
    feature_names : sequence of str
        Names of the features.
    label_names : sequence of str or None
        Names of the labels; None if the files have none.
    complete_options : dict
        The options, with those that were found by reading the files once.
    n_rows, n_blocks : int or None
        How many there are; None until all have been read or skipped.
    has_first_pass : bool
        Whether all files are read once before the first block.
    has_split : bool
        Whether a file says that some of its rows are a test set; they are read like all others.

    Raises
    ------
    DatasetFormatError
        While blocks are read: if a file breaks a rule of its format, has other columns than the first file,
        or has changed since this object was made.

    See Also
    --------
    iter_blocks : Read a file once.

    Examples
    --------
    >>> from lrml.datasets import BlockFile
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toy.svm")
    ...     _ = path.write_text("0,2 1:0.5 4:1\n 2:2\n1 3:1\n")
    ...     blocks = BlockFile(path, rows=2)
    ...     print(blocks)
    ...     for block in blocks:
    ...         print(block)
    ...     next(blocks.starting_at(1))
    <BlockFile toy.svm: svmlight, blocks of 2 rows>
    <Block from row 0: X (2, 4) sparse, Y (2, 3) sparse>
    <Block from row 2: X (1, 4) sparse, Y (1, 3) sparse>
    <Block from row 2: X (1, 4) sparse, Y (1, 3) sparse>
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        rows: int = 10_000,
        labelled: bool = True,
        format: str | None = None,
        **options: Any,
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        listed = [path for each in given for path in _matching(each)]
        if not listed:
            raise ValueError("paths must name a file, got none. Pass the path of a data file, or several.")
        for path in listed:
            check_is_file(path, "a dataset to read")
        kinds = [format_of(path, format, READ_FORMATS) for path in listed]
        if len(set(kinds)) > 1:
            other = next(place for place, kind in enumerate(kinds) if kind != kinds[0])
            raise ValueError(
                f"all files must be of one format, got {os.fspath(listed[0])!r} ({kinds[0]}) and "
                f"{os.fspath(listed[other])!r} ({kinds[other]}). Read them one by one."
            )
        self.paths = tuple(Path(path) for path in listed)
        self._first = self.paths[0]  # the file whose columns all must have
        self.rows, self.labelled, self.format = check_rows(rows), bool(labelled), kinds[0]
        self.options = {key: value for key, value in options.items() if key != "name"}
        reader_of_blocks(self.format, self.options)
        self.n_rows: int | None = None
        self.n_blocks: int | None = None
        self._states = {path: _state(path) for path in self._files()}

    def __repr__(self) -> str:
        others = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"<BlockFile {self.paths[0].name}{others}: {self.format}, blocks of {self.rows} rows>"

    def __iter__(self) -> Iterator[Block]:
        return self.starting_at(0)

    def starting_at(self, block: int) -> Iterator[Block]:
        """Yield the blocks from this one on, counted from 0; rows before it are skipped, not parsed.

        Parameters
        ----------
        block : int
            Number of the first block.

        Yields
        ------
        Block
            The same as those that iterating yields from there on.
        """
        before = first_row = 0  # blocks and rows of the files so far
        for path in self.paths:
            skip = max(block - before, 0) * self.rows
            count = yield from self._blocks_of(path, skip, first_row)
            first_row += count
            before += -(-count // self.rows)
        self.n_rows, self.n_blocks = first_row, before

    def split(self) -> list[BlockFile]:
        """Return the blocks of each file apart, for several processes, with the columns of all files."""
        options: dict[str, Any] = {"rows": self.rows, "labelled": self.labelled, "format": self.format}
        parts = [BlockFile(path, **options, **self.complete_options) for path in self.paths]
        for part in parts:
            part._first, part._names = self._first, self._names
        return parts

    def identity(self) -> str:
        """Return a text that is another for other files, file contents, blocks or options.

        It is made from names, sizes and times of change, not from the contents, so that it takes no time. A
        folder that is moved with its files keeps it.
        """
        options = {key: value for key, value in self.options.items() if key != "xml"}  # one of the files
        states = [(path.name, *self._states[path]) for path in (*self.paths, *self._states)]
        said = [self.rows, self.labelled, self.format, options, states]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=_plain).encode()).hexdigest()

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the features."""
        return self._names[0]

    @property
    def label_names(self) -> Sequence[str] | None:
        """Names of the labels."""
        return self._names[1]

    @cached_property
    def _names(self) -> tuple[Sequence[str], Sequence[str] | None]:
        first = next(self._read(self._first, 0))
        return first.feature_names, first.label_names

    @property
    def has_first_pass(self) -> bool:
        """Whether all files are read once before the first block, to find what its columns are."""
        given = _given(self.options)
        if self.format == "svmlight":
            stated = {"n_features", "n_labels"} <= set(given)
            return not (stated or any(sidecar_path(path).exists() for path in self.paths))
        return "label_column" in given and "label_names" not in given and self.labelled

    @property
    def has_split(self) -> bool:
        """Whether a file says that some of its rows are a test set; they are read like all others."""
        if self.format == "arff":
            from lrml.datasets.arff import says_split  # noqa: PLC0415 - the other formats do not need it

            return any(map(says_split, self.paths))
        if self.format not in ("xmc", "svmlight"):
            return False
        from lrml.datasets._sidecar import read_sidecar  # noqa: PLC0415

        found = (read_sidecar(path, self.format) for path in self.paths)
        return any(sidecar is not None and sidecar.fields.get("n_train") is not None for sidecar in found)

    @cached_property
    def complete_options(self) -> dict[str, Any]:
        """The options, with those that were found by reading the files once."""
        options = self.options
        if self.format == "svmlight" and not {"n_features", "n_labels"} <= set(_given(options)):
            return options | self._svmlight_options()
        if self.has_first_pass:
            from lrml.datasets._tables import labels_listed  # noqa: PLC0415 - the other formats do not need it

            found = set().union(*(labels_listed(path, self.format, **options) for path in self.paths))
            self._check_unchanged()
            return options | {"label_names": [str(label) for label in sorted(found)]}
        return options

    def _svmlight_options(self) -> dict[str, Any]:
        from lrml.datasets._pairs import svmlight_shape  # noqa: PLC0415 - the other formats do not need it
        from lrml.datasets._sidecar import read_sidecar  # noqa: PLC0415

        sidecars = [sidecar for path in self.paths if (sidecar := read_sidecar(path, "svmlight"))]
        if sidecars:
            _, d, n_labels = sidecars[0].fields["shape"]
            return {"n_features": d, "n_labels": n_labels, "zero_based": sidecars[0].fields["zero_based"]}
        wanted = self.options.get("zero_based", "auto")
        shapes = [svmlight_shape(path, wanted) for path in self.paths]
        self._check_unchanged()
        from_zero = any(base for _, _, base in shapes)  # if so, some widths were counted from 1
        d = max(width + int(from_zero and not base) for width, _, base in shapes)
        n_labels = max(labels for _, labels, _ in shapes)
        found = {"n_features": d, "n_labels": n_labels if self.labelled else max(n_labels, 1)}
        found |= {key: value for key, value in _given(self.options).items() if key in found}
        for what, count in found.items():
            if not count:
                rule = f"the file must have some {what.removeprefix('n_')}"
                remedy = f"Give {what} if this is meant."
                raise DatasetFormatError.at(self.paths[0], None, rule, Words("none"), remedy)
        return found | {"zero_based": from_zero}

    def _blocks_of(self, path: Path, skip: int, first_row: int) -> Generator[Block, None, int]:
        """Yield the blocks of a file, numbered on; return how many rows it has."""
        blocks, compared = self._read(path, skip), path == self._first
        while True:
            try:
                block = next(blocks)
            except StopIteration as end:
                self._check_unchanged(path)
                return int(end.value)
            self._check_unchanged(path)
            if not compared:
                self._check_names(path, block)
                compared = True
            yield replace(block, first_row=block.first_row + first_row)

    def _read(self, path: Path, skip: int) -> Generator[Block, None, int]:
        self._check_unchanged(path)
        return blocks_after(path, skip, self.rows, self.labelled, self.format, self.complete_options)

    def _files(self) -> Iterator[Path]:
        """Yield all files that say what the blocks are."""
        xml = self.options.get("xml")
        for path in self.paths:
            yield path
            beside = sidecar_path(path)
            if self.format in ("xmc", "svmlight") and beside.exists():
                yield beside
            if self.format == "arff" and xml is None and (found := label_file_beside(path)):
                yield found
        if xml is not None:
            yield Path(xml)

    def _check_unchanged(self, *paths: Path) -> None:
        for path in paths or self.paths:
            if _state(path) != self._states[path]:
                rule = "a file must stay as it is while its blocks are read"
                got, remedy = Words("a change"), "Wait until it is complete, and start anew."
                raise DatasetFormatError.at(path, None, rule, got, remedy)

    def _check_names(self, path: Path, block: Block) -> None:
        """Refuse a file with other columns than the first."""
        for what, names, first in zip(
            ("feature", "label"), (block.feature_names, block.label_names), self._names, strict=True
        ):
            if _same(names, first):
                continue
            rule = f"all files must have the same {what}s in the same order, those of {self._first}"
            got = f"{len(names or ())} {what}s, for {len(first or ())}"
            if names is not None and first is not None and len(names) == len(first):
                at = next(pair for pair in zip(names, first, strict=True) if pair[0] != pair[1])
                got = f"{shown(at[0])} in the place of {shown(at[1])}"
            raise DatasetFormatError.at(
                path, None, rule, Words(got), "Write all files with the same columns."
            )


def _plain(value: Any) -> Any:
    """Return an option as JSON can write it, all of it: `repr` leaves out the middle of long arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return list(value) if isinstance(value, Iterable) else repr(value)


def _matching(path: str | os.PathLike[str]) -> list[str | os.PathLike[str]]:
    """Return a path, or all files of a pattern, unless it is the name of a file."""
    if os.path.isdir(path):
        raise FileNotFoundError(
            f"a dataset to read must be a file, got {os.fspath(path)!r}, which is a folder. Name its files, "
            f"as a list or a pattern: {pattern_of(path)!r}."
        )
    found = [] if os.path.exists(path) else sorted(glob.glob(os.fspath(path)))
    return [*found] or [path]


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _same(names: Iterable[str] | None, others: Iterable[str] | None) -> bool:
    return names == others or (names is not None and others is not None and list(names) == list(others))


def _state(path: Path) -> tuple[int, int]:
    """Return size and time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
