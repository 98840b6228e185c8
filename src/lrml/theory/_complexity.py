"""Global and local Rademacher complexities of linear multi-label predictors, by Monte Carlo.

Given signs Σ, M = XᵀΣ/n. Over a norm ball the supremum of ⟨M, W⟩ is a dual norm of M. The local class lies,
in the principal axes of the data, in every ellipsoid Σ_j D_j(t) ‖w_j‖² ≤ 1, D_j(t) = t/λ² + (1 − t) s_j/r,
so that ⟨M, W⟩ ≤ ‖D(t)^(−1/2) M‖_F; if W has rank at most k, its k largest singular values will do. The
squares are convex in t, and by duality the least value is attained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import is_sparse, to_host
from lrml.core.checks import check_choice, check_integer, check_number
from lrml.core.linalg import descending_eigh, thin_svd

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Signs = Literal["entry", "example"]
Ball = Literal["frobenius", "trace", "operator"]

_DUAL: dict[Ball, Any] = {"trace": 2, "frobenius": "fro", "operator": "nuc"}  # NumPy's names of dual norms
_ROUNDS, _WEIGHT_STEPS = 12, 40
_CUTS = np.array([1.0, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6])
_BLOCK_BYTES = 2**25  # of signs or of products, as float64
_POSITIVE = partial(check_number, above=True)
_CHECKS: dict[str, Any] = {
    "n_examples": check_integer,
    "n_labels": check_integer,
    "n_draws": partial(check_integer, least=2),
    "theta": partial(check_integer, least=0),
    "radius": _POSITIVE,
    "r": _POSITIVE,
    "tail": lambda name, value: math.inf if value == math.inf else check_number(name, value),
    "ridge": check_number,
    "delta": partial(_POSITIVE, below=1.0),
}


def checked(**given: Any) -> Any:
    """Return numbers as a tuple, each checked by the rule for its name."""
    return tuple(_CHECKS[name](name, value) for name, value in given.items())


def rows_of(X: Any) -> Any:
    """Return X as a CSR or a dense array of finite float64."""
    from sklearn.utils import check_array  # noqa: PLC0415 - bounds from eigenvalues need no scikit-learn

    rows: Any = check_array(to_host(X), accept_sparse="csr", dtype=np.float64, input_name="X")
    return sp.csr_array(rows) if is_sparse(rows) else rows


class MonteCarlo(NamedTuple):
    """Mean of independent draws, and its standard error."""

    mean: float
    standard_error: float
    n_draws: int

    @classmethod
    def of(cls, draws: Any) -> MonteCarlo:
        return cls(float(np.mean(draws)), float(np.std(draws, ddof=1)) / math.sqrt(len(draws)), len(draws))


class LocalComplexity(NamedTuple):
    """A local complexity, between values at members of the class and values that bound all of them."""

    lower: MonteCarlo
    upper: MonteCarlo


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Principal axes of X: the eigenvalues of S = XᵀX/n and what turns XᵀΣ/n into their coordinates."""

    eigenvalues: Vector  # positive, descending; about the origin, not about the mean
    sides: Matrix  # eigenvectors of XXᵀ/n if X is wide, of S otherwise
    rows: Any  # X, dense or CSR

    @classmethod
    def of(cls, X: Any) -> Spectrum:
        """Decompose the smaller second-moment matrix of X; a `Spectrum` is returned as it is."""
        if isinstance(X, Spectrum):
            return X
        rows = rows_of(X)
        n, d = rows.shape
        gram: Any = (rows @ rows.T if d > n else rows.T @ rows) / n
        values, vectors = descending_eigh(gram.toarray() if is_sparse(rows) else gram)
        kept = values > values[0] * max(n, d) * np.finfo(np.float64).eps
        return cls(values[kept], vectors[:, kept], rows)

    @classmethod
    def of_predictions(cls, X: Any, ridge: float = 0.0) -> Spectrum:
        """Return the axes in which W has the norms and singular values of its predictions, X̃W/√n.

        X̃ = [X; √ridge I]. The coefficients there are (S + ρ)^½ UᵀW, ρ = ridge/n, and the eigenvalues
        s_j/(s_j + ρ): without a ridge all are 1.
        """
        spectrum = cls.of(X)
        moments = spectrum.eigenvalues + checked(ridge=ridge)[0] / spectrum.n_examples
        sides = spectrum.sides if spectrum._is_wide else spectrum.sides / np.sqrt(moments)
        return cls(spectrum.eigenvalues / moments, sides, spectrum.rows)

    @property
    def n_examples(self) -> int:
        """Number of rows of X."""
        return int(self.rows.shape[0])

    @property
    def _is_wide(self) -> bool:
        return bool(self.rows.shape[1] > self.n_examples)

    def coordinates(self, signs: Matrix) -> Matrix:
        """Return UᵀXᵀΣ/n (k × columns), U the eigenvectors of S.

        Where only the eigenvectors P of XXᵀ/n are known, X = P diag(√(n s)) Uᵀ gives diag(√(s/n)) PᵀΣ.
        """
        if self._is_wide:
            return np.asarray(np.sqrt(self.eigenvalues / self.n_examples)[:, None] * (self.sides.T @ signs))
        return np.asarray(self.sides.T @ (self.rows.T @ signs) / self.n_examples)


