"""``lrml datasets``: list, describe, fetch and convert data."""

# ruff: noqa: PLC0415 - a list of datasets needs no NumPy, help no rich

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import lrml.datasets
from lrml._shown import did_you_mean
from lrml.cli._options import (
    CommandError,
    Data,
    DataHome,
    Force,
    Json,
    check_output,
    option,
    takes_data,
    user_errors,
)
from lrml.datasets import FORMATS, dataset_status, mulan_entries

_EMBEDDED = "yeast"

app = typer.Typer(rich_markup_mode=None, subcommand_metavar="[ACTION] ...")

_TO = "Format of OUT, if its suffix does not say it."
_STATES = {"missing": "yellow", "damaged": "red"}
_LEGEND = (
    "embedded: comes with lrml; fetch gets Mulan's files.",
    "data home: in your folder (--data-home or LRML_DATA_HOME).",
    "cache: fetched before.",
    "missing: get it with lrml datasets fetch NAME.",
    "damaged: a file has the wrong size. fetch replaces it in the cache; in the data home it is yours to do.",
)


@app.callback(invoke_without_command=True)
@user_errors()
def list_datasets(context: typer.Context, data_home: DataHome = None, as_json: Json = False) -> None:
    """List, describe, fetch and convert datasets, and make examples.

    Without an action: list the datasets that lrml knows by name, and where they are.
    """
    if context.invoked_subcommand is not None:  # options that stand before the action are meant for it
        context.default_map = {context.invoked_subcommand: {"data_home": data_home, "as_json": as_json}}
        return
    from lrml.cli._console import answer, plain_table

    _warn_of_data_home(data_home)
    records = [_list_record(entry, data_home) for entry in mulan_entries().values()]
    headings = ["name", "domain", "instances", "attributes", "labels", "train", "size", "status"]
    rows = []
    for record in records:
        style = _STATES.get(record["status"], "green")
        counts = (f"{record[key]:,d}" for key in ("instances", "attributes", "labels", "train"))
        size, status = f"{record['bytes'] / 1e6:.1f} MB", f"[{style}]{record['status']}[/]"
        rows.append((record["name"], record["domain"], *counts, size, status))
    table = plain_table("Datasets", headings, rows, text=("name", "domain", "status"))
    answer(records, table, *(f" {line}" for line in _LEGEND), as_json=as_json)


def _list_record(entry: Any, data_home: str | None) -> dict[str, Any]:
    state = dataset_status(entry.name, data_home).state
    return {
        "name": entry.name,
        "domain": entry.domain,
        "instances": entry.n_instances,
        "attributes": entry.n_attributes,
        "labels": entry.n_labels,
        "train": entry.n_train,
        "bytes": sum(file.size for file in entry.files),
        "status": "embedded" if entry.name == _EMBEDDED and state == "missing" else state,
        "citation": entry.citation,
    }


@app.command()
@takes_data()
def describe(data: Data, as_json: Json = False) -> None:
    """Print the statistics of a dataset or file."""
    from lrml.cli._console import answer, plain_table

    dataset = _read(data)
    description = lrml.datasets.describe(dataset)
    published = _published(description.name)
    headings = [description.name, "computed", *(["published"] if published else [])]
    rows = [
        (title, value, *([_as_printed(published.get(key))] if published else []))
        for key, title, value in description.lines()
    ]
    table = plain_table(None, headings, rows, text=(description.name,))
    document = description.as_dict() | {"provenance": dataset.provenance}
    source = [f"Source: {dataset.provenance}"] if dataset.provenance else []
    answer(document, table, *source, as_json=as_json)


def _read(data: Data) -> Any:
    _warn_of_data_home(data.reading.get("data_home"))
    return data.open().read()


def _published(name: str) -> Mapping[str, str]:
    """Return the paper's row of Table 1, if there is one."""
    if name not in mulan_entries():
        return {}  # without the slow import
    from lrml.paper import published_table1

    with suppress(ValueError):
        return published_table1(name)
    return {}


