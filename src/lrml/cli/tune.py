"""``lrml tune``: choose the parameters of a model on held-out rows, learn it on all, and store it."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from lrml.cli._blocks import Blocks, Blockwise, CheckpointFile, Dask
from lrml.cli._options import Data, Force, Json, Quiet, check_new_file, count_or_share, option, takes_data
from lrml.cli._recipe import Config, Device, Kernel, Loss, Method, Recipe, Seed, typed_list
from lrml.cli.fit import OUTPUT, cut, learn, scoring_of

if TYPE_CHECKING:
    from rich.table import Table

_CV = "Folds, or the share of rows that is held out (default: what suits the data)."
_RULE = "best, one_standard_error or smallest (in bytes, within one standard error; default: best)."
_SCORING = "What to judge by, such as average_precision, precision_at_1 or micro_f1."
_CUT = "Score from which on a tag is assigned (default: auto, the best for micro-F1)."
_PLOT = "Also draw the scores of all candidates as a picture (.png, .svg or .pdf)."
# Beyond this many columns a terminal has no room for digits.
_MOST_DIGITS = 12
# From the worst to the best candidate; dark to light, as in the pictures.
_SHADES = (17, 18, 24, 30, 36, 71, 107, 143, 179, 220)


def _cv(text: str) -> Any:
    return int(text) if text.isdecimal() else float(text)


@takes_data(several=True)
def tune(
    data: Data,
    output: Annotated[str, OUTPUT],
    method: Method = None,
    thetas: Annotated[
        str | None, option("LIST", "LRML: values of theta to try.", typed_list(count_or_share))
    ] = None,
    ranks: Annotated[
        str | None, option("LIST", "LEML, CPLST: ranks to try.", typed_list(count_or_share))
    ] = None,
    alphas: Annotated[str | None, option("LIST", "Values of alpha to try.", typed_list(float))] = None,
    ridges: Annotated[str | None, option("LIST", "Values of the ridge to try.", typed_list(float))] = None,
    loss: Loss = None,
    kernel: Kernel = None,
    gammas: Annotated[str | None, option("LIST", "Kernels: widths to try.", typed_list(float))] = None,
    cv: Annotated[str | None, option("N|SHARE", _CV, _cv)] = None,
    scoring: Annotated[str | None, option("NAME", _SCORING)] = None,
    rule: Annotated[str | None, option("NAME", _RULE)] = None,
    threshold: Annotated[str | None, option("X|auto", _CUT, cut)] = None,
    plot: Annotated[str | None, option("FILE", _PLOT)] = None,
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
    given = {
        "thetas": thetas, "ranks": ranks, "alphas": alphas, "ridges": ridges, "loss": loss, "kernel": kernel,
        "gammas": gammas, "cv": cv, "scoring": scoring, "rule": rule, "threshold": threshold,
        "device": device,
    }  # fmt: skip
    if plot is not None:
        check_new_file(plot, force, "--plot")
    how = Blockwise.of(blocks, checkpoint, dask, data, output)
    model = learn("tune", data, output, Recipe.of(method, given, config), seed, force, quiet, as_json, how)
    search = getattr(model, "model_", model)
    if not as_json:
        _print_map(search)
    if plot is not None:
        _draw(search, plot)


def _print_map(search: Any) -> None:
    """Print held-out scores over the two parameters that vary most, the best over the others."""
    from lrml.cli._console import result_console, say

    console = result_console()
    varied = _varied(search.cv_results_)
    if varied:
        console.print(_heat_map(search, varied[:2]))
        others = ", ".join(varied[2:])
        say(
            console,
            f"{len(search.cv_results_['params'])} candidates" + (f"; best over {others}" if others else ""),
        )


def _varied(results: Any) -> list[str]:
    """Return the parameters with more than one value, those with the most values last but for two places."""
    names = [name for name in ("theta", "rank", "alpha", "ridge") if f"param_{name}" in results]
    counts = {name: len({params[name] for params in results["params"]}) for name in names}
    return sorted((name for name in names if counts[name] > 1), key=lambda name: -counts[name])


def _heat_map(search: Any, axes: list[str]) -> Table:
    import numpy as np
    from rich.text import Text

    from lrml.cli._console import plain_table

    results = search.cv_results_
    key = next(name for name in results if name.startswith("mean_test_"))
    scores, candidates = np.asarray(results[key], dtype=float), results["params"]
    across, down = axes[0], axes[1] if len(axes) > 1 else None
    columns = sorted({params[across] for params in candidates})
    rows = sorted({params[down] for params in candidates}) if down else [None]
    cells: dict[tuple[Any, Any], float] = {}
    for params, score in zip(candidates, scores, strict=True):
        place = (params[down] if down else None, params[across])
        if np.isfinite(score):
            cells[place] = max(score, cells.get(place, -np.inf))
    low, high = min(cells.values()), max(cells.values())
    digits = len(columns) <= _MOST_DIGITS
    best = search.best_params_
    chosen = (best[down] if down else None, best[across])
    heading = f"{down} \\ {across}" if down else across
    table = plain_table(
        f"{scoring_of(search)} on held-out rows",
        [heading, *(f"{c:.3g}" for c in columns)],
        text=(),
    )
    for row in rows:
        shades = []
        for column in columns:
            value = cells.get((row, column))
            if value is None:
                shades.append(Text("·", style="dim"))
                continue
            shade = _SHADES[round((value - low) / ((high - low) or 1.0) * (len(_SHADES) - 1))]
            mark = "*" if (row, column) == chosen else ""
            ink = "black" if shade > _SHADES[len(_SHADES) // 2] else "white"
            shades.append(
                Text(f"{mark}{value:.4f}" if digits else f"{mark}{value:.2f}", f"{ink} on color({shade})")
            )
        table.add_row("" if row is None else f"{row:.3g}", *shades)
    return table


def _draw(search: Any, path: str) -> None:
    import io
    from pathlib import Path

    from lrml._files import write_atomically
    from lrml.cli._console import tell_progress
    from lrml.displays import PathDisplay

    suffix = Path(path).suffix.lower().lstrip(".") or "png"
    stream = io.BytesIO()
    PathDisplay.from_estimator(search).figure_.savefig(stream, format=suffix, dpi=200, bbox_inches="tight")
    write_atomically(path, stream.getvalue())
    tell_progress(f"drew {path}")
