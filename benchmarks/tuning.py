"""What tuning costs, and what it chooses: leave-one-out against folds, against RidgeCV, against refitting.

    LRML_DATA_HOME=... python benchmarks/tuning.py [--data bibtex delicious …] [--repeat 3] [--folds]
    LRML_DATA_HOME=... python benchmarks/tuning.py --accuracy
    LRML_DATA_HOME=... python benchmarks/tuning.py --kernel bibtex

The first prints, for each data set (rows of unit length; "enron-200" takes 200 of its rows), the time of the
default `LRMLCV` and `MLFroCV` as multiples of scikit-learn's `RidgeCV` with 12 alphas, on the same dense
arrays in the same run, and the average precision of each on the test rows; with --folds also the choice of
the whole grid by five folds. The second compares leave-one-out scores with refitting. The third tunes LRML
with an rbf kernel on all rows: gamma, ridge, alpha, theta and one threshold per label. All print tables in
Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from _data import machine
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.preprocessing import normalize

from lrml import CPLST, LRML, LRMLCV, MLFroCV, MLTrace, metrics
from lrml.datasets import fetch_mulan
from lrml.estimators import alpha_max
from lrml.thresholds import Cut

DATA = ("emotions", "yeast", "enron", "bibtex-400", "corel5k", "bibtex", "delicious")
ALPHAS = np.logspace(-3, 3, 12)


def dense(name: str) -> tuple[np.ndarray, ...]:
    """Return dense training and test parts, rows of unit length; a number after the name limits the rows."""
    name, _, count = name.partition("-")
    data = fetch_mulan(name)
    X, Y, X_test, Y_test = (
        M.toarray() if sp.issparse(M) else np.asarray(M) for M in (*data.train, *data.test)
    )
    if count:
        rows = np.random.default_rng(3).permutation(len(X))[: int(count)]
        X, Y = X[rows], Y[rows]
    return normalize(X), Y.astype(float), normalize(X_test), Y_test


def timed(work: Callable[[], Any], repeat: int) -> tuple[Any, float]:
    """Run a piece of work; return its last result and the median of its seconds."""
    seconds = []
    for _ in range(repeat):
        start = perf_counter()
        found = work()
        seconds.append(perf_counter() - start)
    return found, median(seconds)


def compare(names: list[str], repeat: int, *, folds: bool) -> None:
    print(
        "| data | Ridge, s | RidgeCV / Ridge | LRMLCV / RidgeCV | MLFroCV / RidgeCV | chosen | "
        "AP: LRMLCV | MLFroCV | RidgeCV |" + (" five folds | their time / RidgeCV |" if folds else "")
    )
    print("| --- |" + " --: |" * (10 if folds else 8))
    for name in names:
        X, Y, X_test, Y_test = dense(name)
        times = 1 if X.size > 2e6 else repeat
        _, unit = timed(partial(Ridge().fit, X, Y), 3)
        peer, one = timed(partial(RidgeCV(ALPHAS).fit, X, Y), times)
        ours, tuned = timed(partial(LRMLCV(random_state=0).fit, X, Y), times)
        plain, bare = timed(partial(MLFroCV(random_state=0).fit, X, Y), times)
        values = [
            metrics.average_precision(Y_test, S, per_example=True)
            for S in (ours.decision_function(X_test), plain.decision_function(X_test), peer.predict(X_test))
        ]
        lead = values[0] - values[2]
        error = np.nanstd(lead) / np.sqrt(np.isfinite(lead).sum())
        chosen = ", ".join(f"{key} {value:.3g}" for key, value in ours.best_params_.items())
        cells = [
            name,
            f"{unit:.3f}",
            f"{one / unit:.1f}",
            f"{tuned / one:.2f}",
            f"{bare / one:.2f}",
            f"{chosen}; rank {ours.rank_} of {min(X.shape[1], Y.shape[1])}",
            f"{np.nanmean(values[0]):.4f} (± {error:.4f})",
            *(f"{np.nanmean(v):.4f}" for v in values[1:]),
        ]
        if folds:
            whole, seconds = timed(partial(LRMLCV(n_alphas=10, cv=5, random_state=0).fit, X, Y), 1)
            cells += [f"{whole.score(X_test, Y_test):.4f}", f"{seconds / one:.1f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def accuracy(names: list[str], count: int = 20) -> None:
    """Print the errors (rms) of leave-one-out and of training scores, against refitting without some rows."""
    print("| data | model | rank | training scores | leave-one-out | ratio |")
    print("| --- | --- | --: | --: | --: | --: |")
    for name in names:
        X, Y, _, _ = dense(name)
        rows = np.random.default_rng(0).choice(len(X), count, replace=False)
        theta = max(1, round(0.1 * Y.shape[1]))
        strong = alpha_max(X, Y, 0)
        models = (
            LRML(theta, 0.03 * strong, ridge=0.3),
            LRML(theta, 0.2 * strong, ridge=0.3),
            MLTrace(0.03 * strong),
            CPLST(2 * theta, ridge=1.0),
        )
        for model in models:
            if hasattr(model, "tol"):
                model.set_params(tol=1e-7)
            expected = []
            for row in rows:
                others = np.arange(len(X)) != row
                expected.append(clone(model).fit(X[others], Y[others]).decision_function(X[[row]])[0])
            fitted = clone(model).fit(X, Y)
            found = model.leave_one_out_scores(X, Y)[rows]
            naive, error = (
                np.sqrt(np.mean((S - np.array(expected)) ** 2))
                for S in (fitted.decision_function(X[rows]), found)
            )
            said = ", ".join(
                f"{key}={value:.3g}"
                for key, value in model.get_params().items()
                if key in ("theta", "alpha", "ridge", "rank")
            )
            print(
                f"| {name} | {type(model).__name__}({said}) | {fitted.rank_} | {naive:.4f} | {error:.4f} | "
                f"{error / naive:.3f} |",
                flush=True,
            )


def kernel(name: str) -> None:
    X, Y, X_test, Y_test = dense(name)
    search, seconds = timed(
        lambda: LRMLCV(
            kernel="rbf",
            threshold=Cut("hamming_loss", per_label=True),
            random_state=0,
        ).fit(X, Y),
        1,
    )
    scores = search.decision_function(X_test)
    precisions = "/".join(f"{metrics.precision_at_k(Y_test, scores, k):.4f}" for k in (1, 3, 5))
    wrong = np.mean(search.predict(X_test) != Y_test)
    print("| data | seconds | chosen | precision at 1/3/5 | Hamming | AUC | average precision |")
    print("| --- | --: | --- | --: | --: | --: | --: |")
    chosen = ", ".join(f"{key} {value:.3g}" for key, value in search.best_params_.items())
    print(
        f"| {name} | {seconds:.0f} | {chosen}; rank {search.rank_} | {precisions} | {wrong:.4f} | "
        f"{metrics.average_auc(Y_test, scores):.4f} | {search.score(X_test, Y_test):.4f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folds", action="store_true", help="also choose by five folds from the whole grid")
    parser.add_argument("--accuracy", action="store_true", help="compare leave-one-out scores with refitting")
    parser.add_argument("--kernel", metavar="NAME", help="tune an rbf kernel on all rows of a data set")
    options = parser.parse_args()
    print(machine())
    if options.kernel:
        kernel(options.kernel)
    elif options.accuracy:
        accuracy([name for name in options.data if name not in ("delicious", "corel5k", "bibtex")])
    else:
        compare(options.data, options.repeat, folds=options.folds)


if __name__ == "__main__":
    main()
