"""Local Rademacher complexity: by Monte Carlo, between members of the class and a dual bound, and its bounds.

In the principal axes of the data the class without a tail is {W : ‖W‖²_F ≤ λ², Σ_j s_j ‖w_j‖² ≤ r}, w_j the
rows of W: a ball cut with an ellipsoid. Every mixture of the two constraints is an ellipsoid around it:

    Σ_j D_j(t) ‖w_j‖² ≤ 1,    D_j(t) = t/λ² + (1 − t) s_j/r,    0 ≤ t ≤ 1,

so ⟨M, W⟩ ≤ ‖D(t)^(−1/2) M‖_F for every t, and by convex duality the least of these values is attained. If W
has rank at most k, then so has D^(1/2) W, and only the k largest singular values of D(t)^(−1/2) M count. The
square of either is convex in t (an inverse is operator convex), so bisection on the slope finds its least
value. Whatever t comes out, the value there is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrml._arrays import descending_eigh, thin_svd
from lrml._checks import check_nonnegative
from lrml.theory._data import (
    Ball,
    Bound,
    LocalComplexity,
    Matrix,
    MonteCarlo,
    Signs,
    Spectrum,
    Vector,
    check_class,
    check_count,
    check_eigenvalues,
    check_positive,
    sign_blocks,
)
from lrml.theory._global import global_bound

_BISECTIONS = 50
_RANK_BISECTIONS = 30  # each takes an eigendecomposition; t is known to 1e-9 then
_ROUNDS = 12
_NEGLIGIBLE = 1e-9  # of the largest trace norm: a smaller tail is not worth the search
_CUTS = np.array([1.0, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6])
_WEIGHT_STEPS = 40
_FLOOR = 1e-3  # a direction that W does not use yet must stay available
_CHEVET = math.sqrt(math.pi / 2)


@dataclass(frozen=True, eq=False)
class LocalBall:
    """The set {W : ‖W‖_F ≤ radius, Σ_j s_j ‖w_j‖² ≤ r} in the principal axes of the data; all s_j > 0."""

    eigenvalues: Vector
    radius: float
    r: float

    def weights(self, t: float | Matrix) -> Matrix:
        """Return D_j(t)."""
        return np.asarray(t / self.radius**2 + (1.0 - t) * self.eigenvalues / self.r)

    def support(self, squares: Matrix) -> tuple[Vector, Vector]:
        """Return max ⟨M, W⟩ over the set and the t that proves it, from the squared rows ‖m_j‖² of many M."""
        slope = 1.0 / self.radius**2 - self.eigenvalues / self.r
        low, high = np.zeros((len(squares), 1)), np.ones((len(squares), 1))
        for _ in range(_BISECTIONS):
            t = (low + high) / 2
            falling = np.sum(squares * slope / self.weights(t) ** 2, axis=1, keepdims=True) > 0
            low, high = np.where(falling, t, low), np.where(falling, high, t)
        t = (low + high) / 2
        return np.sqrt(np.sum(squares / self.weights(t), axis=1)), t[:, 0]

    def maximiser(self, M: Matrix) -> Matrix:
        """Return a member of the set where ⟨M, W⟩ is largest (to rounding)."""
        _, t = self.support(np.sum(M**2, axis=1)[None, :])
        return self.into(M / self.weights(float(t[0]))[:, None])

    def into(self, W: Matrix) -> Matrix:
        """Scale W so that it touches the border of the set."""
        squares = np.sum(W**2, axis=1)
        size = max(float(squares.sum()) / self.radius**2, float(squares @ self.eigenvalues) / self.r)
        return W / math.sqrt(size) if size > 0 else W

    def rank_support(self, M: Matrix, rank: int) -> tuple[float, Matrix]:
        """Bound ⟨M, W⟩ from above over the members of rank at most ``rank``, and return one that is good.

        The best W with a given row space V is the maximiser for MVVᵀ. V holds the right singular vectors at
        the optimal t. The bound is attained where singular values number ``rank`` and ``rank`` + 1 differ.
        """
        slope = 1.0 / self.radius**2 - self.eigenvalues / self.r
        low, high, best = 0.0, 1.0, math.inf
        V = np.zeros((M.shape[1], 0))
        for _ in range(_RANK_BISECTIONS):
            t = (low + high) / 2
            weights = self.weights(t)
            value, V = _top_right(M / np.sqrt(weights)[:, None], rank)
            best = min(best, value)
            falling = float(np.sum((M @ V) ** 2, axis=1) @ (slope / weights**2)) > 0
            low, high = (t, high) if falling else (low, t)
        return best, self.maximiser(M @ V) @ V.T


def _top_right(A: Matrix, rank: int) -> tuple[float, Matrix]:
    """Return the root of the sum of the ``rank`` largest σ², and their right singular vectors."""
    if A.shape[0] >= A.shape[1]:
        squares, V = descending_eigh(A.T @ A)
        return math.sqrt(max(0.0, float(squares[:rank].sum()))), V[:, :rank]
    squares, U = descending_eigh(A @ A.T)
    kept = min(rank, int(np.count_nonzero(squares > squares[0] * len(squares) * np.finfo(np.float64).eps)))
    roots = np.sqrt(squares[:kept])
    return math.sqrt(max(0.0, float(squares[:rank].sum()))), (A.T @ U[:, :kept]) / roots


def local_complexity(
    X: Any,
    n_labels: int,
    r: float,
    *,
    theta: int = 0,
    tail: float = math.inf,
    radius: float = 1.0,
    signs: Signs = "entry",
    n_draws: int = 20,
    random_state: Any = None,
) -> LocalComplexity:
    """Bracket the local Rademacher complexity of linear multi-label predictors, given X.

    ::

        E_Σ sup (1/n) ⟨XᵀΣ, W⟩   over   ‖W‖_F ≤ λ,   (1/n) ‖XW‖²_F ≤ r,   Σ_{j>theta} σ_j(W) ≤ τ

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d), or Spectrum
        A `Spectrum` saves the decomposition if several classes are computed.
    n_labels : int
        L.
    r : float
        Bound on the mean of ‖Wᵀx_i‖² over the examples, above 0.
    theta : int, default=0
        Singular values that the tail leaves out.
    tail : float, default=inf
        τ. Infinity drops this constraint, and 0 means rank at most theta.
    radius : float, default=1.0
        λ. The trace-norm ball of radius λ is ``theta=0, tail=λ, radius=λ``: it lies in the Frobenius ball.
    signs : {"entry", "example"}, default="entry"
        As in `global_complexity`.
    n_draws : int, default=20
    random_state : int, Generator or None, default=None

    Returns
    -------
    LocalComplexity
        ``lower`` and ``upper``. Without the tail they agree up to rounding.

    Notes
    -----
    The Frobenius norm is the one that the paper's proof needs. With a tail and theta > 0 the class is not
    convex. If P projects on the top theta right singular vectors of W, then WP has rank at most theta and
    W(I − P) a trace norm of at most τ; so ::

        sup ≤ min{ sup without tail,  sup over rank ≤ theta + min_A (sup ⟨A, W⟩ without tail + τ‖M − A‖) },

    M = XᵀΣ/n. The lower value is the best of the members that were found: one of rank theta, and others by
    alternating maximisation. For τ = 0 both values agree unless singular values tie. docs/theory.md says how
    far apart they are otherwise.

    Examples
    --------
    >>> found = local_complexity([[1.0]], 1, r=0.25, n_draws=2, random_state=0)
    >>> round(found.lower.mean, 9), round(found.upper.mean, 9)
    (0.5, 0.5)
    """
    check_class("frobenius", signs)
    labels, draws = check_count("n_labels", n_labels), check_count("n_draws", n_draws)
    free = check_count("theta", theta)
    limit = tail if tail == math.inf else check_nonnegative("tail", tail, "Use math.inf for no limit.")
    scale, moment = check_positive("radius", radius), check_positive("r", r)
    spectrum = X if isinstance(X, Spectrum) else Spectrum.of(X)
    ball = LocalBall(spectrum.eigenvalues, scale, moment)
    columns = 1 if signs == "example" else labels
    rng = np.random.default_rng(random_state)
    lower, upper = [], []
    for block in sign_blocks(spectrum.n_examples, columns, len(spectrum.sides), draws, rng):
        products = spectrum.coordinates(block)
        for first in range(0, products.shape[1], columns):
            M = products[:, first : first + columns]
            # (Xᵀσ)1ᵀ is √L times a matrix of one column, up to a rotation of the labels.
            below, above = bracket(M * math.sqrt(labels / columns), ball, free, limit)
            lower.append(below)
            upper.append(above)
    return LocalComplexity(MonteCarlo.of(np.array(lower)), MonteCarlo.of(np.array(upper)))


def bracket(M: Matrix, ball: LocalBall, theta: int, tail: float) -> tuple[float, float]:
    """Return the value of a member of the class and an upper bound on all of them."""
    values, _ = ball.support(np.sum(M**2, axis=1)[None, :])
    everything = float(values[0])
    best = ball.maximiser(M)
    most = math.sqrt(min(M.shape)) * ball.radius  # no member of the ball has a larger trace norm
    if tail >= most or theta >= min(M.shape):
        return _value(M, best), everything
    ranked, low_rank = ball.rank_support(M, theta) if theta else (0.0, np.zeros_like(M))
    if tail == 0:
        return _value(M, low_rank), min(everything, ranked)
    U, s, Vt = thin_svd(M)
    # One direction more than are free: the answer where the tail is short.
    steep = with_tail(ball.rank_support(M, theta + 1)[1], theta, tail)
    pair = with_tail(ball.into(np.outer(U[:, 0], Vt[0])), theta, tail)
    members, rest = [low_rank, steep, pair], tail * float(s[0])
    if tail > _NEGLIGIBLE * most:
        member, bound = ascend(M, with_tail(best, theta, tail), ball, theta, tail)
        members.append(member)
        if theta:
            members.append(ascend(M, low_rank, ball, theta, tail)[0])
            # Without its top theta directions, W has trace norm at most τ.
            bound = ascend(M, with_tail(best, 0, tail), ball, 0, tail)[1]
        rest = min(rest, bound)
    return max(_value(M, W) for W in members), min(everything, ranked + rest)


def _value(M: Matrix, W: Matrix) -> float:
    return float(np.sum(M * W))


def ascend(M: Matrix, W: Matrix, ball: LocalBall, theta: int, tail: float) -> tuple[Matrix, float]:
    """Improve a member of the class; for theta = 0 also bound all of them from above.

    For orthonormal v_j and positive q_j with sum τ over j > theta, Σ_{j>theta} σ_j(W) is at most
    ½ Σ_{j>theta} (‖W v_j‖²/q_j + q_j). So Σ_{j>theta} ‖W v_j‖²/(q_j τ) ≤ 1 describes members of the class,
    the last W among them if v_j and q_j are its own. Over three such quadratic constraints ⟨M, W⟩ is largest
    at WV = MV / (t₁/λ² + t₂ s_i/r + t₃/(q_j τ)), entry by entry and up to a factor, with weights t that the
    multiplicative method t_i ← t_i √(use of constraint i) finds. B is the part that the trace norm pays for.
    """
    bound, size = math.inf, ball.eigenvalues[:, None] / ball.r
    for _ in range(_ROUNDS):
        _, s, Vt = thin_svd(W)
        q = s[theta:] + _FLOOR * tail / (s.size - theta)
        price = np.concatenate([np.zeros(theta), q.sum() / (q * tail**2)])
        N, t = M @ Vt.T, np.full(3, 1 / 3)
        for _ in range(_WEIGHT_STEPS):
            Z = N / (t[0] / ball.radius**2 + t[1] * size + t[2] * price)
            uses = np.array([np.sum(Z**2) / ball.radius**2, np.sum(Z**2 * size), np.sum(Z**2 * price)])
            t = t * np.sqrt(uses)
            t /= t.sum()
        W = (Z / math.sqrt(uses.max())) @ Vt
        if theta == 0:
            B = (t[2] * price * N / (t[0] / ball.radius**2 + t[1] * size + t[2] * price)) @ Vt
            bound = min(bound, _split_bound(M, B, ball, tail))
    return W, bound


def _split_bound(M: Matrix, B: Matrix, ball: LocalBall, tail: float) -> float:
    """Bound ⟨M, W⟩ over the members of trace norm at most τ by the ball's maximum of ⟨M − B, W⟩ plus τ‖B‖.

    This holds for every B, so the largest singular values of the given one are cut at several heights.
    """
    U, s, Vt = thin_svd(B)
    cut = np.minimum(s, s[0] * _CUTS[:, None])
    squares = [np.sum((M - (U * values) @ Vt) ** 2, axis=1) for values in cut]
    return float(np.min(ball.support(np.array(squares))[0] + tail * cut[:, 0]))


def with_tail(W: Matrix, theta: int, tail: float) -> Matrix:
    """Shrink the singular values after the first theta until their sum is at most ``tail``.

    This multiplies W from the right by a contraction, so neither ‖W‖_F nor ‖XW‖_F grows.
    """
    U, s, Vt = thin_svd(W)
    rest = s[theta:]
    if rest.sum() <= tail:
        return W
    # Small values vanish first: find k such that cutting the k largest values brings their sum to ``tail``.
    cuts = (np.cumsum(rest) - tail) / np.arange(1, rest.size + 1)
    shrunk = np.concatenate([s[:theta], np.clip(rest - cuts.max(), 0.0, None)])
    return np.asarray((U * shrunk) @ Vt)


def local_bound(
    eigenvalues: Any,
    n_examples: int,
    n_labels: int,
    r: float,
    *,
    ball: Ball = "frobenius",
    radius: float = 1.0,
    theta: int = 0,
    tail: float = math.inf,
    signs: Signs = "entry",
    head_size: int | None = None,
) -> Bound:
    """Bound the local complexity of linear multi-label predictors by the eigenvalues s_j of S = XᵀX/n.

    The class is {W : ‖W‖ ≤ λ, (1/n)‖XW‖²_F ≤ r}, for the Frobenius, the trace or the operator norm. For every
    number h of leading eigenvalues ::

        E sup ≤ √(r h L / n) + λ G(s_{h+1}, s_{h+2}, …)

    where G is `global_bound` of the unit ball; for the Frobenius ball λ√((L/n) Σ_{j>h} s_j). The best h is
    taken. With the further constraint Σ_{j>theta} σ_j(W) ≤ τ, for the Frobenius ball, also ::

        E sup ≤ √(r/n) min{√(hL), c_h} + λ min{√((L/n) Σ_{j>h} s_j), √theta G_trace(s_{h+1}, …)}
                + τ G_trace(s_1, s_2, …),         c_h = √(theta π/2) (√h + √L),

    which has theta (h + L) where the first line has hL, and the smaller of the two is returned.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j, in any order; zeros may be left out.
    n_examples, n_labels : int
    r : float
        Bound on the mean of ‖Wᵀx_i‖² over the examples.
    ball : {"frobenius", "trace", "operator"}, default="frobenius"
    radius : float, default=1.0
        λ.
    theta : int, default=0
    tail : float, default=inf
        τ. A finite one needs the Frobenius ball.
    signs : {"entry", "example"}, default="entry"
        With one sign per example, XᵀΣ has rank one and a small theta does not help.
    head_size : int, optional
        h; the best one by default.

    Returns
    -------
    Bound
        With the terms "head", "rest of the data" and, if it is used, "tail of W".

    Notes
    -----
    Assumptions: independent signs; nothing on X. docs/theory.md has the proof: the argument of Mendelson
    (2002) for kernel classes, and of Yousefi et al. (2018) for several tasks, written for one X.

    Examples
    --------
    >>> bound = local_bound([1.0, 0.01], n_examples=100, n_labels=1, r=0.16)
    >>> bound.head_size, {name: round(term, 6) for name, term in bound.terms.items()}
    (1, {'head': 0.04, 'rest of the data': 0.01})
    """
    check_class(ball, signs)
    s = check_eigenvalues(eigenvalues)
    scale, moment = check_positive("radius", radius), check_positive("r", r)
    n, labels = check_count("n_examples", n_examples), check_count("n_labels", n_labels)
    if tail != math.inf and ball != "frobenius":
        raise ValueError(f"a finite tail needs ball='frobenius', got ball={ball!r}. Leave tail out.")
    if head_size is not None and check_count("head_size", head_size) > s.size:
        raise ValueError(
            f"head_size must be in [0, {s.size}] (the number of eigenvalues), got {head_size}. "
            "Leave it out for the best one."
        )
    heads = range(s.size + 1) if head_size is None else (head_size,)
    candidates = []
    for h in heads:
        rest = global_bound(s[h:], n, labels, ball=ball, radius=scale, signs=signs).value
        terms = {"head": math.sqrt(moment * h * labels / n), "rest of the data": rest}
        candidates.append(Bound(terms, h))
    if tail != math.inf:
        root = math.sqrt(check_count("theta", theta))
        limit = check_nonnegative("tail", tail, "Use math.inf for no limit.")
        of_w = global_bound(s, n, labels, ball="trace", signs=signs).value * limit
        for h in heads:  # the top theta directions of W have rank theta
            frobenius = global_bound(s[h:], n, labels, ball="frobenius", signs=signs).value
            operator = global_bound(s[h:], n, labels, ball="trace", signs=signs).value
            head = math.sqrt(h * labels) if root else 0.0
            if signs == "entry" and h:
                head = min(head, root * _CHEVET * (math.sqrt(h) + math.sqrt(labels)))
            terms = {"head": math.sqrt(moment / n) * head}
            terms |= {"rest of the data": scale * min(frobenius, root * operator), "tail of W": of_w}
            candidates.append(Bound(terms, h))
    return min(candidates, key=lambda bound: bound.value)


def local_dual_bound(
    eigenvalues: Any, n_examples: int, n_labels: int, r: float, *, radius: float = 1.0
) -> Bound:
    """Tightest bound of its kind on the local complexity of the Frobenius ball, for every X.

    ::

        E sup ≤ min_{0≤t≤1} √((L/n) Σ_j s_j / (t/λ² + (1−t) s_j/r)) ≤ √((2L/n) Σ_j min(r, λ² s_j))

    The squared coordinates of XᵀΣ/n are replaced by their means L s_j/n (Jensen's inequality). It never
    exceeds `local_bound` without a tail.

    Parameters
    ----------
    eigenvalues, n_examples, n_labels, r, radius
        As in `local_bound`.

    Returns
    -------
    Bound
        One term. Both readings of the signs have the same means, hence the same bound.

    Examples
    --------
    >>> round(local_dual_bound([1.0], n_examples=100, n_labels=1, r=0.04).value, 9)
    0.02
    """
    s = check_eigenvalues(eigenvalues)
    s = s[s > 0]
    ball = LocalBall(s, check_positive("radius", radius), check_positive("r", r))
    values, _ = ball.support(np.atleast_2d(s * (n_labels / n_examples)))
    return Bound({"ball and second moment": float(values[0])})
