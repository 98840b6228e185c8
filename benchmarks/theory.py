"""Numbers and pictures of docs/theory.md: complexities and bounds on yeast and bibtex, and rates.

    LRML_DATA_HOME=... python benchmarks/theory.py [--images docs/images]

Everything is seeded. Needs matplotlib (``pip install lrml[plots]``).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import normalize

from lrml import CPLST, LEML, LRML, MLFro, MLTrace
from lrml.datasets import fetch_mulan, load_yeast
from lrml.theory import (
    Spectrum,
    bound_report,
    global_bound,
    global_complexity,
    local_bound,
    local_complexity,
    local_dual_bound,
    local_rate,
    printed_local_bound,
)

BALLS = ("frobenius", "trace", "operator")
SIZES = np.array([10**k for k in range(2, 9)])
SPECTRUM_SIZE = 100_000


def fitted_slope(x: Any, y: Any) -> float:
    """Return the slope of the least-squares line of log y on log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def printed_class_complexity(X: Any, n_labels: int, r: float) -> float:
    """Return the complexity of {W : ‖W‖ ≤ 1, ‖WWᵀ‖ ≤ r} in operator norms, the class of Theorem 3."""
    radius = min(1.0, r) ** 0.5
    return global_complexity(X, n_labels, ball="operator", radius=radius, n_draws=20, random_state=0).mean


def scale_data(X: Any, n_labels: int, factors: Any) -> list[tuple[float, float, float]]:
    """Multiply X by c, with r = 1: the complexity grows with c, the printed bound does not change."""
    bound = printed_local_bound([], X.shape[0], 1.0, min(X.shape[1], n_labels)).value
    return [(c, printed_class_complexity(c * X, n_labels, 1.0), bound) for c in factors]


def scale_predictors(X: Any, n_labels: int, factors: Any) -> list[tuple[float, float, float]]:
    """Multiply every W of the class by s, so that ‖WWᵀ‖ ≤ s²: s on the left, s² on the right."""
    theta = min(X.shape[1], n_labels)
    bounds = [printed_local_bound([], X.shape[0], s**2, theta).value for s in factors]
    measured = [printed_class_complexity(X, n_labels, s**2) for s in factors]
    return list(zip(factors, measured, bounds, strict=True))


def printed_bound_fails_below(spectrum: Spectrum, theta: int) -> float:
    """Return the r below which Theorem 3 fails for rank theta ≥ 1 and this X, whatever ‖·‖ means in it.

    The matrices √r uvᵀ, r ≤ 1, are in the class for every norm that is 1 on uvᵀ. So the complexity is at
    least √r E‖Xᵀσ‖/n ≥ √(r tr S / 2n) (Khintchine and Kahane's inequality with its best constant), which
    exceeds r √(theta/n) for r < min(1, tr S / (2 theta)), tr S the mean of ‖x_i‖².
    """
    return min(1.0, float(spectrum.eigenvalues.sum()) / (2 * theta))


def globals_of(name: str, X: Any, n_labels: int) -> None:
    """Print global complexities of unit balls, rows scaled to norm 1, beside their bounds."""
    rows = normalize(X)
    spectrum = Spectrum.of(rows)
    n = spectrum.n_examples
    print(f"\n{name}: n {n}, d {X.shape[1]}, L {n_labels}, rows of norm 1, s1 {spectrum.eigenvalues[0]:.3f}")
    for ball in BALLS:
        for signs in ("entry", "example"):
            found = global_complexity(rows, n_labels, ball=ball, signs=signs, n_draws=20, random_state=0)
            bound = global_bound(spectrum.eigenvalues, n, n_labels, ball=ball, signs=signs).value
            print(f"  {ball:9} {signs:7}: {found.mean:.4f} ± {found.standard_error:.4f}, bound {bound:.4f}")
    print(f"  printed λ/√n: {n**-0.5:.4f}")
    theta = round(0.2 * n_labels)
    r = printed_bound_fails_below(spectrum, theta)
    reached = r**0.5 * global_complexity(rows, n_labels, n_draws=10, random_state=0).mean
    printed = printed_local_bound(np.zeros(theta), n, r, theta).value
    print(f"  theta {theta}, r {r:.4f}, no tail: rank one reaches {reached:.4f}, printed bound {printed:.4f}")


