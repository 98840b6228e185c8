"""Quality against time: our systems and their peers on Mulan's datasets, in one run.

    python benchmarks/suite [--out results/bench] [--datasets NAME …] [--systems TEXT …] [--quick]

Rows are L2-normalised, an intercept is fitted, the split is the original one. Every cell runs in a fresh
process. Times are ratios to scikit-learn's Ridge(alpha=1) on dense double-precision data, measured in the
same process. Writes ``bench.json`` (after every cell), ``bench.md``, ``bench.png`` and ``candidates.png``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from pictures import draw_candidates, draw_quality
from registry import SYSTEMS, selected
from report import add_comparison, cell_line, markdown, write_json
from rich.console import Console
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_info

from lrml._files import atomic_file, writable_folder
from lrml.datasets import fetch_mulan

DATASETS = ("yeast", "corel5k", "bibtex", "delicious")
WORKER = Path(__file__).with_name("worker.py")
console = Console(highlight=False, soft_wrap=True)


def machine() -> dict[str, Any]:
    """Return what a reader must know to judge the numbers; None marks a package that is not installed."""
    packages = ["lrml", "numpy", "scipy", *dict.fromkeys(s.package for s in SYSTEMS.values())]
    versions: dict[str, str | None] = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    blas = [
        {key: pool[key] for key in ("internal_api", "version", "num_threads")}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    described = {"python": platform.python_version(), "machine": platform.machine(), "cores": cores}
    return {**described, "system": platform.system(), "blas": blas, "versions": versions}


def load(name: str) -> dict[str, Any]:
    dataset = fetch_mulan(name)
    (X, Y), (X_test, Y_test) = dataset.train, dataset.test
    return {"name": name, "X": normalize(X), "Y": Y, "X_test": normalize(X_test), "Y_test": Y_test}


def run_cell(data: Path, dataset: str, system: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one worker. Whatever happens to it, even its death, ends as a record."""
    result = data.with_name("result.pickle")
    result.unlink(missing_ok=True)
    command = [sys.executable, str(WORKER), str(data), system, str(options.quick), str(result)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False)
        if result.exists():
            return pickle.loads(result.read_bytes())
        lines = done.stderr.strip().splitlines()
        reason = f"its process ended with code {done.returncode}: {lines[-1] if lines else 'no message'}"
    except subprocess.TimeoutExpired:
        reason = f"it took more than {options.limit:g} seconds"
    kind = SYSTEMS[system].kind
    record = {"dataset": dataset, "system": system, "kind": kind, "left_out": reason}
    return {"record": record, "average_precision": None}


def run(options: argparse.Namespace, content: dict[str, Any]) -> None:
    """Fill ``content`` cell by cell; the JSON file is whole after each of them."""
    names = selected(SYSTEMS, options.systems)
    for dataset in options.datasets:
        try:
            data = load(dataset)
        except (OSError, ValueError) as error:
            content["datasets_left_out"][dataset] = str(error).splitlines()[0]
            console.print(f"{dataset}: left out, {error}")
            write_json(content, options.out)
            continue
        records: list[dict[str, Any]] = []
        per_example: dict[str, np.ndarray] = {}
        with tempfile.TemporaryDirectory() as folder:
            stored = Path(folder) / "data.pickle"
            stored.write_bytes(pickle.dumps(data))
            for number, system in enumerate(names, 1):
                with console.status(f"{dataset} {number}/{len(names)}: {system}"):
                    cell = run_cell(stored, dataset, system, options)
                records.append(cell["record"])
                content["records"].append(cell["record"])
                if cell["average_precision"] is not None:
                    per_example[system] = cell["average_precision"]
                add_comparison(records, per_example)
                console.print(cell_line(cell["record"]))
                write_json(content, options.out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    parser.add_argument("--datasets", nargs="+", default=DATASETS, metavar="NAME")
    parser.add_argument(
        "--systems", nargs="+", default=[""], metavar="TEXT", help="those with TEXT in their name, and Ridge"
    )
    parser.add_argument("--quick", action="store_true", help="short grids: does it run?")
    parser.add_argument(
        "--limit", type=float, default=3600.0, metavar="SECONDS", help="longest time of one cell"
    )
    options = parser.parse_args()
    writable_folder(options.out)
    content: dict[str, Any] = {"machine": machine(), "quick": options.quick}
    content |= {"datasets_left_out": {}, "records": []}
    run(options, content)
    with atomic_file(options.out / "bench.md") as stream:
        stream.write(markdown(content).encode())
    if not any("metrics" in record for record in content["records"]):
        raise SystemExit("No cell was measured, so there is nothing to draw; bench.md has the reasons.")
    draw_quality(content["records"], options.out / "bench.png")
    draw_candidates(content["records"], options.out / "candidates.png")
    console.print(f"written: bench.json, bench.md, bench.png and candidates.png in {options.out}")


if __name__ == "__main__":
    main()
