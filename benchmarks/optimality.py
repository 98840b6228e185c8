"""How far default fits end above the optimum: every member and loss, real data, features of many scales.

::

    python benchmarks/optimality.py [--datasets yeast emotions …] [--quick] [--out results/optimality.json]

Every data set (by default those of Mulan at hand, and three tables of scikit-learn, whose features have mixed
scales) is taken raw, with rows of unit length, standardised, and with one column times 1e4; if it has 50
features or more, also standardised with half as many rows as features. Strengths are derived from the data,
so that each gets weak and strong penalties. ``--quick`` takes emotions, yeast, enron and corel5k, raw and
standardised, and fewer strengths: a few minutes.

The objective of a fit is computed here, from its coefficients and the rows, or from its dual coefficients and
the kernel matrix. It is compared with the least known one: of a fit with a small ``tol``, of one that
continues from the default fit, for ``LRML`` with another loss of one that begins almost without penalties,
and, for ``MLFro`` with the squared loss, of scikit-learn's ``Ridge`` or ``KernelRidge``. Fits that warn are
counted separately. Ends with status 1 if the limits do not hold.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from _bench import dense, head, line, mulan, parser, write_results
from sklearn import datasets as tables
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from lrml import CPLST, LEML, LRML, MLFro, MLTrace, lrml_path
from lrml.core.losses import LOSSES
from lrml.datasets import fetch_mulan

MULAN = ("yeast", "emotions", "enron", "corel5k", "bibtex", "delicious")
TABLES = ("wine", "breast_cancer", "diabetes")
QUICK = ("emotions", "yeast", "enron", "corel5k")
FEW_ROWS = "half as many rows as features"
SCALINGS = ("raw", "unit rows", "standardised", "one column × 1e4", FEW_ROWS)
QUICK_SCALINGS = ("raw", "standardised")
# Numbers in X times labels up to which all members are run, and the losses that read the rows.
SMALL, MEDIUM = 3_000_000, 100_000_000
MOST_KERNEL_ROWS = 3000
LIMITS = {"squared": (0.01, 0.0005), "other": (0.02, 0.005)}  # the worst gap, and the 95th percentile


class Record(NamedTuple):
    """One default fit."""

    dataset: str
    scaling: str
    member: str
    parameters: str
    gap: float
    warned: bool
    seconds: float


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return dense training data; labels of a table are quantiles of its target and of some columns."""
    if name in MULAN:
        X, Y, *_ = mulan(name, "raw")
        return dense(X), dense(Y)
    options = {"scaled": False} if name == "diabetes" else {}
    table = getattr(tables, f"load_{name}")(**options)
    X, target = table.data.astype(float), table.target
    held, X = X[:, ::4], np.delete(X, np.s_[::4], axis=1)
    classes = np.unique(target)
    if len(classes) > 10:
        classes = np.quantile(target, [0.2, 0.35, 0.5, 0.65, 0.8])
        labels = target[:, None] > classes
    else:
        labels = target[:, None] == classes
    return X, np.hstack([labels, *(held > np.quantile(held, q, axis=0) for q in (0.25, 0.5, 0.75))]).astype(
        float
    )


def scaled(X: np.ndarray, scaling: str) -> np.ndarray:
    """Return X in one of the `SCALINGS`."""
    if scaling == "unit rows":
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(norms > 0, norms, 1.0)
    spread = X.std(axis=0)
    if scaling in ("standardised", FEW_ROWS):
        return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if scaling == "one column × 1e4":
        X = X.copy()
        X[:, np.argmax(spread > 0)] *= 1e4
    return X


