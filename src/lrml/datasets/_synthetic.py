"""Data that is made up: labels from coefficients of low rank, which are known, and short texts with tags."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from lrml.core.checks import check_integer, is_integer, is_real
from lrml.datasets._dataset import Dataset, FeatureMatrix, NumberedNames, TextDataset

Floats = NDArray[np.float64]

_MOST = 0.9  # no label applies to a larger share of the rows
_ALWAYS = 0.999  # no feature occurs in a larger share of the rows
_LEAST = 1e-13  # the smallest singular value, relative to the largest
_BLOCK_CELLS = 2**22  # scores, or words of a text, that are in memory at one time
_SAMPLE_CELLS = 20_000_000  # scores from which the thresholds are taken
_SAMPLE_ROWS = 5_000  # at least so many rows for that, where there are as many


@dataclass(frozen=True, eq=False, repr=False)
class LowRankTruth:
    """The model behind synthetic data: a label applies where XW + 1bᵀ is positive, with W = U diag(s) Vᵀ.

    ``U`` (d, r) and ``V`` (L, r) have orthonormal columns, ``s`` descends, ``intercept`` is b, and
    ``Y_clean`` has the labels before noise and before any were hidden.
    """

    U: Floats
    s: Floats
    V: Floats
    intercept: Floats
    Y_clean: sparse.csr_array

    def __repr__(self) -> str:
        return f"<LowRankTruth: {self.U.shape[0]} features, {self.V.shape[0]} labels, rank {self.s.size}>"

    @property
    def coef(self) -> Floats:
        """Wᵀ of shape (L, d), as scikit-learn has it: a new dense array at each call."""
        return np.asarray((self.V * self.s) @ self.U.T)

    def scores(self, X: FeatureMatrix) -> Floats:
        """Return the dense scores XW + 1bᵀ of some rows, shape (n, L)."""
        return np.asarray((X @ self.U) @ (self.V * self.s).T + self.intercept)


def make_low_rank_multilabel(
    n_samples: int = 1000,
    n_features: int = 100,
    n_labels: int = 50,
    *,
    rank: int = 5,
    decay: float = 0.25,
    cardinality: float = 3.0,
    imbalance: float = 0.8,
    noise: float = 0.0,
    missing: float = 0.0,
    density: float | None = None,
    random_state: Any = None,
) -> tuple[Dataset, LowRankTruth]:
    """Make multi-label data from coefficients of low rank.

    Label l applies to row i where ``(XW)_il + noise · sd_l · ε_il`` exceeds a threshold t_l, with
    W = U diag(s) Vᵀ of rank r, U and V random with orthonormal columns, ε standard normal and sd_l the
    standard deviation of the scores ``(XW)_l``. Nothing of size n × L is ever dense.

    Parameters
    ----------
    n_samples, n_features, n_labels : int, default=1000, 100, 50
        Number of rows n, of features d and of labels L.
    rank : int, default=5
        Rank r of W, at most min(d, L).
    decay : float, default=0.25
        Singular values are in proportion to ``exp(−decay · j)``, j = 0, …, r − 1, and scaled so that the
        scores have variance 1 in the mean over the labels.
    cardinality : float, default=3.0
        Mean number of labels per row, more than 0 and at most 0.9 L. Without noise it is met exactly where
        the thresholds come from all rows (n at most 5,000, or n · L at most 2e7), else to a few percent.
    imbalance : float, default=0.8
        The frequency of the labels falls as ``(1 + l) ** −imbalance``, but does not exceed 0.9; at most 10.
    noise : float, default=0.0
        Standard deviation of the noise in units of that of the scores. The thresholds move along, as for
        normal scores, so the cardinality stays the same.
    missing : float, default=0.0
        Share in [0, 1) of the labels that are hidden: 0 in ``Y`` and True in ``unknown`` of the dataset.
    density : float, default=None
        None makes X dense and standard normal. A float in (0, 1] makes X sparse, with about ``density · d``
        nonzeros per row, in the manner of text: popularity follows Zipf's law, values are tf-idf (count times
        ``1 − ln`` of the share of rows with the feature), and rows have norm 1.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same data at every call.

    Returns
    -------
    dataset : Dataset
        X as `density` says; Y always sparse.
    truth : LowRankTruth
        W as factors, the intercept −t, and the labels before noise and hiding.

    Examples
    --------
    >>> from lrml.datasets import make_low_rank_multilabel
    >>> dataset, truth = make_low_rank_multilabel(200, 30, 10, rank=2, cardinality=1.5, random_state=0)
    >>> dataset
    <Dataset low_rank: X (200, 30) dense, Y (200, 10) sparse, no split>
    >>> truth
    <LowRankTruth: 30 features, 10 labels, rank 2>
    >>> int(dataset.Y.sum()), bool(((truth.scores(dataset.X) > 0) == dataset.Y.toarray()).all())
    (300, True)
    """
    n, d, most = n_samples, n_features, min(n_features, n_labels)
    counts = (n, d, n_labels, rank)
    if not all(is_integer(count) and count >= 1 for count in counts) or rank > most:
        raise ValueError(
            f"{n} rows, {d} features and {n_labels} labels cannot have coefficients of rank {rank}. Pass "
            "positive counts, and a rank of at most the smaller of features and labels."
        )
    shape = np.exp(-_within("decay", decay, 0, np.inf) * np.arange(rank))
    if shape[-1] < _LEAST:
        raise ValueError(f"decay is {decay}, which leaves nothing of {rank} singular values. Lower one.")
    labels_per_row = _within("cardinality", cardinality, 0, _MOST * n_labels, above=True)
    shares = _skewed_shares(n_labels, labels_per_row, _within("imbalance", imbalance, 0, 10), _MOST)
    noise, missing = _within("noise", noise, 0, np.inf), _within("missing", missing, 0, _ALWAYS)
    features_per_row = None
    if density is not None:
        features_per_row = min(_within("density", density, 0, 1, above=True), _ALWAYS) * d
    lengths, entries, factors, errors, hiding = _streams(random_state, 5)

    X: FeatureMatrix
    if features_per_row is None:
        X = entries.standard_normal((n, d))
    else:
        X = _text(n, _skewed_shares(d, features_per_row, 1.0, _ALWAYS), lengths, entries)  # Zipf's law
    U, V = (np.linalg.qr(factors.standard_normal((size, shape.size)))[0] for size in (d, n_labels))
    Z = X @ U
    n_sample = min(n, max(_SAMPLE_ROWS, _SAMPLE_CELLS // n_labels))
    variances = np.ones(shape.size) if density is None else Z[:n_sample].var(axis=0)
    s = shape * math.sqrt(n_labels / (float(shape**2 @ variances) or 1.0))
    Z *= s
    cut = _thresholds(Z[:n_sample], V, shares, exact=n_sample == n)
    noisy_cut, scale = _with_noise(Z[:n_sample], V, cut, noise)
    Y_clean, Y, unknown = _labels(Z, V, cut, noisy_cut, scale, missing, errors, hiding)
    dataset = Dataset(
        name="low_rank",
        X=X,
        Y=Y,
        feature_names=NumberedNames("feature", d),
        label_names=NumberedNames("label", n_labels),
        provenance=f"made by lrml.datasets.make_low_rank_multilabel, rank {s.size}",
        unknown=unknown,
    )
    return dataset, LowRankTruth(U, s, V, -cut, Y_clean)


def _streams(random_state: Any, count: int) -> list[np.random.Generator]:
    """One stream of numbers for each purpose, drawn row after row: so the size of a block changes nothing."""
    seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed.tolist()).spawn(count)]


def _blocks(n: int, row_cells: float) -> Iterator[slice]:
    """Slices of rows that together have about `_BLOCK_CELLS` cells."""
    size = max(1, int(_BLOCK_CELLS / max(row_cells, 1.0)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _text(
    n: int, present: Floats, lengths: np.random.Generator, words: np.random.Generator
) -> sparse.csr_array:
    """Make tf-idf rows in which feature f occurs with probability ``present[f]``."""
    upper = np.cumsum(-np.log1p(-present))  # a Poisson number with mean −ln(1 − p) is positive with chance p
    idf, d = 1 - np.log(present), present.size
    blocks = []
    for rows in _blocks(n, upper[-1]):
        counts = lengths.poisson(upper[-1], rows.stop - rows.start)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        found = np.searchsorted(upper, words.random(indptr[-1]) * upper[-1], side="right")
        indices = np.minimum(found, d - 1).astype(np.int32)
        block = sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(counts.size, d))
        block.sum_duplicates()
        block.data *= idf[block.indices]
        blocks.append(normalize(block, copy=False))
    stacked: sparse.csr_array = sparse.vstack(blocks, format="csr")
    return stacked


def _thresholds(Z: Floats, V: Floats, shares: Floats, *, exact: bool) -> Floats:
    """Return the score, of scores Z Vᵀ, that a share of the rows exceeds, for each label.

    If these are all rows (`exact`), whole numbers of rows exceed the thresholds, which lie half-way to the
    next row, and they add up to Σ shares · m, rounded. Otherwise other rows meet the shares on average.
    """
    m = Z.shape[0]
    # A new score exceeds the i-th largest of m with chance i / (m + 1).
    place = np.diff(np.round(np.cumsum(shares * m)), prepend=0.0) + 0.5 if exact else shares * (m + 1)
    cut = np.empty(shares.size)
    for labels in _blocks(shares.size, m):
        scores = np.sort(V[labels] @ Z.T, axis=1)[:, ::-1]
        deviation = scores.std(axis=1)
        deviation[deviation == 0] = 1.0  # all equal: any threshold above will do
        scores = np.column_stack([scores, scores[:, -1] - 1.0])  # a threshold below all of them
        above = np.maximum(place[labels].astype(np.int64), 1) - 1
        higher, lower = (np.take_along_axis(scores, (above + i)[:, None], axis=1)[:, 0] for i in (0, 1))
        # Not at a score itself, where rounding would decide its label.
        within = higher + np.clip(place[labels] % 1.0, 0.05, 0.95) * (lower - higher)
        # Nor among equal rows, as of texts of one word: none of them exceeds it.
        within = np.where(higher - lower > 1e-9 * deviation, within, higher + 1e-9 * deviation)
        # Rarer than once in m rows: as far beyond the largest score as it would be for normal scores.
        further = ndtri(1 / (m + 1)) - ndtri(np.minimum(place[labels], 1) / (m + 1))
        cut[labels] = np.where(place[labels] < 1, higher + deviation * further, within)
    return cut


def _with_noise(Z: Floats, V: Floats, cut: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return thresholds that normal scores with noise exceed as often as `cut` without, and its scale."""
    mean = V @ Z.mean(axis=0)
    centred = Z - Z.mean(axis=0)
    deviation = np.sqrt(np.sum((V @ (centred.T @ centred / Z.shape[0])) * V, axis=1))
    return mean + math.hypot(1.0, noise) * (cut - mean), noise * deviation


