"""All members of the family on the same rows: the protocols with shared candidates, and the study.

Every training part is decomposed once. There every candidate is a closed form or a solve, so all members at
all thetas are chosen among candidates of equal number, on the same held-out rows:

1. *ridges* alone;
2. beside the best ridge and the next smaller ones, penalties and limits of the rank; strength 0, which is
   ridge regression (of limited rank, for those that have a limit), is always among them.

Average precision chooses for the metrics of rankings, AUC for itself, and the squared error for Hamming loss,
whose cuts, one per label, are chosen on the held-out scores of that candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._door import checked_rows, moved
from lrml.core.arrays import Array, Place, dense, full_precision, namespace, take, to_numpy
from lrml.core.coordinates import coordinates_of, with_unseen
from lrml.core.losses import SquaredLoss
from lrml.core.penalties import TailSum
from lrml.estimators import Kernel
from lrml.metrics import evaluate
from lrml.model_selection import MultilabelStratifiedKFold
from lrml.paper._plan import METHODS, WITH_THETA
from lrml.solvers import PathPoint, solve_path
from lrml.thresholds import best_threshold

_Array: TypeAlias = npt.NDArray[np.float64]
Output: TypeAlias = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]
RANKING = "label_ranking_average_precision"
ERROR = "squared_error"
_TO_DECIDE = 0.8  # of the rows that choose gamma, those that are fitted to
WORTH_A_DEVICE = 3e9  # multiplications of a decomposition, or of a product with all rows
_SOLVED: dict[str, Any] = {"tol": 1e-3, "max_iter": 300}


class Candidate(NamedTuple):
    """A member of the family with its numbers; theta is its limit where that is of the rank."""

    method: str
    theta: int | None
    alpha: float
    ridge: float
    space: str = "coefficients"

    @property
    def penalty(self) -> TailSum:
        """What is added to the squared loss and the ridge."""
        limit = self.theta if self.method in ("LEML", "CPLST") else None
        free = self.theta if self.method == "LRML" else None
        return TailSum(free or 0, self.alpha, max_rank=limit)


class Part:
    """Training rows in spectral coordinates, and the rows that are judged there."""

    def __init__(
        self, X: Any, Y: Any, judged: Any, *, kernel: Kernel | None, place: Place, targets: str
    ) -> None:
        rows = replace(checked_rows(X, Y, targets=targets), kernel=kernel)
        if not place.is_host:
            rows, judged = moved(rows, place, sums_suffice=False), place.asarray(dense(judged))
        space = coordinates_of(rows, fit_intercept=True)
        xp, self.n_rows = rows.place.xp, rows.shape[0]
        self.dtype = xp.float64 if targets == "real" or not place.is_host else xp.float32
        self.judged = xp.astype(space.of_rows(judged), self.dtype)
        self.at_mean = xp.astype(with_unseen(space.y_mean, space.unseen, SquaredLoss()), self.dtype)
        self.seen = xp.astype(~space.unseen, self.dtype)
        self.problem = replace(space.problem, features=None)  # n × n numbers, which are of no more use

    def visit(self, candidates: Sequence[Candidate], told: Callable[[Candidate, Array, int], None]) -> None:
        """Solve candidates, and tell of each the scores of the judged rows, and its rank."""
        parts = {ridge: self.problem.with_ridge(ridge) for ridge in {one.ridge for one in candidates}}
        for space in ("predictions", "coefficients"):
            own = [one for one in candidates if one.space == space]

            def scored(place: int, found: PathPoint, own: Sequence[Candidate] = own) -> None:
                told(own[place], *self._scores(found))

            solve_path([(parts[one.ridge], one.penalty) for one in own], scored, space=space, **_SOLVED)

    def _scores(self, found: PathPoint) -> tuple[Array, int]:
        left, right = found.regressions.sides
        xp, right = namespace(left), self.problem.in_label_space(right)
        with full_precision(left):
            scores = self.judged @ xp.astype(left, self.dtype)
            if right is not None:
                scores = scores @ xp.astype(right, self.dtype).T
        return scores * self.seen + self.at_mean, min(left.shape)


class Trial:
    """Candidates on folds: their mean values by each criterion, larger for better."""

    def __init__(
        self, X: Any, Y: Any, folds: Sequence[Any], criteria: Sequence[str], how: Mapping[str, Any]
    ) -> None:
        self.Y, self.folds, self.criteria = dense(Y), folds, criteria
        self.parts = [Part(take(X, fit), take(Y, fit), take(X, held), **how) for fit, held in folds]
        self.found: dict[Candidate, list[float]] = {}

    def judge(self, candidates: Iterable[Candidate]) -> None:
        """Judge those that are new."""
        fresh = [one for one in dict.fromkeys(candidates) if one not in self.found]
        values: dict[Candidate, list[_Array]] = {one: [] for one in fresh}
        for part, (_, held) in zip(self.parts, self.folds, strict=True):
            Y = Place.of(part.judged).asarray(self.Y[held])

            def told(one: Candidate, scores: Array, _: int, Y: Array = Y) -> None:
                rows = by_row(Y, scores, self.criteria)
                values[one].append(np.stack([rows[name] for name in self.criteria]))

            part.visit(fresh, told)
        self.found |= {one: np.nanmean(np.hstack(rows), axis=1).tolist() for one, rows in values.items()}

    def best(self, criterion: str, among: Callable[[Candidate], bool]) -> Candidate:
        """Return the best of some candidates; of equal ones the first."""
        place = self.criteria.index(criterion)
        return max(filter(among, self.found), key=lambda one: self.found[one][place])

    def cuts(self, candidates: Iterable[Candidate]) -> dict[Candidate, Any]:
        """Choose the cut of each label for the Hamming loss, on the scores of all held-out rows."""
        seen: dict[Candidate, list[Any]] = {one: [] for one in candidates}
        for part in self.parts:
            part.visit(list(seen), lambda one, scores, _: seen[one].append(to_numpy(scores)))
        Y = np.concatenate([self.Y[held] for _, held in self.folds])
        return {
            one: best_threshold(Y, np.concatenate(scores), "hamming_loss", per_label=True).cut
            for one, scores in seen.items()
        }


def by_row(Y: Array, scores: Array, metrics: Sequence[str], cut: Any = None) -> dict[str, _Array]:
    """Return the values of metrics for each row; a squared error is negative, as larger is better."""
    found, others = {}, [name for name in metrics if name != ERROR]
    if ERROR in metrics:
        found[ERROR] = -namespace(scores).mean((scores - Y) ** 2, axis=1)
    if others:
        found |= evaluate(Y, scores, metrics=others, threshold=cut).per_example
    return {name: to_numpy(values).astype(np.float64) for name, values in found.items()}


# What is tried


def choose(trial: Trial, whole: Part, cell: Mapping[str, Any]) -> None:
    """Judge the ridges, then all members beside the best of them and the next smaller ones."""
    grid, problem = cell["grid"], whole.problem
    ridges = sorted(grid.get("ridges") or [problem.ridge_leaving(share) for share in grid["shares"]])
    trial.judge(Candidate("MLFro", None, 0.0, ridge) for ridge in ridges)
    places = {ridges.index(trial.best(name, lambda one: True).ridge) for name in trial.criteria}
    beside = sorted({ridges[max(place - step, 0)] for place in places for step in grid["steps"]})
    finer = [ridges[place] * factor for place in places for factor in grid.get("finer", ())]
    trial.judge(Candidate("MLFro", None, 0.0, ridge) for ridge in finer)
    for space in cell["spaces"]:
        trial.judge(members(whole, grid[space], space, beside, cell["thetas"]))


def members(
    whole: Part, strengths: Sequence[float], space: str, ridges: Sequence[float], thetas: Sequence[int]
) -> Iterable[Candidate]:
    """Yield candidates of all members whose penalty acts in a space, beside each of the ridges.

    Strengths on the predictions are twice a threshold, in units of the root mean square of the labels times
    √L; on the coefficients they are shares of the strength from which on there is no tail.
    """
    unit = 2.0 * (whole.problem.target / whole.n_rows) ** 0.5
    for ridge in ridges:
        part, free = whole.problem.with_ridge(ridge), [0, *thetas]
        tops = [unit] * len(free) if space == "predictions" else part.strongest_slopes(free)
        for strength, (theta, top) in product(strengths, zip(free, tops, strict=True)):
            if not theta:
                yield Candidate("MLTrace", None, strength * tops[0], ridge, space)
                continue
            yield Candidate("LEML", theta, strength * tops[0], ridge, space)
            if top > 0:
                yield Candidate("LRML", theta, strength * top, ridge, space)
        for theta in thetas:
            yield Candidate("CPLST", theta, 0.0, ridge, "predictions")  # in closed form, the same for both


# Strength 0 belongs to all: without a limit of the rank it is ridge regression, with one CPLST.
_ALSO = {"LRML": "MLFro", "MLTrace": "MLFro", "LEML": "CPLST"}


Member: TypeAlias = tuple[str, str, int | None]


def winners(trial: Trial, spaces: Sequence[str], thetas: Sequence[int]) -> dict[Member, dict[str, Candidate]]:
    """Return what each criterion chooses for each method in each space, at each theta and free of it."""
    found: dict[Member, dict[str, Candidate]] = {}
    for space, method, theta in product(spaces, METHODS, (None, *thetas)):
        if theta is None or method in WITH_THETA:

            def own(one: Candidate, member: Member = (method, space, theta)) -> bool:
                method, space, theta = member
                fits = theta is None or one.theta in (None, theta)
                same = one.method == method and (one.space == space or method not in _ALSO)
                return fits and (same or one.method == _ALSO.get(method))

            found[method, space, theta] = {name: trial.best(name, own) for name in trial.criteria}
    return found


def run_family(data: Sequence[Any], cell: Mapping[str, Any], device: str | None) -> Output:
    """Choose all members on folds of the training rows, and judge them on the test rows.

    Values have a list of ``members``, with metrics, what was chosen, and the names of its arrays: metrics per
    test example, once for what several members choose.
    """
    (X, Y, X_test, Y_test), start = data, perf_counter()
    seed, targets = cell["seed"], cell.get("targets", "binary")
    n, size = X.shape[0], min(X.shape)
    size = n if cell["kernel"] else size
    place = Place.named(device if device and float(n) * size**2 > WORTH_A_DEVICE else "cpu")
    how = {"place": place, "targets": targets}
    how["kernel"] = kernel_of(X, Y, cell["kernel"], cell["grid"], seed, place)
    criteria = cell["criteria"]  # of each metric, what chooses for it
    names = list(dict.fromkeys(criteria.values()))
    trial = Trial(X, Y, folds_of(Y, cell["folds"], cell["judged"], seed, targets), names, how)
    whole = Part(X, Y, X_test, **how)
    choose(trial, whole, cell)
    chosen = winners(trial, cell["spaces"], cell["thetas"])
    cuts = trial.cuts({by[ERROR] for by in chosen.values()}) if "hamming_loss" in criteria else {}
    test, measured = place.asarray(dense(Y_test)), dict[Candidate, Measured]()

    def told(one: Candidate, scores: Array, rank: int) -> None:
        measured[one] = by_row(test, scores, list(criteria), cuts.get(one, 0.5)), rank

    whole.visit(list(dict.fromkeys(one for by in chosen.values() for one in by.values())), told)
    found, arrays = list[dict[str, Any]](), dict[str, Any]()
    for (method, space, theta), by in chosen.items():
        own, rows = _judged(by, criteria, measured)
        if theta is None or not cell["means_only"]:
            arrays |= rows
        described = {name: _described(one, trial, name, measured[one][1]) for name, one in by.items()}
        found.append({"method": method, "space": space, "theta": theta, "chosen": described} | own)
    gamma = how["kernel"].gamma if how["kernel"] else None
    seconds = perf_counter() - start
    return {"members": found, "gamma": gamma, "device": str(place), "search_seconds": seconds}, arrays


Measured: TypeAlias = tuple[dict[str, _Array], int]
"""Metrics of a candidate by test row, and its rank."""


def _judged(
    by: Mapping[str, Candidate], criteria: Mapping[str, str], measured: Mapping[Candidate, Measured]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the means of a member's metrics with the names of its arrays, and these, which others share."""
    places = {one: place for place, one in enumerate(measured)}
    rows = {metric: measured[by[name]][0][metric] for metric, name in criteria.items()}
    names = {metric: f"{places[by[name]]}/{metric}" for metric, name in criteria.items()}
    means = {metric: float(np.nanmean(values)) for metric, values in rows.items()}
    arrays = {names[metric]: values.astype(np.float32) for metric, values in rows.items()}
    return {"metrics": means, "arrays": names}, arrays


