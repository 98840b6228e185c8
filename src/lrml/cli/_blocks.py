"""Learning from files that are larger than memory: the options of ``fit`` and ``tune``, and the rows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.core import TyperCommand

from lrml._files import pattern_of
from lrml._shown import counted
from lrml.cli._options import CommandError, Data, Table, check_new_file, check_other_file, number_of
from lrml.datasets import mulan_entries

if TYPE_CHECKING:
    from lrml.datasets import Source

_ROWS = 10_000

BLOCKS: Table = {
    "blocks": (
        "[ROWS]",
        number_of("a number of rows", int, "10000, or leave it out"),
        "Read files of numbers block by block, in memory that does not grow with the rows; a block has "
        f"{_ROWS:,d} rows, or as many as given.",
    ),
    "checkpoint": (
        "FILE",
        None,
        "With --blocks: keep the sums over the blocks so far in this file, and go on from them if it is "
        "there. It stays, so that the same command with other parameters needs no reading.",
    ),
    "dask": (
        "ADDRESS",
        None,
        "Sum up the blocks of several files on a Dask cluster: the address of its scheduler, or local for "
        "processes on this machine.",
    ),
}


class BlockCommand(TyperCommand):
    """A command with an option ``--blocks``, after which a number may follow or not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the usual number where none follows."""
        words: list[str] = []
        for place, word in enumerate(args):
            words.append(word)
            if word == "--blocks" and not re.fullmatch(r"[-+]?\d+", "".join(args[place + 1 : place + 2])):
                words.append(str(_ROWS))
        return super().parse_args(ctx, words)


class Blockwise(NamedTuple):
    """How blocks are read: their rows, the file that keeps their sums, and where they are summed up."""

    rows: int
    checkpoint: str | None
    dask: str | None

    @classmethod
    def of(cls, how: Mapping[str, Any], data: Data, output: str) -> Blockwise | None:
        """Return what the options say, checked before anything is read; None without ``--blocks``."""
        files, checkpoint, dask = (data.name, *data.others), how.get("checkpoint"), how.get("dask")
        rows = how.get("blocks", None if dask is None else _ROWS)
        if rows is None:
            if checkpoint is not None or data.others:
                what = "--checkpoint" if checkpoint is not None else f"{len(files)} files"
                raise ValueError(f"{what} needs --blocks: rows that are read block by block. Add it.")
            return None
        if rows < 1:
            raise ValueError(f"--blocks is {rows}. Leave the number out, or pass one of at least 1.")
        for name in files:
            if Path(name).is_dir():
                raise ValueError(f"{name!r} is a folder. Name its files: {pattern_of(name)}")
        check_new_file(checkpoint, True, "--checkpoint")
        if checkpoint is not None:
            check_other_file(checkpoint, "--checkpoint", *files)
            if Path(checkpoint).absolute() == Path(output).absolute():
                raise ValueError(f"--checkpoint is {checkpoint!r}, the model to write. Choose another name.")
        return cls(rows, checkpoint, dask)


class Stream:
    """Rows to learn from, block by block; has what `Training` has, the counts once a model is fitted."""

    n_rows: int | None = None
    n_blocks: int | None = None

    def __init__(self, how: Blockwise, tell: Callable[[str], None], data: Data, source: Source) -> None:
        from lrml._progress import Reading
        from lrml.cli._data import explained, reading_of

        wrong = None
        if source.has_first_pass:
            tell("reads all files once, to find features and labels")
        if source.roles.kind == "text":
            wrong = "has texts, whose words are weighted by all; write features to an svmlight file"
        elif source.has_split or data.name in mulan_entries():
            wrong = "has a test set; write the rows to learn from to a file"
        elif source.columns.labels is None:
            wrong = "has no labels; say where they are, for example with --labels"
        if wrong is not None:
            raise ValueError(f"--blocks learns from all rows of files of numbers, but {data.name!r} {wrong}.")
        self.how, self.tell, self.source, self.told = how, tell, source, Reading(tell)
        features, labels = source.columns
        self.name = data.reading.get("name") or Path(data.name).name
        if data.others:
            self.name += f" and {counted(len(data.others), 'more file')}"
        self.reading = reading_of(source, features)
        shape = f"{len(features or ()):,d} features, {len(labels or ()):,d} labels"
        self.notes = (f"{self.name}: {shape}", *explained(source))

    def fit(self, estimator: Any) -> Any:
        """Fit to all blocks, and give the model the names of the columns."""
        from lrml.cli._data import name_columns

        with self._blocks() as blocks:
            try:
                model = estimator.fit_blocks(blocks, checkpoint=self.how.checkpoint)
            except (ValueError, TypeError):
                raise
            except BaseException:  # stopped by the user, out of memory, a cluster that is lost
                self._say_how_to_go_on(estimator)
                raise
        name_columns(model, *self.source.columns)  # type: ignore[arg-type]
        sums = getattr(model, "statistics_", None)
        self.n_blocks = self.source.n_blocks
        self.n_rows = self.source.n_rows if sums is None else sums.n_rows
        return model

    @contextmanager
    def _blocks(self) -> Iterator[Any]:
        if self.how.dask is None:
            from lrml.blocks import LocalBlocks

            blocks = LocalBlocks(self.source)
            blocks.told = self.told
            yield blocks
            return
        from lrml.engines import dask as engine

        address = None if self.how.dask == "local" else self.how.dask
        self.tell("starting local workers" if address is None else f"connecting to {address}")
        try:
            with engine.connect(address):
                yield engine.DaskBlocks(self.source)
        except engine.ClusterError as error:
            raise CommandError(str(error)) from error

    def _say_how_to_go_on(self, estimator: Any) -> None:
        import numpy as np

        from lrml.cli._console import advise

        kept, once = self.how.checkpoint, getattr(estimator, "loss", "squared") == "squared"
        if kept is not None:
            has = "was not written, as no block was complete"
            if Path(kept).exists():
                with np.load(kept, allow_pickle=False) as arrays:
                    has = f"has the sums over the first {counted(int(arrays['n_blocks']), 'block')}"
            advise(f"{kept} {has}; run the same command again to go on")
        elif once and self.told.passes < 2:
            advise(
                "nothing was kept; with --checkpoint FILE, the next run goes on where this one was stopped"
            )
        else:
            advise("nothing was kept: what reads the files several times has no checkpoint")
