"""Losses over rows without a penalty on singular values: Newton's method for many labels side by side.

::

    F_l(w, b) = Σ_i known  w_i ℓ(y_il, x_iᵀ w + b) + ridge · ‖w‖²        for every label l on its own

Each round takes one Newton step for every label that has not converged. The Newton equations are solved by
preconditioned conjugate gradients, two products with X per iteration, in chunks of labels that share the
products and run in threads. X is centred, implicitly if it is sparse, and the intercept is eliminated.
Nothing is d × d (unless d is small) or n × n: beside the coefficients there are the scores of the labels in
work, and a few arrays as wide as a chunk.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import is_sparse
from lrml.core.eigen import Factors, differ_widely, spectral_coordinates
from lrml.core.losses import Floats, Loss, Terms, best_constants
from lrml.core.moments import Statistics
from lrml.core.penalties import gram_noise
from lrml.core.rows import Rows
from lrml.core.threads import map_in_threads
from lrml.solvers._loop import Callback, Recorder, SolverResult, Status

_Float64 = npt.NDArray[np.float64]
_Places = npt.NDArray[np.intp]

# Up to this density, products with a sparse X are faster than with a dense one.
_SPARSE_UP_TO = 0.06
# Labels side by side. 16 numbers in single precision fill a cache line; few features leave room for more.
_CHUNK_WIDE, _CHUNK, _CHUNK_DENSE, _WIDE_FROM = 16, 32, 64, 5000
# X is decomposed completely if it has at most so many directions (more, if features differ widely in scale);
# otherwise this many leading ones are found, by powers of a random block.
_ALL_DIRECTIONS, _ALL_IF_WIDE, _LEADING = 600, 3000, 48
_OVERSAMPLING, _POWERS = 16, 2
# Scores of the labels in work: 256 MiB in single precision.
_SCORES_IN_WORK = 1 << 26
# Conjugate gradients end when the gap of the model is this share of its gain, or of what tol permits.
_SHARE_OF_GAIN, _SHARE_OF_TOL = 0.25, 0.3
_MOST_INNER_STEPS = 300
_FULL_ENOUGH = 0.7  # once fewer of its labels go on, a chunk is packed
_LEAST_CURVATURE = 1e-3  # of a label, as a share of the largest: a perfectly fitted label has none
_MOST_TRIALS = 40
_FALLING = 0.25  # ratio of the gains of two steps, at most, near the end
_FIRST_TRUST, _FORGETTING = 2.0, 0.7
_UPHILL = 0.5  # a step may end uphill, with this share of the slope downhill at its start
_MOST_BLIND_ROUNDS = 10  # which gain nothing that the precision of the scores can tell
_BLOCK = 4096


class Design:
    """X, centred by its weighted mean if there is an intercept, and what Newton's method needs from it.

    A *vector* stands for some w in R^d. It has coordinates, w itself or, on the dual side, a with w = Xᵀa;
    and an image, Xw. So with more features than rows no vector is longer than n. Columns of ``basis`` are the
    coordinates of eigenvectors of Xᵀ diag(weights) X: all of them if the basis is ``complete``, otherwise
    leading ones, and ``rest`` is the mean of the other eigenvalues.
    """

    def __init__(self, rows: Rows, *, fit_intercept: bool, dual: bool) -> None:
        X, (n, d, _) = rows.X, rows.shape
        self.shape, self.dual, self.dtype = (n, d), dual, rows.dtype
        self.weights = np.ones(n) if rows.weights is None else rows.weights
        self.mean = np.zeros(d)
        varying = np.ones(d, dtype=np.bool_)
        if fit_intercept:
            varying = _varying(X)
            mean = np.asarray(X.T @ self.weights, dtype=np.float64) / self.weights.sum()
            self.mean = np.where(varying, mean, 0.0)
        entries = X.nnz if is_sparse(X) else np.count_nonzero(X)
        self.is_sparse = entries <= _SPARSE_UP_TO * n * d
        if self.is_sparse:
            X = sp.csr_array(X).astype(self.dtype)
            self.X = X if varying.all() else sp.csr_array(X * varying.astype(self.dtype))
            self.XT = self.X.T.tocsr()
        else:
            X = X.toarray() if is_sparse(X) else X
            self.X = ((X - self.mean) * varying).astype(self.dtype)
            self.XT = self.X.T
        self.shift = self.mean.astype(self.dtype)
        squares = np.asarray((self.X * self.X).T @ self.weights, dtype=np.float64)
        if self.is_sparse:
            squares -= self.weights.sum() * self.mean**2
        squares = np.maximum(squares, 0.0)
        side = n if dual else d
        self.complete = side <= _ALL_DIRECTIONS
        if not dual and side <= _ALL_IF_WIDE:
            self.complete |= differ_widely(squares, squares)
        if not self.complete:
            self.eigenvalues, basis = self._leading(side)
        elif dual:
            self.eigenvalues, basis = self._all_of_rows(rows.X, fit_intercept=fit_intercept)
        else:
            moments = Statistics.from_arrays(rows.X, np.zeros((n, 1)), rows.weights)
            self.eigenvalues, basis, _ = spectral_coordinates(moments.moments(fit_intercept=fit_intercept))
            basis = basis * bool(squares.any())  # if X is constant, only rounding would be learnt
        self.basis = basis.astype(self.dtype)
        self.basis_image = self.image(self.basis) if dual else self.basis
        others = max(min(n, d) - len(self.eigenvalues), 1)
        self.rest = max(float(squares.sum() - self.eigenvalues.sum()), 0.0) / others

    def forward(self, W: Floats) -> Floats:
        """XW."""
        S = np.asarray(self.X @ W)
        if self.is_sparse:
            S -= self.shift @ W
        return S

    def back(self, Q: Floats) -> Floats:
        """XᵀQ."""
        W = np.asarray(self.XT @ Q)
        if self.is_sparse:
            W -= np.multiply.outer(self.shift, Q.sum(axis=0))
        return W

    def pull(self, Q: Floats) -> Floats:
        """Coordinates of XᵀQ."""
        return Q if self.dual else self.back(Q)

    def image(self, C: Floats) -> Floats:
        """Image of the vectors with these coordinates."""
        return self.forward(self.back(C) if self.dual else C)

    def _leading(self, side: int) -> tuple[_Float64, _Float64]:
        """Approximate the leading eigenvectors by powers of a random block."""
        root = np.sqrt(self.weights)[:, None]

        def gram(B: _Float64) -> _Float64:
            if self.dual:  # √w XXᵀ √w has the same eigenvalues, but for zeros
                return root * self.image((root * B).astype(self.dtype))
            G = self.back(self.forward(B.astype(self.dtype)) * (root * root).astype(self.dtype))
            return G.astype(np.float64)

        basis = np.random.default_rng(0).standard_normal((side, _LEADING + _OVERSAMPLING))
        for _ in range(_POWERS):
            basis = np.linalg.qr(gram(basis))[0]
        G = basis.T @ gram(basis)
        values, vectors = np.linalg.eigh(0.5 * (G + G.T))
        kept = values > side * float(np.finfo(self.dtype).eps) * max(float(values[-1]), 0.0)
        kept[:_OVERSAMPLING] = False
        values, vectors = values[kept], basis @ vectors[:, kept]
        return values, root * vectors / np.sqrt(values) if self.dual else vectors

    def _all_of_rows(self, X: Any, *, fit_intercept: bool) -> tuple[_Float64, _Float64]:
        """Decompose √w XXᵀ √w."""
        K = X @ X.T
        K = np.asarray(K.toarray() if is_sparse(K) else K, dtype=np.float64)
        if fit_intercept:
            share = self.weights / self.weights.sum()
            K = K - share @ K
            K = K - (K @ share)[:, None]
        root = np.sqrt(self.weights)[:, None]
        values, vectors = np.linalg.eigh(root * (0.5 * (K + K.T)) * root.T)
        kept = values > len(values) * float(np.finfo(np.float64).eps) * max(float(values[-1]), 0.0)
        return values[kept], root * vectors[:, kept] / np.sqrt(values[kept])


@dataclass
class _Chunk:
    """Some labels: their data and where they are; arrays have one column, or one entry, per label."""

    Y: Floats
    factors: Floats | None
    coords: Floats
    scores: Floats
    intercept: _Float64  # seen from the mean of X
    trust: _Float64  # how much larger than ½⟨g, P⁻¹g⟩ the gap may be, as the last step has shown
    objective: _Float64
    gap: _Float64
    slope: _Float64  # squared norm of the gradient
    gain: _Float64  # of the last step

    def take(self, places: _Places) -> Self:
        """Return some of the labels."""
        return type(self)(*(_take(getattr(self, field.name), places) for field in fields(self)))

    def put(self, places: _Places, part: _Chunk) -> None:
        """Copy some of the labels back."""
        for field in fields(self)[2:]:
            getattr(self, field.name)[..., places] = getattr(part, field.name)


class _Model(NamedTuple):
    """The quadratic model of some labels, the intercepts eliminated, and its preconditioner P.

    P⁻¹ = tails + V heads Vᵀ is the inverse of c_l XᵀX + 2 ridge, c_l the mean curvature of the label, on the
    span of V. If that is not all of the span of the rows, the other eigenvalues are replaced by their mean.
    """

    curvatures: Floats
    bend: _Float64  # sums of the curvatures
    lift: _Float64  # where the intercepts go if nothing else moves
    heads: Floats
    tails: Floats

    def take(self, places: _Places) -> _Model:
        """Return some of the labels."""
        return _Model(*(_take(part, places) for part in self))


class _Residual(NamedTuple):
    """What is left of the Newton equations, R, and P⁻¹R; images only on the dual side."""

    R: Floats
    Z: Floats
    image: Floats
    size: _Float64  # ⟨R, P⁻¹R⟩
    square: _Float64  # ‖R‖²

    def take(self, places: _Places) -> _Residual:
        """Return some of the labels."""
        return _Residual(*(_take(part, places) for part in self))


class SeparableProblem:
    """The objectives of all labels.

    Parameters
    ----------
    rows : Rows
        Its ``dtype`` is the precision of products and scores.
    loss : Loss
    ridge : float
    fit_intercept : bool
    dual : bool, default=False
        Whether coordinates are those of rows: fewer, if there are more features than rows.
    """

    def __init__(
        self, rows: Rows, loss: Loss, ridge: float = 0.0, *, fit_intercept: bool = True, dual: bool = False
    ) -> None:
        self.rows, self.loss, self.ridge, self.fit_intercept = rows, loss, ridge, fit_intercept
        self.design = Design(rows, fit_intercept=fit_intercept, dual=dual)
        self.dtype = rows.dtype
        self.weight = rows.total_weight
        self.Y = rows.Y.tocsc() if is_sparse(rows.Y) else rows.Y
        pattern: Any = None if rows.mask is None else rows.mask.pattern
        self.pattern = pattern.tocsc() if is_sparse(pattern) else pattern

    def with_ridge(self, ridge: float) -> SeparableProblem:
        """Return the same problem with another ridge, at no cost."""
        other = copy(self)
        other.ridge = ridge
        return other

    @property
    def rounding(self) -> float:
        """Relative accuracy of the objective."""
        return 4.0 * float(np.finfo(self.dtype).eps)

    def labels(self, places: _Places) -> tuple[Floats, Floats | None]:
        """Return columns of Y, and the factors of their losses."""
        rows = self.rows
        Y = _columns(self.Y, places, self.dtype)
        weights = None if rows.weights is None else rows.weights[:, None].astype(self.dtype)
        if rows.mask is None:
            return Y, weights
        known = _columns(self.pattern, places, self.dtype)
        if not rows.mask.marks_known:
            known = 1.0 - known
        return Y, known if weights is None else known * weights

    def terms(self, chunk: _Chunk, scores: Floats) -> Terms:
        """Terms of the loss, times the factors."""
        terms = self.loss.terms(chunk.Y, scores)
        if chunk.factors is not None:
            for part in terms:
                np.multiply(part, chunk.factors, out=part)
        return terms

    def advance(self, chunk: _Chunk, tol: float, *, begin: bool) -> None:
        """Evaluate labels where they are, then take a Newton step with those whose gap is above tol.

        To begin with, all of them take one: a strong ridge leaves a small gap, but something to learn.
        """
        values, slopes, curvatures = self.terms(chunk, chunk.scores)
        bend = curvatures.sum(axis=0, dtype=np.float64)
        lift = np.zeros(len(bend))
        reduced = slopes
        if self.fit_intercept:
            lift = -_ratio(slopes.sum(axis=0, dtype=np.float64), bend)
            reduced = slopes + curvatures * lift.astype(self.dtype)
        model = self._model(curvatures, bend, lift)
        R = -self.design.pull(reduced)
        R -= 2.0 * self.ridge * chunk.coords
        residual = self._residual(model, R)
        chunk.objective = values.sum(axis=0, dtype=np.float64) + self.ridge * self._square(chunk)
        chunk.slope = residual.square
        # ‖g‖²/4ridge bounds the gap. ½⟨g, P⁻¹g⟩, over the smallest eigenvalue of P⁻¹H that was seen,
        # estimates it; so does the last gain, as gains fall from step to step.
        bound = residual.square / (4.0 * self.ridge) if self.ridge > 0 else np.inf
        estimate = np.maximum(0.5 * chunk.trust * residual.size, _FALLING * chunk.gain)
        chunk.gap = np.minimum(estimate, bound) + 0.5 * bend * lift * lift
        chunk.gain = np.zeros(len(bend))
        places = np.flatnonzero((chunk.gap > tol * chunk.objective) | begin)
        if len(places) == 0:
            return
        part = chunk.take(places)
        part.trust = np.maximum(1.0, _FORGETTING * part.trust)
        D, image = self._solve(part, model.take(places), residual.take(places), tol)
        shift = np.zeros(len(places))
        if self.fit_intercept:
            shift = lift[places] - _ratio(_dots(_take(curvatures, places), image), bend[places])
            image += shift.astype(self.dtype)
        self._move(part, D, image, shift, _take(slopes, places))
        chunk.put(places, part)

    def _square(self, chunk: _Chunk) -> _Float64:
        """‖w‖²."""
        if not self.design.dual:
            return _dots(chunk.coords, chunk.coords)
        return _dots(chunk.coords, chunk.scores - chunk.intercept.astype(self.dtype))

    def _model(self, curvatures: Floats, bend: _Float64, lift: _Float64) -> _Model:
        c = np.maximum(bend / self.weight, _LEAST_CURVATURE * self.loss.largest_curvature)
        values, ridge = self.design.eigenvalues, self.ridge
        tails = np.zeros(len(c))
        if not self.design.complete:
            tails = 1.0 / (c * self.design.rest + 2.0 * ridge)
        heads = 1.0 / (np.multiply.outer(values, c) + 2.0 * ridge) - tails
        return _Model(curvatures, bend, lift, heads.astype(self.dtype), tails.astype(self.dtype))

    def _residual(self, model: _Model, R: Floats) -> _Residual:
        design = self.design
        itself = design.image(R) if design.dual else R
        inside = model.heads * (design.basis.T @ itself)
        Z = R * model.tails
        Z += design.basis @ inside
        image = Z
        if design.dual:
            image = itself * model.tails
            image += design.basis_image @ inside
        return _Residual(R, Z, image, _dots(R, image), _dots(R, itself))

    def _solve(self, chunk: _Chunk, model: _Model, residual: _Residual, tol: float) -> tuple[Floats, Floats]:
        """Minimise the model by conjugate gradients; return coordinates and image, and update the trust."""
        design, allowed, trust = self.design, tol * chunk.objective, chunk.trust.copy()
        found = np.zeros_like(residual.R), np.zeros_like(model.curvatures), chunk.trust
        D, image_D = np.zeros_like(found[0]), np.zeros_like(found[1])
        P, image_P = np.zeros_like(found[0]), np.zeros_like(found[1])
        beta, gain = np.zeros_like(allowed), np.zeros_like(allowed)
        live = np.arange(len(allowed))
        for count in range(1, _MOST_INNER_STEPS + 1):
            P = residual.Z + beta.astype(self.dtype) * P
            image_P *= beta.astype(self.dtype)
            image_P += residual.image if design.dual else design.image(residual.Z)
            bent = model.curvatures * image_P
            if self.fit_intercept:
                mean = _ratio(_dots(model.curvatures, image_P), model.bend)
                bent -= model.curvatures * mean.astype(self.dtype)
            curvature = _dots(bent, image_P)
            curvature += 2.0 * self.ridge * _dots(P, image_P if design.dual else P)
            length = _ratio(residual.size, curvature)
            last = 0.5 * length * residual.size
            gain += last
            step = length.astype(self.dtype)
            D += step * P
            image_D += step * image_P
            left = self._residual(model, residual.R - step * (design.pull(bent) + 2.0 * self.ridge * P))
            # The inverse of a length is at least the smallest eigenvalue of P⁻¹H.
            trust = np.maximum(trust, length)
            enough = np.maximum(_SHARE_OF_GAIN * gain, _SHARE_OF_TOL * allowed)
            # If P is far from H, the first is too small; the second is about what as many steps again gain.
            gap = np.maximum(0.5 * trust * left.size, count * last)
            going = np.flatnonzero((gap > enough) & (length > 0))
            beta, residual = _ratio(left.size, residual.size), left
            if len(going) > _FULL_ENOUGH * len(live):
                continue
            for whole, part in zip(found, (D, image_D, trust), strict=True):
                whole[..., live] = part
            if len(going) == 0:
                break
            live, model, residual = live[going], model.take(going), residual.take(going)
            D, image_D = _take(D, going), _take(image_D, going)
            P, image_P = _take(P, going), _take(image_P, going)
            trust, gain, beta, allowed = trust[going], gain[going], beta[going], allowed[going]
        else:
            for whole, part in zip(found, (D, image_D, trust), strict=True):
                whole[..., live] = part
        return found[:2]

    def _move(self, chunk: _Chunk, D: Floats, image: Floats, shift: _Float64, slopes: Floats) -> None:
        """Take a full step along D, or less if that leads uphill; its image includes the shift."""
        own = image - shift.astype(self.dtype)
        constant = chunk.intercept.astype(self.dtype)
        if self.design.dual:
            across, square = _dots(D, chunk.scores - constant), _dots(D, own)
        else:
            across, square = _dots(D, chunk.coords), _dots(D, D)
        across, square = 2.0 * self.ridge * across, 2.0 * self.ridge * square
        begin = np.minimum(_dots(slopes, image) + across, 0.0)
        chosen = np.zeros(len(begin))
        places, t = np.arange(len(begin)), np.ones(len(begin))
        low, high = np.zeros(len(begin)), np.ones(len(begin))
        base = self.ridge * self._square(chunk)
        for _ in range(_MOST_TRIALS):
            part = chunk if len(places) == len(begin) else chunk.take(places)
            along = _take(image, places)
            values, slopes, curvatures = self.terms(part, part.scores + t.astype(self.dtype) * along)
            objective = values.sum(axis=0, dtype=np.float64) + base[places]
            objective += t * (across[places] + 0.5 * t * square[places])
            slope = _dots(slopes, along) + across[places] + t * square[places]
            lower = objective <= part.objective + self.rounding * np.abs(part.objective)
            good = (slope <= 0) | (lower & (slope <= -_UPHILL * begin[places]))
            chosen[places[good]] = t[good]
            chunk.gain[places[good]] = (part.objective - objective)[good]
            if good.all():
                break
            # Newton's method for the length, within the bracket.
            newton = t - _ratio(slope, _dots(curvatures * along, along) + square[places])
            low, high = np.where(slope > 0, low, t), np.where(slope > 0, t, high)
            margin = 0.05 * (high - low)
            inside = (newton > low + margin) & (newton < high - margin)
            t = np.where(inside, newton, 0.5 * (low + high))
            places, t, low, high = (part[~good] for part in (places, t, low, high))
        steps = chosen.astype(self.dtype)
        chunk.coords += steps * D
        chunk.scores += steps * image
        chunk.intercept += chosen * shift


class SeparableSolution(NamedTuple):
    """The result of `solve_separable`; ``result.solution`` holds the coefficients (d × L)."""

    result: SolverResult
    intercept: _Float64


def solve_separable(
    problem: SeparableProblem,
    *,
    start: tuple[_Float64, _Float64] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
) -> SeparableSolution:
    """Minimise Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ w_l + b_l) + ridge · ‖W‖² label by label.

    Parameters
    ----------
    problem : SeparableProblem
    start : pair of arrays of shapes (d, L) and (L,), optional
        Coefficients and intercepts to begin with, not on the dual side; by default zeros and the best
        constant scores.
    max_iter : int
        Most Newton steps of a label.
    tol : float
        Upper limit of the estimated gap (F_l − F_l*) / F_l of every label.
    callback : callable, optional
        Receives an `IterationInfo` after every round; a true return value stops. If the scores of all labels
        exceed 256 MiB (in single precision), groups of labels are solved one after the other, and rounds go
        on counting from group to group.

    Returns
    -------
    SeparableSolution
    """
    n, d, n_labels = problem.rows.shape
    coords = np.zeros((n if problem.design.dual else d, n_labels), dtype=problem.dtype)
    intercept, totals = np.zeros(n_labels), problem.rows.label_totals()
    if start is not None:
        coords[:] = start[0]
        if problem.design.complete:  # what is orthogonal to all rows would stay
            coords[:] = problem.design.basis @ (problem.design.basis.T @ coords)
        if problem.fit_intercept:
            intercept[:] = start[1] + problem.design.mean @ start[0]
    elif problem.fit_intercept:
        intercept[:] = best_constants(problem.loss, *totals)
    rounds = _Rounds(problem, coords, intercept, tol, callback)
    order = np.argsort(totals[1], kind="stable")  # labels of the same frequency take as many steps
    width = max(1, _SCORES_IN_WORK // n)
    for first in range(0, n_labels, width):
        rounds.run(order[first : first + width], max_iter, warm=start is not None)
    return rounds.solution()


class _Rounds(Recorder[None]):
    """Newton steps of all labels, and their record."""

    def __init__(
        self,
        problem: SeparableProblem,
        coords: Floats,
        intercept: _Float64,
        tol: float,
        callback: Callback | None,
    ) -> None:
        super().__init__(callback)
        self.problem, self.coords, self.intercept, self.tol = problem, coords, intercept, tol
        n_labels = len(intercept)
        self.chunk = _CHUNK_WIDE if problem.design.shape[1] > _WIDE_FROM else _CHUNK
        if not problem.design.is_sparse:
            self.chunk = _CHUNK_DENSE
        self.trust = np.full(n_labels, _FIRST_TRUST)
        self.objective, self.gap, self.slope, self.gain = (np.zeros(n_labels) for _ in range(4))
        self.blind = np.zeros(n_labels, dtype=np.intp)
        self.scale = 0.0

    def run(self, labels: _Places, max_iter: int, *, warm: bool) -> None:
        """Take rounds until the labels have converged."""
        problem = self.problem
        if self.status is not None:
            return
        scores = np.empty((problem.rows.shape[0], len(labels)), dtype=problem.dtype)
        scores[:] = self.intercept[labels].astype(problem.dtype)
        if warm:
            for some in self._chunks(np.arange(len(labels))):
                scores[:, some] += problem.design.image(np.ascontiguousarray(self.coords[:, labels[some]]))
        active = np.arange(len(labels))
        first = None
        for count in range(max_iter + 1):
            tol = self.tol if count < max_iter else np.inf  # the last round only evaluates
            with self.clock():
                work = map_in_threads(
                    partial(self._advance, labels, scores, tol, begin=count == 0 < max_iter and not warm),
                    self._chunks(active),
                )
                for _ in work:
                    pass
            if first is None:
                first = self.objective[labels].copy()
                self.scale += float(self.slope[labels].sum())
            self._record(begun=count > 0)
            least = problem.rounding * first[active]
            places = labels[active]
            open_ = (self.gap[places] > self.tol * self.objective[places]) | (count == 0 and not warm)
            open_ &= (self.objective[places] > least) & (self.blind[places] < _MOST_BLIND_ROUNDS)
            active = active[open_]
            if self.status is not None or len(active) == 0:
                return
        self.status = Status.MAX_ITER

    def _chunks(self, places: _Places) -> list[_Places]:
        return [places[i : i + self.chunk] for i in range(0, len(places), self.chunk)]

    def _advance(self, labels: _Places, scores: Floats, tol: float, some: _Places, *, begin: bool) -> None:
        places = labels[some]
        Y, factors = self.problem.labels(places)
        chunk = _Chunk(
            Y,
            factors,
            coords=np.ascontiguousarray(self.coords[:, places]),
            scores=np.ascontiguousarray(scores[:, some]),
            intercept=self.intercept[places],
            trust=self.trust[places],
            objective=self.objective[places],
            gap=self.gap[places],
            slope=self.slope[places],
            gain=self.gain[places],
        )
        self.problem.advance(chunk, tol, begin=begin)
        self.coords[:, places], scores[:, some] = chunk.coords, chunk.scores
        self.intercept[places], self.trust[places] = chunk.intercept, chunk.trust
        self.objective[places], self.gap[places], self.slope[places] = chunk.objective, chunk.gap, chunk.slope
        self.gain[places] = chunk.gain
        blind = chunk.gain <= self.problem.rounding * chunk.objective
        self.blind[places] = np.where(blind, self.blind[places] + 1, 0)

    def _record(self, *, begun: bool) -> None:
        objective = float(self.objective.sum())
        rank = min(*self.problem.design.shape, len(self.intercept)) if begun else 0
        residual = float(np.sqrt(self.slope.sum() / (self.scale or 1.0)))
        gap = float(self.gap.sum()) / objective if objective > 0 else 0.0
        self.record("newton" if begun else "start", objective, residual, rank, gap)

    def solution(self) -> SeparableSolution:
        """Return the coefficients with their exact objective."""
        problem, design = self.problem, self.problem.design
        W = self.coords
        if design.dual:
            W = np.empty((design.shape[1], len(self.intercept)), dtype=problem.dtype)
            for some in self._chunks(np.arange(W.shape[1])):
                W[:, some] = design.back(np.ascontiguousarray(self.coords[:, some]))
        intercept = self.intercept - design.mean @ W
        X = sp.csr_array(problem.rows.X) if design.is_sparse else problem.rows.X
        objective = sum(
            map_in_threads(
                lambda some: _objective(problem, X, W, intercept, some), self._chunks(np.arange(W.shape[1]))
            )
        )
        last = self.history.entries[-1]
        result = SolverResult(
            solution=W,
            factors=factors_of(W),
            status=self.status or (Status.CONVERGED if last.gap <= self.tol else Status.SETTLED),
            n_iter=len(self.history) - 1,
            objective=objective,
            gap=last.gap,
            residual=last.residual,
            history=self.history,
        )
        return SeparableSolution(result, intercept)


def slopes_at(rows: Rows, loss: Loss, W: Floats, intercept: _Float64) -> Floats:
    """Slopes dℓ/ds (n × L) at a solution, times weights, and 0 where a label is not known.

    At the optimum of `solve_separable`, W = −Xᵀ slopes / (2 ridge).
    """
    coefficients, shift = W.astype(rows.dtype, copy=False), intercept.astype(rows.dtype)
    parts = rows.map(lambda block: block.terms(loss, np.asarray(block.X @ coefficients) + shift).slopes)
    return np.concatenate(list(parts))


def _objective(problem: SeparableProblem, X: Any, W: Floats, intercept: _Float64, places: _Places) -> float:
    """Sum of the objectives of some labels, in double precision."""
    some = W[:, places].astype(np.float64)
    Y, factors = problem.labels(places)
    scores = np.asarray(X @ some) + intercept[places]
    values = problem.loss.terms(Y.astype(np.float64), scores).values
    if factors is not None:
        values *= factors
    return float(values.sum()) + problem.ridge * float(np.vdot(some, some))


def factors_of(W: Floats) -> Factors:
    """Thin singular value decomposition of a matrix, in double precision, by its smaller Gram matrix.

    That loses small singular values. They come from a QR decomposition; or, if W is in single precision, from
    what remains of W beside the large ones, without another copy of W.
    """
    if W.shape[0] < W.shape[1]:
        U, s, V = factors_of(W.T)
        return Factors(V, s, U)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(W), _BLOCK)]
    gram = np.zeros((W.shape[1], W.shape[1]))
    for block in blocks:
        part = W[block].astype(np.float64)
        gram += part.T @ part
    squares, V = np.linalg.eigh(gram)
    s, V = np.sqrt(np.maximum(squares[::-1], 0.0)), np.ascontiguousarray(V[:, ::-1])
    large = int(np.count_nonzero(s > 1e4 * gram_noise(s)))  # U is orthonormal to 1e-8
    if large < len(s) and W.dtype == np.float64:
        U, s, V = Factors.of_sides(W, np.eye(W.shape[1]))
    else:
        U = np.empty(W.shape)
        scaled = V / np.append(s[:large], np.ones(len(s) - large))
        for block in blocks:
            U[block] = W[block] @ scaled
        if large < len(s):
            rest = U[:, large:] - U[:, :large] @ (U[:, :large].T @ U[:, large:])
            U[:, large:], s[large:], turn = Factors.of(rest)
            V[:, large:] = V[:, large:] @ turn
    kept = int(np.count_nonzero(s > max(W.shape) * np.finfo(np.float64).eps * s[0]))
    return Factors(U[:, :kept], s[:kept], V[:, :kept])


def _ratio(over: _Float64, under: _Float64) -> _Float64:
    """Divide; 0 where the divisor is not positive."""
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)


def _take(part: Any, places: _Places) -> Any:
    """Return some columns, or entries, in order; a single column stands for all."""
    if part is None or part.shape[-1] in (1, len(places)):
        return part
    return np.ascontiguousarray(part[..., places])


def _columns(matrix: Any, places: _Places, dtype: npt.DTypeLike) -> Floats:
    some = matrix[:, places]
    return np.ascontiguousarray(some.toarray() if is_sparse(some) else some, dtype=dtype)


def _dots(A: Floats, B: Floats) -> _Float64:
    """Inner products of columns."""
    return np.asarray(np.einsum("ij,ij->j", A, B), dtype=np.float64)


def _varying(X: Any) -> npt.NDArray[np.bool_]:
    """Which columns are not constant."""
    edges = (X.min(axis=0), X.max(axis=0))
    low, high = (np.asarray(edge.toarray() if is_sparse(edge) else edge).ravel() for edge in edges)
    varying: npt.NDArray[np.bool_] = low != high
    return varying