def draw_scalings(X: Any, n_labels: int, path: Path) -> None:
    """Draw both sides of Theorem 3 against the scale of the data, and of the predictors."""
    rows = normalize(X)
    data = scale_data(rows, n_labels, 10.0 ** np.linspace(-1, 2, 7))
    small = scale_predictors(rows, n_labels, 10.0 ** np.linspace(-3, 0, 7))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    titles = ("Data multiplied by c", "Predictors multiplied by s")
    for axis, rows_, title in zip(axes, (data, small), titles, strict=True):
        factors, measured, bounds = (list(column) for column in zip(*rows_, strict=True))
        axis.loglog(factors, measured, "o-", label=f"complexity, slope {fitted_slope(factors, measured):.2f}")
        axis.loglog(factors, bounds, "s--", label=f"printed bound, slope {fitted_slope(factors, bounds):.2f}")
        axis.set(title=title, xlabel="c" if rows_ is data else "s", ylabel="value on yeast, ‖x‖ = 1")
        axis.legend()
        print(
            title,
            [(f"{a:.3g}", f"{b:.3g}", f"{c:.3g}") for a, b, c in zip(factors, measured, bounds, strict=True)],
        )
    figure.savefig(path, dpi=120)


def draw_local(data: dict[str, tuple[Any, int]], path: Path) -> None:
    """Draw the local complexity and its bounds against r, radius 1, for every set."""
    figure, axes = plt.subplots(1, len(data), figsize=(9.5, 3.8), layout="constrained")
    for axis, (name, (X, n_labels)) in zip(axes, data.items(), strict=True):
        spectrum = Spectrum.of(normalize(X))
        s, n = spectrum.eigenvalues, spectrum.n_examples
        theta = round(0.2 * n_labels)
        moments = np.logspace(-5, 0, 11)
        free = [local_complexity(spectrum, n_labels, r, n_draws=6, random_state=0) for r in moments]
        ranked = [
            local_complexity(spectrum, n_labels, r, theta=theta, tail=0.0, n_draws=3, random_state=0)
            for r in moments
        ]
        curves = {
            "split bound": [local_bound(s, n, n_labels, r).value for r in moments],
            "dual bound": [local_dual_bound(s, n, n_labels, r).value for r in moments],
            "complexity": [found.upper.mean for found in free],
            f"complexity, rank ≤ {theta}": [found.upper.mean for found in ranked],
        }
        for (label, values), style in zip(curves.items(), ("--", "-", "o", "^"), strict=True):
            axis.loglog(moments, values, style, label=label)
        ceiling = global_bound(s, n, n_labels, ball="frobenius").value
        axis.axhline(ceiling, color="grey", linestyle=":", label="global bound")
        axis.set(title=f"{name}, ‖x‖ = 1, ‖W‖_F ≤ 1", xlabel="r, bound on the mean of ‖Wᵀx‖²")
        axis.legend(fontsize=8)
        print(f"\n{name}: r, complexity, rank ≤ {theta}, dual, split; global {ceiling:.4f}")
        for i in (0, 2, 4, 6, 8, 10):
            row = (
                curves["complexity"],
                list(curves.values())[3],
                curves["dual bound"],
                curves["split bound"],
            )
            print(f"  {moments[i]:.0e} " + " ".join(f"{values[i]:.5f}" for values in row))
    figure.savefig(path, dpi=120)


