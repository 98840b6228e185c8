"""The criteria that a search maximises."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from lrml import metrics
from lrml._shown import shown
from lrml.core.arrays import Array, Place, dense, namespace, to_host, to_numpy
from lrml.core.checks import check_integer
from lrml.core.linalg import Factors
from lrml.core.losses import Loss
from lrml.core.rows import Schema
from lrml.estimators._base import LabelModel, LowRankModel
from lrml.estimators._fitted import Fitted
from lrml.estimators._scores import Scores

_NAMES = "precision_at_1, precision_at_3, …, average_precision, average_auc, hamming_loss, micro_f1, macro_f1"
_DEFAULTS = {"binary": "average_precision", "real": "r2"}
# Relative errors of a prediction that are rounding.
_SAME = 1e-9


@dataclass(frozen=True)
class Criterion:
    """A signed metric of held-out labels and scores.

    ``measure(Y, S, cut, held)`` returns one value per row, NaN where a row has none, or a single number;
    the last argument has ``X`` and ``variances`` of all held-out rows. Only values per row can be compared in
    pairs and computed block by block.
    """

    name: str
    measure: Callable[[Any, Any, Any, Any], Any]
    by_row: bool = False
    k: int = 1  # least number of labels that it needs


def check_scorings(scoring: Any, loss: Loss, targets: str) -> tuple[Criterion, ...]:
    """Return the criteria for one metric, or for a list of them; None stands for the default."""
    if not isinstance(scoring, list | tuple):
        return (_check_scoring(scoring, loss, targets),)
    criteria = tuple(_check_scoring(entry, loss, targets) for entry in scoring)
    names = [criterion.name for criterion in criteria]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"scoring lists {shown(names)}. Name each metric once, and one at least.")
    return criteria


def check_enough_labels(criteria: Sequence[Criterion], n_labels: int) -> None:
    """Refuse the precision at more labels than there are."""
    for criterion in criteria:
        check_integer(f"k of scoring={criterion.name!r}", criterion.k, 1, n_labels)


def criterion_of_one_label(loss: Loss, *, all_known: bool) -> Criterion:
    """Return the default for a single label, where there is nothing to rank: the loss of every row."""
    if not all_known:  # a loss would count unknown labels
        return _check_scoring("hamming_loss", loss, "binary")

    def measure(Y: Any, S: Scores, cut: Any, held: Any) -> Any:
        labels, scores = (Place.of(S).asarray(M, "float64") for M in (Y, S))
        return -loss.terms(labels, scores).values[:, 0]

    return Criterion("loss", measure, by_row=True)


def _check_scoring(scoring: Any, loss: Loss, targets: str) -> Criterion:
    """Return the criterion for a metric's name, a scikit-learn scorer's name, a scorer or a function."""
    scoring = _DEFAULTS[targets] if scoring is None else scoring
    if callable(scoring):
        name = getattr(scoring, "__name__", "score" if not _is_scorer(scoring) else str(scoring))
        if _is_scorer(scoring):
            return Criterion(name, partial(_ask_scorer, scoring, loss, targets))
        return Criterion(name, lambda Y, S, cut, held: float(scoring(to_host(Y), to_numpy(S))))
    if scoring == "r2" and targets == "real":
        return Criterion("r2", _r_squared, by_row=True)
    own = _own_metric(scoring) if isinstance(scoring, str) else None
    if own is not None and targets == "real":
        raise ValueError(
            f"scoring={scoring!r} judges 0/1 labels, not real targets. Use 'r2', or another scorer of "
            "scikit-learn for regression."
        )
    if own is not None:
        return own
    if not isinstance(scoring, str) or scoring not in get_scorer_names():
        raise ValueError(
            f"scoring is {shown(scoring)}. Pass one of {_NAMES}, the name of a scorer of scikit-learn, a "
            f"scorer, or a function of (Y, scores), larger for better ones. Use {_DEFAULTS[targets]!r}."
        )
    criterion = Criterion(scoring, partial(_ask_scorer, get_scorer(scoring), loss, targets))
    _try_out(criterion, targets)
    return criterion


def _r_squared(Y: Any, S: Scores, cut: Any, held: Any) -> Array:
    """Return what each row adds to the mean R² of the targets, 1 − (1/L) Σ_l e_il² / σ_l².

    σ_l² is the weighted variance on all held-out rows. As in scikit-learn, a target that does not vary there
    counts 1 if it is predicted (up to rounding), and 0 if not.
    """
    xp, place, variances = namespace(S), Place.of(S), held.variances
    Y, S = (place.asarray(M, "float64") for M in (Y, S))
    wrong = xp.astype(xp.abs(Y - S) > _SAME * xp.abs(Y), xp.float64)
    shares = xp.where(variances > 0, (Y - S) ** 2 / xp.where(variances > 0, variances, 1.0), wrong)
    return 1.0 - xp.mean(shares, axis=1)


def _own_metric(name: str) -> Criterion | None:
    top = re.fullmatch(r"precision_at_([1-9]\d*)", name)
    k, each = int(top[1]) if top else 1, {"per_example": True}
    by_row: dict[str, Callable[..., Any]] = {
        f"precision_at_{k}": lambda Y, S, cut, held: metrics.precision_at_k(Y, S, k, **each),
        "average_precision": lambda Y, S, cut, held: metrics.average_precision(Y, S, **each),
        "average_auc": lambda Y, S, cut, held: metrics.average_auc(Y, S, **each),
        "hamming_loss": lambda Y, S, cut, held: -metrics.hamming_loss(Y, S, cut, **each),
    }
    whole: dict[str, Callable[..., Any]] = {
        "micro_f1": lambda Y, S, cut, held: metrics.micro_f1(Y, S, cut),
        "macro_f1": lambda Y, S, cut, held: metrics.macro_f1(Y, S, cut),
    }
    measure = (by_row | whole).get(name)
    return None if measure is None else Criterion(name, measure, by_row=name in by_row, k=k)


def _is_scorer(scoring: Callable[..., Any]) -> bool:
    """Whether a callable takes (model, X, Y): three positional arguments without a default, not two."""
    try:
        parameters = inspect.signature(scoring).parameters.values()
    except (TypeError, ValueError):  # some functions of compiled modules
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters) == 3


class _Scored(LowRankModel):
    """A stand-in that a scorer gets for a candidate: predictions for the held-out rows, from their scores."""

    def __init__(self, scores: Scores, threshold: Any, loss: str) -> None:
        self.scores, self.threshold, self.loss = scores, threshold, loss
        n_labels = scores.shape[1]
        schema = Schema(n_labels, n_labels, dtype=scores.dtype)
        # Rows are their scores, and the model is the identity.
        whole = np.eye(n_labels, dtype=scores.dtype)
        ones, none = np.ones(n_labels, scores.dtype), np.zeros(n_labels, scores.dtype)
        record: Any = (schema, loss, Factors(whole, ones, whole), none, none != 0)
        ended: Any = ("", True, 0.0, 0.0, 0, {})  # it has not been fitted
        self.fitted_ = Fitted(*record, *ended)

    @property
    def classes_(self) -> Any:
        """As in scikit-learn's multi-output classifiers; two plain classes would pass for a binary y."""
        return [np.array([0, 1])] * self.fitted_.n_labels

    def _validated(self, X: Any) -> Any:
        if X.shape[0] != len(self.scores):
            raise ValueError(
                f"a scorer must predict for the {len(self.scores)} held-out rows that it was given, got "
                f"{X.shape[0]}. Pass X as it is."
            )
        return self.scores


