"""``lrml predict``: the best tags of every row, streamed."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Annotated, Any

import typer

from lrml._shown import printable
from lrml.cli._options import Data, Force, Model, check_new_file, option, takes_data

_OUT = "Write a .csv, .jsonl or .parquet file instead of printing."
_ASSIGNED = "Only tags that reach the model's threshold, at most k."


@takes_data(metavar="NAME|PATH|-")
def predict(
    model: Model,
    data: Data,
    k: Annotated[int | None, typer.Option("-k", metavar="N", help="Tags of each row (default: 5).")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help=_OUT)] = None,
    assigned: Annotated[bool, typer.Option("--assigned", help=_ASSIGNED)] = False,
    block: Annotated[int, option("N", "Rows that are read at a time.")] = 1000,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Predict the k best tags of every row, best first, with their scores.

    With the logistic loss, scores are probabilities.

    A model of texts reads the files that lrml fit reads, a .txt file with one text a line, or standard input
    (-), one text a line. A model of numbers reads files of numbers, with or without labels; of a dataset with
    a split, the test rows. Rows are read and written in blocks, so files may be of any length.

    \b
    For example:
      lrml predict articles.lrml new.csv -k 3 -o tags.csv
      echo "Is there a good telescope for a comet?" | lrml predict articles.lrml -
    """
    from lrml._inner import threshold_of
    from lrml.cli._console import advise, tell_progress
    from lrml.cli._data import RowsForModel, opened

    check_new_file(output, force, "--output")
    if output is None and sys.stdout is None:
        raise ValueError("standard output is closed. Pass -o FILE.")
    if block < 1:
        raise ValueError(f"--block is {block}. Pass at least 1, or leave it out.")
    fitted, summary = opened(model)
    n_labels = len(fitted.classes_)
    k = min(5, n_labels) if k is None else k
    if not 1 <= k <= n_labels:
        raise ValueError(f"-k is {k}, and the model has {n_labels} labels. Pass 1 to {n_labels}.")
    rows = RowsForModel(fitted, data, summary, labelled=False, rows=block)
    cut = threshold_of(fitted) if assigned else None
    tell = None if output is None else tell_progress
    with _sink(output, k, as_json) as write:
        for (labels, scores), _ in rows.answers(lambda found, X: found.predict_top_k(X, k), tell):
            write(*_kept(fitted, labels, scores, cut))
    if tell is not None:
        tell(f"wrote {output}: {rows.n_done:,d} rows")
    for note in rows.notes():
        advise(f"lrml predict: {note}")


def _kept(model: Any, labels: Any, scores: Any, cut: Any) -> tuple[list[list[Any]], list[list[float]]]:
    """Return tags and scores (or probabilities) of every row as lists, without the tags below the cut."""
    import numpy as np

    from lrml.cli._data import as_told

    _, shown = as_told(model, scores)
    if cut is None:
        return labels.tolist(), shown.tolist()
    if np.ndim(cut):
        places = {name: place for place, name in enumerate(model.classes_)}
        cut = np.vectorize(lambda name: cut[places[name]], otypes=[float])(labels)
    reached = scores >= cut
    return (
        [row[keep].tolist() for row, keep in zip(labels, reached, strict=True)],
        [row[keep].tolist() for row, keep in zip(shown, reached, strict=True)],
    )


@contextmanager
def _sink(output: str | None, k: int, as_json: bool) -> Iterator[Callable[[Any, Any], None]]:
    """Yield a function that writes the tags and scores of some rows."""
    if output is not None:
        from lrml.datasets import PredictionWriter

        with PredictionWriter(output, k=k) as writer:
            yield writer.write
        return
    rows = count(1)

    def line(tags: list[Any], scores: list[float]) -> str:
        if as_json:
            found = {"row": next(rows), "tags": tags, "scores": [round(value, 6) for value in scores]}
            return json.dumps(found, ensure_ascii=False)
        return "\t".join(
            f"{printable(str(tag))} {value:.3f}" for tag, value in zip(tags, scores, strict=True)
        )

    yield lambda tags, scores: print("\n".join(map(line, tags, scores)), flush=True)
