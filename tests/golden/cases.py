"""The golden run as data: what is fitted to what, and how far a number may move.

The golden run pins what the library computes while its inside is rebuilt. `cases` says what is computed,
`runs` computes it by public names only, ``golden.json`` holds the numbers of the day of recording, and
`test_golden` compares. To record again::

    PYTHONPATH=tests OMP_NUM_THREADS=1 python -m golden.record

Do so only if a number changes for a reason, and give the reason in the commit. ``--check`` compares instead,
and shows which part of its tolerance every case uses: it should be well below a third between CPU kernels
(``OPENBLAS_CORETYPE=Nehalem``, ``Haswell``, ``Zen``) and numbers of threads.

Every fit has a ``tol`` so tight that the numbers belong to the optimum, not to the way there. If a public
name or parameter changes, mend `estimator`, the one place that knows how a case becomes an object.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import lrml
from lrml.thresholds import Cut

NOTHING: MappingProxyType[str, Any] = MappingProxyType({})
# Limits of the differences: of an objective relative to itself, of scores relative to the largest one.
EXACT = (5e-4, 1e-6)  # closed forms, and the squared loss with all labels known
SQUARED = (5e-4, 5e-4)  # the squared loss with unknown labels
LOSS = (1e-2, 5e-4)
FACTORED = (5e-4, 5e-3)  # LEML: alternating least squares, which another solver will replace
FACTORED_LOSS = (1e-2, 5e-3)
METRIC = 1e-9

TIGHT = {"tol": 1e-13, "max_iter": 20_000}
LOSS_TIGHT = {"tol": 1e-9, "max_iter": 5_000}


@dataclass(frozen=True)
class Data:
    """A data set by its sizes; "yeast" and "text" need none."""

    kind: str = "numbers"
    sizes: tuple[int, int, int] = (240, 24, 10)
    sparse: bool = False
    dtype: str = "float64"
    unknown: str | None = None  # "nan" or "observed": how the fit is told
    weighted: bool = False
    unseen: bool = False  # the last label has no positive example


DATA = {
    "tall": Data(),
    "large": Data(sizes=(400, 60, 30)),
    "wide": Data(sizes=(120, 300, 8)),
    "tall, weights": Data(weighted=True),
    "wide, weights": Data(sizes=(120, 300, 8), weighted=True),
    "tall, nan": Data(unknown="nan"),
    "tall, observed": Data(unknown="observed"),
    "tall, observed, weights": Data(unknown="observed", weighted=True),
    "wide, observed": Data(sizes=(120, 300, 8), unknown="observed"),
    "tall, float32": Data(dtype="float32"),
    "tall, sparse": Data(sparse=True),
    "wide, sparse": Data(sizes=(120, 300, 8), sparse=True),
    "tall, unseen": Data(unseen=True),
    "text": Data("text", (400, 3000, 20)),
    "text, float32": Data("text", (400, 3000, 20), dtype="float32"),
    "text, weights": Data("text", (400, 3000, 20), weighted=True),
    "text, observed": Data("text", (400, 3000, 20), unknown="observed"),
    "yeast": Data("yeast"),
}


@dataclass(frozen=True)
class Fit:
    """One fitted model: objective, rank, singular values and scores."""

    name: str
    data: str
    model: str
    parameters: dict[str, Any] = field(default_factory=dict)
    limits: tuple[float, float] = EXACT
    road: str = "fit"  # or "blocks", "partial", "leave one out"
    default: bool = False  # strengths by default: those of the squared loss are going to follow the data


@dataclass(frozen=True)
class Search:
    """A search: what it chooses, its score, and a few mean scores of candidates."""

    name: str
    data: str
    model: str
    parameters: dict[str, Any] = field(default_factory=dict)
    limits: tuple[float, float] = EXACT
    default: bool = False


def estimator(model: str, parameters: dict[str, Any]) -> Any:
    """Make the unfitted estimator of a case.

    ``threshold`` may be a pair: the metric that the threshold optimises, and whether each label has its own.
    """
    parameters = dict(parameters)
    threshold = parameters.get("threshold")
    if isinstance(threshold, tuple):
        parameters["threshold"] = Cut(*threshold)
    if not model.endswith("CV"):
        return getattr(lrml, model)(**parameters)
    own = inspect.signature(getattr(lrml, model)).parameters
    member = {name: parameters.pop(name) for name in list(parameters) if name not in own}
    return getattr(lrml, model)(getattr(lrml, model.removesuffix("CV"))(**member), **parameters)


def _named(member: str, changes: dict[str, Any], data: str, road: str) -> str:
    return " ".join(
        [member, *(f"{name}={value}" for name, value in changes.items()), f"on {data}", f"({road})"]
    )


def _fit(
    model: str, data: str, limits: tuple[float, float] = EXACT, *, road: str = "fit", default: bool = False,
    **changes: Any,
) -> Fit:  # fmt: skip
    tight = {} if model in ("CPLST", "PLST") else TIGHT if limits is EXACT else LOSS_TIGHT
    name = _named(model, changes, data, f"{road}, defaults" if default else road)
    return Fit(name, data, model, tight | changes, limits, road, default)


_MEMBERS = [
    _fit("LRML", "tall", theta=3, alpha=60.0),
    _fit("LRML", "tall", theta=0.3, alpha=60.0, ridge=2.0),
    _fit("LRML", "tall", theta="auto", alpha=60.0),
    _fit("LRML", "tall", theta=3, alpha=60.0, fit_intercept=False),
    _fit("LRML", "tall", theta=3, alpha=0.0, ridge=1.0),
    _fit("LRML", "large", theta=4, alpha=80.0, ridge=1.0),
    _fit("LRML", "tall, unseen", theta=3, alpha=60.0),
    _fit("LRML", "tall", theta=2, alpha=60.0, solver="apg"),
    _fit("LRML", "yeast", theta=3, alpha=20.0),
    _fit("MLTrace", "tall", alpha=60.0),
    _fit("MLTrace", "large", alpha=80.0, ridge=1.0),
    _fit("MLTrace", "yeast", alpha=20.0),
    _fit("MLFro", "tall", alpha=2.0),
    _fit("MLFro", "yeast", alpha=2.0),
    _fit("LEML", "tall", FACTORED, rank=4, alpha=20.0),
    _fit("LEML", "large", FACTORED, rank=6, alpha=20.0),
    _fit("LEML", "yeast", rank=4, ridge=1.0),
    _fit("CPLST", "tall", rank=3),
    _fit("CPLST", "large", rank=0.2, ridge=1.0),
    _fit("CPLST", "yeast", rank=4, ridge=1.0),
]
_LOSSES = [
    _fit("LRML", "tall", LOSS, theta=2, alpha=25.0, ridge=2.0, loss="logistic"),
    _fit("LRML", "tall", LOSS, theta=2, alpha=80.0, ridge=2.0, loss="squared_hinge"),
    _fit("LRML", "yeast", LOSS, theta=2, alpha=20.0, ridge=5.0, loss="logistic"),
    _fit("MLTrace", "tall", LOSS, alpha=25.0, loss="logistic"),
    _fit("MLTrace", "large", LOSS, alpha=150.0, ridge=1.0, loss="squared_hinge"),
    _fit("LEML", "tall", FACTORED_LOSS, rank=3, alpha=20.0, loss="logistic"),
    _fit("LEML", "tall", FACTORED_LOSS, rank=3, alpha=40.0, loss="squared_hinge"),
    _fit("MLFro", "tall", LOSS, alpha=2.0, loss="logistic"),
    _fit("MLFro", "tall", LOSS, alpha=2.0, loss="squared_hinge"),
    _fit("LRML", "tall", LOSS, alpha=0.0, ridge=2.0, loss="logistic"),
    _fit("MLFro", "wide", LOSS, alpha=2.0, loss="logistic"),
    _fit("LRML", "wide", LOSS, theta=2, alpha=50.0, ridge=2.0, loss="logistic"),
]
_ROADS = [
    _fit("LRML", "tall", theta=3, alpha=60.0, solver="primal"),
    _fit("LRML", "wide", theta=2, alpha=120.0),
    _fit("LRML", "wide", theta=2, alpha=120.0, ridge=5.0, solver="primal"),
    _fit("MLFro", "wide", alpha=5.0),
    _fit("CPLST", "wide", rank=3, ridge=5.0),
    _fit("LRML", "tall", theta=2, alpha=1.0, ridge=1.0, kernel="rbf", gamma=0.02),
    _fit("MLFro", "tall", alpha=1.0, kernel="rbf", gamma=0.02),
    _fit("CPLST", "tall", rank=3, ridge=1.0, kernel="rbf", gamma=0.02),
    _fit("MLTrace", "tall", alpha=2.0, kernel="poly", degree=2, gamma=0.02),
    _fit("LRML", "text", theta=3, alpha=12.0, ridge=1.0, solver="compressed"),
    _fit("LRML", "text", theta=3, alpha=12.0, ridge=1.0),
    _fit("MLTrace", "text", alpha=12.0, ridge=0.5, solver="compressed"),
    _fit("LRML", "text", LOSS, theta=2, alpha=5.0, ridge=0.2, loss="logistic", solver="compressed"),
    _fit("MLFro", "text", alpha=1.0),
    _fit("MLFro", "text", LOSS, alpha=0.1, loss="squared_hinge"),
    _fit("LEML", "text", rank=5, ridge=1.0),
    _fit("LEML", "text", FACTORED, rank=5, alpha=4.0),
    _fit("LRML", "tall", theta=3, alpha=60.0, road="blocks"),
    _fit("LRML", "text", theta=3, alpha=12.0, ridge=1.0, solver="compressed", road="blocks"),
    _fit("LRML", "tall", LOSS, theta=2, alpha=25.0, ridge=2.0, loss="logistic", road="blocks"),
    _fit("MLFro", "tall", road="blocks", alpha=2.0),
    _fit("CPLST", "tall", road="blocks", rank=3, ridge=1.0),
    _fit("LRML", "tall", theta=3, alpha=60.0, road="partial"),
    _fit("MLTrace", "yeast", alpha=20.0, road="partial"),
    _fit("MLFro", "tall", alpha=2.0, road="leave one out"),
    _fit("LRML", "tall", theta=3, alpha=60.0, ridge=1.0, road="leave one out"),
    _fit("MLFro", "tall", alpha=1.0, kernel="rbf", gamma=0.02, road="leave one out"),
]
_DATA = [
    _fit("LRML", "tall, weights", theta=3, alpha=60.0),
    _fit("CPLST", "tall, weights", rank=3, ridge=1.0),
    _fit("MLFro", "wide, weights", alpha=5.0),
    _fit("LRML", "text, weights", theta=3, alpha=12.0, ridge=1.0, solver="compressed"),
    _fit("LRML", "tall, weights", LOSS, theta=2, alpha=25.0, ridge=2.0, loss="logistic"),
    _fit("LEML", "tall, weights", FACTORED, rank=4, alpha=20.0),
    _fit("LRML", "tall, nan", SQUARED, theta=2, alpha=40.0, ridge=1.0),
    _fit("LRML", "tall, observed", SQUARED, theta=2, alpha=40.0, ridge=1.0),
    _fit("MLTrace", "tall, observed, weights", SQUARED, alpha=40.0),
    _fit("MLFro", "tall, observed", SQUARED, alpha=2.0),
    _fit("LRML", "wide, observed", SQUARED, theta=2, alpha=120.0, ridge=5.0),
    _fit("LEML", "tall, observed", FACTORED, rank=3, alpha=20.0),
    _fit("LRML", "tall, observed", LOSS, theta=2, alpha=25.0, ridge=2.0, loss="logistic"),
    _fit("MLFro", "text, observed", SQUARED, alpha=1.0),
    _fit("LRML", "tall, observed", SQUARED, theta=2, alpha=40.0, ridge=1.0, road="blocks"),
    _fit("LRML", "tall, float32", theta=3, alpha=60.0),
    _fit("MLFro", "text, float32", alpha=1.0),
    _fit("LRML", "tall, float32", LOSS, theta=2, alpha=25.0, ridge=2.0, loss="logistic"),
    _fit("LRML", "tall, sparse", theta=3, alpha=60.0),
    _fit("CPLST", "wide, sparse", rank=3, ridge=5.0),
]
_DEFAULTS = [
    _fit("LRML", "large", default=True),
    _fit("MLTrace", "yeast", default=True),
    _fit("MLFro", "yeast", default=True),
    _fit("LEML", "yeast", default=True),
    _fit("CPLST", "yeast", default=True),
    _fit("LRML", "text", default=True),
    _fit("LRML", "tall", LOSS, default=True, loss="logistic"),
    _fit("LRML", "wide", LOSS, default=True, loss="squared_hinge"),
    _fit("MLTrace", "tall", LOSS, default=True, loss="logistic"),
    _fit("MLFro", "tall", LOSS, default=True, loss="logistic"),
    _fit("LEML", "tall", FACTORED_LOSS, default=True, loss="logistic"),
]
_THRESHOLDS = [
    _fit("LRML", "tall", theta=3, alpha=60.0, ridge=1.0, threshold="auto"),
    _fit("MLFro", "tall", alpha=2.0, threshold=("f1_macro", True)),
    _fit("LRML", "tall", LOSS, theta=2, alpha=25.0, ridge=2.0, loss="logistic", threshold="auto"),
]
FITS = [*_MEMBERS, *_LOSSES, *_ROADS, *_DATA, *_DEFAULTS, *_THRESHOLDS]


def _search(
    model: str, data: str, limits: tuple[float, float] = EXACT, *, default: bool = False, **changes: Any
) -> Search:
    name = _named(model, changes, data, "search, defaults" if default else "search")
    return Search(name, data, model, {"random_state": 0} | changes, limits, default)


_GRID = {"thetas": [0, 2, 4], "alphas": [15.0, 40.0, 80.0], "ridges": [0.5, 5.0]}
_LOSS_GRID = {"thetas": [0, 2], "alphas": [10.0, 30.0], "ridges": [2.0]}
SEARCHES = [
    _search("LRMLCV", "yeast", default=True),
    _search("LRMLCV", "tall", default=True, threshold="auto"),
    _search("LRMLCV", "tall", tol=1e-10, cv=3, **_GRID),
    _search("LRMLCV", "tall", tol=1e-10, cv=3, rule="smallest", **_GRID),
    _search("LRMLCV", "tall", tol=1e-10, cv=3, scoring="f1_micro", **_GRID),
    _search("LRMLCV", "tall", LOSS, tol=1e-8, cv=3, loss="logistic", **_LOSS_GRID),
    _search("LRMLCV", "tall", LOSS, tol=1e-8, cv=3, loss="squared_hinge", **_LOSS_GRID),
    _search("LRMLCV", "tall, observed", SQUARED, tol=1e-8, cv=3, **_LOSS_GRID),
    _search("MLFroCV", "tall", default=True),
    _search("MLFroCV", "yeast", alphas=[0.3, 1.0, 3.0, 10.0], cv=3, scoring="roc_auc_samples"),
    _search("MLFroCV", "tall", LOSS, alphas=[0.3, 3.0], cv=3, tol=1e-8, loss="logistic"),
    _search("MLTraceCV", "tall", alphas=[15.0, 40.0, 80.0], ridges=[0.0, 1.0], cv=3, tol=1e-10),
    _search("LEMLCV", "tall", FACTORED, ranks=[2, 4], alphas=[0.0, 3.0], ridges=1.0, cv=3, tol=1e-10),
    _search("CPLSTCV", "tall", ranks=[2, 4, 8], ridges=[0.1, 1.0, 10.0], cv=3),
    _search("CPLSTCV", "yeast", default=True),
]

# Theta, alpha and ridge of the models of a path that are compared.
PATH = {"thetas": [0, 3], "alphas": [90.0, 60.0, 30.0], "ridges": [0.0, 2.0]}

THRESHOLDS = [
    (metric, per_label) for metric in ("f1_micro", "f1_macro", "hamming_loss") for per_label in (False, True)
]

# What is not a fit: limits of objectives and of all else. The tables hold shares of a few hundred rows.
LIMITS = {
    "path": EXACT,
    "metrics": (METRIC, METRIC),
    "thresholds": (METRIC, METRIC),
    "theory": (METRIC, METRIC),
    "completion": (1e-6, 1e-6),
    "tagger": EXACT,
    "command": (1e-6, 1e-6),
    "reproduce": (2e-3, 2e-3),
}

# Columns of the tables of `lrml reproduce` that say which row it is, and those that hold a result.
TABLES = {
    "table2": (("protocol", "theta", "metric", "method"), ("ours",)),
    "equal_rank": (("percent", "method", "metric"), ("ours",)),  # LRML against rivals of the same rank
}

# What the command line prints with --json, by command: the path to a number, a list or a table of numbers.
SCENARIO = {
    "fit": ("params", "features", "labels", "rank", "converged"),
    "tune": ("params", "features", "labels", "held_out_score"),
    "evaluate": ("n_rows", "n_labels", "f1_macro_of_occurring", "threshold", "metrics"),
    "inspect": ("objective", "rank", "singular_values", "theta", "converged"),
    "predict": ("tags", "scores"),
}

# The settings of `lrml fit` there.
CONFIG = """[model]
theta = 3
alpha = 5.0
ridge = 1.0
tol = 1e-13
"""
