"""Synthetic data of the shape of extreme classification: sparse texts, very many labels, a few topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize

from lrml.core.checks import check_nonnegative, is_real
from lrml.datasets._record import MultiLabelDataset, NumberedNames
from lrml.datasets._synthetic import ZIPF, check_count_of, check_rank, streams

Floats = NDArray[np.float64]

_FOCUS = 0.1  # shape of the gamma law of affinities: a small one ties most words to a few topics
_TOPICS = 2.0  # sum of the Dirichlet parameters of a row: most of a text is about one to three topics
_BALANCING = 30  # rounds that give every topic and every word its share
_STEEPEST = 10.0  # exponent beyond which shares would underflow
_BLOCK_ROWS = 20_000  # rows that are made at a time


@dataclass(frozen=True, eq=False, repr=False)
class TopicTruth:
    """What is behind the labels of `make_xmc`: the next label of row i is l with probability (TB)_il.

    Parameters
    ----------
    topics : array of shape (n, r)
        T, the share of each topic in each row.
    labels : array of shape (r, L)
        B, the distribution of the labels of each topic.
    """

    topics: Floats
    labels: Floats

    def __repr__(self) -> str:
        return (
            f"<TopicTruth: {len(self.topics)} rows, {self.labels.shape[1]} labels, rank {len(self.labels)}>"
        )

    def scores(self, rows: slice | NDArray[Any] = slice(None)) -> Floats:
        """Return (TB) of some rows, dense: no ranking of their labels is better on average."""
        return np.asarray(self.topics[rows] @ self.labels)


def make_xmc(
    n_samples: int = 10_000,
    n_features: int = 5_000,
    n_labels: int = 2_000,
    *,
    rank: int = 20,
    n_words: float = 60.0,
    cardinality: float = 5.0,
    imbalance: float = 1.0,
    specific: float = 0.0,
    random_state: Any = None,
) -> tuple[MultiLabelDataset, TopicTruth]:
    """Make texts with very many labels whose frequencies follow a power law.

    A row is about a mixture t_i of r topics, and a topic is a distribution of words and one of labels. Words
    and labels of a row are drawn independently, each from a topic drawn from t_i. So the expected labels
    ``TB`` (n × L) have rank r. Values are tf-idf (count times ``1 − ln`` of the share of rows with the word),
    and rows have norm 1.

    Parameters
    ----------
    n_samples, n_features, n_labels : int, default=10000, 5000, 2000
        Number of rows n, of words d and of labels L.
    rank : int, default=20
        Number of topics r, at most min(d, L).
    n_words : float, default=60.0
        Mean number of words that are drawn for a row, at least 1. Some repeat, so a row has fewer nonzeros:
        about 80 of 110 for 100,000 words.
    cardinality : float, default=5.0
        Mean number of labels that are drawn for a row, at least 1; some repeat.
    imbalance : float, default=1.0
        A label is drawn in proportion to ``(1 + l) ** −imbalance``: label 0 is the most frequent one. Words
        follow Zipf's law, with an exponent of 1.
    specific : float, default=0.0
        Share in [0, 1] of the labels drawn that leave a word of their own in the text, the same one for every
        row. It is what a model of low rank cannot know about rare labels.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same data at every call.

    Returns
    -------
    dataset : MultiLabelDataset
        X and Y are sparse.
    truth : TopicTruth
        The mixtures of the rows, and the labels of the topics.

    Notes
    -----
    Time and memory grow with the numbers of words and labels drawn and with r (n + d + L), never with n L:
    200,000 rows with 100,000 words and 50,000 labels take about ten seconds. A label that is too frequent
    for one topic belongs to several.

    Examples
    --------
    >>> from lrml.datasets import make_xmc
    >>> dataset, truth = make_xmc(500, 300, 100, rank=5, random_state=0)
    >>> dataset
    <MultiLabelDataset xmc: X (500, 300) sparse, Y (500, 100) sparse, no split>
    >>> truth
    <TopicTruth: 500 rows, 100 labels, rank 5>
    """
    n, d, n_labels = (
        check_count_of(key, value)
        for key, value in (("n_samples", n_samples), ("n_features", n_features), ("n_labels", n_labels))
    )
    rank = check_rank(rank, d, n_labels)
    n_words, cardinality = _check_mean("n_words", n_words), _check_mean("cardinality", cardinality)
    imbalance = check_nonnegative("imbalance", imbalance, "Pass imbalance=0 for equally frequent labels.")
    if imbalance > _STEEPEST:
        raise ValueError(f"imbalance must be at most {_STEEPEST:g}, got {imbalance}. Pass 1, for example.")
    specific = check_nonnegative("specific", specific, "Pass specific=0 for none.")
    if specific > 1:
        raise ValueError(f"specific must be a share of at most 1, got {specific}. Pass 0.5, for example.")
    shares, mixing, texts, tags, own = streams(random_state, 5)

    words = _distributions(np.arange(1.0, d + 1) ** -ZIPF, rank, shares)
    labels = _distributions(np.arange(1.0, n_labels + 1) ** -imbalance, rank, shares)
    topics = mixing.standard_gamma(_TOPICS / rank, (n, rank)) + np.finfo(np.float64).tiny
    topics /= topics.sum(axis=1, keepdims=True)
    of_label = own.permutation(d)[np.arange(n_labels) % d]
    X_blocks, Y_blocks = [], []
    for start in range(0, n, _BLOCK_ROWS):
        part = topics[start : start + _BLOCK_ROWS]
        row, label = _drawn(part, labels, cardinality, tags)
        Y_blocks.append(_counts(row, label, (len(part), n_labels)))
        told = own.random(len(label)) < specific
        text, word = _drawn(part, words, n_words, texts)
        text, word = np.append(text, row[told]), np.append(word, of_label[label[told]])
        X_blocks.append(_counts(text, word, (len(part), d)))
    X, Y = (sparse.vstack(blocks, format="csr") for blocks in (X_blocks, Y_blocks))
    Y.data[:] = 1.0
    occurs = np.bincount(X.indices, minlength=d)
    X.data *= (1.0 - np.log(np.maximum(occurs, 1) / n))[X.indices]
    dataset = MultiLabelDataset(
        name="xmc",
        X=normalize(X, copy=False),
        Y=Y.astype(np.uint8),
        feature_names=NumberedNames("word", d),
        label_names=NumberedNames("label", n_labels),
        provenance=f"made by lrml.datasets.make_xmc, rank {rank}",
    )
    return dataset, TopicTruth(topics, labels)


def _check_mean(name: str, value: Any) -> float:
    if not is_real(value) or not 1 <= value < np.inf:
        raise ValueError(f"{name} must be a number of at least 1, got {value!r}. Pass a mean number per row.")
    return float(value)


def _distributions(popularity: Floats, rank: int, random: np.random.Generator) -> Floats:
    """Return distributions of ``rank`` topics (rows) that, on average, have the given proportions.

    Random affinities are scaled in turn, so that columns have their popularity and rows their sum (Sinkhorn).
    """
    shares = popularity / popularity.sum()
    table = random.standard_gamma(_FOCUS, (rank, len(shares)))
    table += 1e-9  # gamma variables of a small shape underflow
    for _ in range(_BALANCING):
        table *= rank * shares / table.sum(axis=0)
        table /= table.sum(axis=1, keepdims=True)
    return table


def _drawn(
    topics: Floats, table: Floats, mean: float, random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw 1 + Poisson(mean − 1) columns of the table for every row; return rows and columns."""
    sizes = 1 + random.poisson(mean - 1.0, len(topics))
    counts = random.multinomial(sizes, topics)
    rows, columns = [], []
    for topic, distribution in enumerate(table):
        row = np.repeat(np.arange(len(topics)), counts[:, topic])
        upper = np.cumsum(distribution)
        rows.append(row)
        columns.append(np.searchsorted(upper[:-1], random.random(len(row)) * upper[-1], side="right"))
    return np.concatenate(rows), np.concatenate(columns)


def _counts(rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, int]) -> sparse.csr_array:
    """Return how often each pair occurs."""
    # Most libraries expect 32-bit places.
    places = (rows.astype(np.int32), columns.astype(np.int32))
    found = sparse.csr_array((np.ones(len(rows)), places), shape=shape)
    found.sum_duplicates()
    return found
