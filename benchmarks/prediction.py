"""Time of scores and of the best labels: through factors, through coefficients, and scikit-learn's Ridge.

    LRML_DATA_HOME=... python benchmarks/prediction.py [--data bibtex delicious] [--repeats 5]

Each number is the shortest of several runs, divided by that of the peer in the same row: below 1 is faster.
``coef`` is X coef_ᵀ + intercept_ in one product, ``sort`` a stable sort of all scores made that way. Ridge
predicts from the same dense rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from _data import machine, training_set
from sklearn.linear_model import Ridge

from lrml import LEML, LRML
from lrml.estimators._scores import factors_are_cheaper

MODELS = {
    "LRML(alpha=3)": LRML(0.2, 3.0, tol=1e-3),
    "LRML(alpha=30)": LRML(0.2, 30.0, tol=1e-3),
    "LEML(alpha=30)": LEML(0.2, 30.0),
}


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of several calls."""
    times = []
    for _ in range(repeats):
        clock = perf_counter()
        function()
        times.append(perf_counter() - clock)
    return min(times)


def plain_scores(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    return np.asarray(X @ coef.T + intercept)


def compare(name: str, model: Any, rows: dict[str, Any], ridge: Ridge, repeats: int) -> None:
    """Print the times of one model on dense and on sparse rows, and their ratios."""
    coef, intercept, k = model.coef_, model.intercept_, 5
    peer = seconds(lambda: ridge.predict(rows["dense"]), repeats)
    for form, X in rows.items():
        way = (
            "factors" if isinstance(model, LEML) or factors_are_cheaper(X, model.rank_, len(coef)) else "coef"
        )
        scores = seconds(lambda X=X: model.decision_function(X), repeats)
        plain = seconds(lambda X=X: plain_scores(X, coef, intercept), repeats)
        top = seconds(lambda X=X: model.predict_top_k(X, k), repeats)
        sort = seconds(
            lambda X=X: np.argsort(-plain_scores(X, coef, intercept), axis=1, kind="stable")[:, :k], repeats
        )
        print(
            f"{name:15} rank {model.rank_:3} {form:6} by {way:7}: scores {1e3 * scores:6.1f} ms = "
            f"{scores / plain:.2f} coef = {scores / peer:.2f} Ridge; top {k} {1e3 * top:6.1f} ms = "
            f"{top / sort:.2f} sort"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["bibtex", "delicious"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    for data in options.data:
        X, Y = training_set(data, l2=False)
        rows = {"dense": X.toarray(), "sparse": X}
        print(f"{data}: X {X.shape}, {X.nnz / np.prod(X.shape):.1%} nonzero, {Y.shape[1]} labels")
        ridge = Ridge(30.0).fit(rows["dense"], Y.toarray())
        for name, model in MODELS.items():
            compare(name, model.fit(X, Y), rows, ridge, options.repeats)


if __name__ == "__main__":
    main()
