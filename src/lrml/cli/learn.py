"""``lrml fit`` and ``lrml tune``: learn a model with given or with chosen parameters, and store it."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from lrml._shown import counted
from lrml.cli._blocks import BLOCKS, Blockwise, Stream
from lrml.cli._options import (
    Data,
    Force,
    Json,
    Quiet,
    Seed,
    check_new_file,
    check_other_file,
    option,
    takes_data,
)
from lrml.cli._recipe import FIT, TUNE, Recipe

_OUTPUT = typer.Option("-o", "--output", metavar="MODEL", help="The model file to write, such as model.lrml.")
_PLOT = "Also draw the scores of all candidates as a picture (.png, .svg or .pdf)."


@takes_data(several=True, given=FIT, how=BLOCKS)
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
    check_new_file(output, force, "MODEL")
    blocks = Blockwise.of(how, data, output)
    model, summary = _learned("fit", data, output, Recipe.of(given), blocks, seed, quiet)
    _save(model, output, summary, as_json=as_json)


@takes_data(several=True, given=TUNE, how=BLOCKS)
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
    check_new_file(plot, force, "--plot")
    check_new_file(output, force, "MODEL")
    blocks = Blockwise.of(how, data, output)
    model, summary = _learned("tune", data, output, Recipe.of(given), blocks, seed, quiet)
    _save(model, output, summary, as_json=as_json)
    if plot is not None:
        _draw(getattr(model, "model_", model), plot)


def _learned(
    command: str,
    data: Data,
    output: str,
    recipe: Recipe,
    blocks: Blockwise | None,
    seed: int,
    quiet: bool,
) -> tuple[Any, dict[str, Any]]:
    """Return a model of the data, and what to keep of how it was learned."""
    from lrml.cli._console import tell_progress, warnings_told
    from lrml.cli._data import Training, digest_of

    def tell(text: str) -> None:
        if not quiet:
            tell_progress(text)

    check_other_file(output, "MODEL", data.name, *data.others)
    data = data.with_defaults(recipe.data)
    source = data.open(rows=10_000 if blocks is None else blocks.rows)
    texts = source.roles.kind == "text"
    wanted: dict[str, Any] = {"search": command == "tune", "seed": seed, "verbose": not quiet}
    recipe.estimator(**wanted, n_texts=0 if texts else None)  # refuses wrong parameters before long reading
    training: Any = Training.read(source) if blocks is None else Stream(blocks, tell, data, source)
    estimator = recipe.estimator(**wanted, n_texts=training.n_rows if texts else None)
    for note in (*training.notes, *(["making features of the texts, then learning"] if texts else [])):
        tell(note)
    start = perf_counter()
    with warnings_told(f"lrml {command}"):
        model = training.fit(estimator)
    return model, {
        "command": command,
        "method": recipe.method,
        "data": training.name,
        "rows": training.n_rows,
        **({} if blocks is None else {"blocks": training.n_blocks}),
        "seconds": round(perf_counter() - start, 3),
        "reading": training.reading,
        "sha256": digest_of(data),
    }


def _save(model: Any, output: str, summary: dict[str, Any], *, as_json: bool) -> None:
    """Store a model, and print what it is; of a search also what it found."""
    import lrml
    from lrml.cli._console import answer
    from lrml.cli._fitted import facts_of, in_words

    # Six digits are enough for scores; kernels need all.
    linear = not hasattr(getattr(model, "model_", model), "kernel_")
    lrml.save(model, output, summary=summary, dtype="float32" if linear else None)
    facts = facts_of(model)
    lines = in_words(facts)
    if summary.get("blocks"):
        lines.append(f"{counted(summary['rows'], 'row')} in {counted(summary['blocks'], 'block')}")
    elif "blocks" in summary and summary["rows"]:  # other machines have counted the blocks
        lines.append(f"{summary['rows']:,d} rows")
    lines.append(f"wrote {output}, after {summary['seconds']:.1f} s")
    answer({"model": output, **summary, **facts}, *lines, as_json=as_json)


def _draw(search: Any, path: str) -> None:
    import io

    from lrml._files import write_atomically
    from lrml.cli._console import tell_progress
    from lrml.displays import PathDisplay

    suffix = Path(path).suffix.lower().lstrip(".") or "png"
    stream = io.BytesIO()
    PathDisplay.from_estimator(search).figure_.savefig(stream, format=suffix, dpi=200, bbox_inches="tight")
    write_atomically(path, stream.getvalue())
    tell_progress(f"drew {path}")
