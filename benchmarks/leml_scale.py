"""Time and peak memory of LEML on sparse data with many rows, features and labels.

    python benchmarks/leml_scale.py [--rows 200000] [--features 50000] [--labels 2000] [--rank 50]

The data is synthetic: documents of about 50 words with Zipf's frequencies, and labels that depend on a few
words each. The fit runs in its own process, so that its peak memory can be measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import warnings
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from _data import machine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from lrml.estimators.leml import LEML

HELD_OUT = 2000


def documents(rows: int, features: int, labels: int, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Return X (rows × features, about 50 nonzeros a row, of length 1) and Y (about 3 labels a row)."""
    random = np.random.default_rng(seed)
    frequencies = 1.0 / np.arange(3, features + 3)
    topic_words = random.integers(0, features, (labels, 20))
    popularity = 1.0 / np.arange(5, labels + 5)
    of_row = random.choice(labels, (rows, 3), p=popularity / popularity.sum())
    words = random.choice(features, (rows, 40), p=frequencies / frequencies.sum())
    hints = topic_words[of_row.ravel(), random.integers(0, 20, (rows * 3, 4)).T].T.reshape(rows, 12)
    columns = np.hstack([words, hints]).ravel()
    numbers = np.repeat(np.arange(rows), 52)
    X = sp.csr_array((np.ones(len(columns)), (numbers, columns)), shape=(rows, features))
    Y = sp.csr_array((np.ones(3 * rows), (np.repeat(np.arange(rows), 3), of_row.ravel())), (rows, labels))
    Y.data[:] = 1.0  # a label drawn twice applies once
    return normalize(X), Y


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fit once and return what it took."""
    X, Y = documents(options.rows + HELD_OUT, options.features, options.labels)
    new_X, new_Y = X[:HELD_OUT], Y[:HELD_OUT]
    X, Y = X[HELD_OUT:], Y[HELD_OUT:]
    observed = None
    if options.observed < 1:
        random = np.random.default_rng(1)
        count = int(options.observed * options.rows * options.labels)
        cells = (random.integers(0, options.rows, count), random.integers(0, options.labels, count))
        observed = sp.csr_array((np.ones(count, dtype=bool), cells), shape=Y.shape)
        observed = sp.csr_array(observed + Y.astype(bool))
    before = peak_gigabytes()
    model = LEML(options.rank, options.alpha, loss=options.loss, max_iter=options.sweeps, random_state=0)
    clock = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # only a few sweeps are wanted
        model.fit(X, Y, observed=observed)
    seconds = perf_counter() - clock
    return {
        "seconds": seconds,
        "before": before,
        "peak": peak_gigabytes(),
        "history": model.history_,
        "hits": float(new_Y.toarray()[np.arange(HELD_OUT), best(model, new_X)].mean()),
    }


def best(model: LEML, X: sp.csr_array) -> np.ndarray:
    return model.predict_top_k(X, 1).labels[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--loss", default="squared")
    parser.add_argument("--observed", type=float, default=1.0, help="share of the labels that is known")
    parser.add_argument("--sweeps", type=int, default=5, help="at most")
    options = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        taken = pool.apply(measure, (options,))
    n, d, n_labels = options.rows, options.features, options.labels
    print(f"{n} × {d} sparse, {n_labels} labels, rank {options.rank}, {options.loss}: {machine()}")
    history = taken["history"]
    for row in zip(history["iteration"], history["objective"], history["residual"], strict=True):
        print("sweep {}: objective {:.6g}, residual {:.1e}".format(*row))
    print(f"{taken['seconds']:.0f} s; best label right for {taken['hits']:.0%} of new rows")
    print(
        f"peak {taken['peak']:.2f} GB, of which {taken['before']:.2f} GB before the fit (data and its making)"
    )
    print(
        f"a dense n × L matrix alone: {n * n_labels * 8 / 1e9:.1f} GB; d × L: {d * n_labels * 8 / 1e9:.1f} GB"
    )


if __name__ == "__main__":
    main()
