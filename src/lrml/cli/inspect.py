"""``lrml inspect``: what a model is and what it has learnt."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from typing import Annotated, Any

from lrml.cli._options import Force, Json, check_new_file, option, user_errors
from lrml.cli.evaluate import HTML, write_page
from lrml.cli.predict import MODEL

_N_BARS = 30
_BAR = 40


@user_errors()
def inspect(
    model: Annotated[str, MODEL],
    labels: Annotated[int, option("N", "How many labels, and pairs of labels, to show.")] = 15,
    features: Annotated[int, option("N", "How many features to name for each label.")] = 6,
    html: Annotated[str | None, option("FILE", HTML)] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show what a model is, its spectrum with the tail, related labels, and top features of labels.

    \b
    For example:
      lrml inspect articles.lrml
      lrml inspect articles.lrml --html articles.html
    """
    import lrml
    from lrml.cli._console import print_json, report_table, result_console, say
    from lrml.inspection import describe_model
    from lrml.storage import read_header

    if html is not None:
        check_new_file(html, force, "--html")
    training = read_header(model)["summary"] or {}
    found = describe_model(lrml.load(model), n_labels=labels, n_features=features)
    about = [("Model file", model)]
    about += [
        (name.capitalize(), str(training[name])) for name in ("data", "rows", "seconds") if name in training
    ]
    page = found.summary(f"What {model} has learnt", about=about)
    if html is not None:
        write_page(html, page)
    if as_json:
        print_json({"model": model, "training": training, **found.as_dict()})
        return
    console = result_console()
    for name, value in page["about"]:
        say(console, f"{name}: {value}")
    console.print(_spectrum(found))
    for table in page["tables"]:
        if table["id"] != "params":
            console.print(report_table(table))
    for sentence in page["summary"][1:]:
        say(console, sentence)
    if html is not None:
        say(console, f"The page is in {html}.")


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