def draw_rates(X: Any, n_labels: int, path: Path) -> None:
    """Draw fixed points against n with their slopes, and global complexities of growing parts of yeast."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    logs = np.log(SIZES) / SIZES
    j = np.arange(1.0, SPECTRUM_SIZE + 1)
    exponential = [local_rate(np.exp(-j), int(n)) for n in SIZES]
    slope = fitted_slope(logs, exponential)
    left.loglog(SIZES, exponential, "o-", label=f"s_j = exp(−j): ((log n)/n)^{slope:.3f}")
    left.loglog(SIZES, 2 * logs, color="grey", linestyle=":", label="2 (log n)/n")
    for power in (2.0, 4.0):
        rates = [local_rate(j**-power, int(n)) for n in SIZES]
        label = f"s_j = 1/j^{power:.0f}: n^{fitted_slope(SIZES, rates):.3f}"
        left.loglog(SIZES, rates, "s-", label=label)
        print(label, f"theory {-power / (power + 1):.3f}")
    left.loglog(SIZES, 1 / np.sqrt(SIZES), "k--", label="1/√n")
    left.set(title="Fixed points r*", xlabel="n")
    left.legend(fontsize=8)
    print(f"exponential: slope in (log n)/n {slope:.4f}; n r* {np.round(np.array(exponential) * SIZES, 2)}")
    rows, sizes = normalize(X)[np.random.default_rng(0).permutation(len(X))], [100, 200, 400, 800, 1500]
    for ball in BALLS:
        found = [global_complexity(rows[:n], n_labels, ball=ball, n_draws=60, random_state=0) for n in sizes]
        means = [one.mean for one in found]
        label = f"{ball} ball: n^{fitted_slope(sizes, means):.3f}"
        right.loglog(sizes, means, "o-", label=label)
        print("yeast,", label)
    right.set(title="Global complexity, rows of yeast", xlabel="n")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def survey_brackets() -> None:
    """Print how far apart the two sides of a supremum are, for random problems with a tail of W."""
    ratios = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, d, n_labels = (int(rng.integers(*limits)) for limits in ((10, 60), (2, 12), (2, 10)))
        X = rng.normal(size=(n, d)) * np.exp(-np.arange(d) * rng.uniform(0, 1))
        theta, tail, r = int(rng.integers(0, 3)), 10 ** rng.uniform(-1.5, 0.5), 10 ** rng.uniform(-3, 0.5)
        if theta < min(d, n_labels):
            found = local_complexity(X, n_labels, r, theta=theta, tail=tail, n_draws=2, random_state=seed)
            ratios.append(found.upper.mean / found.lower.mean)
    print(f"\nupper/lower, {len(ratios)} problems: median, 90 %, worst {np.quantile(ratios, [0.5, 0.9, 1])}")


def compare_moments(name: str, model: Any, X: Any) -> None:
    """Print how the model's spectrum, scaled to norm 1, compares with the data's moments along it."""
    left, sigma, right = model.factors_
    moments = np.sum(np.asarray(X @ left) ** 2, axis=0) / X.shape[0]
    worst = float(np.max(len(right) * moments / (sigma / np.linalg.norm(sigma)) ** 2))
    outside = 1 - float(moments.sum()) / float((X**2).sum() / len(X))
    print(f"{name}: worst L uᵀSu/σ² {worst:.3g}, share of tr S where W is zero {outside:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    images = parser.parse_args().images
    sets = {"yeast": load_yeast().train, "bibtex": fetch_mulan("bibtex", download=False).train}
    data = {name: (X, Y.shape[1]) for name, (X, Y) in sets.items()}
    for name, (X, n_labels) in data.items():
        globals_of(name, X, n_labels)
    draw_scalings(*data["yeast"], images / "theory_scaling.png")
    draw_rates(*data["yeast"], images / "theory_rates.png")
    models = [LRML(3, 10.0), MLTrace(10.0), MLFro(10.0), CPLST(3), LEML(3, 10.0)]
    for model in models:
        model.fit(*sets["yeast"])
        print(f"\nyeast, {model}\n{bound_report(model, sets['yeast'][0], n_draws=100, random_state=0)}")
    model = LRML(32, 10.0).fit(*sets["bibtex"])
    print(f"\nbibtex, {model}\n{bound_report(model, sets['bibtex'][0], n_draws=10, random_state=0)}")
    compare_moments("bibtex", model, sets["bibtex"][0])
    compare_moments("yeast", models[0], sets["yeast"][0])
    draw_local(data, images / "theory_local.png")
    survey_brackets()


if __name__ == "__main__":
    main()
