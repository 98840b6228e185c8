"""The criteria that a search maximises, tables of their values, and who wins."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from lrml._measures import labelled, measure_named
from lrml._shown import shown
from lrml.core.arrays import Array, Place, dense, namespace, to_host, to_numpy
from lrml.core.checks import check_integer
from lrml.core.linalg import Factors
from lrml.core.losses import Loss
from lrml.core.penalties import TailSum
from lrml.core.rows import Schema
from lrml.estimators._base import LabelModel, LowRankModel
from lrml.estimators._fitted import Fitted
from lrml.estimators._scores import Scores

_NAMES = "precision_at_1, ndcg_at_5, label_ranking_average_precision, f1_micro, or another of lrml.metrics"
_DEFAULTS = {"binary": "label_ranking_average_precision", "real": "r2"}
# Relative errors of a prediction, or of a lead, that are rounding.
_SAME = 1e-9
_Float64 = npt.NDArray[np.float64]

# With fewer rows that tell, a lead must be twice as clear.
_FEW_ROWS = 500


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


def by_row(criteria: Iterable[Criterion]) -> bool:
    """Whether all criteria have values by row."""
    return all(criterion.by_row for criterion in criteria)


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
    if isinstance(scoring, str) and scoring == "r2" and targets == "real":
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
    found = measure_named(name)
    if found is None or found.of_probabilities:  # candidates have scores only
        return None
    sign = -1 if found.lower_is_better else 1

    def measure(Y: Any, S: Scores, cut: Any, held: Any) -> Any:
        data = labelled(Y, S, cut, needs_cut=found.needs_cut)
        return sign * (found.values(data) if found.by_row else found.value(data))

    return Criterion(name, measure, by_row=found.by_row, k=found.k or 1)


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
        size, dtype = scores.shape[1], scores.dtype
        # Rows are their scores, and the model is the identity; it has not been fitted.
        whole, none = np.eye(size, dtype=dtype), np.zeros(size, dtype)
        model: dict[str, Any] = {
            "loss_name": loss,
            "factors": Factors(whole, none + 1, whole),
            "intercept": none,
        }
        ended: dict[str, Any] = {"status": "", "converged": True, "history": {}}
        ended |= dict.fromkeys(("objective", "residual", "n_iter"), 0)
        self.fitted_ = Fitted(Schema(size, size, dtype=dtype), unseen=none != 0, **model, **ended)

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


class LabelCandidate(LabelModel, _Scored):
    pass


class RealCandidate(RegressorMixin, _Scored):
    score = LowRankModel.score


def _ask_scorer(scorer: Any, loss: Loss, targets: str, Y: Any, S: Scores, cut: Any, held: Any) -> float:
    # Not all of scikit-learn's metrics take sparse labels, or arrays on a device.
    labels = to_numpy(dense(Y))
    kind = LabelCandidate if targets == "binary" else RealCandidate
    try:
        return float(scorer(kind(to_numpy(S), cut, loss.name), to_host(held.X), labels))
    except AttributeError as error:  # predict_proba, mostly
        raise ValueError(
            f"a scorer must ask only for what models with loss={loss.name!r} have, got one that says: "
            f"{_said_by(error)}. Use a scorer of predictions or of decision_function; probabilities need a "
            "logistic loss."
        ) from error


def _said_by(error: Exception) -> str:
    """Return what a scorer complains about; ours, of `_ask_scorer`, is told by its cause."""
    return str(error.__cause__ or error).rstrip(".")


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


# Candidates and their scores on held-out rows: who leads whom, by how much, and which one is taken


class GridPoint(NamedTuple):
    """One model: the strengths of its penalty, and perhaps a limit of its rank."""

    theta: int
    alpha: float
    ridge: float
    rank: int | None = None

    @property
    def penalty(self) -> TailSum:
        """The penalty; the ridge belongs to the problem."""
        return TailSum(self.theta, self.alpha, max_rank=self.rank)


class ScoreTable:
    """The values of one criterion for candidates, split by split: one per held-out row, or one per split.

    ``weights`` are those of the held-out rows of each split.
    """

    def __init__(self, weights: Sequence[_Float64], *, by_row: bool) -> None:
        self.by_row, self.n_rows = by_row, sum(map(len, weights))
        self.weights = np.concatenate(weights) if by_row else np.ones(len(weights))
        self.lengths = np.array(list(map(len, weights))) if by_row else np.ones(len(weights), int)
        self.values: dict[Any, npt.NDArray[Any]] = {}  # of all splits
        self.scores: dict[Any, _Float64] = {}  # means of these, by split

    def add(self, point: Any, values: Iterable[Any]) -> None:
        """Enter the values of another candidate on all splits."""
        whole = np.hstack(list(values)).astype(np.float64)
        totals, weights = self.totals(whole)
        self.scores[point] = totals / np.where(weights > 0, weights, math.nan)
        self.values[point] = whole.astype(np.float32) if self.by_row else whole

    def totals(self, values: _Float64) -> _Float64:
        """Return Σ w v and Σ w on every split, over the rows that have a value, of one candidate or more."""
        told = np.isfinite(values)
        terms = np.stack([told, np.where(told, values, 0.0)][::-1]) * self.weights
        found: _Float64 = np.add.reduceat(terms, np.cumsum(self.lengths) - self.lengths, axis=-1)
        return found

    def mean(self, point: Any) -> float:
        """Return the mean over the splits that tell; −∞ if none does."""
        told = self.scores[point][np.isfinite(self.scores[point])]
        return float(told.mean()) if told.size else -math.inf

    def lead(self, one: Any, other: Any) -> MeanOfRows:
        """By how much a candidate, or an array of values, is better than another.

        Without values for the rows a single split does not tell the error; 1 % of the score stands for it.
        Splits without a score say nothing.
        """
        values = one if isinstance(one, np.ndarray) else self.values[one]
        gains = values.astype(np.float64) - self.values[other]
        told = np.isfinite(gains)
        if not told.any():
            return MeanOfRows(0.0, 0.0, 0.0)
        found = MeanOfRows.of(gains, self.weights)
        if self.by_row:
            return found
        error = found.error if np.count_nonzero(told) > 1 else 0.01 * abs(float(values[told][0]))
        return MeanOfRows(found.mean, error, self.n_rows)

    def near(self, best: Any, among: Iterable[Any], rule: str = "one_standard_error") -> list[Any]:
        """Return who is within one standard error of the best: of the paired difference to it.

        For the "smallest", it is the error of the score of the best itself: what other rows might have said.
        """
        n_told = {point: np.count_nonzero(np.isfinite(scores)) for point, scores in self.scores.items()}
        own = 0.0
        if rule == "smallest":
            own = MeanOfRows.of(self.values[best].astype(np.float64), self.weights).error
        leads = {point: self.lead(best, point) for point in among if n_told[point] >= n_told[best]}
        return [point for point, lead in leads.items() if lead.mean <= max(lead.error, own) * (1.0 + _SAME)]


class MeanOfRows(NamedTuple):
    """A mean over rows, its standard error, and for how many rows of one weight they count."""

    mean: float
    error: float
    n_rows: float

    @classmethod
    def of(cls, values: _Float64, weights: _Float64) -> Self:
        """Weighted mean over the rows that have a value, NaN if none has.

        With the shares p = w / Σ w they count for 1 / Σ p², and the error is √(Σ p²(v − v̄)² / (1 − Σ p²));
        for equal weights this is the sample standard deviation over √n. A single row does not tell.
        """
        w = np.isfinite(values) * weights / max(weights.max(initial=0.0), 1e-300)
        values, w = values[w > 0], w[w > 0]
        if not w.size:
            return cls(math.nan, 0.0, 0.0)
        mean, n_rows = float(np.sum(w * values) / np.sum(w)), float(np.sum(w) ** 2 / (w @ w))
        spread = float((values - mean) ** 2 @ (w / w.sum()) ** 2)
        return cls(mean, math.sqrt(spread / (1.0 - 1.0 / n_rows)) if n_rows > 1.0 else 0.0, n_rows)


class Contest(NamedTuple):
    """Candidates that are compared with each other, and rivals that have to prove themselves against them.

    A rival is judged beside the best of the others, perhaps by another judge. Without rivals, the best of all
    candidates wins.
    """

    judge: Any  # of the candidates
    rivals: Sequence[GridPoint] = ()
    rivals_judge: Any = None  # perhaps that of the others
    variants: Mapping[GridPoint, GridPoint] = {}  # rivals that are near another one, and that one

    @property
    def asked(self) -> Any:
        """The judge of the rivals."""
        return self.judge if self.rivals_judge is None else self.rivals_judge

    @property
    def points(self) -> list[GridPoint]:
        """All candidates and rivals."""
        return list(dict.fromkeys([*self.judge.points, *self.rivals]))

    def choice(self, number: int, rule: str) -> tuple[GridPoint, float, dict[str, float]]:
        """Return who wins by one criterion, its score, and what is known of the lead of the rivals.

        The lead of the luckiest rival would be too good. So every split judges what the others choose, and
        these leads together must exceed one standard error of the paired differences, or two with fewer than
        500 rows.
        """
        table, judged = self.judge.tables[number], self.asked.tables[number]
        candidates = [point for point in self.judge.points if point not in self.rivals]
        first = best_of(self.judge, candidates, number)
        found, score = first, (base := table.mean(first))
        facts = dict.fromkeys(("gain", "gain_error", "gain_rows"), math.nan)
        facts |= {"ridge": first.ridge, "ridge_score": base}
        if self.rivals:
            everyone = [first, *self.rivals]
            values = np.stack(list(map(judged.values.__getitem__, everyone))).astype(np.float64)
            sums = judged.totals(values - values[0])  # Σ w v and Σ w, by candidate and split
            whole = sums.sum(axis=2, keepdims=True)

            def leaders(sums: _Float64) -> Any:
                return np.argmax(sums[0] / np.maximum(sums[1], 1e-300), axis=0)

            picks = leaders(whole - sums if sums.shape[2] > 1 else sums)
            picked = values[np.repeat(picks, judged.lengths), np.arange(values.shape[1])]
            gain, error, n_rows = judged.lead(picked, first)
            facts |= {"gain": gain, "gain_error": error, "gain_rows": n_rows}
            clear = 2.0 if n_rows < _FEW_ROWS or len(picks) == 1 else 1.0
            if n_rows >= 2 and gain > clear * error:
                found, score = everyone[int(leaders(whole)[0])], base + gain
                # Where the metric cannot tell a variant from what it is a variant of, squared error does.
                other = self.variants.get(found, found)
                lead = judged.lead(found, other)
                found = found if lead.mean > 0.5 * lead.error else other
            if rule != "best":
                near = judged.near(found, [first, *self.rivals], rule)
                found = _simplest(self.asked, near, number, rule)
                score = base + judged.lead(found, first).mean
        if rule != "best" and found == first:
            found = _simplest(self.judge, table.near(first, candidates, rule), number, rule)
            score = table.mean(found)
        return found, score, facts

    def results(self, titles: Sequence[str], params: Any) -> dict[str, Any]:
        """Return the table of all `points`; greater scores are better.

        A rival of another judge has the score of the best candidate plus its lead over it. ``params`` makes
        parameters of a point.
        """
        points, judge = self.points, self.judge
        listed = [params(point) for point in points]
        results: dict[str, Any] = {"params": listed}
        for name in listed[0]:
            results[f"param_{name}"] = np.array([one[name] for one in listed])
        for number, title in enumerate(titles):
            table, best = judge.tables[number], best_of(judge, judge.points, number)
            means, scores, spreads, errors = [], [], [], []
            for point in points:
                own = point in table.scores
                asked = table if own else self.asked.tables[number]
                gain, error, _ = asked.lead(best, point)
                means.append(table.mean(point) if own else table.mean(best) - gain)
                scores.append(table.scores[point] if own else np.array(means[-1:]))
                spreads.append(asked.scores[point].std())
                errors.append(error)
            for split, column in enumerate(np.transpose(scores)):
                results[f"split{split}_test_{title}"] = column
            results[f"mean_test_{title}"] = np.where(np.isfinite(means), means, np.nan)
            results[f"std_test_{title}"], results[f"error_test_{title}"] = np.array(spreads), np.array(errors)
            results[f"rank_test_{title}"] = rankdata(-np.array(means), method="min").astype(np.int32)
        ranks = self.asked.ranks | judge.ranks
        results["mean_model_rank"] = np.array([ranks[point] for point in points])
        results["mean_model_nbytes"] = judge.comparison.nbytes(results["mean_model_rank"])
        return results


def best_of(judge: Any, among: Sequence[GridPoint], number: int) -> GridPoint:
    """Return the candidate with the best mean by one criterion, the simplest of equals."""
    means = list(map(judge.tables[number].mean, among))
    leaders = [point for point, mean in zip(among, means, strict=True) if mean == max(means)]
    return _simplest(judge, leaders, number, "best")


def _simplest(judge: Any, among: Sequence[GridPoint], number: int, rule: str) -> GridPoint:
    """Return that of the least rank and the strongest penalty; or of the fewest bytes, the best of these."""

    def complexity(point: GridPoint) -> tuple[float, ...]:
        usual = judge.ranks[point], -point.alpha, -point.ridge
        if rule != "smallest":
            return usual
        size = float(judge.comparison.nbytes(np.array([judge.ranks[point]]))[0])
        return (size, -judge.tables[number].mean(point), *usual)

    return min(among, key=complexity)
