"""Learning from files that are larger than memory: the options of ``fit`` and ``tune``, and the rows."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from lrml._files import pattern_of
from lrml._shown import counted
from lrml.cli._options import CommandError, Source, check_new_file, check_other_file, option

if TYPE_CHECKING:
    from lrml._progress import Reading
    from lrml.datasets import BlockFile

_ROWS = 10_000
_LOCAL = "local"

_BLOCKS = (
    "Read files of numbers block by block, in memory that does not grow with the rows; a block has "
    f"{_ROWS:,d} rows, or as many as given."
)
_CHECKPOINT = (
    "With --blocks: keep the sums over the blocks so far in this file, and go on from them if it is there. "
    "It stays, so that the same command with other parameters needs no reading."
)
_DASK = (
    "Sum up the blocks of several files on a Dask cluster: the address of its scheduler, or local for "
    "processes on this machine."
)


def _row_count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f"must be a number of rows, got {text!r}. Leave the number out if in doubt."
        ) from None


Blocks = Annotated[str | None, option("[ROWS]", _BLOCKS, _row_count)]
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
        cls, rows: Any, checkpoint: str | None, dask: str | None, data: Source, output: str
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
        folder = next((name for name in (data.name, *data.others) if Path(name).is_dir()), None)
        if folder is not None:
            raise ValueError(
                f"DATA must be files, got {folder!r}, which is a folder. Name its files: {pattern_of(folder)}"
            )
        if checkpoint is not None:
            _check_checkpoint(checkpoint, (output, data.name, *data.others))
        return cls(rows, checkpoint, dask)

    def check(self, estimator: Any) -> None:
        """Refuse an estimator that needs all rows at once, in the words of the options."""
        if not hasattr(estimator, "fit_blocks"):
            raise ValueError(
                "--blocks needs a method that can be fitted from sums over rows, got "
                f"{type(estimator).__name__}. Leave --blocks out, or choose --method lrml, ml-trace, "
                "ml-fro, leml or cplst."
            )
        searches, loss = hasattr(estimator, "cv"), getattr(estimator, "loss", "squared")
        if getattr(estimator, "kernel", "linear") != "linear":
            raise ValueError(
                f"--blocks needs --kernel linear, got {estimator.kernel}, which compares all pairs of rows. "
                "Leave one of them out."
            )
        if estimator.threshold == "auto" and not searches:
            raise ValueError(
                "--threshold auto needs rows that the model has not seen, got --blocks, of which none are "
                "kept. Pass a number, or use lrml tune --blocks, which chooses one."
            )
        if loss != "squared" and searches:
            raise ValueError(
                f"lrml tune --blocks needs --loss squared, got {loss}. Use lrml tune on some of the rows "
                f"without --blocks, then lrml fit --blocks --loss {loss} with what it has chosen."
            )
        if loss != "squared" and self.checkpoint is not None:
            raise ValueError(
                f"--checkpoint needs --loss squared, got {loss}, which reads the files several times. Leave "
                "--checkpoint out."
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
        if len(file.paths) > 1:
            self.name += f" and {counted(len(file.paths) - 1, 'more file')}"
        shape = f"{len(file.feature_names):,d} features, {len(file.label_names or ()):,d} labels"
        self.notes = (f"{self.name}: {shape}", *explained)
        self._told: Reading | None = None
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
                self._say_how_to_go_on(estimator)
                raise
        assert self.file.label_names is not None
        name_columns(model, self.file.feature_names, self.file.label_names)
        sums = getattr(model, "statistics_", None)
        self.n_blocks = self.file.n_blocks
        self.n_rows = self.file.n_rows if sums is None else sums.n_rows
        return model

    @contextmanager
    def _source(self) -> Iterator[Any]:
        if self.how.dask is None:
            from lrml._progress import Reading
            from lrml.blocks import LocalBlocks
            from lrml.cli._console import tell_progress

            source = LocalBlocks(self.file)
            source.told = self._told = Reading(None if self.quiet else tell_progress)
            yield source
            return
        from lrml.engines import dask as engine

        if not self.quiet:
            from lrml.cli._console import tell_progress

            local = self.how.dask == _LOCAL
            tell_progress("starting local workers" if local else f"connecting to {self.how.dask}")
        try:
            with engine.connect(None if self.how.dask == _LOCAL else self.how.dask):
                yield engine.DaskBlocks(self.file)
        except engine.ClusterError as error:
            raise CommandError(str(error)) from error

    def _say_how_to_go_on(self, estimator: Any) -> None:
        from lrml.cli._console import advise

        kept = self.how.checkpoint
        if kept is not None:
            advise(f"{kept} {_content(kept)}; run the same command again to go on")
        elif _reads_once(estimator) and (self._told is None or self._told.passes < 2):
            advise(
                "nothing was kept; with --checkpoint FILE, the next run goes on where this one was stopped"
            )
        else:
            advise("nothing was kept: what reads the files several times has no checkpoint")


def _check_checkpoint(checkpoint: str, others: Sequence[str]) -> None:
    """Refuse a checkpoint that cannot be written, or one of the other files."""
    check_new_file(checkpoint, True, "--checkpoint")
    for other in others:
        if Path(checkpoint).absolute() == Path(other).absolute():
            raise ValueError(
                f"--checkpoint must be a file of its own, got {checkpoint!r}, which is the model or the "
                "data, too. Choose another name."
            )
        check_other_file(checkpoint, other, "--checkpoint")


def _reads_once(estimator: Any) -> bool:
    """Whether sums over the rows suffice, as far as the parameters say."""
    return bool(getattr(estimator, "loss", "squared") == "squared")


def _content(checkpoint: str) -> str:
    """Return in words what a checkpoint has."""
    import numpy as np

    if not Path(checkpoint).exists():
        return "was not written, as no block was complete"
    with np.load(checkpoint, allow_pickle=False) as arrays:
        return f"has the sums over the first {counted(int(arrays['n_blocks']), 'block')}"


def name_columns(model: Any, feature_names: Sequence[str], label_names: Sequence[str]) -> None:
    """Store the names of features and labels where a fit on frames would have stored them."""
    import numpy as np

    from lrml.datasets import NumberedNames

    numbered = isinstance(feature_names, NumberedNames)
    features = None if numbered else np.array(feature_names, dtype=object)
    model._rename(features, np.array(label_names, dtype=object))
