"""CPU seconds of fits, paths and searches beside scikit-learn, and of the code of another commit.

    LRML_DATA_HOME=... python benchmarks/speed.py [--data bibtex delicious …] [--peers]
    LRML_DATA_HOME=... python benchmarks/speed.py --old SRC [--works fit path …]

The first times ours and scikit-learn's on the same rows, on sets of Mulan that are scaled as usual: multiples
of one fit of Ridge(alpha=1), and in the last column of one search of RidgeCV with 12 alphas. ``--peers`` adds
himalaya's RidgeCV, if it is installed, and MultiTaskElasticNetCV, where it ends in minutes. The second runs
the same works with the package of the folder SRC, for example of ``git archive COMMIT src``, and prints our
times over its. All times are the shortest of three runs or more in turns, with one BLAS thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import cpu_seconds, dense, head, in_turns, line, mulan, parser, write_results
from _peers import himalaya_ridge
from sklearn.linear_model import MultiTaskElasticNetCV, Ridge, RidgeCV
from threadpoolctl import threadpool_limits

import lrml
from lrml import LEML, LRML, LRMLCV, MLFroCV

NAMES = ("bibtex", "delicious", "corel5k", "enron", "yeast", "emotions")
ALPHAS = np.geomspace(1e-2, 1e2, 12)
THETAS = (0, 0.02, 0.05, 0.1, 0.2)
ROUNDS, MILLION = 3, 1_000_000


def contest(name: str, peers: bool) -> dict[str, float]:
    """Return multiples of a Ridge fit for one data set."""
    X, Y, *_ = mulan(name, "usual")
    rows, labels = dense(X), dense(Y)
    predictions = LRML(space="predictions")
    works: dict[str, Callable[[], Any]] = {
        "Ridge s": partial(Ridge(1.0).fit, rows, labels),
        "LRML()": lambda: LRML().fit(X, Y),
        "path of 100": lambda: lrml.lrml_path(X, Y, THETAS, n_alphas=20, estimator=predictions),
        "path, coefficients": lambda: lrml.lrml_path(X, Y, THETAS, n_alphas=20),
        "MLFroCV()": lambda: MLFroCV(random_state=0).fit(X, Y),
        "LRMLCV()": lambda: LRMLCV(random_state=0).fit(X, Y),
        "RidgeCV": lambda: RidgeCV(ALPHAS).fit(rows, labels),
    }
    if peers and find_spec("himalaya") is not None:
        works["himalaya RidgeCV"] = lambda: himalaya_ridge(ALPHAS).fit(rows, labels)
    if peers and rows.size * labels.shape[1] < 1e7:
        works["MultiTaskElasticNetCV"] = lambda: MultiTaskElasticNetCV(cv=5).fit(rows, labels)
    seconds = in_turns(works, ROUNDS)
    found = {work: span / seconds["Ridge s"] for work, span in seconds.items()}
    return found | {"Ridge s": seconds["Ridge s"], "LRMLCV / RidgeCV": found["LRMLCV()"] / found["RidgeCV"]}


def prediction() -> Callable[[], Any]:
    """Return the prediction of five labels of a million sparse rows of delicious."""
    X, Y, *_ = mulan("delicious")
    model = LRML(0.05, 10.0, ridge=1.0).fit(X, Y)
    rows = sp.csr_array(X)[np.random.default_rng(0).integers(0, X.shape[0], MILLION)]
    return lambda: model.predict_top_k(rows, 5)


def on(name: str, work: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    X, Y, *_ = mulan(name)
    return lambda: work(X, Y)


# What both the present and the older package can do; making one is off the clock.
WORKS: Mapping[str, Callable[[], Callable[[], Any]]] = {
    "predict a million rows, delicious": prediction,
    "path, bibtex": lambda: on("bibtex", lrml.lrml_path),
    "fit, bibtex": lambda: on("bibtex", lambda X, Y: LRML(0.2, 3.0, ridge=0.5).fit(X, Y)),
    "fit, delicious": lambda: on("delicious", lambda X, Y: LRML(0.2, 10.0, ridge=1.0).fit(X, Y)),
    "logistic fit, bibtex": lambda: on(
        "bibtex", lambda X, Y: LRML(0.1, 1.0, ridge=0.05, loss="logistic").fit(X, Y)
    ),
    "LEML(), bibtex": lambda: on("bibtex", lambda X, Y: LEML().fit(X, Y)),
    "rbf fit, yeast": lambda: on("yeast", lambda X, Y: LRML(0.2, 3.0, ridge=1.0, kernel="rbf").fit(X, Y)),
}


def seconds_with(source: Path, work: str) -> float:
    """Run one work in a process of its own, with the package of a folder."""
    command = [sys.executable, __file__, "--alone", work]
    paths = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main() -> None:
    options = parser(__doc__, "speed.json")
    options.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    options.add_argument("--peers", action="store_true", help="with what others have")
    options.add_argument("--old", type=Path, metavar="SRC", help="a folder with another version of lrml")
    options.add_argument("--works", nargs="+", default=[""], help="texts in the names of works with --old")
    options.add_argument("--alone", choices=WORKS, help="print the seconds of one work, and nothing else")
    given = options.parse_args()
    threadpool_limits(1)
    if given.alone:
        call = WORKS[given.alone]()
        print(min(cpu_seconds(call) for _ in range(ROUNDS)))
        return
    records: list[dict[str, Any]] = []
    if given.old is None:
        for name in given.data:
            records.append({"data": name, **contest(name, given.peers)})
            if len(records) == 1:
                print(head(records[0]))
            print(line(records[-1].values()), flush=True)
    else:
        print(head(("work", "old s", "new s", "new / old")))
        sources = {"old s": given.old.resolve(), "new s": Path(lrml.__file__).parents[1]}
        for work in (work for work in WORKS if any(text in work for text in given.works)):
            turns = [{name: seconds_with(source, work) for name, source in sources.items()} for _ in range(2)]
            best = {name: min(turn[name] for turn in turns) for name in sources}
            records.append({"work": work, **best, "new / old": best["new s"] / best["old s"]})
            print(line(records[-1].values()), flush=True)
    write_results(given.out, records)


if __name__ == "__main__":
    main()
