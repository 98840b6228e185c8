"""What a fitted model is and has learnt: its spectrum, related labels, features that speak for labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._inner import free_values, inner_model, label_vectors
from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.report import column, dots, figure, lines, page, place_names, rounded, series, table

__all__ = ["ModelDescription", "describe_model"]


def __dir__() -> list[str]:
    return __all__


_Floats: TypeAlias = npt.NDArray[np.float64]

_N_RELATED = 3
_CLEAR = 0.2  # a smaller cosine is not called a relation
_MOST_POINTS, _MOST_PANELS = 500, 6
_BLOCK = 1 << 20  # cosines at once


@dataclass(frozen=True, eq=False, repr=False)
class ModelDescription:
    """What `describe_model` returns.

    Attributes
    ----------
    kind : str
        The class of the model.
    params : dict
        Its parameters, and for a search ``best_params``.
    n_features, n_labels, rank, nbytes : int
        ``n_features`` counts the training rows of a kernel.
    loss, status : str
    objective : float
    converged : bool
    n_iter : int
    unseen_labels : int
        Labels without a positive example in training.
    singular_values : list of float
        Descending.
    theta : int or None
        So many singular values are free of the penalty; the rest is the tail. None if it has no penalty on
        the singular values of the coefficients.
    space : str or None
        Whose singular values are penalised: "coefficients", "predictions", or none.
    pairs : list of dict
        Pairs of labels with the largest cosine of their coefficients: ``first``, ``second``, ``cosine``.
    labels : list of dict
        The labels with the longest coefficient vectors: ``name``, ``norm``, ``related`` (names and cosines of
        the labels nearest to them) and ``features`` (names and coefficients of largest size; empty for a
        kernel).
    plane : list of dict
        ``name``, ``x`` and ``y`` of labels: coordinates along the two largest singular values, longest
        vectors first; empty below rank 2.
    """

    kind: str
    params: dict[str, Any]
    n_features: int
    n_labels: int
    rank: int
    nbytes: int
    loss: str
    status: str
    objective: float
    converged: bool
    n_iter: int
    unseen_labels: int
    singular_values: list[float]
    theta: int | None
    space: str | None
    pairs: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    plane: list[dict[str, Any]]

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

        Parameters
        ----------
        title : str
        about : sequence of pairs of str, default=()
            What else to say about the model, such as the data that it was fitted on.
        """
        return _page(self, title, about)

    def __repr__(self) -> str:
        size = f"{self.n_features} features, {self.n_labels} labels"
        return f"ModelDescription({self.kind}, {size}, rank {self.rank})"


