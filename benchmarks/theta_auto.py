"""Which rule finds a good theta? The paper's bound, parallel analysis and elbows, beside validation.

Rows L2-normalised, intercept. The ridge is the best one of ML-Fro on a fifth of the training rows. Every rule
sees only the spectrum of the ridge solution; then alpha is chosen on the same validation rows for the theta
of the rule, and the model is fitted on all training rows. `validation` may choose theta as well.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from _data import machine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from lrml import LRML, LRMLCV, MLFroCV
from lrml.core.moments import Statistics
from lrml.core.quadratic import SpectralProblem
from lrml.datasets import fetch_mulan, load_yeast
from lrml.estimators.lrml import elbow
from lrml.metrics import average_precision
from lrml.theory import printed_local_bound

HELD_OUT = 0.2
PERMUTATIONS = 3


def spectra(X: Any, Y: Any, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Singular values of the ridge solution W, and of its predictions in the metric of X."""
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).centered()).with_ridge(ridge)
    predictions = problem.cross / np.sqrt(problem.curvature)[:, None]
    return tuple(np.linalg.svd(M, compute_uv=False) for M in (problem.ridge_solution(), predictions))


def theta_of_bound(sigma: np.ndarray, n_examples: int) -> int:
    """Return the theta that minimises Theorem 3 as printed, for W scaled to Frobenius norm 1."""
    unit = sigma / np.linalg.norm(sigma)
    r = float(np.linalg.norm(unit**2))
    values = [printed_local_bound(unit, n_examples, r, theta).value for theta in range(len(unit) + 1)]
    return int(np.argmin(values))


def first_below(values: np.ndarray, noise: np.ndarray) -> int:
    return int(np.argmin(values > noise)) if (values <= noise).any() else len(values)


def rules(X: Any, Y: Any, ridge: float) -> dict[str, int]:
    sigma, energy = spectra(X, Y, ridge)
    rng = np.random.default_rng(0)
    shuffled = [spectra(X, Y[rng.permutation(Y.shape[0])], ridge) for _ in range(PERMUTATIONS)]
    noise_w, noise_p = (np.mean([pair[i] for pair in shuffled], axis=0) for i in (0, 1))
    return {
        "bound of Theorem 3": theta_of_bound(sigma, X.shape[0]),
        "parallel analysis of W": first_below(sigma, noise_w),
        "parallel analysis of XW": first_below(energy, noise_p),
        "above all noise, XW": int((energy > noise_p[0]).sum()),
        "elbow of W": elbow(sigma),
        "elbow of XW": elbow(energy),
        "elbow of XW squared (auto)": elbow(energy**2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["yeast", "corel5k", "bibtex", "delicious"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(machine())
    for name in arguments.datasets:
        dataset = load_yeast() if name == "yeast" else fetch_mulan(name, download=False)
        (X, Y), (X_test, Y_test) = dataset.train, dataset.test
        X, X_test = normalize(X), normalize(X_test)
        ridge = MLFroCV(cv=HELD_OUT, random_state=0).fit(X, Y).best_params_["alpha"]
        most = min(X.shape[1], Y.shape[1])
        found = {rule: min(theta, most) for rule, theta in rules(X, Y, ridge).items()}
        grid = {min(most, round(share * Y.shape[1])) for share in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)}
        thetas = sorted(grid | set(found.values()) | {1})
        search = LRMLCV(
            thetas, ridges=[ridge], n_alphas=8, alpha_ratio=3e-3, cv=HELD_OUT, random_state=0
        ).fit(X, Y)
        results = search.cv_results_
        found["validation"] = search.best_params_["theta"]
        for rule, theta in found.items():
            own = np.flatnonzero(results["param_theta"] == theta)
            best = own[np.argmax(results["mean_test_score"][own])]
            model = LRML(**results["params"][best]).fit(X, Y)
            test = average_precision(Y_test, model.decision_function(X_test))
            print(
                f"{name:9} {rule:28} theta {theta:4d}  rank {model.rank_:4d}  "
                f"validation {results['mean_test_score'][best]:.4f}  test {test:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
