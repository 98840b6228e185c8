"""Spectral penalties: functions of the singular values of a matrix, and their proximal maps.

Low rank is asked for by a price on singular values. A constant price per value, whatever its size, is the
`Rank`; a price in proportion to the size is the trace norm, which is convex, but shrinks what it keeps. The
others lie between the two: they leave large values alone, the leading ones, or those that are large enough.

============== ========================================== ==========================================
penalty        φ(σ), the price of a value                 what it does to large values
============== ========================================== ==========================================
`TraceNorm`    α σ                                        shrinks each by the same amount
`TailSum`      0 for the theta leading ones, then α σ     leaves the theta leading ones alone
`Rank`         α if σ > 0                                 keeps all that exceed a threshold as they are
`Capped`       α min(σ, cap)                              leaves those beyond the cap alone
`MCP`, `SCAD`  α σ at first, less and less, constant      leave those beyond γα alone, shrink some less
`LogSum`       α log(1 + σ/ε)                             shrinks the less the larger
`SchattenHalf` α √σ                                       shrinks the less the larger
`Weighted`     w_j σ, w ascending                         shrinks each by its own amount
============== ========================================== ==========================================

A penalty sees the singular values as a NumPy array in *descending* order, everywhere: they are few, and are
brought to the host once per step of a solver, wherever the matrix is. It offers

``value(sigma)``
    the penalty Ω(σ), ∞ where it permits no such matrix;
``prox(sigma, step)``
    argmin over p of ½‖p − σ‖² + step · Ω(p), descending; with step = 0, the nearest values that Ω permits;
``slopes(sigma)``
    ascending weights c_j of a linear majoriser, Ω(σ') ≤ Ω(σ) + Σ c_j (σ'_j − σ_j); ∞ where σ' must not
    exceed σ;
``n_free``
    how many leading singular values are not penalised.

Because such a penalty does not change under rotations of W, its proximal map at a matrix Q = U diag(σ) Vᵀ
is U diag(prox(σ)) Vᵀ (`spectral_prox` in `lrml.core.linalg`), and a penalty of your own needs these four
only. Where the quadratic beside it is ‖A − W‖², as for a penalty on the predictions, one map with step ½ is
the global minimum, convex or not; elsewhere solvers take many, and only the trace norm promises one minimum.

References
----------
- D. Zhang, Y. Hu, J. Ye, X. Li, X. He. "Matrix completion by truncated nuclear norm regularization", CVPR
  2012: the tail sum, by the name of truncated nuclear norm.
- T.-H. Oh, H. Kim, Y.-W. Tai, J.-C. Bazin, I. S. Kweon. "Partial sum minimization of singular values in RPCA
  for low-level vision", ICCV 2013: the tail sum again, and its proximal map.
- C.-H. Zhang. "Nearly unbiased variable selection under minimax concave penalty", Annals of Statistics 2010;
  J. Fan, R. Li. "Variable selection via nonconcave penalized likelihood", JASA 2001: `MCP` and `SCAD`.
- E. Candès, M. Wakin, S. Boyd. "Enhancing sparsity by reweighted ℓ₁ minimization", 2008: `LogSum`.
- Z. Xu, X. Chang, F. Xu, H. Zhang. "L½ regularization: a thresholding representation theory", TNNLS 2012.
- K. Chen, H. Dong, K.-S. Chan. "Reduced rank regression via adaptive nuclear norm penalization",
  Biometrika 2013: ascending weights.
- M. Gavish, D. Donoho. "Optimal shrinkage of singular values", IEEE Transactions on Information Theory 2017.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._shown import shown
from lrml.core.checks import check_choice, check_integer, check_number

Values: TypeAlias = npt.NDArray[Any]
"""Singular values."""


class Penalty(Protocol):
    """What a solver needs from a penalty; the closed form on predictions: ``value`` and ``prox`` only."""

    @property
    def n_free(self) -> int:
        """Number of leading singular values that cost nothing."""

    def value(self, sigma: Values) -> float:
        """Penalty of the descending singular values ``sigma``."""

    def prox(self, sigma: Values, step: float) -> Values:
        """Argmin over p of ½‖p − sigma‖² + step · value(p), descending as ``sigma`` is."""

    def slopes(self, sigma: Values) -> Values:
        """Ascending weights of the tight linear majoriser at the descending values ``sigma``."""


@dataclass(frozen=True)
class TailSum:
    """Tail sum of the singular values over the matrices of limited rank: the penalty of the whole family.

    ::

        Ω(σ) = alpha · Σ_{theta < j ≤ max_rank} σ_j    if σ_j = 0 for j > max_rank, and ∞ otherwise
        (σ descending)

    Its proximal map keeps the top ``theta`` values as they are, soft-thresholds the next ones by
    ``step · alpha``, and drops all beyond ``max_rank`` (None: no limit): the larger a value, the more is
    gained by keeping it, freely or not. Ω is convex for theta = 0 without a limit only, the trace norm. If
    alpha (the paper's C) is ∞, it permits no tail, so ``max_rank`` becomes theta, if not less.

    ============================================== =================================================
    theta and alpha                                LRML
    theta = 0, alpha                               ML-trace: the trace norm
    alpha = 0                                      no penalty (ML-Fro, with a ridge)
    theta = 0, alpha, max_rank = k                 LEML: the trace norm over the matrices of rank k
    theta = k, alpha = ∞ (or alpha = 0,            CPLST: reduced-rank regression
    max_rank = k)
    ============================================== =================================================

    ``rule`` "paper" is the map as printed in Theorem 4 of Xu et al.: a value among the top ``theta`` that
    does not exceed the threshold is set to zero as well. That is not the minimiser: keeping the value σ_j
    costs nothing, dropping it costs σ_j²/2. The two agree whenever σ_theta exceeds the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> TailSum(theta=1, alpha=2.0).prox(np.array([5.0, 3.0, 1.0]), step=1.0).tolist()
    [5.0, 1.0, 0.0]
    >>> TailSum(theta=1, alpha=2.0, rule="paper").prox(np.array([1.5, 0.5]), step=1.0).tolist()
    [0.0, 0.0]
    """

    theta: int
    alpha: float
    rule: Literal["exact", "paper"] = "exact"
    max_rank: int | None = None

    def __post_init__(self) -> None:
        check_integer("theta", self.theta, 0)
        if self.max_rank is not None:
            check_integer("max_rank", self.max_rank, 0)
        # A scalar of NumPy would try to turn arrays of other libraries into its own.
        alpha = math.inf if self.alpha == math.inf else check_number("alpha", self.alpha)
        object.__setattr__(self, "alpha", alpha)
        check_choice("rule", self.rule, ("exact", "paper"))
        if self.alpha == math.inf:
            limit = self.theta if self.max_rank is None else min(self.theta, self.max_rank)
            object.__setattr__(self, "max_rank", limit)

    @property
    def n_free(self) -> int:
        """Number of leading singular values that cost nothing: theta, or all that a limit permits."""
        if self.max_rank is None:
            return self.theta
        return self.max_rank if self.alpha == 0 else min(self.theta, self.max_rank)

    def value(self, sigma: Values) -> float:
        """Return alpha · Σ σ_j over the tail of the descending values ``sigma``; ∞ beyond the rank."""
        if self.max_rank is not None and np.any(sigma[self.max_rank :] > 0):
            return math.inf
        tail = sigma[self.theta : self.max_rank]
        return self.alpha * float(np.sum(tail)) if len(tail) else 0.0

    def prox(self, sigma: Values, step: float) -> Values:
        """Keep the head, soft-threshold the tail by ``step · alpha``; descending in, descending out."""
        threshold = step * self.alpha
        shrunk = np.maximum(sigma - threshold, 0.0)
        head = sigma[: self.theta]
        shrunk[: self.theta] = np.where(head > threshold, head, 0.0) if self.rule == "paper" else head
        if self.max_rank is not None:
            shrunk[self.max_rank :] = 0.0
        return shrunk

    def slopes(self, sigma: Values) -> Values:
        """Return 0 for the head, alpha for the tail, and ∞ beyond the rank.

        The tail sum is the least of all sums of len(σ) − theta values, so the sum over the indices that are
        the tail at σ majorises it elsewhere and is tight at σ.
        """
        slopes = np.full_like(sigma, self.alpha)
        slopes[: self.theta] = 0.0
        if self.max_rank is not None:
            slopes[self.max_rank :] = math.inf
        return slopes


def TraceNorm(alpha: float, max_rank: int | None = None) -> TailSum:  # noqa: N802  # one of the penalties
    """Return the trace norm alpha · Σ_j σ_j: the tail sum that leaves no value free."""
    return TailSum(0, alpha, max_rank=max_rank)


class Separable(ABC):
    """The same price φ for every singular value: Ω(σ) = Σ_j φ(σ_j), with φ(0) = 0, growing and concave.

    So the slopes are the derivatives φ'(σ_j). A proximal map finds, for each value on its own, the x ≥ 0 with
    the least ½(x − σ)² + step · φ(x). That is 0 or a stationary point of one of the smooth pieces of φ, or an
    end of one: the best of a few `candidates`. So the map is right for every step, also for those that make
    the sum concave somewhere, where the map jumps.
    """

    alpha: float
    n_free: ClassVar[int] = 0
    above: ClassVar[float] = 0.0  # what the parameters but alpha exceed

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            name, is_strength = f"{field.name} of {type(self).__name__}", field.name == "alpha"
            least = 0.0 if is_strength else self.above
            number = check_number(name, getattr(self, field.name), least, above=not is_strength)
            object.__setattr__(self, field.name, number)

    @abstractmethod
    def prices(self, sigma: Values) -> Values:
        """Return φ(σ_j)."""

    @abstractmethod
    def slopes(self, sigma: Values) -> Values:
        """Return φ'(σ_j)."""

    @abstractmethod
    def candidates(self, sigma: Values, step: float) -> Sequence[Values]:
        """Return where the minimum may be, apart from 0: x ≥ 0 for each value."""

    def value(self, sigma: Values) -> float:
        """Return Σ φ(σ_j)."""
        return float(np.sum(self.prices(sigma)))

    def prox(self, sigma: Values, step: float) -> Values:
        """Return the best candidates; if several are as good, the first."""
        best, least = np.zeros_like(sigma), 0.5 * sigma**2
        for x in self.candidates(sigma, step):
            cost = 0.5 * (x - sigma) ** 2 + step * self.prices(x)
            best, least = np.where(cost < least, x, best), np.minimum(cost, least)
        return np.sort(best)[::-1]  # at a jump, rounding may have let the smaller one pass


@dataclass(frozen=True)
class Rank(Separable):
    """The number of positive singular values, times alpha.

    The map keeps a value if it exceeds √(2 · step · alpha). On the predictions, where step is ½, this is
    reduced-rank regression, the rank chosen by alpha.
    """

    alpha: float

    def prices(self, sigma: Values) -> Values:
        """Return α where σ is positive."""
        return self.alpha * (sigma > 0)

    def slopes(self, sigma: Values) -> Values:
        """Return 0 for positive values; nothing linear majorises the price of a further one."""
        return np.where(sigma > 0, 0.0, math.inf)

    def candidates(self, sigma: Values, step: float) -> Sequence[Values]:
        """Keep the value."""
        return [sigma]


class Pieces(Separable):
    """A price of pieces: on each, from a to b, its slope falls from c by k per unit; it is 0 beyond the last.

    The stationary point of a piece is (σ − step · (c + ka)) / (1 − step · k). If the sum is not convex there,
    the minimum is at an end.
    """

    @property
    @abstractmethod
    def pieces(self) -> Sequence[tuple[float, float, float, float]]:
        """Return (a, b, c, k) of the pieces, in order."""

    def prices(self, sigma: Values) -> Values:
        """Return φ(σ), the integral of the slope."""
        total = np.zeros_like(sigma)
        for start, end, slope, fall in self.pieces:
            x = np.clip(sigma, start, end) - start
            total += (slope - 0.5 * fall * x) * x
        return total

    def slopes(self, sigma: Values) -> Values:
        """Return φ'(σ)."""
        total = np.zeros_like(sigma)
        for start, end, slope, fall in self.pieces:
            inside = (sigma >= start) & (sigma < end)
            total += inside * np.maximum(slope - fall * (sigma - start), 0.0)
        return total

    def candidates(self, sigma: Values, step: float) -> Sequence[Values]:
        """Return stationary points of the pieces, and the value itself beyond them."""
        found = [
            np.clip((sigma - step * (slope + fall * start)) / max(1.0 - step * fall, 1e-300), start, end)
            for start, end, slope, fall in self.pieces
        ]
        return [*found, np.maximum(sigma, self.pieces[-1][1])]


@dataclass(frozen=True)
class Capped(Pieces):
    """The capped trace norm, φ(σ) = α min(σ, cap)."""

    alpha: float
    cap: float

    @property
    def pieces(self) -> Sequence[tuple[float, float, float, float]]:
        """The slope is α up to the cap."""
        return [(0.0, self.cap, self.alpha, 0.0)]


@dataclass(frozen=True)
class MCP(Pieces):
    """The minimax concave penalty: its slope falls from α to 0 at σ = γα, and stays there.

    ::

        φ(σ) = ασ − σ²/2γ  if σ ≤ γα,  else γα²/2

    For step < γ the map is continuous: 0 up to step · α, then (σ − step · α) / (1 − step/γ) up to γα, then σ.
    From step = γ on it keeps values beyond α √(step · γ) and drops the others, as for `Rank`.
    """

    alpha: float
    gamma: float = 3.0

    @property
    def pieces(self) -> Sequence[tuple[float, float, float, float]]:
        """The slope falls from α to 0."""
        return [(0.0, self.gamma * self.alpha, self.alpha, 1.0 / self.gamma)]


@dataclass(frozen=True)
class SCAD(Pieces):
    """The smoothly clipped absolute deviation: its slope is α up to σ = α, and falls to 0 at γα, γ > 1.

    ::

        φ(σ) = ασ                                    if σ ≤ α,
               (2γασ − σ² − α²) / (2(γ − 1))         if α < σ ≤ γα,     else (γ + 1)α²/2
    """

    alpha: float
    gamma: float = 3.7
    above: ClassVar[float] = 1.0

    @property
    def pieces(self) -> Sequence[tuple[float, float, float, float]]:
        """The slope is α, then falls to 0."""
        alpha, knee = self.alpha, self.gamma * self.alpha
        return [(0.0, alpha, alpha, 0.0), (alpha, knee, alpha, 1.0 / (self.gamma - 1.0))]


@dataclass(frozen=True)
class LogSum(Separable):
    """The sum of logarithms, φ(σ) = α log(1 + σ/ε)."""

    alpha: float
    epsilon: float = 1.0

    def prices(self, sigma: Values) -> Values:
        """Return φ(σ)."""
        return self.alpha * np.log1p(sigma / self.epsilon)

    def slopes(self, sigma: Values) -> Values:
        """Return φ'(σ)."""
        return self.alpha / (sigma + self.epsilon)

    def candidates(self, sigma: Values, step: float) -> Sequence[Values]:
        """Return the larger root of (x − σ)(x + ε) + step · α = 0; the smaller one is a maximum."""
        square = np.maximum((sigma + self.epsilon) ** 2 - 4.0 * step * self.alpha, 0.0)
        return [np.maximum(0.5 * (sigma - self.epsilon + np.sqrt(square)), 0.0)]


@dataclass(frozen=True)
class SchattenHalf(Separable):
    """The sum of the square roots of the singular values, times alpha."""

    alpha: float

    def prices(self, sigma: Values) -> Values:
        """Return α √σ."""
        return self.alpha * np.sqrt(sigma)

    def slopes(self, sigma: Values) -> Values:
        """Return α / 2√σ, ∞ at 0."""
        return np.where(sigma > 0, 0.5 * self.alpha / np.sqrt(np.where(sigma > 0, sigma, 1.0)), math.inf)

    def candidates(self, sigma: Values, step: float) -> Sequence[Values]:
        """Return the largest root of a cubic equation in √x, by its cosine."""
        least = 1.5 * (step * self.alpha) ** (2.0 / 3.0)  # of what is not set to 0
        cosine = -(3.0**1.5) / 4.0 * step * self.alpha / np.maximum(sigma, least or 1.0) ** 1.5
        return [2.0 / 3.0 * sigma * (1.0 + np.cos(2.0 / 3.0 * np.arccos(cosine)))]


@dataclass(frozen=True)
class Weighted:
    """A weighted trace norm Σ w_j σ_j, with ascending weights: those of the tail sum are 0 and then alpha.

    Each value is shrunk by its own amount. The last weight holds for all further values.
    """

    weights: Sequence[float]

    def __post_init__(self) -> None:
        weights = tuple(map(float, self.weights)) if isinstance(self.weights, Iterable) else ()
        if not weights or sorted(weights) != list(weights) or not 0 <= weights[0] <= weights[-1] < math.inf:
            raise ValueError(f"weights are {shown(self.weights)}. Pass finite ones, at least 0, ascending.")
        object.__setattr__(self, "weights", weights)

    @classmethod
    def adaptive(cls, sigma: Values, alpha: float, power: float = 2.0) -> Self:
        """Return w_j = α σ_j^(−power), for the descending positive values of an unpenalised fit."""
        return cls(tuple(alpha * sigma**-power))

    @property
    def n_free(self) -> int:
        """How many weights are 0."""
        return sum(weight == 0 for weight in self.weights)

    def value(self, sigma: Values) -> float:
        """Return Σ w_j σ_j."""
        return float(self.slopes(sigma) @ sigma)

    def prox(self, sigma: Values, step: float) -> Values:
        """Shrink every value by its weight: as these ascend, the order is kept."""
        return np.maximum(sigma - step * self.slopes(sigma), 0.0)

    def slopes(self, sigma: Values) -> Values:
        """Return the weights."""
        places = np.minimum(np.arange(len(sigma)), len(self.weights) - 1)
        return np.asarray(self.weights, dtype=sigma.dtype)[places]


@dataclass(frozen=True)
class OptimalShrinker:
    """Shrinks the singular values of a low-rank matrix in white noise with the least error, asymptotically.

    In units of √n · noise, with β = m/n ≤ 1 for a matrix with sides m and n, the map is

    ::

        η(y) = √((y² − β − 1)² − 4β) / y   if y > 1 + √β,  else 0.

    It has no parameter and no penalty, and the step does not matter, so it serves for predictions only. They
    are a matrix of r × L values, r the rank of X; the noise is white if there is no ridge.

    ``shape`` has the sides of the matrix; None stands for a square one, and a fit fills it in.
    ``noise`` is the standard deviation of the entries of the noise; None estimates it (`noise_of`).
    """

    shape: tuple[int, int] | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            object.__setattr__(self, "noise", check_number("noise", self.noise))
        if self.shape is not None:
            if not isinstance(self.shape, Sequence) or len(self.shape) != 2:
                raise ValueError(f"shape is {shown(self.shape)}. Pass the two sides of the matrix, or None.")
            object.__setattr__(self, "shape", tuple(check_integer("a side", side) for side in self.shape))

    def noise_of(self, sigma: Values) -> float:
        """Return the noise, by default median(σ) / √(n μ_β), for all min(m, n) values of a matrix.

        μ_β is the median of the Marčenko-Pastur law, that of σ² / n if there is nothing but unit noise. So
        less than half of the values may come from the signal.
        """
        if self.noise is not None:
            return self.noise
        _, longer, beta = self._sides(sigma)
        # The law is that of 1 + β + 2√β cos φ, where φ has a density in proportion to sin²φ over this.
        angles = (np.arange(20_000) + 0.5) * (math.pi / 20_000)
        squares = 1.0 + beta + 2.0 * math.sqrt(beta) * np.cos(angles)
        mass = np.cumsum(np.sin(angles) ** 2 / squares)
        median = float(np.interp(0.5 * mass[-1], mass, squares))
        return float(np.median(sigma)) / math.sqrt(longer * median)

    def value(self, sigma: Values) -> float:
        """Return 0: nothing is penalised."""
        return 0.0

    def prox(self, sigma: Values, step: float = 1.0) -> Values:
        """Shrink the values."""
        _, longer, beta = self._sides(sigma)
        unit = math.sqrt(longer) * self.noise_of(sigma)
        seen = sigma > (1.0 + math.sqrt(beta)) * unit
        small = (unit / np.where(seen, sigma, np.inf)) ** 2  # y⁻², which is small where y² would overflow
        shares = np.sqrt(np.maximum((1.0 - (beta + 1.0) * small) ** 2 - 4.0 * beta * small**2, 0.0))
        return np.where(seen, shares * sigma, 0.0)

    def _sides(self, sigma: Values) -> tuple[int, int, float]:
        """Return both sides, the shorter first, and their ratio β."""
        shorter, longer = sorted(self.shape or 2 * (len(sigma),))
        return shorter, longer, shorter / longer


def ranks_of(penalty: Penalty, count: int) -> tuple[int, int]:
    """Return up to which rank a penalty of so many values costs nothing, and up to which it is finite."""
    free = np.count_nonzero(penalty.slopes(np.zeros(count)) == 0)  # they majorise it everywhere
    return int(free), int(np.count_nonzero(penalty.prox(np.ones(count), 0.0)))
