"""CPU seconds and memory of the readers, compared with libraries that read the same files.

    LRML_DATA_HOME=... python benchmarks/readers.py [--megabytes 100] [--out FILE]

liac-arff is included if installed (``pip install liac-arff``). Times are the shortest of runs in turns;
memory is the peak that Python and NumPy allocate while reading, over the size of the file (without pyarrow's
own memory). CSV tables of about 100 MB must be read in at most 1.5 times pyarrow's time.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from _bench import head, in_turns, line, parser, write_results
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from lrml.datasets import (
    Dataset,
    dataset_status,
    fetch_mulan,
    read_dataset,
    write_dataset,
)

Contest = tuple[str, Path, Callable[[], Any], str, Callable[[], Any]]


def contests(folder: Path, megabytes: float) -> Iterator[Contest]:
    """Yield what is read, its file, our reader, and that of others."""
    if find_spec("arff") is not None:
        fetch_mulan("delicious", download=False)
        train, _, labels = dataset_status("delicious")[1]
        ours = partial(read_dataset, train, xml=labels)
        yield "ARFF, delicious-train", train, ours, "liac-arff", partial(read_with_liac, train)
    rng = np.random.default_rng(0)
    X, Y = (sparse.random_array((20_000, d), density=p, rng=rng) for d, p in ((20_000, 2e-3), (200, 0.015)))
    dataset = Dataset("synthetic", X, Y > 0)
    path = folder / "synthetic.svm"
    write_dataset(dataset, path)
    theirs = partial(load_svmlight_file, path, multilabel=True)
    yield "svmlight, 40 values a row", path, partial(read_dataset, path), "scikit-learn", theirs
    path = folder / "table.csv"
    for title, options, numbers in csv_tables(megabytes):
        pa.csv.write_csv(numbers, path)
        ours, theirs = partial(read_dataset, path, **options), partial(pa.csv.read_csv, path)
        yield f"CSV, {title}", path, ours, "pyarrow.csv.read_csv", theirs


def read_with_liac(path: Path) -> Any:
    arff = import_module("arff")
    return arff.loads(path.read_text(encoding="utf-8"), return_type=arff.LOD)


def csv_tables(megabytes: float) -> Iterator[tuple[str, dict[str, Any], pa.Table]]:
    """Tables of 60 numbers a row, with labels of three kinds; a row has about 460 bytes."""
    rng, rows = np.random.default_rng(0), int(megabytes * 2200)
    numbers = {f"x{place}": np.round(rng.normal(size=rows), 4) for place in range(60)}
    labels = {f"y{place}": rng.random(rows) < 0.2 for place in range(10)}
    ones = {name: label * 1 for name, label in labels.items()}
    tags = [",".join(f"tag{tag}" for tag in row) for row in rng.integers(0, 50, (rows, 3))]
    yield "60 numbers, 10 labels 0/1", {"labels": -10}, pa.table(numbers | ones)
    yield "60 numbers, 10 labels true/false", {"labels": -10}, pa.table(numbers | labels)
    yield "60 numbers, lists of labels", {"tags": "tags"}, pa.table(numbers | {"tags": tags})


def peak_allocated(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    options = parser(__doc__, "readers.json")
    options.add_argument("--megabytes", type=float, default=100)
    given = options.parse_args()
    records = []
    columns = ("what", "MB", "CPU s", "peer", "times as fast as the peer", "peak memory / file")
    print(head(columns))
    with tempfile.TemporaryDirectory() as folder:
        for title, path, ours, peer, theirs in contests(Path(folder), given.megabytes):
            seconds = in_turns({"ours": ours, "theirs": theirs}, rounds=5)
            size, faster = path.stat().st_size, seconds["theirs"] / seconds["ours"]
            cells = (title, size / 1e6, seconds["ours"], peer, faster, peak_allocated(ours) / size)
            print(line(cells), flush=True)
            records.append(dict(zip(columns, cells, strict=True)))
    write_results(given.out, records)


if __name__ == "__main__":
    main()
