"""Memory and time of a fit to rows that never exist all at once: delicious, repeated and disturbed.

Every block is made on the fly from its number: rows of delicious in another order, a tenth of the features
and a twentieth of the labels of each left out, the other values changed by up to a fifth. So a stream of any
length has no two equal rows, and no file. The same stream is read by scikit-learn's `SGDClassifier`, one per
label, by ``partial_fit``; it is given fewer rows, as its speed does not depend on their number.

LRML_DATA_HOME=... python benchmarks/out_of_core.py [--rows 5000000] [--sgd-rows 10000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from _data import training_set
from sklearn.linear_model import SGDClassifier

from lrml import LRML
from lrml.metrics import precision_at_k

BLOCK = 20_000
LOST_FEATURES, LOST_LABELS, CHANGE = 0.1, 0.05, 0.2


def stream(
    X: sp.csr_array, Y: sp.csr_array, rows: int, seed: int = 0
) -> Iterator[tuple[sp.csr_array, sp.csr_array]]:
    """Yield blocks of disturbed rows; a block depends on the seed and its number only."""
    for number in range(-(-rows // BLOCK)):
        rng = np.random.default_rng([seed, number])
        chosen = rng.integers(0, X.shape[0], min(BLOCK, rows - number * BLOCK))
        x, y = X[chosen], Y[chosen]
        x.data = (
            x.data * (1.0 + CHANGE * rng.uniform(-1.0, 1.0, x.nnz)) * (rng.random(x.nnz) >= LOST_FEATURES)
        )
        y.data = y.data * (rng.random(y.nnz) >= LOST_LABELS)
        x.eliminate_zeros()
        y.eliminate_zeros()
        yield x, y


class OneForEachLabel:
    """One-vs-rest with SGD; scikit-learn's own wrapper takes no sparse labels in ``partial_fit``."""

    def __init__(self, n_labels: int) -> None:
        self.models = [SGDClassifier(loss="log_loss", alpha=1e-5, random_state=0) for _ in range(n_labels)]

    def partial_fit(self, X: sp.csr_array, Y: sp.csr_array) -> None:
        """Show a block to every classifier."""
        columns = Y.toarray().astype(np.int64)
        for model, y in zip(self.models, columns.T, strict=True):
            model.partial_fit(X, y, classes=[0, 1])

    def decision_function(self, X: sp.csr_array) -> np.ndarray:
        """Scores of all labels."""
        return np.column_stack([model.decision_function(X) for model in self.models])


def peak() -> float:
    """Return the largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def load() -> tuple[sp.csr_array, sp.csr_array]:
    """Return delicious with rows of unit length."""
    X, Y = training_set("delicious", l2=True)
    return sp.csr_array(X), sp.csr_array(Y.astype(np.float64))


def measure(kind: str, rows: int) -> dict[str, float]:
    """Run one fit, in a process of its own, and judge it on rows of another stream."""
    X, Y = load()
    start, cpu = time.perf_counter(), time.process_time()
    for _ in stream(X, Y, rows):
        pass
    making, making_cpu = time.perf_counter() - start, time.process_time() - cpu
    before = peak()
    start, cpu = time.perf_counter(), time.process_time()
    if kind == "lrml":
        model = LRML(98, 12.0, ridge=1.0).fit_blocks(stream(X, Y, rows))
    else:
        model = OneForEachLabel(Y.shape[1])
        for x, y in stream(X, Y, rows):
            model.partial_fit(x, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    start = time.process_time()
    if kind == "lrml":
        LRML(**model.get_params()).fit_statistics(model.statistics_)
    solving = time.process_time() - start
    (x, y), *_ = stream(X, Y, 5000, seed=1)
    precision = [precision_at_k(y, model.decision_function(x), k) for k in (1, 3, 5)]
    return {
        "rows": rows,
        "seconds": seconds - making,
        "cpu": cpu - making_cpu,
        "passing": cpu - making_cpu - solving,
        "making": making,
        "before": before,
        "peak": peak(),
        "p1": precision[0],
        "p3": precision[1],
        "p5": precision[2],
    }


def run(kind: str, rows: int) -> dict[str, float]:
    """Measure in a new process, whose memory is only its own."""
    command = [sys.executable, __file__, "--one", kind, str(rows)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    precision = "/".join(f"{found[name]:.4f}" for name in ("p1", "p3", "p5"))
    print(
        f"{kind:>4}: {rows:>9,d} rows, {found['seconds']:7.1f} s, {found['cpu']:7.1f} s of CPU, of which "
        f"{found['passing']:7.1f} s for the pass; {rows / found['cpu']:>9,.0f} rows a CPU second, peak "
        f"{found['peak']:.2f} GB, P@1/3/5 {precision} (making the rows took another {found['making']:.1f} s)",
        flush=True,
    )
    return found


def main() -> None:
    """Measure several lengths, fit the exponent, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--sgd-rows", type=int, default=10_000)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    lengths = [options.rows // share for share in (8, 4, 2, 1)]
    found = [run("lrml", rows) for rows in lengths]
    for clock in ("seconds", "cpu", "passing"):
        slope = np.polyfit(np.log(lengths), np.log([one[clock] for one in found]), 1)[0]
        print(f"exponent of {clock} in rows: {slope:.3f}")
    sgd = run("sgd", options.sgd_rows)
    ratio = (found[-1]["rows"] / found[-1]["cpu"]) / (sgd["rows"] / sgd["cpu"])
    print(f"lrml reads {ratio:,.0f} times as many rows a CPU second as SGD one-vs-rest")


if __name__ == "__main__":
    main()