def describe_model(model: Any, *, n_labels: int = 20, n_features: int = 8) -> ModelDescription:
    """Describe a fitted model.

    With W = U diag(s) Vᵀ, the coefficients of label l are U (s ∘ V_l), and the cosine of two labels is that
    of rows of V diag(s). The d × L coefficients are never built as a whole.

    Parameters
    ----------
    model : estimator
        A fitted estimator or search of this library, a `TextTagger`, or a pipeline that ends in one.
    n_labels : int, default=20
        How many labels, and pairs of labels, to describe: those with the longest coefficient vectors.
    n_features : int, default=8
        How many features to name for each of them.

    Returns
    -------
    ModelDescription

    Examples
    --------
    >>> from lrml import LRML
    >>> from lrml.datasets import load_yeast
    >>> found = describe_model(LRML(3, 100.0).fit(*load_yeast().train))
    >>> found
    ModelDescription(LRML, 103 features, 14 labels, rank 3)
    >>> found.pairs[0]["first"], found.pairs[0]["second"], round(found.pairs[0]["cosine"], 2)
    ('11', '12', 1.0)
    """
    for name, value in (("n_labels", n_labels), ("n_features", n_features)):
        if not is_integer(value) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, it is {shown(value)}. Pass 10, say.")
    fitted, feature_names = inner_model(model, "describe_model")
    vectors = label_vectors(fitted)
    norms = np.linalg.norm(vectors, axis=1)
    directions = np.divide(vectors, norms[:, None], out=np.zeros_like(vectors), where=norms[:, None] > 0)
    names = [str(name) for name in fitted.classes_]
    longest = [int(place) for place in np.argsort(-norms, kind="stable")[:n_labels] if norms[place] > 0]
    best = vars(fitted).get("best_params_")
    return ModelDescription(
        kind=type(fitted).__name__,
        params=_plain(fitted.get_params(deep=False)) | ({"best_params": _plain(best)} if best else {}),
        n_features=len(fitted.factors_.U),
        n_labels=len(names),
        rank=int(fitted.rank_),
        nbytes=int(fitted.nbytes_),
        loss=fitted.loss_,
        status=fitted.status_,
        objective=float(fitted.objective_),
        converged=bool(fitted.converged_),
        n_iter=int(fitted.n_iter_),
        unseen_labels=int(np.count_nonzero(fitted.unseen_labels_)),
        singular_values=np.asarray(fitted.singular_values_, dtype=np.float64).tolist(),
        theta=free_values(fitted),
        space=getattr(fitted, "space_", None),
        pairs=_pairs(directions, names, n_labels),
        labels=[
            {
                "name": names[place],
                "norm": float(norms[place]),
                "related": _related(directions, place, names),
                "features": _top_features(fitted, place, feature_names, n_features),
            }
            for place in longest
        ],
        plane=_plane(vectors, norms, names),
    )


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters that JSON can hold; others as they are printed."""
    simple = bool | int | float | str | None
    values = {
        name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()
    }
    return {name: value if isinstance(value, simple) else shown(value) for name, value in values.items()}


def _top_features(model: Any, place: int, names: npt.NDArray[Any] | None, count: int) -> list[dict[str, Any]]:
    """Return the features with the largest coefficients of a label; none for a kernel."""
    if hasattr(model, "kernel_"):
        return []
    U, s, V = model.factors_
    coefficients = U @ (s * V[place])
    size = np.abs(coefficients)
    top = np.argpartition(-size, min(count, len(size)) - 1)[:count]
    return [
        {"name": str(j if names is None else names[j]), "coefficient": float(coefficients[j])}
        for j in top[np.argsort(-size[top], kind="stable")]
        if size[j] > 0
    ]


def _related(directions: _Floats, place: int, names: Sequence[str]) -> list[dict[str, Any]]:
    cosines = directions @ directions[place]
    cosines[place] = -np.inf
    nearest = np.argsort(-cosines, kind="stable")[: min(_N_RELATED, len(names) - 1)]
    return [{"name": names[j], "cosine": float(cosines[j])} for j in nearest if cosines[j] > 0]


def _pairs(directions: _Floats, names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return the pairs with the largest cosines, block by block; among equals the first ones."""
    best: list[tuple[float, int, int]] = []
    n_labels = len(names)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n_labels, step):
        cosines = directions[start : start + step] @ directions.T
        rows = np.arange(start, start + len(cosines))
        cosines[np.arange(n_labels) <= rows[:, None]] = -np.inf  # every pair once
        flat = cosines.ravel()
        top = np.argpartition(-flat, min(count, flat.size) - 1)[:count]
        best += [(-float(flat[k]), start + int(k) // n_labels, int(k) % n_labels) for k in top if flat[k] > 0]
        best = sorted(best)[:count]
    return [{"first": names[i], "second": names[j], "cosine": -negated} for negated, i, j in best]


def _plane(vectors: _Floats, norms: _Floats, names: Sequence[str]) -> list[dict[str, Any]]:
    if vectors.shape[1] < 2:
        return []
    order = np.argsort(-norms, kind="stable")
    return [{"name": names[j], "x": float(vectors[j, 0]), "y": float(vectors[j, 1])} for j in order]


# The page


def _page(found: ModelDescription, title: str, about: Sequence[tuple[str, str]]) -> dict[str, Any]:
    label_columns = [
        column("name", "label"),
        column("norm", "norm", "number", 3, "length of the label's coefficient vector"),
        column("features", "features", explanation="largest coefficients; − speaks against the label"),
        column("related", "related labels", explanation=f"cosines of their coefficients, from {_CLEAR} on"),
    ]
    label_rows = []
    for label in found.labels:
        features = ", ".join(f"{'−' * (one['coefficient'] < 0)}{one['name']}" for one in label["features"])
        related = ", ".join(f"{one['name']} ({one['cosine']:.2f})" for one in _clear(label["related"]))
        label_rows.append(label | {"features": features or None, "related": related or None})
    longest = f"The {len(found.labels)} labels with the longest coefficient vectors, of {found.n_labels:,}."
    pair_columns = [column("first", "label"), column("second", "related label")]
    pair_columns.append(column("cosine", "cosine", "number", 3))
    nearest = "Pairs of labels with the largest cosine between their coefficients."
    params = [{"name": name, "value": str(value)} for name, value in found.params.items()]
    tables = [
        *table("labels", "Labels", longest, label_columns, label_rows),
        *table("pairs", "Most related labels", nearest, pair_columns, _clear(found.pairs)),
        *table("params", "Parameters", "", [column("name", "parameter"), column("value", "value")], params),
    ]
    known = [
        *about,
        ("Model", f"{found.kind}, {found.loss} loss"),
        ("Size", f"{found.n_features:,} features, {found.n_labels:,} labels, {_bytes(found.nbytes)}"),
        ("Fit", f"{found.status} Objective {found.objective:.6g}, {found.n_iter} iterations"),
    ]
    figures = [_spectrum_figure(found), *_plane_figure(found), *_features_figure(found)]
    return page(title, _sentences(found), figures, tables, known)


def _bytes(count: int) -> str:
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def _clear(related: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in related if one["cosine"] >= _CLEAR]


def _sentences(found: ModelDescription) -> list[str]:
    sentences = [
        f"{found.kind} with {found.n_features:,} features and {found.n_labels:,} labels: rank {found.rank}, "
        f"{_bytes(found.nbytes)}."
    ]
    if found.theta is not None:
        sentences.append(
            f"The penalty leaves {found.theta} singular values free. The tail beyond them has "
            f"{max(0, found.rank - found.theta)} that are not zero, with a sum of {found.tail:.4g}."
        )
    if found.space == "predictions":
        sentences.append("The penalty acts on the singular values of the predictions.")
    related = _clear(found.pairs)
    if related:
        pair = related[0]
        sentences.append(
            f"The most related labels are {pair['first']} and {pair['second']} (cosine {pair['cosine']:.2f})."
        )
    elif found.rank > 0 and found.n_labels > 1:
        sentences.append(f"No two labels are clearly related: no cosine reaches {_CLEAR}.")
    if found.unseen_labels:
        sentences.append(f"{found.unseen_labels} labels had no positive example in training.")
    if not found.converged:
        sentences.append(f"The fit did not converge: {found.status}")
    return sentences


def _spectrum_figure(found: ModelDescription) -> dict[str, Any]:
    sigma, bands = found.singular_values, []
    caption = "Singular values of the coefficients."
    if found.theta is not None:
        caption += f" The penalty acts on the shaded tail, beyond theta = {found.theta}."
        end = max(len(sigma), found.theta + 1) + 0.5
        bands = [{"low": found.theta + 0.5, "high": end, "name": "tail"}]
    elif found.space == "predictions":
        caption += " The penalty acts on those of the predictions."
    drawn = [series("singular value", [k + 1.0 for k in range(len(sigma))], sigma, "line")]
    panel = lines("singular values", "index", "singular value", drawn, bands=bands, from_zero=True)
    return figure("figure-spectrum", "Spectrum", caption, "Descending singular values.", [panel])


def _plane_figure(found: ModelDescription) -> list[dict[str, Any]]:
    drawn = found.plane[:_MOST_POINTS]
    if not drawn:
        return []
    x, y, names = ([label[key] for label in drawn] for key in ("x", "y", "name"))
    texts, places = place_names(x, y, names)
    points = series("label", x, y, "points", names=names, texts=texts, places=places)
    more = "" if len(drawn) == len(found.plane) else f" The {len(drawn)} labels with the longest vectors."
    caption = "Labels along the two largest singular values. Labels in the same direction go together." + more
    panel = lines("labels in the plane of the top two factors", "factor 1", "factor 2", [points])
    return [figure("figure-plane", "Map of the labels", caption, "Labels as points in a plane.", [panel])]


def _features_figure(found: ModelDescription) -> list[dict[str, Any]]:
    panels = []
    for label in [label for label in found.labels if label["features"]][:_MOST_PANELS]:
        names, coefficients = zip(*(one.values() for one in label["features"]), strict=True)
        points = series("coefficient", list(coefficients), [], "points")
        panels.append(dots(label["name"], "coefficient", list(names), [points]))
    if not panels:
        return []
    title = "Features that speak for labels"
    caption = (
        "Largest coefficients of the labels with the longest vectors; right of 0 they speak for a label."
    )
    return [figure("figure-features", title, caption, "Coefficients.", panels, columns=3)]
