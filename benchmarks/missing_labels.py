"""Half of bibtex's training labels hidden at random: the gain from a mask.

Run with LRML_DATA_HOME set: ``python benchmarks/missing_labels.py [--out DIR]``. Three fits per method: to
all labels; to the visible half, the rest marked as unknown; to the visible half, the rest taken for 0. The
strength is chosen for each on a fifth of the training rows, by average precision on the visible labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _data import machine
from sklearn.preprocessing import normalize

from lrml import LEML, LRML, MLFro
from lrml.datasets import fetch_mulan
from lrml.metrics import evaluate
from lrml.model_selection import iterative_train_test_split

HIDDEN = 0.5
METHODS: dict[str, tuple[Callable[[float], Any], tuple[float, ...]]] = {
    "MLFro": (MLFro, (0.3, 1.0, 3.0)),
    "LRML": (lambda ridge: LRML(0.4, 5.0, ridge=ridge), (0.3, 1.0, 3.0)),
    "LRML logistic": (lambda ridge: LRML(0.2, 3.0, ridge=ridge, loss="logistic"), (0.01, 0.03, 0.1)),
    "LEML": (lambda alpha: LEML(0.6, alpha), (2.0, 4.0, 8.0)),
}


def run(method: str, way: str, seed: int) -> dict[str, Any]:
    make, strengths = METHODS[method]
    dataset = fetch_mulan("bibtex", download=False)
    (X, Y), (X_test, Y_test) = dataset.train, dataset.test
    X, X_test = normalize(X), normalize(X_test)
    visible = np.random.default_rng(seed).random(Y.shape) >= HIDDEN
    Y_fit = Y if way == "all labels" else sp.csr_array(Y.multiply(visible))
    parts = iterative_train_test_split(X, Y_fit, visible, test_size=0.2, random_state=0)
    X_a, X_b, Y_a, Y_b, seen, _ = parts

    def fit(strength: float, X: Any, Y: Any, seen: Any) -> Any:
        return make(strength).fit(X, Y, observed=seen if way == "mask" else None)

    def quality(strength: float) -> float:
        return evaluate(Y_b, fit(strength, X_a, Y_a, seen).decision_function(X_b))["average_precision"]

    strength = max(strengths, key=quality)
    found = evaluate(Y_test, fit(strength, X, Y_fit, visible).decision_function(X_test)).as_dict()
    record = {"method": method, "way": way, "strength": strength, **found}
    line = "  ".join(
        f"{key} {found[key]:.4f}"
        for key in ("precision_at_1", "precision_at_3", "average_precision", "average_auc")
    )
    print(f"{method:14} {way:12} {line}  ({strength})", flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a mask of unknown labels is worth.")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    ways = ("all labels", "mask", "hidden is 0")
    records = [run(method, way, arguments.seed) for method in arguments.methods for way in ways]
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), "hidden": HIDDEN, "results": records}, indent=2)
    (arguments.out / "missing_labels.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
