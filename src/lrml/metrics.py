"""Multi-label metrics, each declared once: of the k best labels, of rankings, of decisions.

Labels Y ∈ {0, 1}ⁿˣᴸ are compared with scores S ∈ ℝⁿˣᴸ, one row per example. Where scikit-learn has a metric,
the name is its own. What has no value is *left out* of a mean, and NaN in the values per example or label:

===============================================  ==============================  ==========================
metrics                                          rows (labels) left out          ties between scores
===============================================  ==============================  ==========================
``precision_at_k``, ``f1_at_k``                  none; 0 without labels          the lower index goes first
``recall_at_k``, ``r_precision_at_k``,           no relevant label               the lower index goes first
``ndcg_at_k``, ``propensity_scored_…_at_k``
``label_ranking_average_precision``,             no relevant label               tied labels share the
``coverage_error``, ``average_precision_…``                                      worst rank
``label_ranking_loss``                           no relevant or irrelevant one   a tied pair is wrong
``roc_auc_…``                                    no relevant or irrelevant one   a tied pair counts one half
``…_macro_at_k``, ``coverage_at_k``              none                            the lower index goes first
``brier_score_loss``, ``log_loss``               none                            do not matter
``hamming_loss``, ``accuracy``, and precision,   none; 0/0 is 0                  do not matter
recall, F1, Jaccard of ``_samples``, ``_micro``,
``_macro``
===============================================  ==============================  ==========================

Where Y is NaN a label is unknown: it is neither ranked nor counted, and a row without known labels is left
out. Rows come in blocks, each sorted once, so a sparse Y is never dense as a whole. S may be an array of any
library of the Array API standard, on any device: values per example stay there, means are floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml._measures import (
    METRICS,
    Evaluation,
    Measure,
    declared,
    evaluate,
    metric,
    of_best,
)
from lrml._ranking import (
    Block,
    Counts,
    Matrix,
    TopK,
    TopRows,
    Vector,
    as_labels,
    count,
    float64,
    ratio,
)
from lrml._shown import shown
from lrml.core.arrays import Array, Place, is_sparse, namespace, to_host, to_numpy

# The k best labels of each row


@metric()
def precision_at_k(rows: Block, k: int) -> Vector:
    """Share of relevant labels among the k labels with the largest scores.

    ::

        p_k(y, s) = (1/k) |{j : y_j = 1, s_j is among the k largest scores}|

    This is the "Top-K accuracy" of Xu et al.; a row with fewer than k relevant labels cannot reach 1.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere, NaN where unknown.
    S : array or frame of shape (n, L), or TopK
        Finite scores, with the labels in the order of Y; or, for metrics at k, what ``predict_top_k``
        returns, at least k labels.
    k : int
        Number of labels to look at, 1 ≤ k ≤ L.
    per_example : bool, default=False
        Return an array of n values instead of their mean.

    Examples
    --------
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0.9, 0.2, 0.5], [0.7, 0.7, 0.1]], k=1)
    0.5
    """
    return rows.answered(ratio(_found(rows, k), k))


@metric()
def recall_at_k(rows: Block, k: int) -> Vector:
    """Share of the relevant labels that are among the k best: ``hits / |P|``, P = {j : y_j = 1}."""
    return ratio(_found(rows, k), rows.n_relevant)


@metric()
def r_precision_at_k(rows: Block, k: int) -> Vector:
    """Precision relative to the best possible: ``hits / min(k, |P|)``, P = {j : y_j = 1}."""
    return ratio(_found(rows, k), _at_most(k, rows.n_relevant))


@metric()
def f1_at_k(rows: Block, k: int) -> Vector:
    """Harmonic mean of precision and recall of each row: ``2 hits / (k + |P|)``.

    With k = 5 it is the "F1@5" of Annif.
    """
    return rows.answered(ratio(2 * _found(rows, k), k + rows.n_relevant))


@metric()
def ndcg_at_k(rows: Block, k: int) -> Vector:
    """Discounted cumulative gain of the k best labels, relative to the best possible.

    ::

        ndcg_k(y, s) = Σ_{r ≤ k} y_(r) / log₂(1 + r)  /  Σ_{r ≤ min(k, |P|)} 1 / log₂(1 + r)

    with y_(r) the relevance of the label of rank r, P = {j : y_j = 1}. Annif's "NDCG" is that of its 10
    suggestions, and counts a row without relevant labels, which is left out here, as 1.
    """
    hits = rows.hits[:, :k]
    xp, gains = namespace(hits), Place.of(hits).asarray(_discounts(k))
    return ratio(xp.sum(float64(hits) * gains, axis=1), _ideal(rows, k))


def _found(rows: Block | TopRows, k: int) -> Array:
    return count(rows.hits[:, :k], axis=1)


def _at_most(k: int, n_relevant: Array) -> Array:
    return namespace(n_relevant).where(n_relevant < k, n_relevant, k)


def _discounts(k: int) -> npt.NDArray[np.float64]:
    return np.asarray(1.0 / np.log2(np.arange(2.0, k + 2.0)), dtype=np.float64)


def _ideal(rows: Block | TopRows, k: int) -> Vector:
    """Return the largest discounted gain that each row allows; 0 without relevant labels."""
    n_relevant = _at_most(k, rows.n_relevant)
    sums = Place.of(n_relevant).asarray(np.append(0.0, np.cumsum(_discounts(k))))
    return namespace(n_relevant).take(sums, n_relevant)


def _counts_at(rows: Block, k: int) -> Counts:
    return rows.counts_at(k)


def _mean_of_labels(labels: Counts, share: str) -> Any:
    return np.mean(getattr(labels, share), axis=0)


def _hit_once(labels: Counts) -> Any:
    return np.mean(labels.hits > 0, axis=0)


_AT_K = Measure("", _counts_at)
_TOP = "if the k best labels of each row are predicted; 0/0 is 0, and parameters are as in `precision_at_k`."
precision_macro_at_k, recall_macro_at_k, f1_macro_at_k = (
    declared(
        replace(_AT_K, name=f"{share}_macro_at_k", finish=partial(_mean_of_labels, share=share)),
        f"Mean {'F1' if share == 'f1' else share} of the labels {_TOP}",
    )
    for share in ("precision", "recall", "f1")
)
coverage_at_k = declared(
    replace(_AT_K, name="coverage_at_k", finish=_hit_once),
    f"Share of the labels that are right at least once {_TOP}",
)


def label_propensities(Y: Matrix, *, a: float = 0.55, b: float = 1.5) -> Vector:
    """Estimate the share of the rows a label applies to that have it, by its frequency.

    ::

        p_l = 1 / (1 + c (N_l + b)^(−a)),    c = (ln n − 1)(b + 1)^a,    N_l = Σ_i y_il

    Rare labels are forgotten more often than frequent ones. The model is that of H. Jain, Y. Prabhu and M.
    Varma (KDD 2016). The defaults are what is usual; Wikipedia has a = 0.5 and b = 0.4, and products of
    Amazon have a = 0.6 and b = 2.6. Y are the labels of at least 3 training rows.

    Examples
    --------
    >>> label_propensities([[1, 0], [1, 0], [1, 0], [1, 1]]).round(2)
    array([0.8 , 0.72])
    """
    labels = as_labels(Y)
    n = labels.shape[0]
    if n < 3:
        raise ValueError(f"Y has {n} rows; propensities need at least 3. Pass all training rows.")
    if is_sparse(labels):
        counts = np.asarray(labels.sum(axis=0), dtype=np.float64).ravel()
    else:
        counts = namespace(labels).sum(float64(labels), axis=0)
    c = (math.log(n) - 1.0) * (b + 1.0) ** a
    return 1.0 / (1.0 + c * (counts + b) ** -a)


def propensity_scored_precision_at_k(
    Y: Matrix, S: Matrix | TopK, k: int, propensities: npt.ArrayLike
) -> float:
    """Precision at k in which a rare label counts more: over its propensity, relative to the best possible.

    ::

        PSP@k = Σ_i Σ_{l ∈ top k of s_i} y_il / p_l  /  Σ_i max_{|T| ≤ k} Σ_{l ∈ T} y_il / p_l

    Y, S and k are as in `precision_at_k`, p in (0, 1] as `label_propensities` finds them in training labels.

    Examples
    --------
    >>> Y, S = [[1, 1, 0], [0, 0, 1]], [[0.9, 0.5, 0.1], [0.9, 0.1, 0.5]]
    >>> round(propensity_scored_precision_at_k(Y, S, 1, [0.8, 0.4, 0.4]), 2)
    0.25
    """
    return _propensity_scored(Y, S, k, propensities, discounted=False)


def propensity_scored_ndcg_at_k(Y: Matrix, S: Matrix | TopK, k: int, propensities: npt.ArrayLike) -> float:
    """Discounted cumulative gain at k in which a rare label counts more, relative to the best possible.

    As `propensity_scored_precision_at_k`, with the gain of rank r over log₂(1 + r), and sums of rows over
    what `ndcg_at_k` divides by.
    """
    return _propensity_scored(Y, S, k, propensities, discounted=True)


def _propensity_scored(
    Y: Matrix, S: Matrix | TopK, k: int, propensities: npt.ArrayLike, *, discounted: bool
) -> float:
    p = np.asarray(to_host(propensities), dtype=np.float64)

    def gains(rows: Block | TopRows, k: int) -> Any:
        """Return the gain of the rows, and the largest possible one."""
        relevant = to_host(rows.relevant)
        if p.shape != (relevant.shape[1],) or not np.all((p > 0) & (p <= 1)):
            raise ValueError(f"propensities are {shown(p)}. Pass {relevant.shape[1]} numbers in (0, 1].")
        ranks = _discounts(k) if discounted else np.ones(k)
        found = to_numpy(rows.hits[:, :k]) / p[to_numpy(rows.columns[:, :k])] @ ranks
        row, column = relevant.nonzero()
        worth = 1.0 / p[column]
        worth = worth[np.lexsort((-worth, row))]  # the most valuable labels of each row first
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        best = np.bincount(row[rank < k], worth[rank < k] * ranks[rank[rank < k]], len(found))
        whole = to_numpy(_ideal(rows, k)) if discounted else 1.0
        return np.array([np.sum(ratio(part, whole + (best == 0))) for part in (found, best)])

    found, most = sum(of_best(Y, S, k, gains))
    if most == 0:
        raise ValueError("no row of Y has a relevant label, so there is nothing to find. Check Y.")
    return float(found) / float(most)


# Rankings of the labels of each row, of the rows of each label, or of all cells


@metric()
def label_ranking_average_precision(rows: Block) -> Vector:
    """Return the mean precision of the ranking at each relevant label.

    ::

        ap(y, s) = (1/|P|) Σ_{j ∈ P} |{i ∈ P : s_i ≥ s_j}| / |{i : s_i ≥ s_j}|,    P = {j : y_j = 1}

    A row without relevant labels, to which scikit-learn gives 1, is left out: NaN. Parameters are as in
    `precision_at_k`. scikit-learn's "average_precision" is another number, here `average_precision_macro`.

    Examples
    --------
    >>> Y, S = [[1, 0, 1], [0, 0, 0]], [[0.9, 0.8, 0.1], [0.3, 0.2, 0.1]]
    >>> round(label_ranking_average_precision(Y, S), 4)
    0.8333
    """
    found, _, worst = rows.ranks
    return ratio(rows.sum_over_relevant(found / worst), rows.n_relevant)


@metric(lower_is_better=True)
def label_ranking_loss(rows: Block) -> Vector:
    """Share of the pairs of a relevant and an irrelevant label in the wrong order, or with equal scores.

    A row without such a pair, to which scikit-learn gives 0, is left out.
    """
    found, _, worst = rows.ranks
    return ratio(rows.sum_over_relevant(worst - found), _pairs(rows))


@metric(lower_is_better=True)
def coverage_error(rows: Block) -> Vector:
    """Rank of the last relevant label: ``max_{j ∈ P} |{i : s_i ≥ s_j}|``, P = {j : y_j = 1}.

    A row without relevant labels, to which scikit-learn gives 0, is left out.
    """
    xp = namespace(rows.scores)
    least = xp.min(xp.where(rows.relevant, rows.scores, xp.inf), axis=1)
    covered = float64(count(rows.scores >= least[:, None], axis=1))
    return xp.where(rows.n_relevant > 0, covered, xp.nan)


@metric()
def roc_auc_samples(rows: Block) -> Vector:
    """Area under the ROC curve of each example: the share of pairs of labels in the right order.

    ::

        auc(y, s) = 1/(|P| |N|) Σ_{i ∈ P, j ∈ N} ( [s_i > s_j] + ½ [s_i = s_j] )

    with P = {j : y_j = 1} and N = {j : y_j = 0}, as ``sklearn.metrics.roc_auc_score(Y, S,
    average="samples")``; the "average AUC" of Xu et al. A row without such a pair is left out: NaN.
    Parameters are as in `precision_at_k`.

    Examples
    --------
    >>> roc_auc_samples([[1, 0, 1, 0], [1, 1, 1, 1]], [[0.9, 0.5, 0.5, 0.1], [0.1, 0.2, 0.3, 0.4]])
    0.875
    """
    _, best, worst = rows.ranks
    n_relevant, pairs = float64(rows.n_relevant), _pairs(rows)
    # The sum of the mid-ranks of the relevant labels, minus its least possible value, counts misplaced pairs.
    misplaced = rows.sum_over_relevant((best + worst) / 2) - n_relevant * (n_relevant + 1) / 2
    return ratio(pairs - misplaced, pairs)


def _pairs(rows: Block) -> Vector:
    n_relevant = float64(rows.n_relevant)
    return n_relevant * (rows.n_known - n_relevant)


def _over_columns(samples: Measure, name: str, words: str) -> Iterable[Callable[..., Any]]:
    """Declare what ranks rows by each label, and all cells, as another metric ranks the labels of a row."""
    for average, over, ranked in (
        ("macro", "labels", "each label, by which rows are ranked; ``per_example=True`` gives one per label"),
        ("micro", "cells", "all cells, ranked together"),
    ):
        own: Any = {"name": f"{name}_{average}", "over": over}
        yield declared(replace(samples, **own), f"{words} of {ranked}. See `{samples.name}`.")


roc_auc_macro, roc_auc_micro = _over_columns(
    METRICS["roc_auc_samples"], "roc_auc", "Area under the ROC curve"
)
average_precision_macro, average_precision_micro = _over_columns(
    METRICS["label_ranking_average_precision"], "average_precision", "Average precision"
)


# Decisions: what the scores are once they are cut


@metric(needs_cut=True, lower_is_better=True)
def hamming_loss(rows: Block) -> Vector:
    """Share of labels that are wrong once the scores are cut at a threshold; lower is better.

    ::

        loss(y, s) = (1/L) |{j : [s_j ≥ threshold_j] ≠ y_j}|

    Parameters
    ----------
    Y, S, per_example
        As in `precision_at_k`.
    threshold : float or array of shape (L,), optional
        A label is predicted where its score is at or above the threshold, compared in the precision of S. It
        belongs to the model: pass its ``threshold_``. By default 0.5, for scores in [0, 1] only.
        `lrml.thresholds.best_threshold` finds the best one.

    Examples
    --------
    >>> hamming_loss([[1, 0], [0, 1]], [[0.5, 0.1], [0.2, 0.3]])
    0.25
    """
    return ratio(_wrong(rows), rows.n_known)


@metric(needs_cut=True)
def accuracy(rows: Block) -> Vector:
    """Share of the rows all labels of which are right (subset accuracy). See `hamming_loss`."""
    return rows.answered(float64(_wrong(rows) == 0))


def _wrong(rows: Block) -> Array:
    return count(rows.predicted != rows.relevant, axis=1)


def _label_counts(rows: Block) -> Counts:
    return Counts.of(rows.relevant, rows.predicted, axis=0)


def _of_all_cells(labels: Counts, share: str) -> Any:
    return getattr(labels.together, share)


def _of_row(rows: Block, share: str) -> Vector:
    return rows.answered(getattr(rows.row_counts, share))


def _shares(share: str, formula: str) -> Iterable[Callable[..., Any]]:
    """Declare a share of decisions: of rows, of all cells, and of labels."""
    words, counts = (
        f"{formula}, {{}}; 0/0 is 0. See `hamming_loss`.",
        Measure("", _label_counts, needs_cut=True),
    )
    of_rows = replace(counts, name=f"{share}_samples", formula=partial(_of_row, share=share))
    of_cells = replace(counts, name=f"{share}_micro", finish=partial(_of_all_cells, share=share))
    of_labels = replace(counts, name=f"{share}_macro", finish=partial(_mean_of_labels, share=share))
    yield declared(of_rows, words.format("mean over rows"))
    yield declared(of_cells, words.format("over all cells"))
    yield declared(of_labels, words.format("mean over labels"))


precision_samples, precision_micro, precision_macro = _shares("precision", "TP / (TP + FP)")
recall_samples, recall_micro, recall_macro = _shares("recall", "TP / (TP + FN)")
f1_samples, f1_micro, f1_macro = _shares("f1", "2 TP / (2 TP + FP + FN)")
jaccard_samples, jaccard_micro, jaccard_macro = _shares("jaccard", "TP / (TP + FP + FN)")


# Probabilities


@metric(lower_is_better=True, of_probabilities=True)
def brier_score_loss(rows: Block) -> Vector:
    """Mean of (p − y)² over the labels, p the probabilities that ``predict_proba`` gives; lower is better.

    Of all cells it is what scikit-learn's function of this name gives. Y and per_example are as in
    `precision_at_k`, S must lie in [0, 1].

    Examples
    --------
    >>> brier_score_loss([[1, 0], [0, 1]], [[0.9, 0.1], [0.5, 0.5]])
    0.13
    """
    P = _probabilities(rows)
    return ratio(namespace(P).sum((P - float64(rows.relevant)) ** 2, axis=1), rows.n_known)


@metric(lower_is_better=True, of_probabilities=True)
def log_loss(rows: Block) -> Vector:
    """Mean of −log p over the labels that apply, and of −log (1 − p) over the others. See `brier_score_loss`.

    As in scikit-learn, p stays away from 0 and 1 by the spacing of its type.
    """
    P, xp = _probabilities(rows), namespace(rows.scores)
    least = float(xp.finfo(rows.scores.dtype).eps)
    likely = xp.clip(xp.where(rows.relevant, P, 1.0 - P), min=least, max=1.0 - least)
    told = -xp.log(likely)
    return ratio(xp.sum(told if rows.known is None else told * float64(rows.known), axis=1), rows.n_known)


def _probabilities(rows: Block) -> Array:
    """Return the scores, which must be probabilities; 0 where a label is unknown."""
    P, xp = rows.scores, namespace(rows.scores)
    P = float64(P if rows.known is None else xp.where(rows.known, P, 0.0))
    low, high = float(xp.min(P)), float(xp.max(P))
    if low < 0 or high > 1:
        raise ValueError(
            f"scores from {low:.4g} to {high:.4g} are no probabilities. Pass what predict_proba gives, or "
            "the model and its rows."
        )
    return P


__all__ = ["METRICS", "Evaluation", "evaluate", "label_propensities"]
__all__ += ["propensity_scored_ndcg_at_k", "propensity_scored_precision_at_k"]
__all__.extend(METRICS)
__test__ = {name: str(globals()[name].__doc__) for name in METRICS}  # examples, for doctest
