"""Seconds of every method on bibtex and delicious, as ratios to scikit-learn's Ridge in the same run.

Run with LRML_DATA_HOME set: ``python benchmarks/rivals.py [--out DIR]``. Rows are L2-normalised and an
intercept is fitted. Peers get dense double-precision arrays, our methods the sparse matrices of the files.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _data import machine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from lrml import CPLST, LEML, LRML, LRMLCV, PLST, MLFro, MLTrace
from lrml.datasets import fetch_mulan
from lrml.metrics import evaluate

PEER = "sklearn Ridge"


def methods(n_labels: int) -> dict[str, tuple[Callable[[], Any], bool, int]]:
    """Name → (estimator, whether it gets dense data, how often it is run)."""
    k = round(0.2 * n_labels)
    ovr = OneVsRestClassifier
    return {
        PEER: (lambda: Ridge(alpha=1.0), True, 5),
        "MLFro": (lambda: MLFro(1.0), False, 5),
        "CPLST 20 %": (lambda: CPLST(k, ridge=1.0), False, 5),
        "PLST 20 %": (lambda: PLST(k, ridge=1.0), False, 5),
        "MLTrace": (lambda: MLTrace(3.0), False, 5),
        "LRML 20 %": (lambda: LRML(k, 10.0, ridge=1.0), False, 5),
        "LEML 20 %": (lambda: LEML(k, 1.0), False, 3),
        "MLFro logistic": (lambda: MLFro(0.3, loss="logistic"), False, 3),
        "MLFro squared hinge": (lambda: MLFro(1.67, loss="squared_hinge"), False, 3),
        "LRML logistic, default": (lambda: LRML(loss="logistic"), False, 3),
        "LRML squared hinge, default": (lambda: LRML(loss="squared_hinge"), False, 3),
        "LRML theta 20 logistic": (lambda: LRML(20, 16.0, ridge=0.1, loss="logistic"), False, 3),
        "LRMLCV": (lambda: LRMLCV(random_state=0), False, 3),
        "LRMLCV logistic": (lambda: LRMLCV(loss="logistic", random_state=0), False, 2),
        "LRMLCV squared hinge": (lambda: LRMLCV(loss="squared_hinge", random_state=0), False, 1),
        "LEML 20 % logistic": (lambda: LEML(k, 8.0, loss="logistic"), False, 3),
        "sklearn one-vs-rest LinearSVC": (lambda: ovr(LinearSVC(C=0.3)), True, 1),
        "sklearn one-vs-rest LogisticRegression": (
            lambda: ovr(LogisticRegression(C=1.0, max_iter=1000)),
            True,
            1,
        ),
    }


def scores_of(model: Any, X: Any) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def run(name: str, wanted: str) -> list[dict[str, Any]]:
    dataset = fetch_mulan(name, download=False)
    (X, Y), (X_test, Y_test) = dataset.train, dataset.test
    X, X_test = normalize(X), normalize(X_test)
    dense = X.toarray(), Y.toarray().astype(float), X_test.toarray()
    chosen = {key: value for key, value in methods(Y.shape[1]).items() if key == PEER or wanted in key}
    seconds: dict[str, list[float]] = {key: [] for key in chosen}
    models: dict[str, Any] = {}
    for turn in range(5):  # in turn, so that a busy moment of the machine affects all
        for key, (make, wants_dense, times) in chosen.items():
            if turn < times:
                model = make()
                # One-vs-rest fits are small: several BLAS threads only make them wait for each other.
                with threadpool_limits(1 if "one-vs-rest" in key else None):
                    clock = perf_counter()
                    model.fit(*(dense[:2] if wants_dense else (X, Y)))
                    seconds[key].append(perf_counter() - clock)
                models[key] = model
    records = []
    unit = median(seconds[PEER])
    for key, (_, wants_dense, times) in chosen.items():
        found = evaluate(Y_test, scores_of(models[key], dense[2] if wants_dense else X_test))
        records.append(
            {
                "dataset": name,
                "method": key,
                "ratio": median(seconds[key]) / unit,
                "seconds": median(seconds[key]),
                "runs": times,
                "rank": getattr(models[key], "rank_", None),
                **found,
            }
        )
        print(
            f"{name:10} {key:40} {records[-1]['ratio']:8.2f} x   P@1 {found['precision_at_1']:.4f}",
            flush=True,
        )
    return records


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Average precision against time, one panel per dataset."""
    names = list(dict.fromkeys(record["dataset"] for record in records))
    figure, axes = plt.subplots(
        1, len(names), figsize=(6.2 * len(names), 4.6), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes[0], names, strict=True):
        for number, record in enumerate([r for r in records if r["dataset"] == name]):
            ours = not record["method"].startswith("sklearn")
            marker = "osD^vP*X<>hpd"[number % 13]
            style = {"color": f"C{number % 10}", "markerfacecolor": None if ours else "white"}
            axis.plot(
                record["ratio"], record["average_precision"], marker, ms=8, label=record["method"], **style
            )
        axis.set(
            xscale="log",
            title=name,
            xlabel="time, in fits of scikit-learn's Ridge",
            ylabel="average precision",
        )
        axis.grid(alpha=0.3, which="both", lw=0.5)
    axes[0, -1].legend(
        fontsize=7.5, loc="center left", bbox_to_anchor=(1.02, 0.5), title="hollow: scikit-learn"
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--datasets", nargs="+", default=["bibtex", "delicious"])
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="methods whose name has this in it, and Ridge"
    )
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one-vs-rest says for each label that no training example has it
        records = [record for name in arguments.datasets for record in run(name, arguments.only)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), "results": records}, indent=2)
    (arguments.out / "rivals.json").write_text(content + "\n", encoding="utf-8")
    draw(records, arguments.out / "rivals.png")


if __name__ == "__main__":
    main()