def _as_printed(value: str | None) -> str:
    return f"{int(value):,d}" if value is not None and value.isdecimal() else value or ""


@app.command()
@user_errors()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets, or all.")],
    data_home: DataHome = None,
    as_json: Json = False,
) -> None:
    """Get datasets into the cache, and check them."""
    from lrml.cli._console import advise, answer

    known = list(mulan_entries())
    for name in names:  # all of them are checked before anything is fetched
        if name != "all" and name not in known:
            raise ValueError(
                f"NAME is {name!r}, neither all nor one of {', '.join(known)}. "
                f"{did_you_mean(name, [*known, 'all'])}Check the spelling."
            )
    names = known if "all" in names else list(dict.fromkeys(names))
    _warn_of_data_home(data_home)
    records = []
    for name in names:
        record = _fetch_one(name, data_home)
        records.append(record)
        if "error" in record and not as_json:
            advise(f"{name}: {record['error']}")
        elif not as_json:
            place = Path(record["files"][0]).parent
            answer(record, f"{name}: in the {record['status']}, {place}", as_json=False)
    if as_json:
        answer(records, as_json=True)
    failed = [record["name"] for record in records if "error" in record]
    if failed:
        raise CommandError(
            f"{', '.join(failed)} could not be fetched, {len(failed)} of {len(names)}. What was fetched "
            "stays; run again for the rest."
        )


def _fetch_one(name: str, data_home: str | None) -> dict[str, Any]:
    """Fetch a dataset; a failure does not stop the others."""
    try:
        lrml.datasets.fetch_mulan(name, data_home=data_home)
    except (OSError, ValueError) as error:
        return {"name": name, "status": "failed", "error": str(error)}
    status = dataset_status(name, data_home)
    return {"name": name, "status": status.state, "files": [str(path) for path in status.paths]}


@app.command()
@takes_data()
def convert(
    data: Data,
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; others may belong to it.")],
    to: Annotated[str | None, option("|".join(FORMATS), _TO)] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a dataset in another format."""
    from lrml.cli._console import answer

    files = lrml.datasets.files_of(target, to)
    check_output(files[0], "OUT", force=force, beside=files[1:], other=data.paths)
    dataset = _read(data)
    lrml.datasets.write_dataset(dataset, target, format=to)
    found = lrml.datasets.describe(dataset).as_dict() if as_json else {}
    counts = {key: found[key] for key in ("instances", "attributes", "labels") if as_json}
    others = (f"wrote {file}, which belongs to it" for file in files[1:])
    document = {"wrote": [str(file) for file in files], **counts}
    answer(document, f"wrote {files[0]}: {dataset!r}", *others, as_json=as_json)


@app.command()
@user_errors()
def example(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="OUT...", help="Files to write (.csv, .tsv or .jsonl), with other texts each."
        ),
    ],
    rows: Annotated[int, option("N", "Texts in each file.")] = 1000,
    seed: Annotated[int, option("N", "Seed of the first file.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make example files of short made-up texts and their tags, to try the other commands.

    \b
    For example:
      lrml datasets example articles.csv new.csv
    """
    from lrml.cli._console import answer

    for file in files:
        check_output(file, "OUT", force=force)
    for number, file in enumerate(files):
        lrml.datasets.write_dataset(lrml.datasets.make_tagged_texts(rows, random_state=seed + number), file)
    lines = (f"wrote {file}: {rows:,d} texts with tags" for file in files)
    answer({"wrote": files, "texts": rows}, *lines, as_json=as_json)


def _warn_of_data_home(data_home: str | None) -> None:
    from lrml.cli._console import advise

    home = data_home or os.environ.get("LRML_DATA_HOME")
    if home and not Path(home).expanduser().is_dir():
        source = "--data-home" if data_home else "LRML_DATA_HOME"
        advise(f"lrml datasets: warning: {source} names no folder: {home!r}. Only the cache is searched.")
