"""``lrml compare``: several methods on the same rows, side by side."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from lrml._shown import did_you_mean
from lrml.cli._options import Data, Force, Json, Quiet, check_new_file, option, takes_data
from lrml.cli._recipe import METHODS, Recipe, Seed
from lrml.cli.evaluate import HTML, scored, write_page

if TYPE_CHECKING:
    from lrml.cli._data import Training

_METHODS = f"Methods with commas between them, of {', '.join(METHODS)}."
_HELD_OUT = "Share of the rows that judge the models, where the data has no test rows."


def _methods(text: str) -> list[str]:
    import typer

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in METHODS:
            raise typer.BadParameter(
                f"must be among {', '.join(METHODS)}, got {name!r}. {did_you_mean(name, METHODS)}"
                "Check the spelling."
            )
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise typer.BadParameter(f"must be two or more different methods, got {text!r}. Add another.")
    return names


@takes_data()
def compare(
    data: Data,
    methods: Annotated[str, option("LIST", _METHODS, _methods)] = "lrml,ml-trace,ml-fro",
    held_out: Annotated[float, option("SHARE", _HELD_OUT)] = 0.25,
    html: Annotated[str | None, option("FILE", HTML)] = None,
    bootstrap: Annotated[int, option("N", "Resamples of the rows for the intervals.")] = 1000,
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
    from lrml.cli._console import print_json, report_table, result_console, say, tell_progress
    from lrml.cli._data import Training
    from lrml.evaluation import compare as compared

    if html is not None:
        check_new_file(html, force, "--html")
    if not 0 < held_out < 1:
        raise ValueError(f"--held-out must be between 0 and 1, got {held_out}. Pass 0.25, for example.")
    names = list(methods)  # parsed, as all other options
    source = data.open()
    training = Training.read(source)
    split = source.has_split
    training, judged = (training, None) if split else _split(training, held_out, seed)
    judging: list[_Judged] = []
    n_texts = training.n_rows if source.roles.kind == "text" else None
    for name in names:
        estimator = Recipe(name).estimator(search=True, n_texts=n_texts, seed=seed, verbose=False)
        if not quiet:
            tell_progress(f"tuning {name} on {training.n_rows:,d} rows")
        judging.append(_tune_and_judge(name, estimator, data, training, judged))
    found = compared(
        judging[0].Y,
        {one.name: one.scores for one in judging},
        threshold={one.name: one.cut for one in judging},
        label_names=judging[0].classes,
        n_bootstrap=bootstrap,
        random_state=seed,
    )
    facts = {one.name: one.facts for one in judging}
    about = [("Data", data.name), ("Training rows", f"{training.n_rows:,d}")]
    about += [(name, f"{one['seconds']:.1f} seconds, rank {one['rank']}") for name, one in facts.items()]
    page = found.summary(f"Methods on {training.name}", about=about)
    if html is not None:
        write_page(html, page)
    if as_json:
        print_json({"data": data.name, "training_rows": training.n_rows, "models": facts, **found.as_dict()})
        return
    console = result_console()
    for table in page["tables"][:2]:
        console.print(report_table(table))
    for line in (*(f"{name}: {words}" for name, words in about[2:]), *page["summary"]):
        say(console, line)
    if html is not None:
        say(console, f"The page is in {html}.")


class _Judged(NamedTuple):
    """A tuned model's scores of the rows that judge, and what to say about it."""

    name: str
    scores: Any
    Y: Any
    cut: Any
    classes: list[Any]
    facts: dict[str, Any]


def _split(training: Training, share: float, seed: int) -> tuple[Training, Training]:
    """Return rows to learn from, and rows to judge by, drawn at random."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(training.n_rows)
    n_judged = round(share * training.n_rows)
    if not 0 < n_judged < training.n_rows:
        raise ValueError(
            f"--held-out must leave rows on both sides, got {share} of {training.n_rows}. Pass more data."
        )

    def part(rows: Any) -> Training:
        return training._replace(rows=training.rows.rows(np.sort(rows)))

    return part(order[n_judged:]), part(order[:n_judged])


def _tune_and_judge(
    name: str, estimator: Any, data: Data, training: Training, judged: Training | None
) -> _Judged:
    from lrml._inner import threshold_of
    from lrml.cli._console import warnings_told
    from lrml.cli._data import RowsForModel, without_names

    start = perf_counter()
    with warnings_told("lrml compare"):
        model = training.fit(estimator)
    seconds = perf_counter() - start
    inner = getattr(model, "model_", model)
    facts = {"seconds": round(seconds, 3), "rank": int(inner.rank_), "params": inner.best_params_}
    if judged is None:
        rows = RowsForModel(model, data, training.reading, labelled=True)
        scores, Y = scored(model, rows, quiet=True)
    else:
        rows = judged.rows
        Y = model.binarize(list(rows.tags)) if hasattr(rows, "tags") else rows.targets
        with without_names():
            scores = model.decision_function(list(rows.X) if hasattr(rows, "tags") else rows.X)
    return _Judged(name, scores, Y, threshold_of(model), list(model.classes_), facts)
