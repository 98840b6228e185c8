"""``lrml fit`` and ``lrml tune``: learn a model with given or with chosen parameters, and store it."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml._shown import counted
from lrml.cli._options import (
    CommandError,
    Data,
    Force,
    Json,
    Quiet,
    Seed,
    Table,
    check_output,
    option,
    takes_data,
)
from lrml.cli._recipe import FIT, TUNE, Recipe

if TYPE_CHECKING:
    from lrml.datasets import Source

_OUTPUT = typer.Option("-o", "--output", metavar="MODEL", help="The model file to write, such as model.lrml.")
_KEPT = "the checkpoint has the sums so far: run the same command again to go on"
_NOT_KEPT = "nothing was kept; with the squared loss, --checkpoint FILE lets the next run go on"
_PICTURES = (".png", ".svg", ".pdf", ".jpg")
_PLOT = f"Also draw the scores of all candidates as a picture ({', '.join(_PICTURES)})."
_BLOCKS: Table = {
    "blocks": (
        "",
        None,
        "Read files of numbers block by block, in memory that does not grow with the rows. A block has "
        "10,000 rows, or as many as --read rows=N says.",
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


@takes_data(given=FIT, how=_BLOCKS)
def fit(
    data: Data,
    output: Annotated[str, _OUTPUT],
    given: dict[str, Any],
    how: dict[str, Any],
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a model from texts with tags, or from features with labels.

    DATA is a dataset that lrml knows, a file of numbers (ARFF, XMC, svmlight, CSV, Parquet), or a CSV, TSV,
    JSONL or Parquet file with a column of texts and one of tags. Columns of texts and tags are guessed and
    shown. Of a dataset with a split, the training rows are used. To have theta, alpha and ridge chosen, use
    lrml tune. Files of numbers that are larger than memory are read with --blocks.

    \b
    For example:
      lrml fit articles.csv -o articles.lrml
      lrml fit articles.csv --text title,body --tags topics -o articles.lrml
      lrml fit yeast --theta 3 --alpha 20 -o yeast.lrml
      lrml fit part-*.xmc --blocks --checkpoint sums.npz -o big.lrml
    """
    check_output(output, "MODEL", force=force, other=data.paths)
    model, summary = _learned("fit", data, output, given, how, seed, quiet)
    _save(model, output, summary, as_json=as_json)


