"""Multi-label metrics: precision at k, average precision, AUC, Hamming loss, two F1s, and propensities.

Labels Y ∈ {0, 1}ⁿˣᴸ are compared with scores S ∈ ℝⁿˣᴸ, one row per example, and averaged over the rows.
A row on which a metric has no value is *left out* of its mean, and is NaN in its per-example vector:

===================================  ==============================  =================================
metric                               rows left out                   ties between scores
===================================  ==============================  =================================
``precision_at_k``                   none; 0 without labels          the lower index goes first
``label_ranking_average_precision``  no relevant label               tied labels share the worst rank
``roc_auc_samples``                  no relevant or irrelevant one   a tied pair counts one half
``hamming_loss``                     none                            do not matter
===================================  ==============================  =================================

Where scikit-learn has a metric, the name is its own.

The F1 have no value per example. Rows come in blocks, so a sparse Y is never dense as a whole. S may be an
array of any library of the Array API standard, on any device: values per example stay there, means are
floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from lrml._ranking import (
    Block,
    LabelCounts,
    Matrix,
    Measure,
    TopK,
    Vector,
    as_labels,
    check_labelled_scores,
    check_threshold,
    count,
    float64,
    hits_of,
    measure,
    ratio,
)
from lrml._shown import shown
from lrml.core.arrays import Array, Place, is_sparse, namespace, to_host, to_numpy
from lrml.core.checks import check_integer

__all__ = [
    "Evaluation",
    "evaluate",
    "f1_macro",
    "f1_micro",
    "hamming_loss",
    "label_propensities",
    "label_ranking_average_precision",
    "precision_at_k",
    "propensity_scored_precision_at_k",
    "roc_auc_samples",
]


def precision_at_k(Y: Matrix, S: Matrix | TopK, k: int, *, per_example: bool = False) -> float | Vector:
    """Share of relevant labels among the k labels with the largest scores.

    ::

        p_k(y, s) = (1/k) |{j : y_j = 1, s_j is among the k largest scores}|

    This is the "Top-K accuracy" of Xu et al.; a row with fewer than k relevant labels cannot reach 1.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere.
    S : array or frame of shape (n, L), or TopK
        Finite scores, with the labels in the order of Y; or what ``predict_top_k`` returns, at least k
        labels.
    k : int
        Number of labels to look at, 1 ≤ k ≤ L.
    per_example : bool, default=False
        Return an array of n values instead of their mean.

    Examples
    --------
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0.9, 0.2, 0.5], [0.7, 0.7, 0.1]], k=1)
    0.5
    """
    if isinstance(S, TopK):
        _, hits = hits_of(Y, S, k)
        values = Place.of(S.scores).asarray(ratio(count(hits, axis=1), k))
    else:
        data = check_labelled_scores(Y, S)
        (values,) = measure(data, partial(_precision_at, k=check_integer("k", k, 1, data.n_labels)))
    return values if per_example else _means({"precision_at_k": values})["precision_at_k"]


def label_propensities(Y: Matrix, *, a: float = 0.55, b: float = 1.5) -> Vector:
    """Estimate the share of the rows a label applies to that have it, by its frequency.

    ::

        p_l = 1 / (1 + c (N_l + b)^(−a)),    c = (ln n − 1)(b + 1)^a,    N_l = Σ_i y_il

    Rare labels are forgotten more often than frequent ones. Model and defaults are those of H. Jain, Y.
    Prabhu and M. Varma (KDD 2016) for Wikipedia; they use a = 0.6 and b = 2.6 for products of Amazon. Y are
    the labels of at least 3 training rows.

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
    if not isinstance(S, TopK):
        scores = check_labelled_scores(Y, S).scores
        xp = namespace(scores)
        columns = xp.argsort(-scores + 0.0, axis=1, stable=True)  # the sum makes one zero of both
        S = TopK(columns, xp.take_along_axis(scores, columns, axis=1))
    chosen, hits = hits_of(Y, S, k)
    labels = as_labels(to_host(Y))
    p = np.asarray(to_host(propensities), dtype=np.float64)
    if p.shape != (labels.shape[1],) or not np.all((p > 0) & (p <= 1)):
        raise ValueError(f"propensities are {shown(p)}. Pass {labels.shape[1]} numbers in (0, 1].")
    row, column = labels.nonzero()
    worth = 1.0 / p[column]
    worth = worth[np.lexsort((-worth, row))]  # the most valuable labels of each row first
    most = float(np.sum(worth[np.arange(len(row)) - np.searchsorted(row, row) < k]))
    if most == 0:
        raise ValueError("no row of Y has a relevant label, so there is nothing to find. Check Y.")
    return float(np.sum(1.0 / p[chosen[hits]])) / most


