"""Peak memory of a fit on bibtex repeated to half a million sparse rows.

LRML_DATA_HOME=... python benchmarks/memory.py [--rows 500000]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import scipy.sparse as sp
from _data import training_set

from lrml import LRML


def resident_gigabytes(field: str) -> float:
    """Read VmRSS (now) or VmHWM (peak since the last reset) of this process; Linux only."""
    for line in Path("/proc/self/status").read_text(encoding="utf8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e9
    raise RuntimeError(f"/proc/self/status must list {field}, it does not. Run this on Linux.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500_000)
    rows = parser.parse_args().rows
    X, Y = training_set("bibtex", l2=False)
    times = -(-rows // X.shape[0])
    X, Y = (sp.vstack([matrix] * times, format="csr")[:rows] for matrix in (X, Y))
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")  # forget the peak of building the data
    before = resident_gigabytes("VmRSS")
    model = LRML(32, 30.0 * times).fit(X, Y)
    growth = resident_gigabytes("VmHWM") - before
    stored = sum(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes for matrix in (X, Y)) / 1e9
    dense = X.shape[0] * X.shape[1] * 8 / 1e9
    print(
        f"{rows} rows: peak growth {growth:.2f} GB; the sparse data {stored:.2f} GB, dense X {dense:.1f} GB"
    )
    print(f"{model.status_} {model.n_iter_} iterations, rank {model.rank_}")


if __name__ == "__main__":
    main()