@takes_data(given=TUNE, how=_BLOCKS)
def tune(
    data: Data,
    output: Annotated[str, _OUTPUT],
    given: dict[str, Any],
    how: dict[str, Any],
    plot: Annotated[str | None, option("FILE", _PLOT)] = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Choose theta, alpha and ridge on held-out rows, then learn the model on all rows.

    What is not given is chosen from the data. The cut from which on a tag is assigned is chosen as well, for
    the best micro-F1 on held-out rows. DATA is what lrml fit takes. With --blocks, all rows are learned from
    and held out in turn, but scores are taken on a sample of them that fits into memory.

    \b
    For example:
      lrml tune articles.csv -o articles.lrml
      lrml tune articles.csv --loss logistic --rule smallest -o small.lrml
      lrml tune yeast --kernel rbf --plot grid.png -o yeast.lrml
      lrml tune part-*.xmc --blocks --checkpoint folds.npz -o big.lrml
    """
    check_output(plot, "--plot", force=force, other=data.paths, suffixes=_PICTURES)
    check_output(output, "MODEL", force=force, other=data.paths)
    model, summary = _learned("tune", data, output, given, how, seed, quiet)
    _save(model, output, summary, as_json=as_json)
    if plot is not None:
        _draw(getattr(model, "model_", model), plot)


def _learned(
    command: str,
    data: Data,
    output: str,
    given: Mapping[str, Any],
    how: Mapping[str, Any],
    seed: int,
    quiet: bool,
) -> tuple[Any, dict[str, Any]]:
    """Return a model of the data, and what to keep of how it was learned."""
    from lrml.cli._console import tell_progress, warnings_told
    from lrml.cli._rows import Training, files_of, reading_of

    tell: Callable[[str], None] = (lambda line: None) if quiet else tell_progress
    recipe = Recipe.of(given)
    data = data.with_defaults(recipe.data)
    blocks, checkpoint = bool(how.get("blocks") or "dask" in how), how.get("checkpoint")
    if checkpoint is not None and not blocks:
        raise ValueError("--checkpoint is for rows that are read block by block. Add --blocks.")
    check_output(checkpoint, "--checkpoint", force=True, other=[*data.paths, output])
    source = data.open()
    texts = source.roles.kind == "text"
    wanted: dict[str, Any] = {"search": command == "tune", "seed": seed, "verbose": not quiet}
    recipe.estimator(**wanted, n_texts=0 if texts else None)  # refuses wrong parameters before long reading
    training: Any = _Stream(source, data, how, tell) if blocks else Training.read(source)
    estimator = recipe.estimator(**wanted, n_texts=training.n_rows if texts else None)
    for note in (*training.notes(), *(["making features of the texts, then learning"] if texts else [])):
        tell(note)
    start = perf_counter()
    with warnings_told(f"lrml {command}"):
        model = training.fit(estimator)
    return model, {
        "command": command,
        "method": recipe.method,
        "data": source.name,
        "rows": training.n_rows,
        **({"blocks": source.n_blocks} if blocks else {}),
        "seconds": round(perf_counter() - start, 3),
        "reading": reading_of(source),
        "files": files_of(data),
    }


def _save(model: Any, output: str, summary: dict[str, Any], *, as_json: bool) -> None:
    """Store a model, and print what it is; of a search also what it found."""
    import lrml
    from lrml._inner import facts_of, in_words
    from lrml.cli._console import answer

    # Six digits are enough for scores; kernels need all.
    linear = not hasattr(getattr(model, "model_", model), "kernel_")
    lrml.save(model, output, summary=summary, dtype="float32" if linear else None)
    facts = facts_of(lrml.load(output))  # what is told is what the file holds
    lines = in_words(facts)
    if summary.get("rows") and "blocks" in summary:
        blocks = summary["blocks"]  # unknown where other machines have read them
        lines.append(counted(summary["rows"], "row") + (f" in {counted(blocks, 'block')}" if blocks else ""))
    lines.append(f"wrote {output}, after {summary['seconds']:.1f} s")
    answer({"model": output, **summary, **facts}, *lines, as_json=as_json)


def _draw(search: Any, path: str) -> None:
    import io

    from lrml._files import write_atomically
    from lrml.cli._console import tell_progress
    from lrml.displays import PathDisplay

    suffix = Path(path).suffix.lower().lstrip(".")
    stream = io.BytesIO()
    PathDisplay.from_estimator(search).figure_.savefig(stream, format=suffix, dpi=200, bbox_inches="tight")
    write_atomically(path, stream.getvalue())
    tell_progress(f"drew {path}")


# Files larger than memory


class _Stream:
    """Rows to learn from, block by block; has what `Training` has."""

    def __init__(
        self, source: Source, data: Data, how: Mapping[str, Any], tell: Callable[[str], None]
    ) -> None:
        from lrml._progress import Reading

        self.source, self.how, self.tell, self.told = source, how, tell, Reading(tell)
        self.n_rows: int | None = None  # until a model is fitted
        if source.has_first_pass:
            tell("reads all files once, to find features and labels")
        wrong = None
        if source.roles.kind == "text":
            wrong = "has texts, whose words are weighted by all; write features to an svmlight file"
        elif source.has_split:
            wrong = "has a test set; write the rows to learn from to a file"
        elif source.columns.labels is None:
            wrong = "has no labels; say where they are, for example with --labels"
        if wrong is not None:
            raise ValueError(f"--blocks learns from all rows of files of numbers, but {data.name!r} {wrong}.")

    def notes(self) -> list[str]:
        """Say what was found before the first block."""
        from lrml.cli._rows import explained, sizes_of

        return [f"{self.source.name}: {sizes_of(self.source)}", *explained(self.source)]

    def fit(self, estimator: Any) -> Any:
        """Return the estimator, fitted to all blocks, with the names of the columns."""
        from lrml.cli._console import advise
        from lrml.cli._rows import with_names

        with self._blocks() as blocks:
            try:
                model = estimator.fit_blocks(blocks, checkpoint=self.how.get("checkpoint"))
            except (ValueError, TypeError):
                raise
            except BaseException:  # stopped by the user, out of memory, a cluster that is lost
                advise(_KEPT if Path(self.how.get("checkpoint", "")).is_file() else _NOT_KEPT)
                raise
        sums = getattr(model, "statistics_", None)
        self.n_rows = self.source.n_rows if sums is None else sums.n_rows
        return with_names(model, self.source)

    @contextmanager
    def _blocks(self) -> Iterator[Any]:
        where = self.how.get("dask")
        if where is None:
            from lrml.blocks import LocalBlocks

            blocks = LocalBlocks(self.source)
            blocks.told = self.told
            yield blocks
            return
        from lrml.engines import dask as engine

        address = None if where == "local" else where
        self.tell("starting local workers" if address is None else f"connecting to {address}")
        try:
            with engine.connect(address):
                yield engine.DaskBlocks(self.source)
        except engine.ClusterError as error:
            raise CommandError(str(error)) from error
