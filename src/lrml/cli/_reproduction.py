"""What ``lrml reproduce`` does: run, write the files, print."""

from __future__ import annotations

import argparse

from rich.console import Console

from lrml._files import writable_folder, write_atomically
from lrml.cli._console import advise, progress_bar, result_console, say
from lrml.cli._tables import result_table, statistics_table
from lrml.datasets import describe, load_yeast
from lrml.experiments import (
    Reproduction,
    count_steps,
    load_spec,
    published_table1,
    render_figures,
    render_tables,
    reproduce,
)

_REMEDY = (
    "lrml reproduce: the figures were left out, because matplotlib is not installed. "
    'Install it with: pip install "lrml[plots]"'
)


def run(arguments: argparse.Namespace) -> None:
    """Run the command; the files are safe before the results are printed."""
    folder = writable_folder(arguments.out)
    console = result_console(quiet=arguments.quiet)
    dataset, spec = load_yeast(), load_spec("yeast")
    console.print(statistics_table(describe(dataset), published_table1(dataset.name)))
    with progress_bar(count_steps(spec), quiet=arguments.quiet) as advance:
        result = reproduce(dataset, spec, arguments.seed, on_step=advance)
        figures = {} if arguments.no_plots else _figures_if_possible(result)
    files = render_tables(result) | figures
    for name, content in files.items():
        write_atomically(folder / name, content)
    _print_results(console, result)
    for name in files:
        say(console, f"wrote {folder / name}")
    if not (figures or arguments.no_plots):
        advise(_REMEDY)


def _figures_if_possible(result: Reproduction) -> dict[str, bytes]:
    """Return the images, none without matplotlib."""
    try:
        return render_figures(result)
    except ImportError:
        return {}


def _print_results(console: Console, result: Reproduction) -> None:
    name = result.description.name
    console.print(result_table(name, result.rows))
    protocols = "; ".join(f"{protocol.name}: {protocol.summary}" for protocol in result.spec.protocols)
    say(console, f"Protocols: {protocols}. All strengths were chosen on held-out training rows.")
    say(console, f"The paper prints no table for {name}, so there is nothing to match here.")
    for sentence in result.conclusions:
        say(console, sentence)
    console.print()
    say(console, result.caption)
    console.print()
