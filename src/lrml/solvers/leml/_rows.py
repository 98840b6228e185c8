"""Any loss, with or without unknown labels: Newton steps for Z and for H and the intercepts, in turn."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lrml._arrays import Array, dot, full_precision, inner, namespace, row_dots
from lrml.solvers._result import Factors
from lrml.solvers.leml._design import Design, spectral_start
from lrml.solvers.leml._factors import (
    EPS,
    TINY,
    LemlResult,
    Limits,
    LinearMap,
    Penalty,
    alternate,
    balance,
    closed_form,
    column_dots,
    quotient,
    relative_gradient,
    resize,
)
from lrml.solvers.leml._terms import DataTerm

# The first extrapolation is half of the last sweep; it grows a little after each success, halves after a
# failure, and stops when it has become futile.
_FIRST_STRIDE, _GROWTH, _LEAST_STRIDE = 0.5, 1.1, 0.05
# Mean curvatures of labels below this share of the largest one count as that in the preconditioners.
_LEAST_CURVATURE = 1e-3
# Conjugate gradients end when the preconditioned residual has shrunk to this share, or after so many
# products: more accurate steps cost more than they save in sweeps.
ACCURACY = 0.1
_LEAST_BEND = 1e-6  # of the curvature that the preconditioner expects
MAX_PRODUCTS = 10
_ARMIJO, _MAX_HALVINGS = 1e-4, 15
# Differences of objectives below this share of them are rounding.
_ROUNDING = 1e-13


def solve_rows(
    design: Design,
    term: DataTerm,
    penalty: Penalty,
    rank: int,
    constants: Array,
    limits: Limits,
    random: np.random.RandomState,
    *,
    fit_intercept: bool = True,
    start: tuple[Array, Array, Array] | None = None,
) -> LemlResult:
    """Minimise F for any loss.

    ``constants`` are the scores of the best model without features (zeros without intercept). ``start`` is a
    balanced Z and H, of any rank, and scores at the mean; the leading directions of the gradient at zero if
    not given. All arrays are where the design is; random numbers are drawn on the host.
    """
    (n, d), n_labels, place = design.shape, constants.shape[0], design.place
    rank = min(rank, d, n_labels)
    with full_precision(constants):
        Z, slope = spectral_start(design, term, constants, rank, random)
        if penalty.alpha >= slope:  # the penalty exceeds any gain
            nothing = term.evaluate(place.zeros((n, 1)), place.zeros((n_labels, 1)), constants)
            zero = Factors(*(place.asarray(factor) for factor in Factors.zero((d, n_labels))))
            return closed_form(zero, constants, nothing.total, limits)
        point = (Z, place.zeros((n_labels, rank)), constants)
        if start is not None:
            point = (*resize(start[0], start[1], rank, random), start[2])
        sweeps = _RowAlternation(design, term, penalty, point, unit=slope, fit_intercept=fit_intercept)
        return alternate(sweeps, limits)


class _RowAlternation:
    """Alternating Newton steps by conjugate gradients.

    A = (X − 1x̄ᵀ)Z holds the codes of the examples, and c the scores at the mean. Newton's equation for Z has
    the Hessian D ↦ Xᵀ(C ∘ XDHᵀ)H + D (alpha + 2 ridge HᵀH); its preconditioner replaces the second
    derivatives C by their means by label and XᵀX by its diagonal, or keeps all of XᵀX if d is small. Given A,
    the objective is a sum over labels: each has its own Newton step for (h_l, c_l), with conjugate gradients
    and a line search of its own, preconditioned by AᵀA. That preconditioner is exact for the squared loss
    with all labels known.

    Alternating steps tend to keep their direction. A sweep therefore begins with a step along the last one,
    if that lowers the objective; where this works it halves the number of sweeps.

    ``start`` is Z, H and c; a column of H may be zero, for H is improved first. ``unit`` is ‖∇f(0)‖₂, the
    unit of the residual. Without ``fit_intercept`` c does not change.
    """

    def __init__(
        self,
        design: Design,
        term: DataTerm,
        penalty: Penalty,
        start: tuple[Array, Array, Array],
        *,
        unit: float,
        fit_intercept: bool = True,
    ) -> None:
        self.design, self.term, self.penalty = design, term, penalty
        self.unit, self.fit_intercept = unit, fit_intercept
        self.Z, self.H, self.c = start
        self._stride = _FIRST_STRIDE
        self._last_move: tuple[Array, Array, Array] | None = None
        self.A = design.times(self.Z)
        self._here = term.evaluate(self.A, self.H, self.c)
        self._improve_labels()
        self._settle()

    def sweep(self) -> None:
        """Improve Z, then H and c, and balance."""
        before = (self.Z, self.H, self.c)
        if self._last_move is not None and self._stride >= _LEAST_STRIDE:
            self._extrapolate(self._last_move)
        self._improve_features()
        self._improve_labels()
        self._last_move = (self.Z - before[0], self.H - before[1], self.c - before[2])
        self._settle()

    def gradients(self) -> tuple[Array, Array, Array]:
        """Gradients of F with respect to Z, H and c."""
        here = self._here
        return (
            self.design.transposed(here.rows) + self.penalty.product(self.Z, self.H.T @ self.H),
            here.labels + self.penalty.product(self.H, self.Z.T @ self.Z),
            here.totals * float(self.fit_intercept),
        )

    def _extrapolate(self, move: tuple[Array, Array, Array]) -> None:
        """Extrapolate the last move, if that lowers the objective."""
        Z, H, c = (x + self._stride * dx for x, dx in zip((self.Z, self.H, self.c), move, strict=True))
        A = self.design.times(Z)
        there = self.term.evaluate(A, H, c)
        objective = there.total + self.penalty.value(Z, H)
        if objective > self.objective:
            self._stride *= 0.5
            return
        self._stride *= _GROWTH
        self.Z, self.H, self.c, self.A, self._here = Z, H, c, A, there
        self._slope_Z = self.gradients()[0]

    def _settle(self) -> None:
        """Balance, and evaluate."""
        self.Z, self.H, self.sigma, left, right = balance(self.Z, self.H)
        if self._last_move is not None:  # in the coordinates of the new factors
            of_Z, of_H, of_c = self._last_move
            self._last_move = (of_Z @ left, of_H @ right, of_c)
        self.A = self.A @ left
        self._here = self._here.through(left, right)
        self.objective = self._here.total + self.penalty.balanced(self.sigma)
        of_Z, of_H, of_c = self.gradients()
        self._slope_Z = of_Z
        of_factors = relative_gradient((of_Z, of_H), (self.Z, self.H), self.unit)
        self.residual = float(np.hypot(of_factors, math.sqrt(inner(of_c, of_c)) / self.unit))

    def _improve_features(self) -> None:
        """One Newton step for Z."""
        xp = namespace(self.H)
        curvature = self.term.curvature(self.A, self.H, self.c)
        scale, P = xp.linalg.eigh((self.H * _floored(curvature.means)[:, None]).T @ self.H)
        scale, gram = xp.maximum(scale, 0.0), self.H.T @ self.H
        shifts = self.penalty.alpha + 2.0 * self.penalty.ridge * column_dots(P, gram @ P)
        divide = self.design.divider(scale, shifts)

        def product(D: Array) -> Array:
            return self.design.sandwich(curvature.along_rows, D) + self.penalty.product(D, gram)

        def precondition(R: Array) -> Array:
            return divide(R @ P) @ P.T

        D = newton_direction(self._slope_Z, product, precondition)
        shift = self.design.times(D)
        Z, A, here = self.Z, self.A, self._here

        def trial(steps: Array) -> Array:
            step = float(steps[0])
            self.Z, self.A = Z + step * D, A + step * shift
            self._here = self.term.evaluate(self.A, self.H, self.c)
            return np.array([self._here.total + self.penalty.value(self.Z, self.H)])

        before = np.array([here.total + self.penalty.value(Z, self.H)])
        backtrack(trial, before, np.array([inner(self._slope_Z, D)]))

    def _improve_labels(self) -> None:
        """One Newton step for every label, of (h_l, c_l) together."""
        xp = namespace(self.H)
        curvature = self.term.curvature(self.A, self.H, self.c)
        means = _floored(curvature.means)[:, None]
        gram, penalty = self.Z.T @ self.Z, self.penalty
        # Exact if all labels have the same curvature.
        shared = 2.0 * penalty.ridge / float(xp.mean(means))
        scale, P = xp.linalg.eigh(self.design.weighted_gram(self.A) + shared * gram)
        model = means * xp.maximum(scale, 0.0)
        model += max(penalty.alpha, EPS * float(xp.max(model)), TINY)
        free, total_weight = float(self.fit_intercept), self.design.total_weight

        def product(D: Array) -> Array:
            of_H, of_c = curvature.along_labels(D[:, :-1], D[:, -1])
            return xp.concat([of_H + penalty.product(D[:, :-1], gram), free * of_c[:, None]], axis=1)

        def precondition(R: Array) -> Array:
            # A is centred, so the intercepts decouple.
            of_c = free * R[:, -1:] / (means * total_weight)
            return xp.concat([((R[:, :-1] @ P) / model) @ P.T, of_c], axis=1)

        here, H, c = self._here, self.H, self.c
        gradient = xp.concat([here.labels + penalty.product(H, gram), free * here.totals[:, None]], axis=1)
        D = newton_direction(gradient, product, precondition, by_row=True)

        def trial(steps: Array) -> Array:
            self.H, self.c = H + steps[:, None] * D[:, :-1], c + steps * D[:, -1]
            self._here = self.term.evaluate(self.A, self.H, self.c)
            return self._here.values + penalty.by_row(self.H, gram)

        backtrack(trial, here.values + penalty.by_row(H, gram), row_dots(gradient, D))


def _floored(means: Array) -> Array:
    """Keep the curvatures of labels that hardly have any away from zero."""
    xp = namespace(means)
    return xp.maximum(xp.maximum(means, _LEAST_CURVATURE * float(xp.max(means))), TINY)


def _inner(a: Array, b: Array, *, by_row: bool) -> Array:
    """Return ⟨a, b⟩ as a 1 × 1 array, or that of every row as a column."""
    if by_row:
        return row_dots(a, b)[:, None]
    return namespace(a, b).reshape(dot(a, b), (1, 1))


def newton_direction(
    gradient: Array, product: LinearMap, precondition: LinearMap, *, by_row: bool = False
) -> Array:
    """Solve Hessian · D = −gradient approximately by conjugate gradients; D is a direction of descent.

    ``product`` maps D to Hessian · D, ``precondition`` R to about Hessian⁻¹ · R; both are symmetric. With
    ``by_row`` the Hessian treats each row of D on its own, and each takes steps of its own.
    """
    xp = namespace(gradient)
    D = xp.zeros_like(gradient)
    residual = -gradient
    direction = precondition(residual)
    height = _inner(residual, direction, by_row=by_row)
    target = ACCURACY**2 * height
    for _ in range(MAX_PRODUCTS):
        active = height > target
        if not bool(xp.any(active)):
            break
        image = product(direction)
        bend = _inner(direction, image, by_row=by_row)
        active &= bend > 0
        # If the loss is almost flat, a step would overflow.
        bend = xp.maximum(bend, _LEAST_BEND * height)
        step = quotient(height, bend, active)
        D += step * direction
        residual -= step * image
        better = precondition(residual)
        last, height = height, xp.where(active, _inner(residual, better, by_row=by_row), 0.0)
        ratio = quotient(height, last, active)
        direction = better + ratio * direction
    return D


def backtrack(trial: Callable[[Array], Array], before: Array, slopes: Array) -> None:
    """Halve steps until each objective has fallen enough; a step becomes 0 if none was short enough.

    ``trial`` moves by the steps and returns the objectives, which depend on one step each; ``before`` and
    ``slopes`` are objectives and derivatives (not positive) at step 0.
    """
    xp = namespace(before)
    steps = xp.ones_like(before)
    for _ in range(_MAX_HALVINGS):
        after = trial(steps)
        good = after <= before + _ARMIJO * steps * slopes + _ROUNDING * xp.abs(before)
        if bool(xp.all(good)):
            return
        steps = xp.where(good, steps, 0.5 * steps)
    trial(xp.where(good, steps, 0.0))