def sign_products(X: Any, n_labels: int, signs: Signs, n_draws: int, random_state: Any) -> Iterator[Matrix]:
    """Draw sign matrices Σ and yield XᵀΣ/n, in the axes of a `Spectrum`, in stacks of bounded size.

    If all columns of Σ are the same, one is drawn, and √L makes up for the rest: up to a rotation of the
    labels, which no norm sees, that is the same matrix.
    """
    check_choice("signs", signs, get_args(Signs))
    labels, draws = checked(n_labels=n_labels, n_draws=n_draws)
    in_axes = isinstance(X, Spectrum)
    shape = X.rows.shape if in_axes else X.shape
    columns = 1 if signs == "example" else labels
    rng = np.random.default_rng(random_state)
    per_block = max(1, _BLOCK_BYTES // (8 * columns * max(shape)))
    for first in range(0, draws, per_block):
        block = shape[0], columns * min(per_block, draws - first)
        size = math.prod(block)
        noise = rng.integers(0, 256, size=-(-size // 8), dtype=np.uint8)  # eight signs from every byte
        drawn = np.unpackbits(noise, count=size).reshape(block).astype(np.float64) * 2 - 1
        products = X.coordinates(drawn) if in_axes else X.T @ drawn / shape[0]
        stack = np.moveaxis(products.reshape(len(products), -1, columns), 1, 0)
        yield math.sqrt(labels / columns) * stack


def global_complexity(
    X: Any,
    n_labels: int,
    *,
    ball: Ball = "trace",
    radius: float = 1.0,
    signs: Signs = "entry",
    n_draws: int = 100,
    random_state: Any = None,
) -> MonteCarlo:
    """Monte-Carlo estimate of the Rademacher complexity of a norm ball of linear predictors, given X.

    ::

        R(X) = E_Σ sup_{‖W‖ ≤ λ} (1/n) ⟨XᵀΣ, W⟩ = λ E_Σ ‖XᵀΣ‖_dual / n

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d), or Spectrum
        A sparse X stays sparse.
    n_labels, radius : int, float
        L and λ.
    ball : {"trace", "frobenius", "operator"}
    signs : {"entry", "example"}
        One sign per example and label, or one per example as in the paper: then XᵀΣ = (Xᵀσ)1ᵀ has rank one
        and the three balls have the same complexity.
    n_draws, random_state : int, int or Generator
        How many draws of signs, and their seed.

    Examples
    --------
    >>> global_complexity([[3.0, 4.0]], 4, n_draws=5, random_state=0)
    MonteCarlo(mean=10.0, standard_error=0.0, n_draws=5)
    """
    check_choice("ball", ball, get_args(Ball))
    (scale,) = checked(radius=radius)
    rows = X if isinstance(X, Spectrum) else rows_of(X)
    stacks = sign_products(rows, n_labels, signs, n_draws, random_state)
    return MonteCarlo.of(scale * np.concatenate([np.linalg.norm(M, _DUAL[ball], (1, 2)) for M in stacks]))


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

    Without the tail the lower and the upper value agree up to rounding, and for τ = 0 (rank at most theta)
    unless singular values tie. The trace-norm ball of radius λ is ``theta=0, tail=λ, radius=λ``.

    Parameters
    ----------
    X, n_labels, radius, signs, n_draws, random_state
        As in `global_complexity`. A `Spectrum` saves the decomposition if several classes are computed.
        In that ``of_predictions``, the ball and the tail are those of XW/√n.
    r, theta, tail : float, int, float
        As above; a tail of infinity, the default, drops this constraint.
    """
    scale, moment, free, most = checked(radius=radius, r=r, theta=theta, tail=tail)
    spectrum = Spectrum.of(X)
    ball = LocalBall(spectrum.eigenvalues, scale, moment)
    stacks = sign_products(spectrum, n_labels, signs, n_draws, random_state)
    brackets = [bracket(M, ball, free, most) for stack in stacks for M in stack]
    return LocalComplexity(*map(MonteCarlo.of, zip(*brackets, strict=True)))


def _bisected(falls: Callable[[Matrix], Any], n_functions: int, steps: int = 50) -> Matrix:
    """Return a column of minimisers in [0, 1] of convex functions of t, given where they fall."""
    low, high = np.zeros((n_functions, 1)), np.ones((n_functions, 1))
    for _ in range(steps):
        t = (low + high) / 2
        falling = falls(t)
        low, high = np.where(falling, t, low), np.where(falling, high, t)
    return (low + high) / 2


@dataclass(frozen=True, eq=False)
class LocalBall:
    """The set {W : ‖W‖_F ≤ radius, Σ_j s_j ‖w_j‖² ≤ r} in the principal axes of the data; all s_j > 0."""

    eigenvalues: Vector
    radius: float
    r: float

    def weights(self, t: Matrix) -> Matrix:  # D_j(t), a row for every t of a column
        return np.asarray(t / self.radius**2 + (1.0 - t) * self.eigenvalues / self.r)

    def _falls(self, squares: Matrix, t: Matrix) -> Any:  # Σ_j squares_j / D_j(t), with t
        slope = 1.0 / self.radius**2 - self.eigenvalues / self.r
        return np.sum(squares * slope / self.weights(t) ** 2, axis=1, keepdims=True) > 0

    def support(self, squares: Matrix) -> tuple[Vector, Matrix]:
        """Return max ⟨M, W⟩ over the set and the D(t) that proves it, from the ‖m_j‖² of many M."""
        t = _bisected(lambda t: self._falls(squares, t), len(squares))
        weights = self.weights(t)
        return np.sqrt(np.sum(squares / weights, axis=1)), weights

    def maximiser(self, M: Matrix) -> Matrix:
        """Return a member of the set where ⟨M, W⟩ is largest (to rounding)."""
        _, weights = self.support(np.sum(M**2, axis=1)[None, :])
        return self.into(M / weights.T)

    def into(self, W: Matrix) -> Matrix:
        """Scale W so that it touches the border of the set."""
        squares = np.sum(W**2, axis=1)
        size = max(float(squares.sum()) / self.radius**2, float(squares @ self.eigenvalues) / self.r)
        return W / math.sqrt(size) if size > 0 else W

    def rank_support(self, M: Matrix, rank: int) -> tuple[float, Matrix]:
        """Bound ⟨M, W⟩ over the members of a rank at most, and return one that attains it but for ties.

        The best W with a given row space V is the maximiser for MVVᵀ.
        """

        def leading(t: Matrix) -> tuple[float, Matrix]:
            A = M / np.sqrt(self.weights(t).T)
            squares, vectors = descending_eigh(A.T @ A)
            return math.sqrt(max(0.0, float(squares[:rank].sum()))), vectors[:, :rank]

        def falls(t: Matrix) -> Any:
            return self._falls(np.sum((M @ leading(t)[1]) ** 2, axis=1), t)

        # Each step takes an eigendecomposition; t is known to 1e-9 then.
        value, V = leading(_bisected(falls, 1, steps=30))
        return value, self.maximiser(M @ V) @ V.T


def bracket(M: Matrix, ball: LocalBall, theta: int, tail: float) -> tuple[float, float]:
    """Return the value of the best member of the class that was found, and an upper bound on all of them.

    If P projects on the top theta right singular vectors of W, then WP has rank at most theta and W(I − P) a
    trace norm of at most τ; so ::

        sup ≤ min{ sup without tail,  sup over rank ≤ theta + min_A (sup ⟨A, W⟩ without tail + τ‖M − A‖) }.
    """
    if M.shape[0] < M.shape[1]:  # a rotation of the labels, which leaves as many of them as there are axes
        M = np.asarray(np.linalg.qr(M.T, mode="r")).T
    elif np.ptp(ball.eigenvalues) == 0.0:  # one of the axes
        M = np.asarray(np.linalg.qr(M, mode="r"))
        ball = replace(ball, eigenvalues=ball.eigenvalues[: len(M)])
    best = ball.maximiser(M)
    everything = float(ball.support(np.sum(M**2, axis=1)[None, :])[0][0])
    most = math.sqrt(M.shape[1]) * ball.radius  # no member of the ball has a larger trace norm
    if tail >= most or theta >= M.shape[1]:
        return float(np.sum(M * best)), everything
    ranked, low_rank = ball.rank_support(M, theta) if theta else (0.0, np.zeros_like(M))
    members, rest = [low_rank], 0.0
    if tail > 0:
        U, s, Vt = thin_svd(M)
        # One direction more than are free: the answer where the tail is short.
        members.append(with_tail(ball.rank_support(M, theta + 1)[1], theta, tail))
        members.append(with_tail(ball.into(np.outer(U[:, 0], Vt[0])), theta, tail))
        rest = tail * float(s[0])
    if tail > 1e-9 * most:  # a smaller one is not worth the search
        # Without its top theta directions, W has trace norm at most τ.
        member, bound = ascend(M, with_tail(best, 0, tail), ball, 0, tail)
        starts = (with_tail(best, theta, tail), low_rank) if theta else ()
        members += [member, *(ascend(M, start, ball, theta, tail)[0] for start in starts)]
        rest = min(rest, bound)
    return max(float(np.sum(M * W)) for W in members), min(everything, ranked + rest)


def ascend(M: Matrix, W: Matrix, ball: LocalBall, theta: int, tail: float) -> tuple[Matrix, float]:
    """Improve a member of the class; for theta = 0 also bound all of them from above.

    For orthonormal v_j and positive q_j with sum τ over j > theta, Σ_{j>theta} ‖W v_j‖²/(q_j τ) ≤ 1 describes
    members of the class, W itself if v_j and q_j are its own. Under three such quadratic constraints ⟨M, W⟩
    is largest at WV = MV / (t₁/λ² + t₂ s_i/r + t₃/(q_j τ)), up to a factor, with t_i ← t_i √(use of
    constraint i).
    """
    bound, size = math.inf, ball.eigenvalues[:, None] / ball.r
    for _ in range(_ROUNDS):
        _, s, Vt = thin_svd(W)
        q = s[theta:] + 1e-3 * tail / (s.size - theta)  # a direction that W does not use yet stays available
        price = np.concatenate([np.zeros(theta), q.sum() / (q * tail**2)])
        limits = np.stack(np.broadcast_arrays(1.0 / ball.radius**2, size, price))
        N, t = M @ Vt.T, np.full(3, 1 / 3)
        for _ in range(_WEIGHT_STEPS):
            Z = N / np.tensordot(t, limits, 1)
            uses = np.tensordot(limits, Z**2, 2)
            t = t * np.sqrt(uses)
            t /= t.sum()
        W = (Z / math.sqrt(uses.max())) @ Vt
        if theta == 0:
            # What the trace norm pays for.
            B = (t[2] * price * N / np.tensordot(t, limits, 1)) @ Vt
            bound = min(bound, _split_bound(M, B, ball, tail))
    return W, bound


def _split_bound(M: Matrix, B: Matrix, ball: LocalBall, tail: float) -> float:
    """Bound ⟨M, W⟩ for a trace norm of at most τ by the ball's maximum of ⟨M − B, W⟩ plus τ‖B‖.

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
