"""``lrml evaluate``, ``lrml compare``, ``lrml inspect``: how good models are, and what they have learnt."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Any

from lrml._shown import shown
from lrml.cli._options import (
    DATA,
    Bootstrap,
    Data,
    Force,
    Html,
    Model,
    Quiet,
    Seed,
    advise,
    check_output,
    command,
    names,
    one_of,
    option,
    tell_progress,
)
from lrml.cli._rows import RowsForModel, opened
from lrml.cli.learn import METHODS, Recipe, Training

_METHODS = f"Methods with commas between them, of {', '.join(METHODS)}."
_EQUAL = "Loss of all methods: squared, logistic or squared_hinge."
_HELD_OUT = "Share of the rows that judge the models, where the data has no test rows."
_N_WORST, _N_VALUES = 10, 20
_PAGES = (".html", ".htm")


@command(data=DATA)
def evaluate(
    model: Model,
    data: Data,
    html: Html = None,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[int, option("N", "Seed of the resamples.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> Any:
    """Judge a model on rows with known labels: metrics with intervals, worst labels and errors, reliability.

    The rows must not be those of the training; of a dataset with a split, the test rows are taken. Intervals
    have a confidence of 95 %. The whole table of labels is in --json and --html. The scores of all rows must
    fit into memory: 8 bytes for each row and label, several times; judge on a sample of a larger file.

    \b
    For example:
      lrml evaluate articles.lrml later.csv
      lrml evaluate yeast.lrml yeast --html evaluation.html
    """
    from lrml._inner import facts_of, in_words, threshold_of
    from lrml.evaluation import assess

    check_output(html, "--html", force=force, suffixes=_PAGES)
    fitted, summary = opened(model, for_labels=True)
    facts = facts_of(fitted)
    rows = RowsForModel(fitted, data, summary, labelled=True)
    scores, chances, Y, X = _scored(rows, None if quiet else tell_progress)
    found = assess(
        Y,
        scores,
        threshold=threshold_of(fitted),
        probabilities=False if chances is None else chances,
        label_names=list(rows.inner.model.classes_),
        n_bootstrap=bootstrap,
        random_state=seed,
        verbose=not quiet,
    )
    notes = rows.notes()
    if summary.get("files") and summary["files"] == rows.source.files and not rows.has_split:
        notes.append("the model was trained on these rows, so its figures are too good; judge it on others")
    about = [("Model", model), ("Fitted", "; ".join(in_words(facts))), ("Data", data.told)]
    page = found.summary(f"Evaluation of {model}", about=about, model=fitted, X=X) | {"left_out": notes}
    document = {"model": model, "data": data.name, "notes": notes, "fitted": facts, **found.as_dict()}
    labels = "worst" if any(table["id"] == "worst" for table in page["tables"]) else "labels"
    for note in notes:
        advise(f"lrml evaluate: {note}")
    return document, *_parts(page, html, "metrics", labels, "bands", "reliability")


def _methods(text: str) -> list[str]:
    found = [*map(one_of(METHODS), names(text))]
    if len(set(found)) < 2 or len(set(found)) < len(found):
        raise ValueError(f"--methods {text!r} does not name two or more different methods. Add another.")
    return found


@command(data=DATA)
def compare(
    data: Data,
    methods: Annotated[str, option("LIST", _METHODS)] = "lrml,ml-trace,ml-fro",
    held_out: Annotated[float, option("SHARE", _HELD_OUT)] = 0.25,
    loss: Annotated[str, option("NAME", _EQUAL)] = "squared",
    html: Html = None,
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> Any:
    """Tune several methods on the same rows, and compare them on others, with paired tests.

    Every method is tuned as lrml tune does, on the training rows of DATA, and judged on its test rows. Where
    DATA has none, a share of the rows, drawn at random, takes their place. All methods have the same loss,
    so that it is the methods that differ.

    \b
    For example:
      lrml compare yeast --methods lrml,ml-fro,cplst
      lrml compare articles.csv --held-out 0.3 --html compared.html
    """
    from lrml._inner import facts_of, in_words, inner_model, threshold_of
    from lrml.core.checks import check_number
    from lrml.evaluation import compare as compared

    check_output(html, "--html", force=force, suffixes=_PAGES)
    check_number("--held-out", held_out, below=1.0, above=True)
    chosen = _methods(methods)
    source = data.open()
    training = Training.read(source, held_out, seed)
    n_rows, test = training.n_rows, training.test
    n_texts = n_rows if source.roles.kind == "text" else None
    scores, cuts, facts = dict[str, Any](), dict[str, Any](), dict[str, dict[str, Any]]()
    Y: Any = None
    model: Any = None
    for number, name in enumerate(chosen, start=1):
        if not quiet:
            tell_progress(f"tuning {name}, {number} of {len(chosen)} methods, on {n_rows:,d} rows")
        start = perf_counter()
        recipe = Recipe(name, {} if loss == "squared" else {"loss": loss})
        # For few texts: lrml tune takes another loss for many.
        few = None if n_texts is None else 0
        estimator = recipe.estimator(search=True, n_texts=few, seed=seed, verbose=not quiet)
        model = training.fit(estimator)
        facts[name] = {"seconds": round(perf_counter() - start, 3)} | facts_of(model)
        cuts[name] = threshold_of(model)
        inner = inner_model(model, "lrml compare").unnamed()
        scores[name] = inner.model.decision_function(inner.features(test.X))
        Y = test.targets if n_texts is None else model.binarize(test.tags)
    found = compared(
        Y,
        scores,
        threshold=cuts,
        label_names=list(model.classes_),
        n_bootstrap=bootstrap,
        random_state=seed,
        verbose=not quiet,
    )
    about = [("Data", data.told), ("Training rows", f"{n_rows:,d}")]
    about += [(name, "; ".join([*in_words(one), f"{one['seconds']:.1f} s"])) for name, one in facts.items()]
    page = found.summary(f"Methods on {source.name}", about=about)
    document = {"data": data.name, "training_rows": n_rows, "n_rows": Y.shape[0], "models": facts}
    return document | found.as_dict(), *_parts(page, html, "metrics", "tests")


@command()
def inspect(
    model: Model,
    label: Annotated[list[str] | None, option("NAME", "Show this label alone; may come again.")] = None,
    labels: Annotated[int, option("N", "How many labels, and pairs of labels, to show.")] = 15,
    features: Annotated[
        int | None, option("N", "Features of each label (default: 6; 20 with --label).")
    ] = None,
    html: Html = None,
    force: Force = False,
) -> Any:
    """Show what a model is, its spectrum with the tail, related labels, and top features of labels.

    \b
    For example:
      lrml inspect articles.lrml
      lrml inspect articles.lrml --label astronomy
      lrml inspect articles.lrml --html articles.html
    """
    from lrml.inspection import describe_model

    check_output(html, "--html", force=force, suffixes=_PAGES)
    fitted, training = opened(model)
    features = (20 if label else 6) if features is None else features
    found = describe_model(fitted, labels=label or (), n_labels=labels, n_features=features)
    sigma = found.singular_values
    spectrum = ", ".join(f"{value:.4g}" for value in sigma[:_N_VALUES])
    about = [("Model file", model)]
    about += [
        (key.capitalize(), training[key] if key == "data" else f"{training[key]:,}")
        for key in ("data", "rows", "seconds")
        if key in training
    ]
    about += [("Singular values", f"{spectrum}{', …' if len(sigma) > _N_VALUES else ''}")] if sigma else []
    page = found.summary(f"What {model} has learnt", about=about)
    document = {"model": model, "training": training, **found.as_dict()}
    return document, *_parts(page, html, *(table["id"] for table in page["tables"]))


def _parts(page: dict[str, Any], html: str | None, *shown: str) -> list[Any]:
    """Write the page if asked to, and return what it says, with some of its tables."""
    parts = [f"{name}: {value}" for name, value in page["about"]]
    parts += [
        table | {"rows": table["rows"][:_N_WORST]} if table["id"] == "worst" else table
        for table in page["tables"]
        if table["id"] in shown
    ]
    if html is not None:
        from lrml._files import write_atomically
        from lrml.report import render_html

        write_atomically(html, render_html(page).encode())
        parts.append(f"The page is in {html}.")
    return parts


def _scored(rows: RowsForModel, tell: Any) -> tuple[Any, Any, Any, Any]:
    """Return scores, probabilities if the model has them, labels and rows; the labels stay sparse."""
    import numpy as np
    from scipy import sparse

    def answered(model: Any, X: Any) -> tuple[Any, Any]:
        likely = hasattr(model, "predict_proba")
        return model.decision_function(X), model.predict_proba(X) if likely else None

    blocks = list(rows.answers(answered, tell=tell))
    if not blocks:
        raise ValueError(f"{rows.source.name!r} has no rows to judge a model on. Pass other data.")
    answers, labels, X = zip(*blocks, strict=True)
    scores, chances = zip(*answers, strict=True)
    Y = sparse.vstack(labels, format="csr")
    if not (Y.data == 1).any():
        known = ", ".join(map(shown, rows.inner.model.classes_[:3].tolist()))
        raise ValueError(
            f"no row of {rows.source.name!r} has a label that the model knows, such as {known}. Pass rows "
            "with labels of the training."
        )
    joined = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
    return np.concatenate(scores), None if chances[0] is None else np.concatenate(chances), Y, joined
