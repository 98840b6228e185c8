"""Data that is made up: labels from coefficients of low rank, which are known, and short texts with tags."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from lrml.core.checks import check_integer, check_number
from lrml.datasets._dataset import Dataset, TextDataset

Floats = NDArray[np.float64]

_MOST = 0.9  # no label applies to a larger share of the rows, and no feature occurs in one
_BLOCK_CELLS = 2**22  # scores, or words of a text, that are in memory at one time


class LowRankTruth(NamedTuple):
    """The model behind synthetic data: scores are XW + 1bᵀ with W = U diag(s) Vᵀ.

    ``U`` (d, r) and ``V`` (L, r) have orthonormal columns, ``s`` descends, and ``intercept`` is b. Without
    noise a label applies where its score is positive.
    """

    U: Floats
    s: Floats
    V: Floats
    intercept: Floats

    @property
    def coef(self) -> Floats:
        """Wᵀ of shape (L, d), as scikit-learn has it: a new dense array at each call."""
        return np.asarray((self.V * self.s) @ self.U.T)

    def scores(self, X: Any) -> Floats:
        """Return the dense scores XW + 1bᵀ of some rows, shape (n, L)."""
        return np.asarray((X @ self.U) @ (self.V * self.s).T + self.intercept)


def make_low_rank_multilabel(
    n_samples: int = 1000,
    n_features: int = 100,
    n_labels: int = 50,
    *,
    rank: int = 5,
    cardinality: float = 3.0,
    noise: float = 0.0,
    density: float | None = None,
    random_state: Any = None,
) -> tuple[Dataset, LowRankTruth]:
    """Make multi-label data from coefficients of low rank.

    Label l applies to row i where ``(XW)_il + noise · sd_l · ε_il`` exceeds a threshold. W = U diag(s) Vᵀ, U
    and V are random with orthonormal columns, s_j is in proportion to ``exp(−j / 4)``, ε is standard normal,
    and sd_l is the standard deviation of the scores ``(XW)_l``. Nothing of size n × L is ever dense.

    Parameters
    ----------
    n_samples, n_features, n_labels : int, default=1000, 100, 50
        Number of rows n, of features d and of labels L.
    rank : int, default=5
        Rank r of W, at most min(d, L).
    cardinality : float, default=3.0
        Mean number of labels per row, more than 0 and less than 0.9 L. The share of the rows that label l has
        falls as ``(1 + l) ** −0.8``, from at most 0.9. Thresholds are those of normal scores, so data has
        these shares up to chance; with a ``density``, roughly.
    noise : float, default=0.0
        Standard deviation of the noise in units of that of the scores.
    density : float, default=None
        None makes X dense and standard normal. A float in (0, 1) makes X sparse, with about ``density · d``
        nonzeros per row, in the manner of text: popularity follows Zipf's law, values are tf-idf (count times
        ``1 − ln`` of the share of rows with the feature), and rows have norm 1.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same data at every call.

    Returns
    -------
    dataset : Dataset
        X as `density` says; Y always sparse.
    truth : LowRankTruth
        W as factors, and an intercept.

    Examples
    --------
    >>> from lrml.datasets import make_low_rank_multilabel
    >>> dataset, truth = make_low_rank_multilabel(200, 30, 10, rank=2, cardinality=1.5, random_state=0)
    >>> dataset
    <Dataset low_rank: X (200, 30) dense, Y (200, 10) sparse, no split>
    >>> bool(((truth.scores(dataset.X) > 0) == dataset.Y.toarray()).all())
    True
    """
    n, d = check_integer("n_samples", n_samples), check_integer("n_features", n_features)
    rank = check_integer("rank", rank, most=min(d, check_integer("n_labels", n_labels)))
    cardinality = check_number("cardinality", cardinality, 0, _MOST * n_labels, above=True)
    shares, noise = _falling_shares(n_labels, cardinality, 0.8), check_number("noise", noise)
    # A stream of numbers for each purpose, drawn row after row: so the size of a block changes nothing.
    seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32).tolist()
    rng, factors, errors = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))

    X: Any
    if density is None:
        X = rng.standard_normal((n, d))
    else:
        words = min(check_number("density", density, 0, 1, above=True), _MOST) * d
        X = _text(n, _falling_shares(d, words, 1.0), rng)  # Zipf's law
    U, V = (np.linalg.qr(factors.standard_normal((size, rank)))[0] for size in (d, n_labels))
    Z, s = X @ U, np.exp(-np.arange(rank) / 4)
    s *= math.sqrt(n_labels / (s**2 @ Z.var(axis=0) or 1.0))  # scores have variance 1 in the mean over labels
    Z *= s
    covariance = np.atleast_2d(np.cov(Z.T, bias=True))
    deviation = np.sqrt(np.einsum("lr,rq,lq->l", V, covariance, V))
    cut = V @ Z.mean(axis=0) - math.hypot(1.0, noise) * deviation * ndtri(shares)
    parts = []
    for rows in _blocks(n, n_labels):
        scores = Z[rows] @ V.T
        if noise:
            scores += noise * deviation * errors.standard_normal(scores.shape)
        parts.append(sparse.csr_array(scores > cut))
    Y = sparse.vstack(parts, format="csr").astype(np.int8)
    made = f"made by lrml.datasets.make_low_rank_multilabel, rank {rank}"
    return Dataset("low_rank", X, Y, provenance=made), LowRankTruth(U, s, V, -cut)


def _blocks(n: int, row_cells: float) -> Iterator[slice]:
    """Slices of rows that together have about `_BLOCK_CELLS` cells."""
    size = max(1, int(_BLOCK_CELLS / max(row_cells, 1.0)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _text(n: int, present: Floats, rng: np.random.Generator) -> sparse.csr_array:
    """Make tf-idf rows in which feature f occurs with probability ``present[f]``."""
    upper = np.cumsum(-np.log1p(-present))  # a Poisson number with mean −ln(1 − p) is positive with chance p
    lengths = rng.poisson(upper[-1], n)
    blocks = []
    for rows in _blocks(n, upper[-1]):
        indptr = np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int32)
        words = np.searchsorted(upper, rng.random(indptr[-1]) * upper[-1], side="right")
        indices = np.minimum(words, present.size - 1).astype(np.int32)
        shape = (indptr.size - 1, present.size)
        block = sparse.csr_array((np.ones(indices.size), indices, indptr), shape=shape)
        block.sum_duplicates()
        block.data *= (1 - np.log(present))[block.indices]
        blocks.append(normalize(block, copy=False))
    stacked: sparse.csr_array = sparse.vstack(blocks, format="csr")
    return stacked


def _falling_shares(count: int, total: float, exponent: float) -> Floats:
    """Shares ``min(_MOST, c · (1 + i) ** −exponent)``, i < count, with c such that they add up to `total`."""
    falling = np.arange(1.0, count + 1) ** -exponent
    rest = np.cumsum(falling[::-1])[::-1]
    c = (total - _MOST * np.arange(count)) / rest  # if the first 0, 1, 2, … shares are cut off at the most
    cut_off = int(np.argmax(c * falling <= _MOST * (1 + 1e-12)))
    shares: Floats = np.minimum(_MOST, c[cut_off] * falling)
    return shares


def make_tagged_texts(
    n_texts: int = 1000, *, random_state: int | np.random.RandomState | None = 0
) -> TextDataset:
    """Make short texts about one to three of twelve topics, each also a question, a how-to or a report.

    The tags are the topics of a text and its kind, 15 in all. Some topics share words, and some sentences
    come from another topic, so that no model is perfect. The same ``random_state`` gives the same texts.

    Examples
    --------
    >>> from lrml.datasets import make_tagged_texts
    >>> texts = make_tagged_texts(200)
    >>> texts
    <TextDataset tagged texts: 200 texts, 15 tags>
    >>> texts.tags[0]
    ('history', 'sailing', 'question')
    """
    check_integer("n_texts", n_texts)
    rng = check_random_state(random_state)
    made = tomllib.loads(resources.files("lrml.datasets").joinpath("texts.toml").read_text("utf-8"))
    words, patterns = (
        {topic: listed.split(", ") for topic, listed in made["topics"].items()},
        made["sentences"],
    )
    names, kinds = list(words), list(patterns)
    texts, tags = [], []
    for _ in range(n_texts):
        topics = [names[place] for place in rng.choice(len(names), 1 + rng.binomial(2, 0.3), replace=False)]
        kind = kinds[rng.randint(len(kinds))]
        sentences = []
        for number in range(rng.randint(2, 6)):
            topic = (
                topics[number % len(topics)] if rng.random_sample() < 0.9 else names[rng.randint(len(names))]
            )
            pattern = patterns[kind][rng.randint(len(patterns[kind]))]
            chosen = rng.choice(words[topic], 2, replace=False)
            sentences.append(pattern.format(*chosen))
        texts.append(" ".join(sentences))
        tags.append((*topics, kind))
    return TextDataset("tagged texts", texts, tags, provenance="made by lrml.datasets.make_tagged_texts")
