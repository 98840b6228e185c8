"""Losses over rows without a penalty on singular values: Newton's method for many labels side by side.

::

    F_l(w, b) = Σ_i known  w_i ℓ(y_il, x_iᵀ w + b) + ridge · ‖w‖²        for every label l on its own

Each round takes one Newton step for every label that has not converged, in chunks of labels that share the
products with X and run in threads. The Newton equations, without the intercept, are solved by preconditioned
conjugate gradients. Nothing is d × d (unless d is small) or n × n.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import is_sparse, map_in_threads
from lrml.core.dual import dual_coordinates, row_kernel
from lrml.core.linalg import Factors, descending_eigh, differ_widely, spectral_coordinates, tall_svd
from lrml.core.losses import Floats, Loss, best_constants
from lrml.core.moments import CentredRows, Statistics
from lrml.core.operators import (
    COLUMNS,
    ConjugateGradients,
    NormalOperator,
    Vectors,
    column_sums,
    leading_directions,
    ratio,
    taken,
)
from lrml.core.rows import Block, Rows
from lrml.solvers._loop import Callback, Recorder, SolverResult, Status

_Float64 = npt.NDArray[np.float64]
_Places = npt.NDArray[np.intp]

# Up to this density, products with a sparse X are faster than with a dense one.
_SPARSE_UP_TO = 0.06
# X is decomposed completely if it has at most so many directions (more, if features differ widely in scale);
# otherwise this many leading ones are found.
_ALL_DIRECTIONS, _ALL_IF_WIDE, _LEADING = 600, 3000, 64
# Scores of the labels in work: 256 MiB in single precision.
_SCORES_IN_WORK = 1 << 26
# Conjugate gradients end when the gap of the model is this share of its gain, or of what tol permits.
_SHARE_OF_GAIN, _SHARE_OF_TOL = 0.25, 0.3
_MOST_INNER_STEPS = 300
_LEAST_CURVATURE = 1e-3  # of a label, as a share of the largest: a perfectly fitted label has none
# A step is shortened by the second until it gains this share of what the slope at its start promises.
_MOST_TRIALS, _DOWNHILL, _SHORTER = 40, 0.3, 0.4
_FALLING = 0.25  # ratio of the gains of two steps, at most, near the end
_FIRST_TRUST, _FORGETTING = 2.0, 0.7
_MOST_BLIND_ROUNDS = 10  # which gain nothing that the precision of the scores can tell


class Design:
    """X, centred by its weighted mean if there is an intercept, and what Newton's method needs from it.

    A *vector* stands for some w in R^d. It has coordinates, w itself or, on the dual side, a with w = Xᵀa;
    and an image, Xw. So with more features than rows no vector is longer than n. Columns of ``basis`` are the
    coordinates of eigenvectors of Xᵀ diag(weights) X, and ``rest`` is the mean of the other eigenvalues;
    infinite if there are none, as the basis is ``complete``.
    """

    def __init__(self, rows: Rows, *, fit_intercept: bool, dual: bool) -> None:
        X, (n, d, _), no_labels = rows.X, rows.shape, np.zeros((rows.shape[0], 1))
        entries = X.nnz if is_sparse(X) else np.count_nonzero(X)
        if entries <= _SPARSE_UP_TO * n * d:
            X = sp.csr_array(X)
        elif is_sparse(X):
            X = X.toarray()
        found = CentredRows.of(X, no_labels, rows.weights)
        self.mean = fit_intercept * found.x_mean
        if not fit_intercept:
            found = found.uncentred(X, no_labels)
        self.X = NormalOperator(replace(found, weights=np.ones(n)), rows.dtype, may_be_dual=dual)
        self.dual, self.size, self.dtype = self.X.is_dual, self.X.size, rows.dtype
        squares = np.asarray((found.X * found.X).T @ found.weights) - found.weight * found.x_offset**2
        squares, self.rest = np.maximum(squares, 0.0), np.inf
        self.complete = self.size <= _ALL_DIRECTIONS
        if not self.dual and self.size <= _ALL_IF_WIDE:
            self.complete |= differ_widely(squares)
        if not self.complete:
            self.eigenvalues, basis = self._leading(found.weights[:, None])
            others = max(min(n, d) - len(self.eigenvalues), 1)
            self.rest = max(float(squares.sum() - self.eigenvalues.sum()), 0.0) / others
        elif self.dual:
            self.eigenvalues, basis, _ = dual_coordinates(row_kernel(found), found, d)[0]
        else:
            moments = Statistics.from_arrays(rows.X, no_labels, rows.weights)
            self.eigenvalues, basis, _ = spectral_coordinates(moments.moments(fit_intercept=fit_intercept))
            basis = basis * bool(squares.any())  # if X is constant, only rounding would be learnt
        self.basis = basis.astype(self.dtype)
        self.basis_image = self.image(self.basis) if self.dual else self.basis

    def pull(self, Q: Floats) -> Floats:
        """Coordinates of XᵀQ."""
        return Q if self.dual else self.X.backward(Q)

    def image(self, C: Floats) -> Floats:
        """Image of the vectors with these coordinates."""
        return self.X.apply(C) if self.dual else self.X.forward(C)

    def _leading(self, weights: _Float64) -> tuple[Floats, Floats]:
        """Return leading eigenvalues and vectors, approximately."""
        root = np.sqrt(weights).astype(self.dtype)

        def gram(B: Floats) -> Floats:
            if self.dual:  # √w XXᵀ √w has the same eigenvalues, but for zeros
                return root * self.image(root * B)
            return self.X.backward(root * root * self.X.forward(B))

        vectors, values = leading_directions(gram, self.size, _LEADING, self.dtype)
        if self.dual:  # the preconditioner takes Xᵀ times them for orthonormal
            vectors = root * vectors
            values, turn = descending_eigh((vectors.T @ self.image(vectors)).astype(np.float64))
            kept = values > self.size * float(np.finfo(self.dtype).eps) * max(float(values[0]), 0.0)
            values, vectors = values[kept], vectors @ (turn[:, kept] / np.sqrt(values[kept]))
        return values, vectors


@dataclass
class _Labels:
    """Where some labels are; arrays have one column, or one entry, per label."""

    places: _Places
    coords: Floats
    scores: Floats
    intercept: _Float64  # seen from the mean of X
    trust: _Float64  # how much larger than ½⟨g, P⁻¹g⟩ the gap may be, as the last step has shown
    objective: _Float64
    gap: _Float64
    slope: _Float64  # squared norm of the gradient
    gain: _Float64  # of the last step
    blind: _Float64  # last rounds that gained nothing

    def take(self, some: _Places) -> Self:
        """Return a copy of some of the labels."""
        return type(self)(*(np.take(getattr(self, part.name), some, axis=-1) for part in fields(self)))

    def put(self, some: _Places, part: _Labels) -> None:
        """Copy some of the labels back."""
        for field in fields(self):
            getattr(self, field.name)[..., some] = getattr(part, field.name)


class _Newton(NamedTuple):
    """The Newton equations of some labels, the intercepts eliminated, and a preconditioner.

    P⁻¹ = tails + V heads Vᵀ is the inverse of c_l XᵀX + 2 ridge, c_l the mean curvature of the label, on the
    span of V. If that is not all of the span of the rows, the other eigenvalues are replaced by their mean.
    Vectors are coordinates and images.
    """

    design: Design
    ridge: float
    curvatures: Floats
    bend: _Float64  # sums of the curvatures; infinite without an intercept
    heads: Floats
    tails: Floats

    @classmethod
    def of(cls, problem: SeparableProblem, curvatures: Floats, bend: _Float64) -> _Newton:
        """Make the preconditioner."""
        design, ridge = problem.design, problem.ridge
        c = np.maximum(bend / problem.weight, _LEAST_CURVATURE * problem.loss.largest_curvature)
        tails = 1.0 / (c * design.rest + 2.0 * ridge)
        heads = 1.0 / (np.multiply.outer(design.eigenvalues, c) + 2.0 * ridge) - tails
        if not problem.fit_intercept:
            bend = np.full(len(c), np.inf)
        return cls(design, ridge, curvatures, bend, heads.astype(design.dtype), tails.astype(design.dtype))

    def precondition(self, residual: Floats) -> tuple[Vectors, _Float64, _Float64]:
        """Return P⁻¹r, ⟨r, P⁻¹r⟩ and ‖r‖²."""
        design = self.design
        itself = design.image(residual) if design.dual else residual
        inside = self.heads * (design.basis.T @ itself)
        ahead = residual * self.tails
        ahead += design.basis @ inside
        vectors: Vectors = (ahead,)
        if design.dual:
            image = itself * self.tails
            image += design.basis_image @ inside
            vectors = (ahead, image)
        return vectors, column_sums(residual, vectors[-1]), column_sums(residual, itself)

    def product(self, direction: Vectors) -> tuple[Floats, _Float64, Vectors]:
        """Return Hp, ⟨p, Hp⟩, and the image of p if it is not known."""
        further: Vectors = () if self.design.dual else (self.design.image(direction[0]),)
        P, image = direction + further
        bent = self.curvatures * (image - self.drop(image).astype(image.dtype))
        bent = self.design.pull(bent) + 2.0 * self.ridge * P
        return bent, column_sums(bent, direction[-1]), further

    def drop(self, image: Floats) -> _Float64:
        """Return how far the intercepts fall where vectors with this image are added."""
        return ratio(column_sums(self.curvatures, image), self.bend)

    def take(self, places: _Places) -> _Newton:
        """Return some of the equations."""
        names = ("curvatures", "bend", "heads", "tails")
        return self._replace(**{name: taken(getattr(self, name), places) for name in names})


class SeparableProblem:
    """The objectives of all labels.

    Products and scores have the precision ``rows.dtype``. If ``dual``, coordinates are those of rows: fewer,
    if there are more features than rows.
    """

    def __init__(
        self, rows: Rows, loss: Loss, ridge: float = 0.0, *, fit_intercept: bool = True, dual: bool = False
    ) -> None:
        self.rows, self.loss, self.ridge, self.fit_intercept = rows, loss, ridge, fit_intercept
        self.design = Design(rows, fit_intercept=fit_intercept, dual=dual)
        self.dtype, self.weight = rows.dtype, rows.total_weight
        self.rounding = 4.0 * float(np.finfo(self.dtype).eps)  # relative accuracy of the objective
        self.Y = rows.Y.tocsc() if is_sparse(rows.Y) else rows.Y
        pattern: Any = None if rows.mask is None else rows.mask.pattern
        self.pattern = pattern.tocsc() if is_sparse(pattern) else pattern

    def with_ridge(self, ridge: float) -> SeparableProblem:
        """Return the same problem with another ridge, at no cost."""
        other = copy(self)
        other.ridge = ridge
        return other

    def begin(self, places: _Places, start: tuple[_Float64, _Float64] | None) -> _Labels:
        """Return some labels at a start, or at the best constant scores."""
        design, n = self.design, self.rows.shape[0]
        coords = np.zeros((design.size, len(places)), dtype=self.dtype)
        intercept, *zeros = np.zeros((6, len(places)))
        if start is not None:
            coords[:] = start[0][:, places]
            intercept += self.fit_intercept * (start[1][places] + design.mean @ coords)
            if design.complete:  # what is orthogonal to all rows would stay
                coords = design.basis @ (design.basis.T @ coords)
        elif self.fit_intercept:
            intercept[:] = best_constants(self.loss, *self.rows.label_totals)[places]
        scores = np.empty((n, len(places)), dtype=self.dtype)
        scores[:] = intercept
        if start is not None:
            scores += design.X.wide(design.image, coords, length=n)
        return _Labels(places, coords, scores, intercept, np.full(len(places), _FIRST_TRUST), *zeros)

    def block(self, places: _Places) -> Block:
        """Return columns of Y, and the factors of their losses."""
        rows = self.rows
        factors = None if rows.weights is None else rows.weights[:, None].astype(self.dtype)
        if rows.mask is not None:
            known = _columns(self.pattern, places, self.dtype)
            known = known if rows.mask.marks_known else 1.0 - known
            factors = known if factors is None else known * factors
        return Block(None, _columns(self.Y, places, self.dtype), factors)

    def advance(self, labels: _Labels, tol: float, some: _Places, *, begin: bool) -> None:
        """Evaluate some labels where they are, then take a Newton step with those whose gap is above tol.

        To begin with, all of them take one: a strong ridge leaves a small gap, but something to learn.
        """
        at = labels.take(some)
        block = self.block(at.places)
        values, slopes, curvatures = block.terms(self.loss, at.scores)
        bend = curvatures.sum(axis=0, dtype=np.float64)
        lift = np.zeros(len(some))  # where the intercepts go if nothing else moves
        reduced = slopes
        if self.fit_intercept:
            lift = -ratio(slopes.sum(axis=0, dtype=np.float64), bend)
            reduced = slopes + curvatures * lift.astype(self.dtype)
        downhill = -self.design.pull(reduced)
        downhill -= 2.0 * self.ridge * at.coords
        equations = _Newton.of(self, curvatures, bend)
        steps = ConjugateGradients(equations, downhill)
        at.objective = values.sum(axis=0, dtype=np.float64)
        at.objective += self.ridge * column_sums(at.coords, self._seen(at))
        at.slope = steps.square
        # ‖g‖²/4ridge bounds the gap. ½⟨g, P⁻¹g⟩, over the smallest eigenvalue of P⁻¹H that was seen,
        # estimates it; so does the last gain, as gains fall from step to step.
        bound = at.slope / (4.0 * self.ridge) if self.ridge > 0 else np.inf
        estimate = np.maximum(0.5 * at.trust * steps.size, _FALLING * at.gain)
        at.gap = np.minimum(estimate, bound) + 0.5 * bend * lift * lift
        at.gain = np.zeros(len(some))
        moving = (at.gap > tol * at.objective) | begin
        if moving.any():
            D, image = self._direction(at, steps, moving, tol)
            shift = np.zeros(len(some))
            if self.fit_intercept:
                shift[moving] = (lift - equations.drop(image))[moving]
            self._move(at, block, slopes, D, image, shift)
        at.blind = np.where(at.gain <= self.rounding * at.objective, at.blind + 1, 0)
        labels.put(some, at)

    def _direction(
        self, at: _Labels, steps: ConjugateGradients, moving: npt.NDArray[np.bool_], tol: float
    ) -> Vectors:
        """Solve the Newton equations, and update the trust; return coordinates and image."""
        at.trust = np.where(moving, np.maximum(1.0, _FORGETTING * at.trust), at.trust)

        def goes_on(now: ConjugateGradients) -> npt.NDArray[np.bool_]:
            # The inverse of a length is at least the smallest eigenvalue of P⁻¹H.
            at.trust[now.places] = trust = np.maximum(at.trust[now.places], now.length)
            allowed = tol * at.objective[now.places]
            enough = np.maximum(_SHARE_OF_GAIN * now.gain, _SHARE_OF_TOL * allowed)
            # If P is far from H, the first is too small; the second is about what as many steps again gain.
            left = np.maximum(0.5 * trust * now.size, now.count * now.last)
            more: npt.NDArray[np.bool_] = (left > enough) & (now.length > 0)
            return more

        steps.take(np.flatnonzero(moving))
        return steps.run(goes_on, _MOST_INNER_STEPS)

    def _seen(self, at: _Labels) -> Floats:
        """Coefficients as inner products with coordinates take them."""
        return at.scores - at.intercept.astype(self.dtype) if self.design.dual else at.coords

    def _move(
        self, at: _Labels, block: Block, slopes: Floats, D: Floats, image: Floats, shift: _Float64
    ) -> None:
        """Take a full step along D and the shift of the intercept, or less if that leads uphill."""
        seen = self._seen(at)
        base = self.ridge * column_sums(at.coords, seen)
        across = 2.0 * self.ridge * column_sums(D, seen)
        square = 2.0 * self.ridge * column_sums(D, image if self.design.dual else D)
        image += shift.astype(self.dtype)
        begin, t = np.minimum(column_sums(slopes, image) + across, 0.0), np.ones(len(across))
        for _ in range(_MOST_TRIALS):
            values = block.terms(self.loss, at.scores + t.astype(self.dtype) * image).values
            objective = values.sum(axis=0, dtype=np.float64) + base + t * (across + 0.5 * t * square)
            allowed = at.objective + _DOWNHILL * t * begin + self.rounding * np.abs(at.objective)
            good = objective <= allowed
            if good.all():
                break
            t = np.where(good, t, _SHORTER * t)
        t = np.where(good, t, 0.0)
        at.gain = good * (at.objective - objective)
        at.coords += t.astype(self.dtype) * D
        at.scores += t.astype(self.dtype) * image
        at.intercept += t * shift


def solve_separable(
    problem: SeparableProblem,
    *,
    start: tuple[_Float64, _Float64] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
    keep: Callable[[_Places, Floats], None] | None = None,
) -> SolverResult:
    """Minimise Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ w_l + b_l) + ridge · ‖W‖² label by label.

    ``solution`` holds the coefficients (d × L). ``start`` has coefficients and intercepts to begin with, not
    on the dual side; by default zeros and the best constant scores. A label takes at most ``max_iter`` Newton
    steps, until its estimated gap (F_l − F_l*) / F_l is at most ``tol``. The callback receives an
    `IterationInfo` after every round; a true return value stops. If the scores of all labels exceed 256 MiB
    (in single precision), groups of labels are solved one after the other, and rounds go on counting from
    group to group. ``keep`` takes the labels and coefficients of each group; then there is no solution of all
    of them, and there are no factors.
    """
    (n, d, n_labels), design = problem.rows.shape, problem.design
    W = np.empty((d, 0 if keep else n_labels), dtype=problem.dtype)
    constants = best_constants(problem.loss, *problem.rows.label_totals)  # of labels that are never begun
    intercept = np.array(constants) if problem.fit_intercept else np.zeros(n_labels)
    # Objective, gap and squared slope of earlier groups.
    run, cold, first_slope, before = Recorder(callback), start is None, 0.0, np.zeros(3)
    # Labels of the same frequency take as many steps.
    order = np.argsort(problem.rows.label_totals[1], kind="stable")
    width = max(1, _SCORES_IN_WORK // n)
    for first in range(0, n_labels, width):
        if keep is not None and run.status is Status.STOPPED:
            break
        labels = problem.begin(order[first : first + width], start)
        active = np.arange(len(labels.places))
        count = 0
        while run.status is None and len(active):
            begin = cold and count == 0 < max_iter
            now = tol if count < max_iter else np.inf  # the last round only evaluates
            chunks = [active[i : i + COLUMNS] for i in range(0, len(active), COLUMNS)]
            list(map_in_threads(partial(problem.advance, labels, now, begin=begin), chunks))
            if count == 0:
                least = problem.rounding * labels.objective
                first_slope += float(labels.slope.sum())
            sums = before + [part.sum() for part in (labels.objective, labels.gap, labels.slope)]
            objective, gap, slope = map(float, sums)
            residual = float(np.sqrt(slope / (first_slope or 1.0)))
            gap = gap / objective if objective > 0 else 0.0
            rank = min(problem.rows.shape) if count else 0
            run.record("newton" if count else "start", objective, residual, rank, gap)
            unsure = (labels.gap > tol * labels.objective) | (count == 0 and cold)
            unsure &= (labels.objective > least) & (labels.blind < _MOST_BLIND_ROUNDS)
            active = active[unsure[active]]
            if count == max_iter and len(active) and run.status is None:
                run.status = Status.MAX_ITER
            count += 1
        before = sums
        places, found = labels.places, labels.coords
        found = design.X.wide(design.X.backward, found, length=d) if design.dual else found
        intercept[places] = labels.intercept - design.mean @ found
        if keep is not None:
            keep(places, found)
        else:
            W[:, places] = found
    del labels, found
    last = run.history[-1]
    objective, factors = last.objective, Factors(W, np.zeros(0), W[:0].T)
    if keep is None:
        factors = Factors(*tall_svd(W))
        precise = replace(problem.rows, dtype=np.float64)
        terms = precise.map(lambda block: block.terms_at(problem.loss, W, intercept))
        objective = sum(float(part.values.sum()) for part in terms)
        objective += problem.ridge * float(factors.s @ factors.s)
    return SolverResult(
        solution=W,
        intercept=intercept,
        factors=factors,
        status=run.status or (Status.CONVERGED if last.gap <= tol else Status.SETTLED),
        n_iter=len(run.history) - 1,
        objective=objective,
        gap=last.gap,
        residual=last.residual,
        history=run.history,
    )


def _columns(matrix: Any, places: _Places, dtype: npt.DTypeLike) -> Floats:
    some = matrix[:, places]
    return np.ascontiguousarray(some.toarray() if is_sparse(some) else some, dtype=dtype)
