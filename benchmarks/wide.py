"""Wide sparse text: time, memory and quality of lrml, LinearSVC and Ridge on Debian's package descriptions.

    python benchmarks/wide.py [--lists DIR] [--sets 15k×10k …] [--methods Ridge LRML …] [--repeat 3] [--quick]
    python benchmarks/wide.py --check [--lists DIR]

The first fits every method on every set, in turns, each time in a process of its own. It prints medians of
wall and CPU seconds and of peak memory beyond the data, and the quality on 3,000 or 5,000 test rows;
"difference" is that of average precision from tuned LinearSVC, paired. The second compares the objective of
the compressed road with that of the exact dual, on 3,000 rows of some 100,000 features. `_texts.py` says
where the texts come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _bench import Split, Tuned, head, line, write_results
from _texts import arguments, contest, find_lists, read_documents, text_set
from sklearn.linear_model import Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from lrml import LEML, LRML, LRMLCV, MLFro

SETS = {  # training rows, most features, packages that a tag needs
    "15k×10k": (15_000, 10_000, 20),
    "15k×50k": (15_000, 50_000, 20),
    "27k×200k": (27_303, 200_000, 10),
}
QUICK_SETS = {"1k×2k": (1_000, 2_000, 100)}
CHECKED, QUICK_CHECKED = (3_000, None, 10), (500, None, 50)
# theta, alpha, ridge: ranks from a few to all, weak and strong ridges, theta = 0 (convex) and not.
TRIPLES = ((0, 10.0, 0.0), (0, 2.0, 1.0), (20, 10.0, 0.1), (50, 3.0, 0.3), (100, 1.0, 1.0), (100, 100.0, 1.0))
PEER = "LinearSVC, tuned"
METHODS: dict[str, Callable[[], Any]] = {
    "Ridge": Ridge,
    "LinearSVC": lambda: OneVsRestClassifier(LinearSVC()),
    PEER: lambda: Tuned(lambda C: OneVsRestClassifier(LinearSVC(C=C)), (0.1, 0.3, 1.0, 3.0, 10.0)),
    "LRML": lambda: LRML(0.2, 1.0, ridge=1.0),
    "LRML squared hinge": lambda: LRML(0.2, 1.0, ridge=1.67, loss="squared_hinge"),
    "LRML logistic": lambda: LRML(0.2, 0.05, ridge=0.03, loss="logistic"),
    "MLFro squared hinge": lambda: MLFro(1.67, loss="squared_hinge"),
    "MLFro logistic": lambda: MLFro(0.03, loss="logistic"),
    "LEML": LEML,
    "LRMLCV": lambda: LRMLCV(random_state=0),
    "LRMLCV, smallest": lambda: LRMLCV(rule="smallest", random_state=0),
    "LRMLCV squared hinge": lambda: LRMLCV(LRML(loss="squared_hinge"), random_state=0),
    "LRMLCV logistic": lambda: LRMLCV(LRML(loss="logistic"), random_state=0),
}


def check(data: Split) -> list[dict[str, Any]]:
    """Print how far objectives of the compressed road lie above those of the exact dual."""
    print(head(("theta", "alpha", "ridge", "rank", "excess", "certificate")))
    records = []
    for theta, alpha, ridge in TRIPLES:
        exact, compressed = (
            LRML(theta, alpha, ridge=ridge, solver=solver, tol=1e-6).fit(data.X, data.Y)
            for solver in ("dual", "compressed")
        )
        record = {"theta": theta, "alpha": alpha, "ridge": ridge, "rank": exact.rank_}
        record["excess"] = compressed.objective_ / exact.objective_ - 1.0
        record["certificate"] = compressed.compression_gap_
        records.append(record)
        print(line(record.values()), flush=True)
    return records


def main() -> None:
    parser = arguments(__doc__, "wide.json", METHODS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--check", action="store_true", help="compare the compressed road with the dual")
    options = parser.parse_args()
    documents = read_documents(*find_lists(options.lists))
    if options.check:
        found = check(text_set(documents, *(QUICK_CHECKED if options.quick else CHECKED)))
    else:
        sets = QUICK_SETS if options.quick else {name: SETS[name] for name in options.sets}
        methods = {name: METHODS[name] for name in options.methods}
        found = [
            {"set": name, **record}
            for name, shape in sets.items()
            for record in contest(text_set(documents, *shape), methods, PEER, options)
        ]
    write_results(options.out, found)


if __name__ == "__main__":
    main()
