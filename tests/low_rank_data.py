"""Labels from coefficients of low rank, of dense rows or of rows like those of texts."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.preprocessing import normalize

from lrml.datasets import Dataset

MOST = 0.9  # no label applies to a larger share of the rows, and no feature occurs in one


def make_low_rank_labels(n, d, n_labels, *, rank=5, cardinality=3.0, noise=0.0, density=None, random_state=0):
    """Make a label apply where XW, with noise, exceeds a threshold; shares of labels fall as (1 + l)^−0.8."""
    seed = np.random.RandomState(random_state).randint(2**32, size=4, dtype=np.uint32).tolist()
    rng, factors, errors = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))
    shares = falling_shares(n_labels, cardinality, 0.8)
    if density is None:
        X = rng.standard_normal((n, d))
    else:
        X = tf_idf(n, falling_shares(d, min(density, MOST) * d, 1.0), rng)  # Zipf's law
    U, V = (np.linalg.qr(factors.standard_normal((size, rank)))[0] for size in (d, n_labels))
    Z, s = X @ U, np.exp(-np.arange(rank) / 4)
    Z *= s * math.sqrt(n_labels / (s**2 @ Z.var(axis=0)))
    covariance = np.atleast_2d(np.cov(Z.T, bias=True))
    deviation = np.sqrt(np.einsum("lr,rq,lq->l", V, covariance, V))
    cut = V @ Z.mean(axis=0) - math.hypot(1.0, noise) * deviation * ndtri(shares)
    scores = Z @ V.T
    if noise:
        scores += noise * deviation * errors.standard_normal(scores.shape)
    return Dataset("low_rank", X, sparse.csr_array(scores > cut).astype(np.int8))


def tf_idf(n, present, rng):
    """Make rows of unit length in which feature f occurs with probability ``present[f]``."""
    upper = np.cumsum(-np.log1p(-present))  # a Poisson number with mean −ln(1 − p) is positive with chance p
    indptr = np.concatenate([[0], np.cumsum(rng.poisson(upper[-1], n))])
    words = np.searchsorted(upper, rng.random(indptr[-1]) * upper[-1], side="right")
    X = sparse.csr_array((np.ones(words.size), np.minimum(words, present.size - 1), indptr))
    X.resize(n, present.size)
    X.sum_duplicates()
    X.data *= (1 - np.log(present))[X.indices]
    return normalize(X)


def falling_shares(count, total, exponent):
    """Shares min(MOST, c · (1 + i)^−exponent), i < count, with c such that they add up to a total."""
    falling = np.arange(1.0, count + 1) ** -exponent
    rest = np.cumsum(falling[::-1])[::-1]
    c = (total - MOST * np.arange(count)) / rest  # if the first 0, 1, 2, … shares are cut off at the most
    cut_off = int(np.argmax(c * falling <= MOST * (1 + 1e-12)))
    return np.minimum(MOST, c[cut_off] * falling)
