"""Seconds and memory of the readers, compared with libraries that read the same files.

Run with LRML_DATA_HOME set: ``python benchmarks/readers.py [--out DIR]``. liac-arff is included if installed
(``pip install liac-arff``). Times are medians of alternating runs; memory is the peak that Python and NumPy
allocate while reading, over the size of the file (without pyarrow's own memory). CSV tables of about 100 MB
must be read in at most 1.5 times pyarrow's time; ``--megabytes`` sets another size.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from _data import machine
from sklearn.datasets import load_svmlight_file

from lrml.datasets import (
    dataset_status,
    fetch_mulan,
    make_low_rank_multilabel,
    read_dataset,
    write_dataset,
)

try:
    import arff
except ImportError:
    arff = None


def compare(
    title: str, path: Path, ours: Callable[[], Any], peer: str, theirs: Callable[[], Any], runs: int = 5
) -> dict[str, Any]:
    """Time both, taking turns, and measure the memory of ours."""
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(runs):
        for key, read in (("ours", ours), ("theirs", theirs)):
            clock = perf_counter()
            read()
            seconds[key].append(perf_counter() - clock)
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = path.stat().st_size
    record = {
        "what": title,
        "megabytes": size / 1e6,
        "peer": peer,
        "peer seconds / ours": median(seconds["theirs"]) / median(seconds["ours"]),
        "seconds": median(seconds["ours"]),
        "peak memory / file": peak / size,
    }
    print(
        f"{title:32} {record['megabytes']:6.1f} MB  {record['seconds']:.3f} s  "
        f"{record['peer seconds / ours']:.2f} times as fast as {peer}, "
        f"peak {record['peak memory / file']:.1f} x file",
        flush=True,
    )
    return record


def read_with_liac(path: Path) -> Any:
    with path.open(encoding="utf-8") as stream:
        return arff.load(stream, return_type=arff.LOD)


def csv_tables(megabytes: float) -> Iterator[tuple[str, dict[str, Any], pa.Table]]:
    """Tables of 60 numbers a row, with labels of three kinds; a row has about 460 bytes."""
    rng, rows = np.random.default_rng(0), int(megabytes * 2200)
    numbers = {f"x{place}": np.round(rng.normal(size=rows), 4) for place in range(60)}
    labels = {f"y{place}": rng.random(rows) < 0.2 for place in range(10)}
    yield (
        "60 numbers, 10 labels 0/1",
        {"labels": -10},
        pa.table(numbers | {k: v * 1 for k, v in labels.items()}),
    )
    yield "60 numbers, 10 labels true/false", {"labels": -10}, pa.table(numbers | labels)
    tags = [",".join(f"tag{tag}" for tag in row) for row in rng.integers(0, 50, (rows, 3))]
    yield "60 numbers, lists of labels", {"tags": "tags"}, pa.table(numbers | {"tags": tags})


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the readers beside others.")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--megabytes", type=float, default=100)
    arguments = parser.parse_args()
    records = []
    fetch_mulan("delicious", download=False)
    train, _, labels = dataset_status("delicious").paths
    if arff is not None:
        records.append(
            compare(
                "ARFF, delicious-train",
                train,
                lambda: read_dataset(train, xml=labels),
                "liac-arff",
                lambda: read_with_liac(train),
            )
        )
    with tempfile.TemporaryDirectory() as folder:
        dataset, _ = make_low_rank_multilabel(20_000, 20_000, 200, rank=5, density=2e-3, random_state=0)
        path = Path(folder, "synthetic.svm")
        write_dataset(dataset, path)
        records.append(
            compare(
                "svmlight, 40 values a row",
                path,
                lambda: read_dataset(path),
                "scikit-learn",
                lambda: load_svmlight_file(path, multilabel=True),
            )
        )
        for title, options, table in csv_tables(arguments.megabytes):
            path = Path(folder, "table.csv")
            pa.csv.write_csv(table, path)
            records.append(
                compare(
                    f"CSV, {title}",
                    path,
                    lambda path=path, options=options: read_dataset(path, **options),
                    "pyarrow.csv.read_csv",
                    lambda path=path: pa.csv.read_csv(path),
                )
            )
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), "results": records}, indent=2)
    (arguments.out / "readers.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
