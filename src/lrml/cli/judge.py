"""``lrml evaluate``, ``lrml compare``, ``lrml inspect``: how good models are, and what they have learnt."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml._shown import counted
from lrml.cli._options import (
    Bootstrap,
    Data,
    Force,
    Html,
    Json,
    Model,
    Quiet,
    Seed,
    check_new_file,
    one_of,
    option,
    takes_data,
    user_errors,
)
from lrml.cli._recipe import METHODS, Recipe

if TYPE_CHECKING:
    from lrml.cli._data import Training

_METHODS = f"Methods with commas between them, of {', '.join(METHODS)}."
_HELD_OUT = "Share of the rows that judge the models, where the data has no test rows."
_N_WORST = 10
_MANY_CELLS = 10_000_000  # from so many scores on, it is told what takes the time
_N_BARS, _BAR = 30, 40


@takes_data()
def evaluate(
    model: Model,
    data: Data,
    html: Html = None,
    bootstrap: Bootstrap = 1000,
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
    from lrml._inner import threshold_of
    from lrml.cli._console import advise, tell_progress
    from lrml.cli._data import RowsForModel, as_told, digest_of, opened
    from lrml.cli._fitted import facts_of, in_words
    from lrml.evaluation import assess

    check_new_file(html, force, "--html")
    fitted, summary = opened(model)
    rows = RowsForModel(fitted, data, summary, labelled=True)
    scores, Y = _scored(rows, tell_progress)
    likely, scores, cut = as_told(fitted, scores, threshold_of(fitted))
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
    facts = facts_of(fitted)
    page = found.summary(f"Evaluation of {model}", about=[("Model", model), ("Data", data.name)])
    page["left_out"] = notes
    document = {"model": model, "data": data.name, "notes": notes, "fitted": facts, **found.as_dict()}
    tables = {table["id"]: table for table in page["tables"]}
    shown = [tables["metrics"]]
    if "worst" in tables:
        few = {"title": "Worst labels", "rows": tables["worst"]["rows"][:_N_WORST]}
        shown.append(tables["worst"] | few)
    shown.append(tables["reliability"])
    about = (f"{name}: {value}" for name, value in page["about"])
    parts = (*about, *in_words(facts)[:3], *shown)
    _show(page, html, document, *parts, as_json=as_json)
    for note in () if as_json else notes:
        advise(f"lrml evaluate: {note}")


def _methods(text: str) -> list[str]:
    names = [one_of(tuple(METHODS))(name.strip()) for name in text.split(",")]
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise typer.BadParameter(f"{text!r} does not name two or more different methods. Add another.")
    return names


@takes_data()
def compare(
    data: Data,
    methods: Annotated[str, option("LIST", _METHODS, _methods)] = "lrml,ml-trace,ml-fro",
    held_out: Annotated[float, option("SHARE", _HELD_OUT)] = 0.25,
    html: Html = None,
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tune several methods on the same rows, and compare them on others, with paired tests.

    Every method is tuned as lrml tune does, on the training rows of DATA, and judged on its test rows. Where
    DATA has none, a share of the rows, drawn at random, takes their place.

    \b
    For example:
      lrml compare yeast --methods lrml,ml-fro,cplst
      lrml compare articles.csv --held-out 0.3 --html compared.html
    """
    from lrml._inner import threshold_of
    from lrml.cli._console import tell_progress, warnings_told
    from lrml.cli._data import Training
    from lrml.cli._fitted import facts_of, in_words
    from lrml.evaluation import compare as compared

    check_new_file(html, force, "--html")
    if not 0 < held_out < 1:
        raise ValueError(f"--held-out is {held_out}. Pass a share between 0 and 1, such as 0.25.")
    source = data.open()
    training, judged = Training.read(source), None
    if not source.has_split:
        training, judged = _split(training, held_out, seed)
    n_texts = training.n_rows if source.roles.kind == "text" else None
    scores, cuts, facts = dict[str, Any](), dict[str, Any](), dict[str, dict[str, Any]]()
    Y: Any = None
    model: Any = None
    for name in list(methods):  # parsed, as all other options
        estimator = Recipe(name).estimator(search=True, n_texts=n_texts, seed=seed, verbose=False)
        if not quiet:
            tell_progress(f"tuning {name} on {training.n_rows:,d} rows")
        start = perf_counter()
        with warnings_told("lrml compare"):
            model = training.fit(estimator)
        facts[name] = {"seconds": round(perf_counter() - start, 3)} | facts_of(model)
        scores[name], Y = _judged(model, data, training, judged)
        cuts[name] = threshold_of(model)
    found = compared(
        Y,
        scores,
        threshold=cuts,
        label_names=list(model.classes_),
        n_bootstrap=bootstrap,
        random_state=seed,
    )
    about = [("Data", data.name), ("Training rows", f"{training.n_rows:,d}")]
    about += [
        (name, f"{'; '.join(in_words(one)[:2])}; {one['seconds']:.1f} s") for name, one in facts.items()
    ]
    page = found.summary(f"Methods on {training.name}", about=about)
    document = {
        "data": data.name,
        "training_rows": training.n_rows,
        "n_rows": Y.shape[0],
        "models": facts,
        **found.as_dict(),
    }
    _show(page, html, document, _fits(facts), *page["tables"][:2], as_json=as_json)