def _labels(
    Z: Floats,
    V: Floats,
    cut: Floats,
    noisy_cut: Floats,
    scale: Floats,
    missing: float,
    errors: np.random.Generator,
    hiding: np.random.Generator,
) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array | None]:
    """Return the clean labels, those to be shown, and where the latter are unknown."""
    clean, shown, hidden = [], [], []
    for rows in _blocks(Z.shape[0], V.shape[0]):
        scores = Z[rows] @ V.T
        labels = scores > cut
        clean.append(sparse.csr_array(labels))
        if np.any(scale):
            scores += scale * errors.standard_normal(scores.shape)
            labels = scores > noisy_cut
        if missing:
            hide = hiding.random(scores.shape) < missing
            labels &= ~hide
            hidden.append(sparse.csr_array(hide))
        shown.append(sparse.csr_array(labels))
    Y_clean, Y = (sparse.vstack(blocks, format="csr").astype(np.int8) for blocks in (clean, shown))
    return Y_clean, Y, sparse.vstack(hidden, format="csr") if hidden else None


def _within(name: str, value: Any, low: float, high: float, *, above: bool = False) -> float:
    """Return a number in [low, high], or above low."""
    if not is_real(value):
        raise TypeError(f"{name} is {value!r}, which is no number.")
    if not low <= value <= high or (above and value == low) or np.isinf(value):
        raise ValueError(
            f"{name} is {value}. Pass a finite number {'above' if above else 'from'} {low} to {high:g}."
        )
    return float(value)


def _skewed_shares(count: int, total: float, exponent: float, most: float) -> Floats:
    """Shares ``min(most, c · (1 + i) ** −exponent)``, i < count, with c such that they add up to `total`."""
    falling = np.arange(1.0, count + 1) ** -exponent
    rest = np.cumsum(falling[::-1])[::-1]
    c = (total - most * np.arange(count)) / rest  # if the first 0, 1, 2, … shares are cut off at `most`
    cut_off = int(np.argmax(c * falling <= most * (1 + 1e-12)))
    shares: Floats = np.minimum(most, c[cut_off] * falling)
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
