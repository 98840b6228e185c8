"""Make the embedded yeast dataset from the PyPI wheel of river 0.26.1.

Usage::

    python scripts/make_yeast.py river-0.26.1-....whl
    python scripts/make_yeast.py yeast.csv.gz --output yeast.npz

The wheel holds ``river/datasets/yeast.csv.gz``: Mulan's yeast, the 917 test rows first, then the 1500
training rows. The result has the training rows first, and the same input gives the same bytes (with one
version of zlib).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MEMBER = "river/datasets/yeast.csv.gz"
SHA256 = "2969cb4bab877a27adcbe17871fa0b378a1e54b98816cd6106b542ee450a1c09"
OUTPUT = Path(__file__).parents[1] / "src/lrml/datasets/data/yeast.npz"

N_FEATURES, N_LABELS, N_TEST = 103, 14, 917
OFFSET = 2**20  # makes the integers positive; the largest absolute value is 797436


def read_source(path: Path) -> bytes:
    """Return the compressed CSV file, taken out of the wheel if need be."""
    if path.suffix != ".whl":
        return path.read_bytes()
    with zipfile.ZipFile(path) as wheel:
        return wheel.read(MEMBER)


def convert(compressed: bytes) -> dict[str, NDArray[np.generic]]:
    """Turn the compressed CSV file into the arrays that `load_yeast` reads.

    Parameters
    ----------
    compressed : bytes
        The gzipped CSV file: a header, then 103 features and 14 labels per row.

    Returns
    -------
    dict of str to ndarray
        ``high`` and ``low``: the features in millionths plus `OFFSET`, cut at bit 16; ``labels``: the
        labels, eight to a byte.
    """
    header, *rows = csv.reader(io.StringIO(gzip.decompress(compressed).decode("ascii")))
    expected = [f"Att{i + 1}" for i in range(N_FEATURES)] + [f"Class{i + 1}" for i in range(N_LABELS)]
    if header != expected:
        raise ValueError(f"the columns must be {expected}, got {header}")
    rows = rows[N_TEST:] + rows[:N_TEST]
    # Decimal arithmetic, so that no rounding can hide a seventh decimal.
    exact = [[Decimal(value) * 10**6 for value in row[:N_FEATURES]] for row in rows]
    if any(value != int(value) for row in exact for value in row):
        raise ValueError("a value has more than six decimals and cannot be stored in millionths")
    shifted = np.array(exact, dtype=np.int64) + OFFSET
    labels = np.array([row[N_FEATURES:] for row in rows], dtype=np.uint8)
    return {
        "high": (shifted >> 16).astype(np.uint8),
        "low": (shifted & 0xFFFF).astype("<u2"),
        "labels": np.packbits(labels, axis=1),
    }


def write_npz(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Write an ``.npz`` file without the clock times that `numpy.savez_compressed` puts into it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # the same on every operating system
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(info, content.getvalue(), compresslevel=9)


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(description="Make the embedded yeast dataset from river 0.26.1.")
    parser.add_argument("source", type=Path, help="the wheel of river 0.26.1, or its yeast.csv.gz")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: the file inside the package")
    arguments = parser.parse_args()
    compressed = read_source(arguments.source)
    found = hashlib.sha256(compressed).hexdigest()
    if found != SHA256:
        parser.error(f"yeast.csv.gz must have sha256 {SHA256}, got {found}; use the wheel of river 0.26.1")
    write_npz(arguments.output, convert(compressed))


if __name__ == "__main__":
    main()
