"""Learning from files that are larger than memory: the options of ``fit`` and ``tune``, and the rows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer.core import TyperCommand

from lrml._files import writable_folder
from lrml.cli._options import CommandError, Source, check_new_file, check_other_file, option

if TYPE_CHECKING:
    from lrml.datasets import Block, BlockFile

_ROWS = 10_000
_LOCAL = "local"
# Progress is told after so many seconds, then each time that so much more of them have passed.
_SECONDS, _GROWTH = 5.0, 1.1

_BLOCKS = (
    "Read files of numbers block by block, in memory that does not grow with the rows; a block has "
    f"{_ROWS:,d} rows, or as many as given."
)
_CHECKPOINT = (
    "With --blocks: keep the sums over the blocks so far in this file, and go on from them if it is there. "
    "It stays, so that another model of the same files needs no reading."
)
_DASK = (
    "Sum up the blocks of several files on a Dask cluster: the address of its scheduler, or local for "
    "processes on this machine."
)
Blocks = Annotated[int | None, option("[ROWS]", _BLOCKS)]
CheckpointFile = Annotated[str | None, option("FILE", _CHECKPOINT)]
Dask = Annotated[str | None, option("ADDRESS", _DASK)]


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
    def of(
        cls, rows: int | None, checkpoint: str | None, dask: str | None, data: Source, output: str
    ) -> Blockwise | None:
        """Return what the options say, checked before anything is read; None without ``--blocks``."""
        if rows is None and dask is not None:
            rows = _ROWS
        if rows is None:
            if checkpoint is not None:
                raise ValueError(
                    f"--checkpoint is for files that are read in blocks, got {checkpoint!r} without "
                    "--blocks. Add --blocks."
                )
            if data.others:
                raise ValueError(
                    f"several files must be read in blocks, got {1 + len(data.others)} files without "
                    "--blocks. Add --blocks, or pass one file."
                )
            return None
        if rows < 1:
            raise ValueError(
                f"--blocks must have at least 1 row each, got {rows}. Leave the number out if in doubt."
            )
        if checkpoint is not None:
            check_new_file(checkpoint, True, "--checkpoint")
            writable_folder(Path(checkpoint).parent)
            for other in (output, data.name, *data.others):
                if Path(checkpoint).absolute() == Path(other).absolute():
                    raise ValueError(
                        f"--checkpoint must be a file of its own, got {checkpoint!r}, which is the model or "
                        "the data, too. Choose another name."
                    )
                check_other_file(checkpoint, other, "--checkpoint")
        return cls(rows, checkpoint, dask)

    def check(self, estimator: Any) -> None:
        """Refuse an estimator that needs all rows at once."""
        if not hasattr(estimator, "fit_blocks"):
            raise ValueError(
                "--blocks needs a method that can be fitted from sums over rows, got "
                f"{type(estimator).__name__}. Leave --blocks out, or choose --method lrml, ml-trace, ml-fro "
                "or cplst."
            )


class Stream:
    """Rows to learn from, block by block; has what `Training` has, the counts once a model is fitted."""

    def __init__(
        self,
        how: Blockwise,
        quiet: bool,
        file: BlockFile,
        name: str | None,
        explained: list[str],
        reading: dict[str, Any],
    ) -> None:
        self.how, self.quiet, self.file, self.reading = how, quiet, file, reading
        self.name = name or file.paths[0].name
        others = len(file.paths) - 1
        also = "" if not others else f" and {others} more file{'s' if others > 1 else ''}"
        shape = f"{len(file.feature_names):,d} features, {len(file.label_names or ()):,d} labels"
        self.notes = (f"{self.name}{also}: {shape}", *explained)
        self.n_rows: int | None = None
        self.n_blocks: int | None = None

    def fit(self, estimator: Any) -> Any:
        """Fit to all blocks, and give the model the names of the columns."""
        with self._source() as source:
            try:
                model = estimator.fit_blocks(source, checkpoint=self.how.checkpoint)
            except (ValueError, TypeError):
                raise
            except BaseException:  # stopped by the user, out of memory, a cluster that is lost
                self._say_how_to_go_on()
                raise
        assert self.file.label_names is not None
        name_columns(model, self.file.feature_names, self.file.label_names)
        sums = vars(model).get("statistics_")
        self.n_blocks = self.file.n_blocks
        self.n_rows = self.file.n_rows if sums is None else sums.n_rows
        return model

    @contextmanager
    def _source(self) -> Iterator[Any]:
        if self.how.dask is None:
            yield _Told(self.file, self.quiet)
            return
        from lrml.engines import dask as engine

        if not self.quiet:
            from lrml.cli._console import tell_progress

            local = self.how.dask == _LOCAL
            tell_progress("starting local workers" if local else f"connecting to {self.how.dask}")
        try:
            with engine.connect(None if self.how.dask == _LOCAL else self.how.dask) as client:
                yield engine.DaskBlocks.from_files(
                    self.file.paths,
                    rows=self.how.rows,
                    format=self.file.format,
                    client=client,
                    **self.file.complete_options,
                )
        except engine.ClusterError as error:
            raise CommandError(str(error)) from error

    def _say_how_to_go_on(self) -> None:
        from lrml.cli._console import advise

        kept = self.how.checkpoint
        if kept is None:
            advise(
                "nothing was kept; with --checkpoint FILE, the next run goes on where this one was stopped"
            )
        elif Path(kept).exists():
            advise(f"{kept} has the sums over the blocks so far; run the same command again to go on")
        else:
            advise(f"{kept} was not written yet; run the same command again")


class _Told:
    """The blocks of files, with a line on standard error every now and then."""

    def __init__(self, file: BlockFile, quiet: bool) -> None:
        self.file, self.quiet, self.identity = file, quiet, file.identity

    def __iter__(self) -> Iterator[Block]:
        return self.starting_at(0)

    def starting_at(self, start: int) -> Iterator[Block]:
        from lrml.cli._console import tell_progress

        if start and not self.quiet:
            tell_progress(f"going on from block {start:,d}")
        begin, pause, read = monotonic(), _SECONDS, 0
        for index, block in enumerate(self.file.starting_at(start), start):
            yield block
            read += len(block)
            seconds = monotonic() - begin
            if seconds >= pause and not self.quiet:
                rows, speed = block.first_row + len(block), round(read / seconds)
                tell_progress(f"{rows:,d} rows in {index + 1:,d} blocks, {speed:,d} rows a second")
                pause = max(seconds * _GROWTH, seconds + _SECONDS)


def name_columns(model: Any, feature_names: Sequence[str], label_names: Sequence[str]) -> None:
    """Store the names of features and labels where a fit on frames would have stored them."""
    import numpy as np

    from lrml.datasets import NumberedNames

    for one in (model, *vars(model).get("best_estimators_", {}).values(), vars(model).get("best_estimator_")):
        if one is None:
            continue
        one.classes_ = np.array(label_names, dtype=object)
        if not isinstance(feature_names, NumberedNames):
            one.feature_names_in_ = np.array(feature_names, dtype=object)