def label_ranking_average_precision(Y: Matrix, S: Matrix, *, per_example: bool = False) -> float | Vector:
    """Label ranking average precision: the mean precision of the ranking at each relevant label.

    ::

        ap(y, s) = (1/|P|) Σ_{j ∈ P} |{i ∈ P : s_i ≥ s_j}| / |{i : s_i ≥ s_j}|,    P = {j : y_j = 1}

    A row without relevant labels, to which scikit-learn gives 1, is left out: NaN. Parameters are as in
    `precision_at_k`.

    Examples
    --------
    >>> round(label_ranking_average_precision([[1, 0, 1], [0, 0, 0]], [[0.9, 0.8, 0.1], [0.3, 0.2, 0.1]]), 4)
    0.8333
    """
    (values,) = measure(check_labelled_scores(Y, S), _ranking_precision)
    return (
        values
        if per_example
        else _means({"label_ranking_average_precision": values})["label_ranking_average_precision"]
    )


def roc_auc_samples(Y: Matrix, S: Matrix, *, per_example: bool = False) -> float | Vector:
    """Area under the ROC curve of each example: the share of pairs of labels in the right order.

    ::

        auc(y, s) = 1/(|P| |N|) Σ_{i ∈ P, j ∈ N} ( [s_i > s_j] + ½ [s_i = s_j] )

    with P = {j : y_j = 1} and N = {j : y_j = 0}, as ``sklearn.metrics.roc_auc_score(Y, S,
    average="samples")``. A row without such a pair is left out: NaN. Parameters are as in `precision_at_k`.

    Examples
    --------
    >>> roc_auc_samples([[1, 0, 1, 0], [1, 1, 1, 1]], [[0.9, 0.5, 0.5, 0.1], [0.1, 0.2, 0.3, 0.4]])
    0.875
    """
    (values,) = measure(check_labelled_scores(Y, S), _auc)
    return values if per_example else _means({"roc_auc_samples": values})["roc_auc_samples"]


def hamming_loss(
    Y: Matrix, S: Matrix, threshold: npt.ArrayLike = 0.5, *, per_example: bool = False
) -> float | Vector:
    """Share of labels that are wrong once the scores are cut at a threshold; lower is better.

    ::

        loss(y, s) = (1/L) |{j : [s_j ≥ threshold_j] ≠ y_j}|

    Parameters
    ----------
    Y, S, per_example
        As in `precision_at_k`.
    threshold : float or array of shape (L,), default=0.5
        A label is predicted where its score is at or above the threshold, compared in the precision of S. The
        default is the ``round(f)`` of Xu et al. `lrml.thresholds.best_threshold` finds the best one.

    Examples
    --------
    >>> hamming_loss([[1, 0], [0, 1]], [[0.5, 0.1], [0.2, 0.3]])
    0.25
    """
    data = check_labelled_scores(Y, S)
    (values,) = measure(data, partial(_wrong_share, threshold=check_threshold(threshold, data)))
    return values if per_example else _means({"hamming_loss": values})["hamming_loss"]


def f1_micro(Y: Matrix, S: Matrix, threshold: npt.ArrayLike = 0.5) -> float:
    """F1 of all cells of the label matrix taken together, once the scores are cut at a threshold.

    ::

        micro-F1 = 2 TP / (2 TP + FP + FN),    counted over all rows and labels

    Parameters are as in `hamming_loss`. It is 0 if nothing is relevant and nothing predicted.

    Examples
    --------
    >>> f1_micro([[1, 0], [0, 1]], [[0.9, 0.6], [0.2, 0.7]])
    0.8
    """
    return LabelCounts.of_scores(Y, S, threshold).f1_micro


def f1_macro(Y: Matrix, S: Matrix, threshold: npt.ArrayLike = 0.5) -> float:
    """Mean of the F1 of each label, once the scores are cut at a threshold.

    ::

        macro-F1 = (1/L) Σ_j 2 TP_j / (2 TP_j + FP_j + FN_j),    counted over the rows of label j

    Parameters are as in `hamming_loss`. A label that is neither relevant nor predicted in any row counts as
    0.

    Examples
    --------
    >>> f1_macro([[1, 0], [0, 1]], [[0.9, 0.6], [0.2, 0.7]]) == (1 + 2 / 3) / 2
    True
    """
    return LabelCounts.of_scores(Y, S, threshold).f1_macro


