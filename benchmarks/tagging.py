"""Tags for 20,000 texts: quality and time of `TextTagger`'s model beside one-vs-rest classifiers.

    python benchmarks/tagging.py [--lists DIR] [--methods …] [--repeat 3] [--quick]

All methods get the same features, those of `TextTagger`'s default vectorizer, and choose their strengths and
the cuts of their scores on held-out training rows, by average precision and micro F1. Every fit, choices
included, has a process of its own, in turns. Printed are medians of wall and CPU seconds, and the quality on
5,000 test rows, on which nothing was chosen; "difference" is that of average precision from the default,
paired. `_texts.py` says where the texts come from; LibMultiLabel takes part where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from _bench import Tuned, write_results
from _peers import LibMultiLabel
from _texts import N_TEST, Documents, arguments, contest, find_lists, read_documents, text_set
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from lrml import LRML, LRMLCV, MLFro, MLFroCV
from lrml.text import default_model, default_vectorizer

ROWS, LEAST = 20_000, 20  # training rows, packages that a tag needs
QUICK_ROWS, QUICK_LEAST = 1_000, 100
DEFAULT = "TextTagger's default"
_CS, _ALPHAS = (0.1, 0.3, 1.0, 3.0), (3e-6, 1e-5, 3e-5, 1e-4)


def svc(C: float) -> Any:
    return OneVsRestClassifier(LinearSVC(C=C))


def logistic(C: float) -> Any:
    return OneVsRestClassifier(LogisticRegression(C=C, solver="liblinear"))


def sgd(alpha: float, loss: str) -> Any:
    return OneVsRestClassifier(SGDClassifier(loss=loss, alpha=alpha, random_state=0))


def methods(rows: int) -> dict[str, Callable[[], Any]]:
    """Return makers of all models; that of `TextTagger` depends on the number of texts."""
    cut = {"threshold": "auto"}
    found: dict[str, Callable[[], Any]] = {
        DEFAULT: lambda: default_model(rows),
        "LRMLCV squared": lambda: LRMLCV(LRML(**cut), random_state=0),
        "LRMLCV squared hinge": lambda: LRMLCV(LRML(loss="squared_hinge", **cut), random_state=0),
        "MLFroCV squared hinge": lambda: MLFroCV(MLFro(loss="squared_hinge", **cut), random_state=0),
        "LinearSVC": lambda: Tuned(svc, _CS),
        "LogisticRegression": lambda: Tuned(logistic, (3.0, 10.0, 30.0, 100.0)),
        "SGDClassifier hinge": lambda: Tuned(partial(sgd, loss="hinge"), _ALPHAS),
        "SGDClassifier log loss": lambda: Tuned(partial(sgd, loss="log_loss"), _ALPHAS),
    }
    if find_spec("libmultilabel") is not None:
        found["LibMultiLabel"] = lambda: Tuned(LibMultiLabel, _CS)
    return found


def main() -> None:
    options = arguments(__doc__, "tagging.json", methods(ROWS)).parse_args()
    rows, least = (QUICK_ROWS, QUICK_LEAST) if options.quick else (ROWS, LEAST)
    documents = read_documents(*find_lists(options.lists))
    # The defaults were chosen with the next rows in view.
    documents = Documents(*(part[:rows] + part[rows + N_TEST :] for part in documents))
    data = text_set(documents, rows, None, least, default_vectorizer())
    makers = methods(rows)
    chosen = {name: makers[name] for name in options.methods}
    write_results(options.out, contest(data, chosen, DEFAULT, options))


if __name__ == "__main__":
    main()
