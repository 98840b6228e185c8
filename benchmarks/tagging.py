"""Tags for 20,000 texts: quality and time of `TextTagger`'s model beside one-vs-rest classifiers.

    python benchmarks/tagging.py [--lists DIR] [--methods …] [--repeat 3] [--quick]

All methods get the same features, those of `TextTagger`'s default vectorizer, and choose their parameters on
held-out training rows: the rivals one of a few strengths, and the cuts of their scores, on a fifth of them,
by average precision and micro F1, as lrml does. Every fit, choices included, has a process of its own, in
turns. Printed are medians of wall and CPU seconds, the ratio of wall seconds to those of the default, and the
quality on 5,000 test rows, on which nothing was chosen; "difference" is that of average precision from the
default, paired, with its standard error. F1 is that of the chosen cuts, and of the natural ones of the loss.
What was found goes to results/tagging.json. The data comes from apt's package lists, see `_debian.py`;
LibMultiLabel takes part where it is installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _data import machine
from _debian import LISTS, N_TEST, Documents, TextSet, find_lists, read_documents, text_set
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from wide import description, in_a_process, mean_and_error, scores_of

from lrml import LRML, LRMLCV, MLFro, MLFroCV, metrics
from lrml.text import default_model, default_vectorizer
from lrml.thresholds import best_threshold

ROWS, LEAST = 20_000, 20  # training rows, packages that a tag needs
QUICK_ROWS, QUICK_LEAST = 1_000, 100
DEFAULT = "TextTagger's default"


class Tuned:
    """A one-vs-rest classifier, its strength and cuts chosen on a held-out fifth."""

    def __init__(self, make: Callable[[float], Any], strengths: tuple[float, ...]) -> None:
        self.make, self.strengths = make, strengths

    def fit(self, X: Any, Y: Any) -> Tuned:
        """Try every strength, then fit the best on all rows."""
        train, test = train_test_split(np.arange(X.shape[0]), test_size=0.2, random_state=0)
        scores = {
            strength: scores_of(self.make(strength).fit(X[train], Y[train]), X[test], Y[train])
            for strength in self.strengths
        }
        best = max(scores, key=lambda strength: metrics.average_precision(Y[test], scores[strength]))
        self.threshold_ = best_threshold(Y[test], scores[best], "micro_f1", natural=0.0).cut
        self.best_params_ = {"strength": best}
        self.model = self.make(best).fit(X, Y)
        return self

    def decision_function(self, X: Any) -> Any:
        """Margins, n × L."""
        return self.model.decision_function(X)


class LibMultiLabel:
    """LIBLINEAR's L2-loss support vector machines, labels side by side on all cores."""

    def __init__(self, C: float) -> None:
        self.C = C

    def fit(self, X: Any, Y: Any) -> LibMultiLabel:
        """Fit all labels."""
        from libmultilabel.linear import train_1vsrest  # noqa: PLC0415  # optional

        Y, X = (sp.csr_matrix(matrix, dtype=np.float64) for matrix in (Y, X))
        self.model = train_1vsrest(Y, X, options=f"-s 1 -c {self.C} -B 1 -q", verbose=False)
        return self

    def decision_function(self, X: Any) -> Any:
        """Margins, n × L."""
        return self.model.predict_values(sp.csr_matrix(X, dtype=np.float64))


def svc(C: float) -> Any:
    return OneVsRestClassifier(LinearSVC(C=C))


def logistic(C: float) -> Any:
    return OneVsRestClassifier(LogisticRegression(C=C, solver="liblinear"))


def sgd(alpha: float, loss: str) -> Any:
    return OneVsRestClassifier(SGDClassifier(loss=loss, alpha=alpha, random_state=0))


_CUT = {"threshold": "auto"}
_CS, _ALPHAS = (0.1, 0.3, 1.0, 3.0), (3e-6, 1e-5, 3e-5, 1e-4)
# Each gets the number of texts.
METHODS: dict[str, Callable[[int], Any]] = {
    DEFAULT: default_model,
    "LRMLCV squared": lambda n: LRMLCV(LRML(**_CUT), random_state=0),
    "LRMLCV squared hinge": lambda n: LRMLCV(LRML(loss="squared_hinge", **_CUT), random_state=0),
    "MLFroCV squared hinge": lambda n: MLFroCV(MLFro(loss="squared_hinge", **_CUT), random_state=0),
    "LinearSVC": lambda n: Tuned(svc, _CS),
    "LogisticRegression": lambda n: Tuned(logistic, (3.0, 10.0, 30.0, 100.0)),
    "SGDClassifier hinge": lambda n: Tuned(partial(sgd, loss="hinge"), _ALPHAS),
    "SGDClassifier log loss": lambda n: Tuned(partial(sgd, loss="log_loss"), _ALPHAS),
}
if find_spec("libmultilabel") is not None:
    METHODS["LibMultiLabel"] = lambda n: Tuned(LibMultiLabel, _CS)