class Evaluation(dict[str, float]):
    """What `evaluate` returns: the mean of each metric over the rows on which it has a value, and the two F1.

    ``per_example`` has the values behind each mean, by name; NaN marks a row that is left out.
    """

    def __init__(self, means: Mapping[str, float], per_example: dict[str, Vector]) -> None:
        super().__init__(means)
        self.per_example = per_example

    @property
    def left_out(self) -> dict[str, int]:
        """Number of rows that each mean leaves out."""
        without = {name: namespace(values).isnan(values) for name, values in self.per_example.items()}
        return {name: int(count(rows, axis=0)) for name, rows in without.items()}

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{name}={value:.4g}' for name, value in self.items())})"


def evaluate(
    Y: Matrix, S: Matrix, *, ks: Iterable[int] | None = None, threshold: npt.ArrayLike = 0.5
) -> Evaluation:
    """Compute every metric of this module with one sort of the scores.

    Y, S and the threshold are as in `hamming_loss`, ``ks`` those of `precision_at_k`: by default those of 1,
    3 and 5 that do not exceed the number of labels.

    Examples
    --------
    >>> result = evaluate([[1, 0, 1], [0, 0, 0]], [[0.9, 0.6, 0.5], [0.3, 0.2, 0.1]], ks=[1])
    >>> result
    Evaluation(precision_at_1=0.5, label_ranking_average_precision=0.8333, roc_auc_samples=0.5,
               hamming_loss=0.1667, f1_micro=0.8, f1_macro=0.6667)
    >>> result["precision_at_1"], result.left_out["roc_auc_samples"]
    (0.5, 1)
    >>> result.per_example["roc_auc_samples"].tolist()
    [0.5, nan]
    """
    data = check_labelled_scores(Y, S)
    cut = check_threshold(threshold, data)
    measures = row_measures(data.n_labels, ks, cut)
    values, counts = [], []
    for block in data.blocks():
        values.append([measure(block) for measure in measures.values()])
        counts.append(LabelCounts.of(block.relevant, block.scores >= cut))
    columns = (namespace(data.scores).concat(column) for column in zip(*values, strict=True))
    per_example = dict(zip(measures, columns, strict=True))
    total = LabelCounts.total(counts)
    f1 = {"f1_micro": total.f1_micro, "f1_macro": total.f1_macro}
    return Evaluation(_means(per_example) | f1, per_example)


def row_measures(n_labels: int, ks: Iterable[int] | None, cut: Array) -> dict[str, Measure]:
    """Return the metrics that have a value per example, by name, as functions of a block of rows."""
    usual = [k for k in (1, 3, 5) if k <= n_labels]
    depths = usual if ks is None else [check_integer("each of ks", k, 1, n_labels) for k in ks]
    measures: dict[str, Measure] = {f"precision_at_{k}": partial(_precision_at, k=k) for k in depths}
    return measures | {
        "label_ranking_average_precision": _ranking_precision,
        "roc_auc_samples": _auc,
        "hamming_loss": partial(_wrong_share, threshold=cut),
    }


def _precision_at(block: Block, k: int) -> Vector:
    places = k if block.known is None else k * (block.n_known > 0)
    return ratio(count(block.hits[:, :k], axis=1), places)


def _ranking_precision(block: Block) -> Vector:
    found, _, worst = block.ranks
    return ratio(block.sum_over_relevant(found / worst), block.n_relevant)


def _auc(block: Block) -> Vector:
    _, best, worst = block.ranks
    n_relevant = float64(block.n_relevant)
    # The sum of the mid-ranks of the relevant labels, minus its least possible value, counts misplaced pairs.
    misplaced = block.sum_over_relevant((best + worst) / 2) - n_relevant * (n_relevant + 1) / 2
    pairs = n_relevant * (block.n_known - n_relevant)
    return ratio(pairs - misplaced, pairs)


def _wrong_share(block: Block, threshold: Array) -> Vector:
    return ratio(count(block.reaching(threshold) != block.relevant, axis=1), block.n_known)


def _means(per_example: Mapping[str, Vector]) -> dict[str, float]:
    """Means over the rows that have a value; those on a device come to the host together."""
    columns = list(per_example.values())
    xp = namespace(*columns)
    values = xp.stack(columns)
    known = ~xp.isnan(values)
    means = ratio(xp.sum(xp.where(known, values, 0.0), axis=1), count(known, axis=1))
    found = dict(zip(per_example, to_numpy(means).tolist(), strict=True))
    for name, mean in found.items():
        if math.isnan(mean):
            needed = "both a relevant and an irrelevant" if name == "roc_auc_samples" else "a relevant"
            where = (
                f"none of {values.shape[1]} rows has {needed} label. Check Y, or ask for per_example=True."
            )
            raise ValueError(f"{name} has no value: {where}")
    return found