def _described(one: Candidate, trial: Trial, criterion: str, rank: int) -> dict[str, Any]:
    score = trial.found[one][trial.criteria.index(criterion)]
    own = {"theta": one.theta, "alpha": one.alpha, "ridge": one.ridge, "loss": "squared"}
    return own | {"member": one.method, "model_rank": rank, "validation_score": score, "converged": True}


def folds_of(Y: Any, n_folds: int, n_judged: int, seed: int, targets: str) -> list[tuple[Any, Any]]:
    """Return pairs of row numbers, to fit and to hold out: some of so many folds."""
    n_rows = Y.shape[0]
    if targets == "real":
        fold = np.random.default_rng(seed).permutation(n_rows) % n_folds
        pairs = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(n_folds)]
    else:
        splitter = MultilabelStratifiedKFold(n_folds, random_state=seed)
        pairs = list(splitter.split(np.zeros((n_rows, 1)), dense(Y)))
    return pairs[:n_judged]


def kernel_of(
    X: Any, Y: Any, given: Mapping[str, Any] | None, grid: Any, seed: int, place: Place
) -> Kernel | None:
    """Choose the width of a Gaussian kernel by ridge regression on some of the rows."""
    if given is None:
        return None
    order = np.random.default_rng(seed).permutation(X.shape[0])[: given["rows"]]
    cut = int(_TO_DECIDE * len(order))
    best, kernels = [], [Kernel("rbf", gamma) for gamma in given["gammas"]]
    for kernel in kernels:
        how = {"kernel": kernel, "place": place, "targets": "binary"}
        rows = X[order], dense(Y)[order]
        trial = Trial(*rows, [(np.arange(cut), np.arange(cut, len(order)))], [RANKING], how)
        trial.judge(Candidate("MLFro", None, 0.0, ridge) for ridge in grid["ridges"])
        best.append(max(values[0] for values in trial.found.values()))
    return kernels[int(np.argmax(best))]