def objective(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """F of a fitted model, from its coefficients and all rows."""
    name = type(model).__name__
    loss = LOSSES[getattr(model, "loss", "squared")]
    intercept = np.where(model.unseen_labels_, 0.0, model.intercept_)
    seen = ~model.unseen_labels_ if loss.name != "squared" else np.ones(len(intercept), dtype=bool)
    if getattr(model, "kernel", "linear") == "linear":
        scores, sigma = X @ model.coef_.T, np.linalg.svd(model.coef_, compute_uv=False)
    else:
        scores = rbf_kernel(X, gamma=model.gamma) @ model.dual_coef_
        squares = np.linalg.eigvalsh(model.dual_coef_.T @ scores)  # of aᵀKa, so those of WᵀW
        sigma = np.sqrt(np.maximum(squares[::-1], 0.0))
    total = float(loss.terms(Y, scores + intercept).values[:, seen].sum())
    squares = float((sigma**2).sum())
    if name == "LRML":
        return total + model.alpha_ * sigma[model.theta_ :].sum() + model.ridge_ * squares
    if name == "MLTrace":
        return total + model.alpha_ * sigma.sum() + model.ridge_ * squares
    if name == "MLFro":
        return total + model.alpha_ * squares
    if name == "LEML":
        return total + model.alpha_ * sigma.sum() + model.ridge_ * squares
    return total + model.ridge * squares


def ridge_leaving(X: np.ndarray, share: float) -> float:
    """Return the ridge that leaves a share of the directions of X."""
    eigenvalues = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    eigenvalues = eigenvalues[eigenvalues > 1e-15 * eigenvalues[0]]
    grid = np.geomspace(eigenvalues[-1] * 1e-3, eigenvalues[0] * 1e3, 2000)
    left = (eigenvalues / (eigenvalues + grid[:, None])).mean(axis=1)
    return float(grid[np.argmin(np.abs(left - share))])


def members(X: np.ndarray, Y: np.ndarray, quick: bool) -> Iterator[tuple[str, Any]]:
    """Yield names and estimators with their default tolerances."""
    size = X.size * Y.shape[1]
    strongest, ridge = lrml_path(X, Y, 0, n_alphas=1)[0].alpha, ridge_leaving(X, 0.6)
    few = quick or size > SMALL
    shares = (0.1, 1e-3) if few else (0.3, 0.03, 1e-3, 1e-5)
    for theta in (0, 0.2) if few else (0, 0.1, 0.4):
        for share in shares:
            for strength in (0.0, ridge):
                yield "LRML", LRML(theta, share * strongest, ridge=strength)
    for share in shares:
        yield "MLTrace", MLTrace(share * strongest)
    for strength in (1e-3 * ridge, ridge):
        yield "MLFro", MLFro(strength)
    yield "CPLST", CPLST(0.4, ridge=ridge)
    if size > (SMALL if quick else MEDIUM):
        return
    yield "LEML", LEML(0.4, 0.01 * strongest)
    yield from kernel_members(X, quick)
    yield from row_members(strongest, ridge, quick)


def kernel_members(X: np.ndarray, quick: bool) -> Iterator[tuple[str, Any]]:
    """Yield estimators with a kernel that suits the scale of the features."""
    if len(X) > MOST_KERNEL_ROWS:
        return
    gamma = 1.0 / max(float(X.var(axis=0).sum()), 1e-300)
    for strength in (3.0,) if quick else (0.1, 3.0):
        for alpha in (0.3, 3.0):
            yield "LRML rbf", LRML(0.2, alpha, ridge=strength, kernel="rbf", gamma=gamma)
        yield "MLTrace rbf", MLTrace(1.0, ridge=strength, kernel="rbf", gamma=gamma)
        yield "MLFro rbf", MLFro(strength, kernel="rbf", gamma=gamma)


def row_members(strongest: float, ridge: float, quick: bool) -> Iterator[tuple[str, Any]]:
    """Yield estimators with other losses."""
    for loss, scale in (("logistic", 0.1), ("squared_hinge", 1.0)):
        for kind in (LRML, MLTrace, MLFro, LEML):
            yield f"{kind.__name__} {loss}", kind(loss=loss)  # all defaults
        for share in (0.1, 1e-3):
            for strength in (ridge,) if quick else (1e-3 * ridge, ridge):
                inner = LRML(0.2, share * scale * strongest, ridge=scale * strength, loss=loss)
                yield f"LRML {loss}", inner
        if quick:
            continue
        yield f"LRML {loss}", LRML(0.2, 1.0, ridge=0.0, loss=loss)
        yield f"MLTrace {loss}", MLTrace(0.03 * scale * strongest, ridge=0.0, loss=loss)
        yield f"MLFro {loss}", MLFro(scale * ridge, loss=loss)
        yield f"LEML {loss}", LEML(0.4, 0.03 * scale * strongest, loss=loss)


def fit(model: Any, X: np.ndarray, Y: np.ndarray) -> tuple[Any, bool, float]:
    """Return the fitted model, whether it warned, and its seconds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = perf_counter()
        model.fit(X, Y)
        seconds = perf_counter() - start
    return model, any(issubclass(entry.category, ConvergenceWarning) for entry in caught), seconds


def best_known(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Return the least objective of long runs of the same model, and of scikit-learn where it has one."""
    known = []
    if type(model) is MLFro and model.kernel == "rbf":
        centred = KernelCenterer().fit_transform(rbf_kernel(X, gamma=model.gamma))
        target = Y - Y.mean(axis=0)
        dual = KernelRidge(alpha=model.alpha, kernel="precomputed").fit(centred, target).dual_coef_
        fitted = centred @ dual
        known.append(float(((target - fitted) ** 2).sum() + model.alpha * (dual * fitted).sum()))
    elif type(model) is MLFro and model.loss == "squared":
        peer = Ridge(alpha=model.alpha, solver="svd").fit(X, Y)
        known.append(float(((Y - peer.predict(X)) ** 2).sum() + model.alpha * (peer.coef_**2).sum()))
    if "tol" in model.get_params():
        by_rows = model.loss != "squared"
        long = {"tol": 1e-6, "max_iter": 1500} if by_rows else {"tol": 1e-9, "max_iter": 3000}
        starts = [model]
        if by_rows and type(model) is LRML:  # a saddle point may hide a better one: start beyond the penalty
            starts.append(fit(MLFro(1e-3 * ridge_leaving(X, 0.9), loss=model.loss), X, Y)[0])
        for start in (clone(model).set_params(**long), *(continued(model, one, long) for one in starts)):
            known.append(objective(fit(start, X, Y)[0], X, Y))
    return min(known, default=np.inf)


def continued(model: Any, start: Any, settings: dict[str, Any]) -> Any:
    """Return an estimator like the model that begins with the coefficients of another."""
    further = clone(model).set_params(**settings, warm_start=True)
    vars(further).update({name: value for name, value in vars(start).items() if name.endswith("_")})
    return further


def fits(name: str, scaling: str, X: np.ndarray, Y: np.ndarray, quick: bool) -> Iterator[Record]:
    """Yield the records of all members on one matrix."""
    for member, model in members(X, Y, quick):
        fitted, warned, seconds = fit(model, X, Y)
        mine = objective(fitted, X, Y)
        best = min(best_known(fitted, X, Y), mine)
        chosen = {
            key: value
            for key, value in model.get_params().items()
            if key in ("theta", "alpha", "ridge") and value is not None
        }
        text = " ".join(f"{key}={value:.3g}" for key, value in chosen.items())
        yield Record(name, scaling, member, text, mine / best - 1.0, warned, seconds)


def path(name: str, scaling: str, X: np.ndarray, Y: np.ndarray, n_alphas: int) -> Iterator[Record]:
    """Yield the records of a default path; a model is compared with a tight path and a tight fit."""
    thetas = [0, 0.2]
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = lrml_path(X, Y, thetas, n_alphas=n_alphas)
        seconds = (perf_counter() - start) / len(found)
        tight = lrml_path(X, Y, thetas, n_alphas=n_alphas, estimator=LRML(tol=1e-9, max_iter=3000))
        for model, twin in zip(found, tight, strict=True):
            single = LRML(model.theta, model.alpha, tol=1e-9).fit(X, Y)
            best = min(twin.objective_, single.objective_, model.objective_)
            text = f"theta={model.theta} alpha={model.alpha:.3g}"
            gap = model.objective_ / best - 1.0
            yield Record(name, scaling, "path", text, gap, not model.converged_, seconds)


def report(records: list[Record]) -> bool:
    """Print worst, 95th percentile and warnings for every member; return whether the limits hold."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        kind = "squared" if record.member.split()[-1] not in LOSSES else "other"
        groups.setdefault(record.member, []).append(record)
        groups.setdefault(f"all, {kind} loss", []).append(record)
    held = True
    print("\n" + head(("gaps of those that did not warn", "fits", "warned", "worst", "95 %", "median")))
    for group in sorted(groups, key=lambda group: (group.startswith("all"), group)):
        gaps = np.array([record.gap for record in groups[group] if not record.warned])
        worst, high, middle = np.quantile(gaps, [1.0, 0.95, 0.5]) if len(gaps) else [np.nan] * 3
        late = len(groups[group]) - len(gaps)
        print(
            line([group, len(groups[group]), late, *(f"{100 * gap:.1g} %" for gap in (worst, high, middle))])
        )
        if group.startswith("all"):
            limits = LIMITS["squared" if "squared" in group else "other"]
            held = held and bool(worst <= limits[0] and high <= limits[1])
    print("\nlargest gaps")
    for record in sorted((r for r in records if not r.warned), key=lambda record: -record.gap)[:10]:
        print(f"{record.gap:9.1e}  {record.member}, {record.dataset}, {record.scaling}, {record.parameters}")
    return held


def at_hand() -> list[str]:
    """Return the names of all data sets that need no download."""
    found = []
    for name in MULAN:
        try:
            fetch_mulan(name, download=False)
        except OSError:
            continue
        found.append(name)
    return [*found, *TABLES]


def main() -> int:
    """Run, print, and write all records so far: a run over large data may be stopped at any time."""
    options = parser(__doc__, "optimality.json")
    options.add_argument("--datasets", nargs="+", help="by default all at hand")
    options.add_argument("--quick", action="store_true", help="four sets and a smaller grid")
    given = options.parse_args()
    records: list[Record] = []
    for name in given.datasets or (QUICK if given.quick else at_hand()):
        X, Y = read(name)
        for scaling in QUICK_SCALINGS if given.quick else SCALINGS[: None if X.shape[1] >= 50 else -1]:
            start, before = perf_counter(), len(records)
            A, B = scaled(X, scaling), Y
            if scaling == FEW_ROWS:
                A, B = A[: A.shape[1] // 2], B[: A.shape[1] // 2]
            records += fits(name, scaling, A, B, given.quick)
            if A.size * B.shape[1] <= MEDIUM:
                records += path(name, scaling, A, B, 4 if given.quick else 8)
            worst = max((record.gap for record in records[before:] if not record.warned), default=np.nan)
            print(
                f"{name}, {scaling}: {len(records) - before} fits, worst {worst:.1e}, "
                f"{perf_counter() - start:.0f} s",
                flush=True,
            )
            write_results(given.out, [record._asdict() for record in records])
    held = report(records)
    print(f"\nlimits {'hold' if held else 'do NOT hold'}: {LIMITS}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