@user_errors()
def inspect(
    model: Model,
    labels: Annotated[int, option("N", "How many labels, and pairs of labels, to show.")] = 15,
    features: Annotated[int, option("N", "How many features to name for each label.")] = 6,
    html: Html = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show what a model is, its spectrum with the tail, related labels, and top features of labels.

    \b
    For example:
      lrml inspect articles.lrml
      lrml inspect articles.lrml --html articles.html
    """
    from lrml.cli._data import opened
    from lrml.inspection import describe_model

    check_new_file(html, force, "--html")
    fitted, training = opened(model)
    found = describe_model(fitted, n_labels=labels, n_features=features)
    about = [("Model file", model)]
    about += [
        (name.capitalize(), str(training[name])) for name in ("data", "rows", "seconds") if name in training
    ]
    page = found.summary(f"What {model} has learnt", about=about)
    document = {"model": model, "training": training, **found.as_dict()}
    lines = [f"{name}: {value}" for name, value in page["about"]]
    tables = [table for table in page["tables"] if table["id"] != "params"]
    parts = (*lines, _spectrum(found), *tables, *page["summary"][1:])
    _show(page, html, document, *parts, as_json=as_json)


def _show(page: dict[str, Any], html: str | None, document: Any, *parts: Any, as_json: bool) -> None:
    """Write the page if asked to, and print the document or the parts."""
    from lrml.cli._console import answer

    if html is not None:
        from lrml._files import write_atomically
        from lrml.report import render_html

        write_atomically(html, render_html(page).encode())
        parts = (*parts, f"The page is in {html}.")
    answer(document, *parts, as_json=as_json)


def _scored(rows: Any, tell: Any = None) -> tuple[Any, Any]:
    """Return scores and labels of all rows; the labels stay sparse."""
    import numpy as np
    from scipy import sparse

    blocks = list(rows.answers(lambda model, X: model.decision_function(X), tell))
    if not blocks:
        raise ValueError(f"{rows.name!r} has no rows to judge a model on. Pass other data.")
    scores, labels = zip(*blocks, strict=True)
    found = np.concatenate(scores)
    if found.size >= _MANY_CELLS and tell is not None:
        tell(f"{counted(len(found), 'row')} scored; the metrics come next, then their intervals")
    return found, sparse.vstack(labels, format="csr")


def _split(training: Training, share: float, seed: int) -> tuple[Training, Training]:
    """Return rows to learn from, and rows to judge by, drawn at random."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(training.n_rows)
    n_judged = round(share * training.n_rows)
    if not 0 < n_judged < training.n_rows:
        raise ValueError(
            f"--held-out {share} of {training.n_rows} rows leaves one side empty. Pass more data."
        )

    def part(rows: Any) -> Training:
        return training._replace(rows=training.rows.rows(np.sort(rows)))

    return part(order[n_judged:]), part(order[:n_judged])


def _judged(model: Any, data: Data, training: Training, judged: Training | None) -> tuple[Any, Any]:
    """Return scores and labels of the rows that judge: those held out, or the test rows of the data."""
    from lrml.cli._data import RowsForModel

    if judged is None:
        return _scored(RowsForModel(model, data, {"reading": training.reading}, labelled=True))
    rows = judged.rows
    if hasattr(rows, "tags"):
        return model.decision_function(list(rows.X)), model.binarize(list(rows.tags))
    return model._unnamed().decision_function(rows.X), rows.targets


def _fits(facts: dict[str, dict[str, Any]]) -> Any:
    """Return a table of what was fitted, a row for each method."""
    from lrml.cli._console import plain_table

    words = ("method", "loss", "penalty on")
    numbers = ("theta", "alpha", "ridge", "rank", "bytes", "held out", "seconds")
    table = plain_table("Fitted, as tuned on the training rows", [*words, *numbers], text=words)
    for name, one in facts.items():
        params = one["params"]
        strengths = (f"{params[key]:.3g}" if key in params else "-" for key in ("theta", "alpha", "ridge"))
        sizes = (
            str(one["rank"]),
            f"{one['bytes']:,d}",
            f"{one['held_out_score']:.4f}",
            f"{one['seconds']:.1f}",
        )
        table.add_row(name, params["loss"], one["penalty_on"] or "-", *strengths, *sizes)
    return table


def _spectrum(found: Any) -> Any:
    """Return singular values as bars; those of the tail are shaded."""
    from rich.text import Text

    from lrml.cli._console import plain_table

    sigma = found.singular_values
    title = "Spectrum" if found.theta is None else f"Spectrum: ░ is the tail, beyond theta = {found.theta}"
    table = plain_table(title, ["j", "singular value", ""], text=("",))
    for place, value in enumerate(sigma[:_N_BARS]):
        tail = found.theta is not None and place >= found.theta
        bar = ("░" if tail else "█") * round(_BAR * value / sigma[0]) if sigma[0] > 0 else ""
        table.add_row(str(place + 1), f"{value:.4g}", Text(bar, "color(208)" if tail else "color(31)"))
    if len(sigma) > _N_BARS:
        table.add_row("…", f"{sigma[-1]:.4g}", f"{len(sigma) - _N_BARS} more")
    return table
