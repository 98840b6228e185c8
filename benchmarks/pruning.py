"""One-vs-rest models of very many labels in bounded memory: labels in blocks, pruned as they are fitted.

    python benchmarks/pruning.py [--rows 200000] [--features 100000] [--labels 100000] [--weights 10000000]
                                 [--losses squared squared_hinge] [--minutes 60]

A row has two to four labels, whose frequencies follow a power law, and words: three of the five of each of
its labels, and ten by another power law. Printed are seconds, the peak of memory, and precision on 2,000
further rows, beside that of the most frequent labels. Every block of labels takes the same memory; after
``--minutes`` no further one begins, and "labels" says how many were done. Labels come from rare to frequent.
"""

from __future__ import annotations

import resource
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import head, line, parser, write_results

from lrml import MLFro

N_TEST, WORDS, SAID, NOISE = 2_000, 5, 3, 10


def power_law(random: np.random.Generator, size: tuple[int, int], count: int) -> np.ndarray:
    """Draw numbers below ``count``, the k-th with a probability of about 1/k."""
    return np.minimum(np.exp(random.random(size) * np.log(count + 1)).astype(np.int64), count) - 1


def drawn(rows: int, features: int, labels: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Draw features, rows of length 1 and single precision, and 0/1 labels."""
    random = np.random.default_rng(0)
    vocabulary = random.integers(features, size=(labels, WORDS))
    of_row = power_law(random, (rows, 4), labels)
    of_row[:, 2:][random.random((rows, 2)) < 0.5] = -1
    spoken = np.where(random.random((rows, 4, WORDS)).argsort(axis=2) < SAID, vocabulary[of_row], -1)
    spoken[of_row < 0] = -1
    words = np.hstack([spoken.reshape(rows, -1), power_law(random, (rows, NOISE), features)])
    parts = []
    for columns, width in ((words, features), (of_row, labels)):
        places = np.nonzero(columns >= 0)
        found = sp.csr_array((np.ones(len(places[0])), (places[0], columns[places])), shape=(rows, width))
        found.sum_duplicates()
        found.data[:] = 1.0
        parts.append(found)
    X, Y = parts
    lengths = np.sqrt(X.sum(axis=1))
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X.astype(np.float32), Y.astype(np.int8)


def stop_after(end: float, info: Any) -> bool:
    """Return whether the time is over."""
    return perf_counter() > end


def main() -> None:
    made = parser(__doc__, "pruning.json")
    for name, usual in (
        ("rows", 200_000),
        ("features", 100_000),
        ("labels", 100_000),
        ("weights", 10_000_000),
    ):
        made.add_argument(f"--{name}", type=int, default=usual)
    made.add_argument("--losses", nargs="+", default=["squared"], choices=["squared", "squared_hinge"])
    made.add_argument("--alpha", type=float, default=1.0)
    made.add_argument("--minutes", type=float, default=60.0, help="for each loss")
    options = made.parse_args()
    X, Y = drawn(options.rows + N_TEST, options.features, options.labels)
    test = slice(options.rows, None)
    frequent = np.asarray(Y[: options.rows].sum(axis=0)).ravel()
    usual = Y[test][:, np.argsort(-frequent)[:5]].sum() / (5 * N_TEST)
    columns = (
        "loss",
        "wall s",
        "CPU s",
        "peak GB",
        "labels",
        "weights",
        "MB",
        "P@1",
        "P@3",
        "P@5",
        "P@5 of frequent",
    )
    print(head(columns))
    records: list[dict[str, Any]] = []
    for loss in options.losses:
        clock, cpu = perf_counter(), process_time()
        end = clock + 60.0 * options.minutes
        stop = partial(stop_after, end)
        model = MLFro(options.alpha, loss=loss, prune=options.weights, tol=1e-3, callback=stop)
        model.fit(X[: options.rows], Y[: options.rows])
        spent = perf_counter() - clock, process_time() - cpu
        best = np.asarray(model.predict_top_k(X[test], 5).labels)
        hits = np.asarray(Y[test].todense())[np.arange(N_TEST)[:, None], best] > 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        done = np.unique(model.coef_.nonzero()[0]).size
        values = [*spent, peak, done, model.n_weights_, model.nbytes_ / 1e6]
        found = [loss, *values, *(hits[:, :k].mean() for k in (1, 3, 5)), usual]
        record = dict(zip(columns, found, strict=True))
        print(line(record.values()), flush=True)
        records.append(record)
    write_results(options.out, records, shape=[options.rows, options.features, options.labels])


if __name__ == "__main__":
    main()
