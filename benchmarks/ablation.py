"""What each part of the default solver is worth: objective above the best found, by number of spectral steps.

    LRML_DATA_HOME=... python benchmarks/ablation.py

Counts steps, not seconds: a proximal step and a reweighted step cost one eigendecomposition each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _data import training_set
from rich.console import Console
from rich.table import Table

from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers import ADMM, Phase, Reweighted, solve
from lrml.statistics import Statistics

# data set, rows L2-normalised and intercept, theta, alpha
PROBLEMS = (
    ("bibtex", False, 32, 30.0),
    ("bibtex", True, 32, 3.0),
    ("delicious", True, 197, 10.0),
    ("corel5k", True, 75, 3.0),
    ("yeast", False, 3, 10.0),
)
STEPS = (2, 5, 10, 20, 60)
METHODS: dict[str, Callable[[], str | Phase]] = {
    "proximal gradient": lambda: "pg",
    "accelerated proximal gradient": lambda: "apg",
    "ADMM": lambda: ADMM(memory=0),
    "ADMM + Anderson": ADMM,
    "reweighted only": lambda: Reweighted(min_gain=-1.0, max_steps=max(STEPS)),
    "default": lambda: "auto",
}


def main() -> None:
    table = Table("problem", "method", *(f"{k} steps" for k in STEPS), title="objective above best found, %")
    console = Console(width=120)
    for name, tuned, theta, alpha in PROBLEMS:
        statistics = Statistics.from_arrays(*training_set(name, l2=tuned))
        problem = SpectralProblem.from_moments(statistics.centered() if tuned else statistics.uncentered())
        penalty = TailSum(theta, alpha)
        with console.status(f"{name}"):
            best = solve(problem, penalty, tol=1e-5, max_iter=1000).objective
            for label, method in METHODS.items():
                result = solve(problem, penalty, solver=method(), tol=0.0, max_iter=max(STEPS))
                lowest = np.minimum.accumulate(result.history.as_dict()["objective"])
                cells = [f"{100 * (lowest[min(k, len(lowest) - 1)] / best - 1):.4f}" for k in STEPS]
                table.add_row(f"{name} {'tuned' if tuned else 'raw'}", label, *cells)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
