"""What a model has learnt, as a record and as the page of ``lrml inspect``; whether low rank pays on data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from lrml._inner import (
    explain,
    facts_of,
    free_values,
    in_words,
    inner_model,
    place_of,
    threshold_of,
)
from lrml._shown import shortened
from lrml.core.arrays import dense, is_sparse, to_host
from lrml.core.checks import check_integer
from lrml.core.penalties import TailSum
from lrml.displays import SpectrumDisplay
from lrml.estimators import LRMLCV, SpectralRegressor, SpectralRegressorCV
from lrml.report import canvas, column, figure, page, panel, rounded, table

__all__ = ["LowRankGain", "ModelDescription", "describe_model", "explain", "low_rank_gain"]


_Floats: TypeAlias = npt.NDArray[np.float64]

_CLEAR = 0.2  # a smaller cosine is not called a relation
_MOST_PANELS, _LONGEST_NAME = 6, 28
_BLOCK = 1 << 20  # cosines at once


@dataclass(frozen=True, eq=False, repr=False)
class ModelDescription:
    """What `describe_model` returns."""

    constructor: str  # with the parameters that differ from their defaults
    fitted: dict[str, Any]  # what was fitted, and how it ended, as ``lrml fit --json`` says it
    objective: float
    unseen_labels: int  # without a positive example in training
    singular_values: list[float]  # descending
    theta: int | None  # so many of those of the coefficients are free; None if they are not penalised
    pairs: list[dict[str, Any]]  # of labels with the largest cosines: ``first``, ``second``, ``cosine``
    labels: list[dict[str, Any]]
    """Longest coefficient vectors, or those asked for: ``name``, ``norm``, ``intercept``, ``threshold``,
    ``related`` and ``features``."""
    chosen: bool  # whether labels were asked for

    @property
    def tail(self) -> float | None:
        """Σ_{j>theta} σ_j, which the penalty multiplies by alpha; None without a theta."""
        return None if self.theta is None else float(sum(self.singular_values[self.theta :]))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold."""
        plain: dict[str, Any] = rounded(asdict(self) | {"tail": self.tail})
        return plain

    def summary(self, title: str, *, about: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the plain data that `lrml.report.render_html` makes a page of.

        ``about`` are pairs of words to add, such as the data that the model was fitted on.
        """
        return _page(self, title, about)

    def __repr__(self) -> str:
        return f"ModelDescription({'; '.join(in_words(self.fitted)[:2])})"


def describe_model(
    model: Any, *, labels: Sequence[Any] = (), n_labels: int = 20, n_features: int = 8
) -> ModelDescription:
    """Describe a fitted model.

    With W = U diag(s) Vᵀ, the coefficients of label l are U (s ∘ V_l), and the cosine of two labels is that
    of rows of V diag(s). The d × L coefficients are never built as a whole.

    Parameters
    ----------
    model : estimator
        A fitted estimator or search of this library, a `TextTagger`, or a pipeline that ends in one.
    labels : sequence
        Names of labels to describe; by default those with the longest coefficient vectors.
    n_labels, n_features : int
        How many labels, and pairs of labels, to describe, and features for each of them.

    Examples
    --------
    >>> from lrml import LRML
    >>> from lrml.datasets import load_yeast
    >>> found = describe_model(LRML(3, 100.0).fit(*load_yeast().train))
    >>> found
    ModelDescription(LRML: squared loss, theta 3, alpha 100, ...; rank 3, 103 features, 14 labels, ... bytes)
    >>> found.pairs[0]["first"], found.pairs[0]["second"], round(found.pairs[0]["cosine"], 2)
    ('11', '12', 1.0)
    """
    for name, value in (("n_labels", n_labels), ("n_features", n_features)):
        check_integer(name, value)
    inner = inner_model(model, "describe_model")
    fitted, feature_names = inner.model, inner.feature_names
    cuts = np.broadcast_to(threshold_of(fitted), fitted.intercept_.shape)
    vectors = fitted.fitted_.label_vectors
    norms = np.sqrt(np.asarray((vectors * vectors).sum(axis=1)))
    lengths = np.where(norms > 0, norms, 1.0)[:, None]
    directions = vectors.multiply(1.0 / lengths).tocsr() if is_sparse(vectors) else vectors / lengths
    names = [str(name) for name in fitted.classes_]
    longest = [int(place) for place in np.argsort(-norms, kind="stable")[:n_labels] if norms[place] > 0]
    return ModelDescription(
        constructor=" ".join(repr(fitted).split()),
        fitted=facts_of(model),
        objective=fitted.objective_,
        unseen_labels=int(np.count_nonzero(fitted.unseen_labels_)),
        singular_values=np.asarray(getattr(fitted, "singular_values_", ()), dtype=np.float64).tolist(),
        theta=None if fitted.fitted_.rank is None else free_values(fitted),
        pairs=_pairs(directions, names, n_labels),
        labels=[
            {
                "name": names[place],
                "norm": float(norms[place]),
                "intercept": float(fitted.intercept_[place]),
                "threshold": float(cuts[place]),
                "related": _related(directions, place, names),
                "features": _top_features(fitted, place, feature_names, n_features),
            }
            for place in ([place_of(fitted, label) for label in labels] or longest)
        ],
        chosen=len(labels) > 0,
    )


def _top_features(model: Any, place: int, names: npt.NDArray[Any] | None, count: int) -> list[dict[str, Any]]:
    """Return the features with the largest coefficients of a label; none for a kernel."""
    if hasattr(model, "kernel_"):
        return []
    coefficients = model.fitted_.column(place)
    size = np.abs(coefficients)
    top = np.argpartition(-size, min(count, len(size)) - 1)[:count]
    return [
        {"name": str(j if names is None else names[j]), "coefficient": float(coefficients[j])}
        for j in top[np.argsort(-size[top], kind="stable")]
        if size[j] > 0
    ]


def _related(directions: Any, place: int, names: Sequence[str]) -> list[dict[str, Any]]:
    cosines = dense(directions @ directions[[place]].T)[:, 0]
    cosines[place] = -np.inf
    nearest = np.argsort(-cosines, kind="stable")[: min(3, len(names) - 1)]
    return [{"name": names[j], "cosine": float(cosines[j])} for j in nearest if cosines[j] > 0]


def _pairs(directions: Any, names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return the pairs with the largest cosines, block by block; among equals the first ones."""
    best: list[tuple[float, int, int]] = []
    n_labels = len(names)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n_labels, step):
        cosines = dense(directions[start : start + step] @ directions.T)
        rows = np.arange(start, start + len(cosines))
        cosines[np.arange(n_labels) <= rows[:, None]] = -np.inf  # every pair once
        flat = cosines.ravel()
        top = np.argpartition(-flat, min(count, flat.size) - 1)[:count]
        best += [(-float(flat[k]), start + int(k) // n_labels, int(k) % n_labels) for k in top if flat[k] > 0]
        best = sorted(best)[:count]
    return [{"first": names[i], "second": names[j], "cosine": -negated} for negated, i, j in best]


@dataclass(frozen=True, eq=False, repr=False)
class LowRankGain:
    """Whether low rank pays on some data; its repr says so in a sentence.

    ``gain`` is the mean difference between what folds choose with the penalty, each judged on rows that had
    no say in it, and the best ridge regression, row by row; NaN if the penalty was not judged.
    """

    search: Any  # fitted
    gain: float
    standard_error: float
    n_rows: int  # held out, and judged
    ridge_score: float  # of the best ridge regression
    singular_values: _Floats  # of the predictions by ridge regression; descending, as the others
    kept: _Floats  # what the chosen model leaves of them
    noise: _Floats  # those that noise alone would bring

    @property
    def noise_level(self) -> float:
        """A tenth above the strongest direction of noise, which differs from draw to draw."""
        return 1.1 * float(self.noise.max(initial=0.0))

    @property
    def n_above_noise(self) -> int:
        """How many directions of the predictions are stronger than that."""
        return int(np.count_nonzero(self.singular_values > self.noise_level))

    @property
    def pays(self) -> bool:
        """Whether the gain exceeds two standard errors, and some direction the noise."""
        return bool(self.gain > 2.0 * self.standard_error and self.n_above_noise)

    @property
    def sentence(self) -> str:
        """What it comes to."""
        directions = f"{self.n_above_noise} of {len(self.singular_values)} directions rise above the noise"
        if np.isnan(self.gain):  # another loss, unknown labels, few rows, or nothing to penalise
            return f"No penalty was judged on folds, so nothing is known of low rank; {directions}."
        found = f"{self.gain:+.4f} ± {self.standard_error:.4f} over ridge regression ({self.ridge_score:.4f})"
        unclear = "shows no clear lead" if self.gain > self.standard_error else "does not pay"
        verdict = "pays" if self.pays else unclear
        return f"Low rank {verdict} on these data: {found} on {self.n_rows:,} held-out rows; {directions}."

    def __repr__(self) -> str:
        return self.sentence


def low_rank_gain(X: Any, Y: Any, *, search: Any = None, random_state: Any = 0) -> LowRankGain:
    """Tell whether a penalty on singular values predicts better than ridge regression alone.

    With Ŵ the ridge regression, the singular values of X̃Ŵ, X̃ = [X; √ridge I], are roots of the eigenvalues of
    YᵀXŴ. Those of noise are found alike, with residuals in place of Y, the rows of which have random signs
    (so that labels stay as correlated as they are), enlarged by the share of freedom that the fit has taken.

    Parameters
    ----------
    X, Y : arrays, sparse matrices or frames of shape (n, d) and (n, L)
        Features, and 0/1 labels or real targets; NaN in Y is unknown.
    search : LRMLCV, SpectralRegressorCV or the like, optional
        Compares ridges and penalties, which it does on folds with the squared loss and all labels known;
        fitted to X and Y if it is not yet. By default `LRMLCV` for labels, else `SpectralRegressorCV`.
    random_state : int, Generator or None, default=0
        Of the search by default, and of the signs.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((150, 30))
    >>> W = random.standard_normal((30, 2)) @ random.standard_normal((2, 40))
    >>> found = low_rank_gain(X, X @ W + 9 * random.standard_normal((150, 40)))
    >>> found.pays, found.n_above_noise
    (True, 2)
    """
    X, Y = to_host(X), to_host(Y)
    targets = np.asarray(Y.toarray() if is_sparse(Y) else Y, dtype=np.float64)
    if targets.ndim != 2:
        raise ValueError(
            f"Y has the shape {targets.shape}, but low rank needs several labels. Pass one column for each."
        )
    known = ~np.isnan(targets)
    if search is None:
        binary = np.isin(targets[known], (0.0, 1.0)).all()
        search = (LRMLCV if binary else SpectralRegressorCV)(random_state=random_state)
    if "best_estimator_" not in vars(search):
        search = clone(search).fit(X, Y)
    facts, best = search.search_, search.best_params_
    shared = ("fit_intercept", "kernel", "gamma", "degree", "coef0")
    options = search.best_estimator_.get_params(deep=False)
    ridge = SpectralRegressor(
        alpha=0.0,
        ridge=best.get("ridge", facts["ridge"]),
        **{name: options[name] for name in shared if name in options},
    )
    targets = np.where(known, targets, np.nanmean(targets, axis=0))

    def spectrum(Z: _Floats) -> tuple[_Floats, _Floats, float]:
        fitted = ridge.fit(X, Z).predict(X).reshape(Z.shape)
        residuals, Z, fitted = Z - fitted, Z - Z.mean(axis=0), fitted - fitted.mean(axis=0)
        wide = Z.shape[1] > len(Z)
        moments = np.linalg.eigvals(Z @ fitted.T).real if wide else np.linalg.eigvalsh(Z.T @ fitted)
        share = float(np.sum(Z * fitted)) / float(np.sum(Z**2) or 1.0)
        return np.sort(np.sqrt(moments.clip(min=0.0)))[::-1], residuals, share

    values, residuals, _ = spectrum(targets)
    signs = np.random.default_rng(random_state).choice([-1.0, 1.0], size=(len(targets), 1))
    noise, _, share = spectrum(signs * residuals)
    values = values[values > 1e-6 * values.max(initial=0.0)]
    penalty = TailSum(
        best.get("theta", 0), best.get("alpha", 0.0), max_rank=best.get("max_rank", best.get("rank"))
    )
    return LowRankGain(
        search=search,
        gain=float(facts["gain"]),
        standard_error=float(facts["gain_error"]),
        n_rows=int(np.nan_to_num(facts["gain_rows"])),
        ridge_score=float(facts["ridge_score"]),
        singular_values=values,
        kept=penalty.prox(values, 0.5),
        noise=noise / np.sqrt(max(1.0 - share, 1e-3)),
    )


# The page


def _page(found: ModelDescription, title: str, about: Sequence[tuple[str, str]]) -> dict[str, Any]:
    told = in_words(found.fitted)
    known = [*about, ("Estimator", found.constructor), ("Fitted", "; ".join(told))]
    known.append(("Objective", f"{found.objective:.6g}"))
    if found.theta is not None:
        beyond = max(0, len(found.singular_values) - found.theta)
        known.append(("Tail", f"{beyond} singular values beyond theta {found.theta}, sum {found.tail:.4g}"))
    if found.unseen_labels:
        known.append(("Unseen", f"{found.unseen_labels} labels had no positive example in training"))
    tables = _label_tables(found) if found.chosen else _overview(found)
    trouble = [] if found.fitted["converged"] else [f"The fit did not converge: {found.fitted['status']}"]
    without = found.chosen or not found.singular_values
    figures = [*([] if without else [_spectrum_figure(found)]), *_features_figure(found)]
    return page(title, [f"{'; '.join(told[:2])}.", *trouble], figures, tables, known)


def _label_tables(found: ModelDescription) -> list[dict[str, Any]]:
    columns = [column("name", "feature"), column("coefficient", "weight", "number", 3)]
    tables = []
    for place, label in enumerate(found.labels):
        constant, cut = (f"{label[key]:.3f}".replace("-", "−") for key in ("intercept", "threshold"))
        title, related = f"What speaks for {label['name']}", _listed(_clear(label["related"]))
        caption = f"The constant is {constant}; it is assigned from a score of {cut} on."
        caption += f" Related: {related}." if related else ""
        tables += table(f"label{place}", title, caption, columns, label["features"])
    return tables


def _overview(found: ModelDescription) -> list[dict[str, Any]]:
    label_columns = [
        column("name", "label"),
        column("norm", "norm", "number", 3, "length of the label's coefficient vector"),
        column("features", "features", explanation="largest coefficients; − speaks against the label"),
        column("related", "related labels", explanation=f"cosines of their coefficients, from {_CLEAR} on"),
    ]
    label_rows = []
    for label in found.labels:
        features = ", ".join(f"{'−' * (one['coefficient'] < 0)}{one['name']}" for one in label["features"])
        related = _listed(_clear(label["related"]))
        label_rows.append(label | {"features": features or None, "related": related or None})
    longest = (
        f"The {len(found.labels)} labels with the longest coefficient vectors, of {found.fitted['labels']:,}."
    )
    pair_columns = [column("first", "label"), column("second", "related label")]
    pair_columns.append(column("cosine", "cosine", "number", 3))
    nearest = "Pairs of labels with the largest cosine between their coefficients."
    return [
        *table("labels", "Labels", longest, label_columns, label_rows),
        *table("pairs", "Most related labels", nearest, pair_columns, _clear(found.pairs)),
    ]


def _listed(related: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{one['name']} ({one['cosine']:.2f})" for one in related)


def _clear(related: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in related if one["cosine"] >= _CLEAR]


def _spectrum_figure(found: ModelDescription) -> dict[str, Any]:
    caption = "Singular values of the coefficients."
    if found.theta is not None:
        caption += f" The penalty acts on the shaded tail, beyond theta = {found.theta}."
    elif found.fitted["penalty_on"] == "predictions":
        caption += " The penalty acts on those of the predictions."
    display = SpectrumDisplay(found.singular_values, theta=found.theta)
    return panel("figure-spectrum", "Spectrum", caption, "Descending singular values.", display.plot)


def _features_figure(found: ModelDescription) -> list[dict[str, Any]]:
    shown = [label for label in found.labels if label["features"]][:_MOST_PANELS]
    if not shown:
        return []
    which = "" if found.chosen else " of the labels with the longest vectors"
    caption = f"Largest coefficients{which}; right of 0 they speak for a label."
    title = "Features that speak for labels"
    return [figure("figure-features", title, caption, "Coefficients.", lambda: _draw_features(shown))]


def _draw_features(labels: Sequence[dict[str, Any]]) -> Any:
    n_columns, most = min(2, len(labels)), max(len(label["features"]) for label in labels)
    n_rows = -(-len(labels) // n_columns)
    drawing = canvas(2.6 * n_columns, n_rows * (0.6 + 0.17 * most))
    for axes, label in zip(drawing.subplots(n_rows, n_columns, squeeze=False).flat, labels, strict=False):
        names, coefficients = zip(*(one.values() for one in label["features"]), strict=True)
        axes.axvline(0.0, color="0.5", linewidth=0.6)
        axes.plot(coefficients, range(len(names)), "o", markersize=5)
        axes.set_yticks(
            range(len(names)), [shortened(name, _LONGEST_NAME) for name in names], parse_math=False
        )
        axes.set_title(shortened(label["name"], _LONGEST_NAME), parse_math=False)
        axes.set(ylim=(len(names) - 0.4, -0.6))
    for axes in drawing.axes[len(labels) :]:
        axes.remove()
    return drawing
