"""``lrml datasets``: list, describe, fetch and convert data."""

# ruff: noqa: PLC0415 - a list of datasets needs no NumPy, help no rich

from __future__ import annotations

from typing import Annotated, Any

import typer

import lrml.datasets
from lrml._shown import counted
from lrml.cli._options import (
    DATA,
    CommandError,
    Data,
    DataHome,
    Force,
    Json,
    advise,
    check_output,
    command,
    one_of,
    option,
)
from lrml.datasets import FORMATS, dataset_status, mulan_entries

app = typer.Typer(rich_markup_mode=None, subcommand_metavar="[ACTION] ...")

_TO = "Format of OUT, if its suffix does not say it."
_NAMED = [*mulan_entries(), *mulan_entries(real=True)]
_EXAMPLES = "Files to write (.csv, .tsv or .jsonl), with other texts each."
_LEGEND = (
    "embedded: comes with lrml; fetch gets Mulan's files.",
    "data home: in your folder (--data-home or LRML_DATA_HOME).",
    "cache: fetched before.",
    "missing: get it with lrml datasets fetch NAME.",
    "damaged: a file has the wrong size. fetch replaces it in the cache; in the data home it is yours to do.",
)


@app.callback(invoke_without_command=True)
@command()
def list_datasets(context: typer.Context, data_home: DataHome = None, as_json: Json = False) -> Any:
    """List, describe, fetch and convert datasets, and make examples.

    Without an action: list the datasets that lrml knows by name, and where they are.
    """
    if context.invoked_subcommand is not None:  # options that stand before the action are meant for it
        context.default_map = {context.invoked_subcommand: {"data_home": data_home, "as_json": as_json}}
        return None
    from lrml.report import column

    records = []
    for name, entry in mulan_entries().items():
        state, _ = dataset_status(name, data_home)
        record = {"name": name, "domain": entry["domain"]}
        record |= {key: entry[f"n_{key}"] for key in ("instances", "attributes", "labels", "train")}
        record["bytes"] = sum(file["size"] for file in entry["files"])
        record["status"] = "embedded" if name == "yeast" and state == "missing" else state
        records.append(record | {"citation": entry["citation"]})
    numbers = ("instances", "attributes", "labels", "train", "bytes")
    columns = [column("name", "name"), column("domain", "domain")]
    columns += [*(column(key, key, "integer") for key in numbers), column("status", "status")]
    table = {"title": "Datasets", "columns": columns, "rows": records}
    more = f"fetch also gets the regressions of lrml study: {', '.join(mulan_entries(real=True))}."
    return records, table, *(f" {line}" for line in (*_LEGEND, more))


@app.command()
@command(data=DATA)
def describe(data: Data) -> Any:
    """Print the statistics of a dataset or file."""
    dataset = data.open().read()
    found = lrml.datasets.describe(dataset)
    source = [f"Source: {dataset.provenance}"] if dataset.provenance else []
    return found | {"provenance": dataset.provenance}, str(found), *source


@app.command()
@command()
def fetch(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Datasets, or all.", parser=one_of([*_NAMED, "all"])),
    ],
    data_home: DataHome = None,
) -> Any:
    """Get datasets into the cache, and check them."""
    records, lines, failed = list[dict[str, Any]](), list[str](), list[str]()
    for name in _NAMED if "all" in names else dict.fromkeys(names):
        try:
            lrml.datasets.fetch_files(name, data_home)
        except (OSError, ValueError) as error:  # does not stop the others
            failed.append(name)
            advise(f"{name}: {error}")
            continue
        state, paths = dataset_status(name, data_home)
        records.append({"name": name, "status": state, "files": list(map(str, paths))})
        lines.append(f"{name}: in the {state}, {paths[0].parent}")
    if failed:
        raise CommandError(
            f"{', '.join(failed)} could not be fetched. What was fetched stays; run again for the rest."
        )
    return records, *lines


@app.command()
@command(data=DATA)
def convert(
    data: Data,
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; others may belong to it.")],
    to: Annotated[str | None, option("|".join(FORMATS), _TO)] = None,
    force: Force = False,
) -> Any:
    """Write a dataset in another format.

    Features and labels are kept, or texts and tags (several columns of text as one); other columns, such as
    an id, are not. ARFF and npz keep names, and which rows are training rows and which test rows.
    """
    files = lrml.datasets.files_of(target, to)
    check_output(files[0], "OUT", force=force, beside=files[1:], other=data.paths)
    dataset = data.open().read()
    lrml.datasets.write_dataset(dataset, target, format=to)
    others = (f"wrote {file}, which belongs to it" for file in files[1:])
    document = {"wrote": [str(file) for file in files], "rows": len(dataset)}
    if dataset.n_train and not {"arff", "npz"} & {to, *(suffix[1:] for suffix in files[0].suffixes)}:
        advise(f"the first {dataset.n_train:,d} are training rows, which the file does not say")
    return document, f"wrote {files[0]}: {counted(len(dataset), 'row')}", *others


@app.command()
@command()
def example(
    files: Annotated[list[str], typer.Argument(metavar="OUT...", help=_EXAMPLES)],
    rows: Annotated[int, option("N", "Texts in each file.")] = 1000,
    seed: Annotated[int, option("N", "Seed of the first file.")] = 0,
    force: Force = False,
) -> Any:
    """Make example files of short made-up texts and their tags, to try the other commands.

    \b
    For example:
      lrml datasets example articles.csv new.csv
    """
    for file in files:
        check_output(file, "OUT", force=force)
    for number, file in enumerate(files):
        lrml.datasets.write_dataset(lrml.datasets.make_tagged_texts(rows, random_state=seed + number), file)
    lines = (f"wrote {file}: {counted(rows, 'text')} with tags" for file in files)
    return {"wrote": files, "texts": rows}, *lines
