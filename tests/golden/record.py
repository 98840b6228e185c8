"""Record the golden run, or compare with the recorded one: ``python -m golden.record``.

With ``--check`` it compares; with parts of names it takes only the cases that have one of them.

Timings are CPU seconds over those of a ridge regression of scikit-learn in the same run; for information,
and compared by nobody.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

import lrml
from golden import runs
from golden.cases import estimator

GOLDEN = Path(__file__).with_name("golden.json")


def cpu_seconds(work: Callable[[], Any], repetitions: int = 3) -> float:
    """Return the least CPU time of a few runs."""
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def operations() -> dict[str, Callable[[], Any]]:
    """Twelve operations that users wait for."""
    yeast, text = runs.sample("yeast"), runs.sample("text")
    X, Y = yeast.X, yeast.Y
    many = np.tile(X, (20, 1))
    model = lrml.LRML(3, 20.0).fit(X, Y)
    blocks = [(X[start : start + 100], Y[start : start + 100]) for start in range(0, len(X), 100)]

    def fit(member: str, X: Any = X, Y: Any = Y, **parameters: Any) -> Callable[[], Any]:
        return lambda: estimator(member, parameters).fit(X, Y)

    return {
        "LRML.fit": fit("LRML", theta=3, alpha=20.0),
        "LRML.fit, logistic": fit("LRML", loss="logistic"),
        "LRML.fit, kernel": fit("LRML", theta=3, alpha=2.0, ridge=1.0, kernel="rbf", gamma=0.3),
        "LRML.fit, text": fit("LRML", text.X, text.Y, theta=3, alpha=0.5, ridge=1.0, solver="compressed"),
        "LRML.fit_blocks": lambda: lrml.LRML(3, 20.0).fit_blocks(blocks),
        "MLFro.fit": fit("MLFro", alpha=2.0),
        "LEML.fit": fit("LEML"),
        "CPLST.fit": fit("CPLST"),
        "lrml_path": lambda: lrml.lrml_path(X, Y, [0, 3], [50.0, 20.0, 8.0], [0.0, 2.0]),
        "LRMLCV.fit": fit("LRMLCV"),
        "decision_function": lambda: model.decision_function(many),
        "predict_top_k": lambda: model.predict_top_k(many),
    }


def timings() -> dict[str, dict[str, float]]:
    """CPU seconds of the operations, and how many times those of ridge regression they are."""
    yeast = runs.sample("yeast")
    ridge = cpu_seconds(lambda: Ridge(1.0).fit(yeast.X, yeast.Y), 20)
    found = {name: cpu_seconds(work) for name, work in operations().items()}
    return {
        name: {"seconds": float(f"{seconds:.3g}"), "ridge fits": float(f"{seconds / ridge:.3g}")}
        for name, seconds in found.items()
    }


def compared(found: dict[str, runs.Numbers], recorded: dict[str, runs.Numbers]) -> list[str]:
    """Say for every case which number uses most of its tolerance, worst first."""
    worst = []
    for name, numbers in found.items():
        used = runs.usage(name, numbers, recorded.get(name, {}))
        key = max(used, key=used.__getitem__)
        worst.append((used[key], f"{used[key]:8.3f}  {name}: {key}"))
    return [line for _, line in sorted(worst, reverse=True)]


def written(golden: dict[str, Any]) -> str:
    """Write JSON with a line for each case."""
    lines = (f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in golden["cases"].items())
    return f'{{"timings": {json.dumps(golden["timings"])},\n"cases": {{\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments: list[str]) -> None:
    """Record or compare all cases, or those whose name has one of the given parts."""
    parts = [argument for argument in arguments if argument != "--check"]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        found = runs.all_numbers(Path(folder), parts or [""])
        golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if parts or "--check" in arguments else {}
        if "--check" in arguments:
            print(*compared(found, golden["cases"]), sep="\n")
            return
        golden = {"timings": timings(), "cases": found} if not parts else golden
    golden["cases"] |= found
    GOLDEN.write_text(written(golden), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
