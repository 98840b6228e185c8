"""Peak memory and speed of ``lrml predict`` on a file of a million sparse rows: delicious, repeated.

LRML_DATA_HOME=... python benchmarks/predict_stream.py [--rows 1000000]
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import scipy.sparse as sp
from _data import training_set


def write_rows(path: Path, X: sp.csr_array, n_labels: int, rows: int) -> None:
    """Write an XMC file of rows without labels, the given ones over and over."""
    lines = []
    for start, end in itertools.pairwise(X.indptr):
        entries = zip(X.indices[start:end], X.data[start:end], strict=True)
        lines.append(f" {' '.join(f'{feature}:{value:g}' for feature, value in entries)}\n")
    with path.open("w", encoding="ascii") as file:
        file.write(f"{rows} {X.shape[1]} {n_labels}\n")
        file.writelines(itertools.islice(itertools.cycle(lines), rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    X, Y = training_set("delicious", l2=False)
    program = [sys.executable, "-m", "lrml"]
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder, "delicious.lrml"), Path(folder, "rows.xmc")
        write_rows(data, sp.csr_array(X), Y.shape[1], rows)
        fit = ["fit", "delicious", "--theta", "98", "--alpha", "12", "--ridge", "1", "-o", str(model)]
        subprocess.run([*program, *fit, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        for suffix in ("csv", "jsonl", "parquet"):
            start = time.perf_counter()
            out = Path(folder, f"tags.{suffix}")
            subprocess.run([*program, "predict", str(model), str(data), "-o", str(out)], check=True)
            seconds = time.perf_counter() - start
            # The largest of all processes so far; the fit, which came first, is smaller.
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
            print(f"{suffix}: {rows:,d} rows, {rows / seconds:,.0f} a second, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
