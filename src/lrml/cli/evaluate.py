"""``lrml evaluate``: how good a model is on rows that it has not seen."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from time import monotonic
from typing import Annotated, Any

from lrml._shown import counted
from lrml.cli._options import Data, Force, Json, check_new_file, option, takes_data
from lrml.cli.predict import MODEL

HTML = "Write a page with figures and tables."
_RESAMPLES = "Resamples of the rows for the intervals."
_N_WORST = 10
# From so many scores on, it is told what takes the time; and every so many seconds.
_MANY_CELLS, _SECONDS = 10_000_000, 5.0


@takes_data()
def evaluate(
    model: Annotated[str, MODEL],
    data: Data,
    html: Annotated[str | None, option("FILE", HTML)] = None,
    bootstrap: Annotated[int, option("N", _RESAMPLES)] = 1000,
    seed: Annotated[int, option("N", "Seed of the resamples.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Judge a model on rows with known labels: all metrics with intervals, worst labels, reliability.

    The rows must not be those of the training; of a dataset with a split, the test rows are taken. Intervals
    have a confidence of 95 %. The whole table of labels is in --json and --html. The scores of all rows must
    fit into memory: 8 bytes for each row and label, several times; judge on a sample of a larger file.

    \b
    For example:
      lrml evaluate articles.lrml later.csv
      lrml evaluate yeast.lrml yeast --html evaluation.html
    """
    import numpy as np

    import lrml
    from lrml._inner import threshold_of
    from lrml.cli._console import advise, print_json, report_table, result_console, say
    from lrml.cli._data import RowsForModel, digest_of
    from lrml.core.losses import LogisticLoss
    from lrml.evaluation import assess
    from lrml.storage import read_header

    if html is not None:
        check_new_file(html, force, "--html")
    summary = read_header(model)["summary"] or {}
    fitted = lrml.load(model)
    reading = summary.get("reading", {})
    rows = RowsForModel(fitted, data, reading, labelled=True)
    scores, Y = scored(fitted, rows)
    cut = threshold_of(fitted)
    likely = getattr(fitted, "model_", fitted).loss_ == "logistic"
    if likely:
        scores, cut = (LogisticLoss().probability(np.asarray(values)) for values in (scores, cut))
    found = assess(
        Y,
        scores,
        threshold=cut,
        probabilities=likely,
        label_names=list(fitted.classes_),
        n_bootstrap=bootstrap,
        random_state=seed,
    )
    notes = rows.notes()
    if summary.get("sha256") is not None and summary["sha256"] == digest_of(data):
        notes.append("the model was trained on these rows, so its figures are too good; judge it on others")
    page = found.summary(f"Evaluation of {model}", about=[("Model", model), ("Data", data.name)])
    page["left_out"] = notes
    if html is not None:
        write_page(html, page)
    if as_json:
        print_json({"model": model, "data": data.name, "notes": notes, **found.as_dict()})
        return
    console = result_console()
    tables = {table["id"]: table for table in page["tables"]}
    console.print(report_table(tables["metrics"]))
    if "worst" in tables:
        few = {"title": "Worst labels", "rows": tables["worst"]["rows"][:_N_WORST]}
        console.print(report_table(tables["worst"] | few))
    console.print(_reliability(found.reliability))
    for sentence in page["summary"]:
        say(console, sentence)
    if html is not None:
        say(console, f"The page is in {html}.")
    for note in notes:
        advise(f"lrml evaluate: {note}")


def scored(model: Any, rows: Any, *, quiet: bool = False) -> tuple[Any, Any]:
    """Return scores and labels of all rows; the labels stay sparse."""
    import numpy as np
    from scipy import sparse

    from lrml.cli._console import tell_progress
    from lrml.cli._data import without_names

    scores, labels = [], []
    done, last = 0, monotonic()
    for inputs, Y in rows:
        with without_names():
            scores.append(model.decision_function(inputs))
        labels.append(Y)
        done += Y.shape[0]
        if monotonic() - last >= _SECONDS and not quiet:
            last = monotonic()
            tell_progress(f"{counted(done, 'row')} scored")
    if not scores:
        raise ValueError(f"DATA must have rows to judge a model on, got none in {rows.name!r}.")
    found = np.concatenate(scores)
    if found.size >= _MANY_CELLS and not quiet:
        tell_progress(f"{counted(done, 'row')} scored; the metrics come next, then their intervals")
    return found, sparse.vstack(labels, format="csr")


def write_page(path: str, summary: dict[str, Any]) -> None:
    """Write a page, whole or not at all."""
    from lrml._files import write_atomically
    from lrml.report import render_html

    write_atomically(path, render_html(summary).encode())


def _reliability(found: Any) -> Any:
    from lrml.cli._console import plain_table

    bins = "bins of equal width" if found.probabilities else "each bin has a tenth of the relevant cells"
    table = plain_table(
        f"Reliability: {bins}", ["score from", "to", "mean", "cells", "share relevant"], text=()
    )
    for one in found.bins:
        numbers = (f"{one[key]:.3f}" for key in ("low", "high", "score"))
        table.add_row(*numbers, f"{one['count']:,d}", f"{one['frequency']:.3f}")
    return table