class Outcome(NamedTuple):
    """What a fit took, and its quality on the test rows."""

    wall: float
    cpu: float
    quality: dict[str, float]
    average_precision: np.ndarray  # of each row
    chosen: str


def measure(make: Callable[[int], Any], data: TextSet) -> Outcome:
    """Fit once; the clock stands still during the evaluation."""
    model, clock, cpu = make(data.X.shape[0]), perf_counter(), process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels without examples, fits that end early: the table tells
        model.fit(data.X, data.Y)
    wall, cpu = perf_counter() - clock, process_time() - cpu
    S, Y = scores_of(model, data.X_test, data.Y), data.Y_test
    natural = 0.5 if getattr(model, "loss_", "") == "squared" else 0.0
    quality = {f"P@{k}": metrics.precision_at_k(Y, S, k) for k in (1, 3, 5)}
    for name, cut in (("", model.threshold_), (", natural cut", natural)):
        quality[f"micro F1{name}"] = metrics.micro_f1(Y, S, cut)
        quality[f"macro F1{name}"] = metrics.macro_f1(Y, S, cut)
    return Outcome(wall, cpu, quality, metrics.average_precision(Y, S, per_example=True), description(model))


def compare(data: TextSet, methods: list[str], repeat: int, limit: float) -> list[dict[str, Any]]:
    """Print the table; return its rows."""
    found: dict[str, list[Outcome]] = {method: [] for method in methods}
    reasons: dict[str, str] = {}
    for _ in range(repeat):
        for method in methods:
            if method in reasons:
                continue
            outcome = in_a_process(METHODS[method], data, limit, measure)
            said = outcome if isinstance(outcome, str) else f"{outcome.wall:.1f} s"
            print(f"{method}: {said}", file=sys.stderr, flush=True)
            if isinstance(outcome, str):
                reasons[method] = outcome
            else:
                found[method].append(outcome)
    records: list[dict[str, Any]] = []
    for method in methods:
        runs, base = found[method], found.get(DEFAULT)
        if not runs:
            records.append({"method": method, "left out": reasons[method]})
            continue
        times = {"wall s": median(run.wall for run in runs), "CPU s": median(run.cpu for run in runs)}
        if base:
            times["ratio"] = times["wall s"] / median(run.wall for run in base)
        record = {"method": method, **times, **runs[-1].quality}
        record["AP"] = mean_and_error(runs[-1].average_precision)[0]
        if base and method != DEFAULT:
            gain = runs[-1].average_precision - base[-1].average_precision
            record["difference"], record["error"] = mean_and_error(gain)
        records.append(record | {"chosen": runs[-1].chosen})
    print_table(records)
    return records


def print_table(records: list[dict[str, Any]]) -> None:
    quality = (
        "P@1",
        "P@3",
        "P@5",
        "AP",
        "micro F1",
        "macro F1",
        "micro F1, natural cut",
        "macro F1, natural cut",
    )
    heads = ("method", "wall s", "ratio", "CPU s", *quality, "difference", "chosen")
    print("| " + " | ".join(heads) + " |\n| --- |" + " --: |" * (len(heads) - 2) + " --- |")
    for record in records:
        if "left out" in record:
            print(f"| {record['method']} |" + " |" * (len(heads) - 2) + f" {record['left out']} |")
            continue
        cells = [record["method"], *(f"{record.get(name, np.nan):.3g}" for name in heads[1:4])]
        cells += [f"{record[name]:.4f}" for name in quality]
        lead = f"{record['difference']:+.4f} ± {record['error']:.4f}" if "difference" in record else ""
        print("| " + " | ".join([*cells, lead, record["chosen"]]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder with apt's package lists")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one fit")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows")
    parser.add_argument("--out", type=Path, default=Path("results/tagging.json"))
    options = parser.parse_args()
    rows, least = (QUICK_ROWS, QUICK_LEAST) if options.quick else (ROWS, LEAST)
    documents = read_documents(*find_lists(options.lists))
    clock = perf_counter()
    # The defaults were chosen with the next rows in view.
    documents = Documents(*(part[:rows] + part[rows + N_TEST :] for part in documents))
    data = text_set(documents, rows, None, least, default_vectorizer())
    seconds = perf_counter() - clock
    (n, d), per_row = data.X.shape, data.X.nnz / data.X.shape[0]
    shape = f"{n} × {d}, {per_row:.0f} nonzeros a row, {data.Y.shape[1]} labels"
    print(f"{machine()}\n\n{shape}, made with the test rows in {seconds:.1f} s\n", flush=True)
    records = compare(data, options.methods, options.repeat, options.limit)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), "data": shape, "results": records}, indent=2)
    options.out.write_text(content + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