class _Candidate(LabelModel, _Scored):
    pass


class _RealCandidate(RegressorMixin, _Scored):
    score = LowRankModel.score


def _ask_scorer(scorer: Any, loss: Loss, targets: str, Y: Any, S: Scores, cut: Any, held: Any) -> float:
    # Not all of scikit-learn's metrics take sparse labels, or arrays on a device.
    labels = to_numpy(dense(Y))
    kind = _Candidate if targets == "binary" else _RealCandidate
    try:
        return float(scorer(kind(to_numpy(S), cut, loss.name), to_host(held.X), labels))
    except AttributeError as error:  # predict_proba, mostly
        raise ValueError(
            f"a scorer must ask only for what models with loss={loss.name!r} have, got one that says: "
            f"{_said_by(error)}. Use a scorer of predictions or of decision_function; probabilities need a "
            "logistic loss."
        ) from error


def _said_by(error: Exception) -> str:
    """Return what a scorer complains about, of a model; ours, of `_ask_scorer`, is told by its cause."""
    return re.sub("_(Real)?Candidate", "model", str(error.__cause__ or error).rstrip("."))


def _try_out(criterion: Criterion, targets: str) -> None:
    """Try a scikit-learn scorer on a toy, before the data is summed; refuse one that fails."""
    Y = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]])
    if targets == "real":
        Y = Y + 0.25 * np.arange(12).reshape(4, 3)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            criterion.measure(Y, Y.astype(np.float32), 0.5, SimpleNamespace(X=np.zeros((4, 1))))
    except Exception as error:
        averaged = ", or an averaged one such as 'f1_micro'" if targets == "binary" else ""
        raise ValueError(
            f"scoring={criterion.name!r} does not suit this loss or these targets. It says: "
            f"{_said_by(error)}. Use {_DEFAULTS[targets]!r}{averaged}."
        ) from error
