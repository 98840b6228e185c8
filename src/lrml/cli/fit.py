"""``lrml fit``: learn a model with given parameters, and store it."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Any

import typer

from lrml._shown import counted
from lrml.cli._blocks import Blocks, Blockwise, CheckpointFile, Dask, Stream
from lrml.cli._options import (
    Data,
    Force,
    Json,
    Quiet,
    check_new_file,
    check_other_file,
    count_or_share,
    option,
    takes_data,
)
from lrml.cli._recipe import Config, Device, Kernel, Loss, Method, Recipe, Seed

_THETA = "LRML: free singular values, a count or a share (default: 0.05; with --alpha 0.2; other losses 0.1)."
_RANK = "LEML, CPLST: the rank, a count or a share of the labels."
_ALPHA = "Strength of the penalty (default: that of the method; for lrml on the predictions)."
_RIDGE = "Ridge beside the penalty (default: that of the method, or 1 for texts with the squared loss)."
THRESHOLD = "Score from which on a tag is assigned, or auto (default: that of the loss)."
OUTPUT = typer.Option("-o", "--output", metavar="MODEL", help="The model file to write, such as model.lrml.")


def cut(text: str) -> float | str:
    """Parse a threshold."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise typer.BadParameter(
            f"must be a number or auto, got {text!r}. Leave it out if in doubt."
        ) from None


@takes_data(several=True)
def fit(
    data: Data,
    output: Annotated[str, OUTPUT],
    method: Method = None,
    theta: Annotated[str | None, option("N|SHARE|auto", _THETA, count_or_share)] = None,
    rank: Annotated[str | None, option("N|SHARE", _RANK, count_or_share)] = None,
    alpha: Annotated[float | None, option("X", _ALPHA)] = None,
    ridge: Annotated[float | None, option("X", _RIDGE)] = None,
    loss: Loss = None,
    kernel: Kernel = None,
    gamma: Annotated[float | None, option("X", "Kernels: their width (default: 1/features).")] = None,
    threshold: Annotated[str | None, option("X|auto", THRESHOLD, cut)] = None,
    device: Device = None,
    blocks: Blocks = None,
    checkpoint: CheckpointFile = None,
    dask: Dask = None,
    config: Config = None,
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
    given = {
        "theta": theta, "rank": rank, "alpha": alpha, "ridge": ridge, "loss": loss, "kernel": kernel,
        "gamma": gamma, "threshold": threshold, "device": device,
    }  # fmt: skip
    how = Blockwise.of(blocks, checkpoint, dask, data, output)
    learn("fit", data, output, Recipe.of(method, given, config), seed, force, quiet, as_json, how)


def learn(
    command: str,
    data: Data,
    output: str,
    recipe: Recipe,
    seed: int,
    force: bool,
    quiet: bool,
    as_json: bool,
    how: Blockwise | None = None,
) -> Any:
    """Fit and store a model, and print what it is; a search also tells what it found."""
    from lrml.cli._console import print_json, result_console, say, tell_progress, warnings_told
    from lrml.cli._data import Training, digest_of

    check_new_file(output, force, "MODEL")
    for name in (data.name, *data.others):
        check_other_file(output, name, "MODEL")
    data = data.with_defaults(recipe.data)
    source = data.open(rows=10_000 if how is None else how.rows)
    texts, search = source.roles.kind == "text", command == "tune"
    wanted: dict[str, Any] = {"search": search, "seed": seed, "verbose": not quiet}
    # Wrong parameters are refused before long reading.
    recipe.estimator(**wanted, n_texts=0 if texts else None)
    training: Any = Training.read(source) if how is None else Stream(how, quiet, data, source)
    estimator = recipe.estimator(**wanted, n_texts=training.n_rows if texts else None)
    if not quiet:
        for note in training.notes:
            tell_progress(note)
        if texts:
            tell_progress("making features of the texts, then learning")
    start = perf_counter()
    with warnings_told(f"lrml {command}"):
        model = training.fit(estimator)
    summary = {
        "command": command,
        "method": recipe.method,
        "data": training.name,
        "rows": training.n_rows,
        **({} if how is None else {"blocks": training.n_blocks}),
        "seconds": round(perf_counter() - start, 3),
        "reading": training.reading,
        "sha256": digest_of(data),
    }
    import lrml

    # Six digits are enough for scores; kernels need all.
    linear = not hasattr(getattr(model, "model_", model), "kernel_")
    lrml.save(model, output, summary=summary, dtype="float32" if linear else None)
    facts = _facts(model, summary)
    if as_json:
        print_json({"model": output, **facts})
        return model
    console = result_console()
    for line in _lines(output, facts):
        say(console, line)
    return model


def _facts(model: Any, summary: dict[str, Any]) -> dict[str, Any]:
    """Return what a model is, for people and machines."""
    inner = getattr(model, "model_", model)
    chosen = getattr(inner, "best_params_", None)
    names = ("theta", "rank", "alpha", "ridge", "loss", "kernel")
    params = inner.get_params(deep=False)
    for name in ("theta", "alpha", "ridge"):
        if params.get(name, 0.0) is None:
            params[name] = getattr(inner, f"{name}_", None)  # what the default stood for
    facts: dict[str, Any] = dict(summary)
    facts["params"] = {name: params[name] for name in names if params.get(name) is not None} | (chosen or {})
    if hasattr(inner, "space_"):
        facts["penalty_on"] = inner.space_
    facts["features"], facts["labels"] = int(inner.n_features_in_), len(inner.intercept_)
    facts["rank"], facts["bytes"] = int(inner.rank_), int(inner.nbytes_)
    facts["converged"] = bool(getattr(inner, "converged_", True))
    if chosen is not None:
        facts["held_out_score"] = float(inner.best_score_)
        facts["scoring"] = scoring_of(inner)
    return facts


def scoring_of(search: Any) -> str:
    """Return in words what a search judged by."""
    if search.scoring is not None:
        return str(search.scoring)
    return "average precision" if len(search.intercept_) > 1 else "minus the loss per row"


def _lines(output: str, facts: dict[str, Any]) -> list[str]:
    shown = ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in facts["params"].items()
    )
    if "penalty_on" in facts:
        shown += f", penalty on the {facts['penalty_on']}"
    lines = [f"{facts['method']} with {shown}"]
    if facts.get("blocks"):
        lines.append(f"{counted(facts['rows'], 'row')} in {counted(facts['blocks'], 'block')}")
    elif "blocks" in facts and facts["rows"]:  # other machines have counted the blocks
        lines.append(f"{facts['rows']:,d} rows")
    if "held_out_score" in facts:
        lines.append(f"{facts['scoring']} on held-out rows: {facts['held_out_score']:.4f}")
    lines.append(
        f"{facts['features']:,d} features, {facts['labels']:,d} labels, rank {facts['rank']}, "
        f"{facts['bytes'] / 1e6:.1f} MB, {facts['seconds']:.1f} s"
    )
    lines.append(f"wrote {output}")
    return lines
