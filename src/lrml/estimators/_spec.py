"""What a user asks for, checked (`Parameters`); what a fit then minimises (`Spec`); and defaults.

`CHECKS` has one entry per parameter: every one, and what does not go together, is checked before any data is
read. What depends on the shape of the data (theta and ranks against min(d, L), a threshold per label) is
checked as soon as the shape is known, before anything is summed. A ridge, an alpha and a theta that are not
given follow the data.

*Generalised cross-validation* (Golub, Heath, Wahba 1979) tells the error of ridge regression on unseen rows,

::

    GCV(ρ) = n ‖(I − H_ρ) Y‖²_F / (n − 1 − c tr H_ρ)²,   H_ρ = X (XᵀX + ρ)⁻¹ Xᵀ,   X and Y centred,

with tr H_ρ = Σ λ_i / (λ_i + ρ) and ‖(I − H_ρ) Y‖² = Σ e_i (ρ / (λ_i + ρ))², e_i the squared length of Y along
the i-th left singular vector of X. c = 1.05, not the textbook's 1 (Kim and Gu 2004). Other losses take the
same ridge, times their curvature; unknown labels are filled in by the mean of the label. docs/selection.md
says why.

With weights w, X and Y are D^(1/2)X and D^(1/2)Y, and n is the larger of Σ w and (Σ w)² / Σ w². Weights that
are whole numbers so act as repetitions of rows, n = Σ w; others, such as shares of a total, by their ratios.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from lrml._door import check_threshold
from lrml._shown import shown
from lrml.core import checks as check
from lrml.core.arrays import HOST, Array, Place, namespace, to_numpy
from lrml.core.coordinates import ROADS, coordinates_of, spectrum_of
from lrml.core.losses import LOSSES, Loss
from lrml.core.penalties import Penalty, TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._calibration import CALIBRATIONS
from lrml.estimators._kernels import KERNELS
from lrml.solvers import ROW_SOLVERS, SOLVERS, Callback, Phase
from lrml.thresholds import Cut

Check: TypeAlias = Callable[[Any], Any]
SPACES = ("predictions", "coefficients")
"""Whose singular values a penalty may act on."""
USUAL_THETA = {"predictions": 0.05, "coefficients": 0.2}
"""The default theta with the squared loss, by the space of the penalty."""
WEAK = 0.5
"""The default ridge, as a share of the one with the least squared error: labels are ranked better by less."""

# Most iterations where sums suffice; if each of them reads the rows, there is time for fewer.
_MAX_ITER = (5000, 1000)
# Ridges are compared that leave between these shares of the directions; beyond, the quotient is 0/0 or flat.
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.9
# The default alpha of a penalty on the predictions, over ‖D^(1/2)G‖_F / √n: half of the noise in them.
_NOISE_SHARE = 0.5 / math.sqrt(2.0)


class Parameters(SimpleNamespace):
    """Checked values by the names of the parameters; None stands for a default that depends on the data.

    What an estimator does not have is as it is here.
    """

    targets: str = "binary"
    loss: Loss = LOSSES["squared"]
    fit_intercept: bool = True
    kernel: Any = "linear"
    gamma: float | None = None
    space: Any = None
    solver: str | Phase = "auto"
    prune: Any = None
    factored: bool = True
    max_iter: Any = None
    tol: Any = None
    threshold: Any = None
    calibrate: str | None = None
    warm_start: bool = False
    callback: Any = None
    device: Place | None = None
    verbose: int = 0

    @classmethod
    def of(cls, estimator: Any, checks: Mapping[str, Check]) -> Parameters:
        """Return the parameters of an estimator, checked one by one."""
        kinds: Any = iter(type(estimator).__mro__)
        while not (kind := next(kinds)).__module__.startswith("lrml."):
            pass  # a subclass may have fewer parameters, with defaults of its own
        values = vars(estimator) | estimator.get_params(deep=False)
        return check_parameters(values, checks, _defaults(kind))


@cache
def _defaults(kind: Any) -> Mapping[str, Any]:
    """Return the defaults of a constructor."""
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}


def check_parameters(
    values: Mapping[str, Any], checks: Mapping[str, Check], defaults: Mapping[str, Any]
) -> Parameters:
    """Check all values that have a check, but for defaults."""
    checked = Parameters(**values)
    for name, value in values.items():
        if name in checks and not (name in defaults and value is defaults[name]):
            setattr(checked, name, checks[name](value))
    if isinstance(checked.loss, str):
        checked.loss = LOSSES[checked.loss]
    return checked


def check_together(params: Parameters) -> None:
    """Refuse parameters that are right, but not beside each other."""
    squared, solver = params.loss.name == "squared", params.solver
    on_road = isinstance(solver, str) and solver in ("auto", *ROADS)
    if params.kernel != "linear" and not squared:
        raise ValueError(
            f"kernel={shown(params.kernel)} needs loss='squared', not {params.loss.name!r}. Or pass features "
            "of sklearn.kernel_approximation.Nystroem."
        )
    if params.kernel != "linear" and on_road and solver != "auto":
        raise ValueError(
            f"solver={solver!r} needs kernel='linear': of {shown(params.kernel)}, the matrix of all pairs of "
            "rows is always decomposed. Leave solver out."
        )
    if params.kernel != "linear" and params.prune is not None:
        raise ValueError(f"prune={params.prune!r} is for kernel='linear'. Leave prune out.")
    if not squared:
        check_row_solver(solver)
    if params.space == "predictions" and not on_road:
        raise ValueError(f"space='predictions' has a closed form, and no use for solver={shown(solver)}.")


def check_row_solver(solver: str | Phase) -> None:
    """Refuse a solver that cannot read rows."""
    if solver not in (possible := (*ROW_SOLVERS, *ROADS)):
        raise ValueError(
            f"solver is {solver!r}, but other losses and unknown labels take one of "
            f"{', '.join(map(repr, possible))}. Use 'auto'."
        )


def check_reach(model: Any, method: str) -> None:
    """Refuse parameters that need more than sums over rows or, in ``fit_blocks``, one block at a time."""
    loss, kernel, solver = (
        getattr(model, name, usual)
        for name, usual in (("loss", "squared"), ("kernel", "linear"), ("solver", "auto"))
    )
    again, remedy = method == "fit_blocks", ""
    if kernel != "linear":
        wrong, remedy = f"kernel={shown(kernel)}", "features of sklearn.kernel_approximation.Nystroem, or "
    elif isinstance(model.threshold, str | Cut):
        wrong, remedy = "threshold='auto'", "a number, or "
    elif getattr(model, "calibrate", None) is not None:
        wrong, remedy = f"calibrate={model.calibrate!r}", "None, or "
    elif getattr(model, "prune", None) == "auto":
        wrong, remedy = "prune='auto'", "a number, or "
    elif solver == "dual" or (solver == "compressed" and not (again and loss == "squared")):
        wrong = f"solver={solver!r}"
    elif loss != "squared" and not again:
        wrong, remedy = f"loss={loss!r}", "fit_blocks with blocks that can be read again, or "
    else:
        return
    raise ValueError(f"{method} sums over rows, but {wrong} needs them all at once. Use {remedy}fit.")


def several(name: str, check_one: Check, values: Any) -> list[Any]:
    """Return one or several values as a list without repetitions, each checked."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    listed = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    checked = [check_one(value) for value in (values if listed else [values])]
    if not checked:
        raise ValueError(f"{name} is {shown(values)}. Pass a list of numbers, or None for defaults.")
    return list({(check.is_integer(value), value): value for value in checked}.values())  # 1 is not 1.0


def _check_solver(solver: Any) -> str | Phase:
    """Return the name of a solver, or a copy of a solver object, so that fits leave the original alone."""
    if isinstance(solver, str):
        return check.check_choice("solver", solver, (*SOLVERS, *ROADS))
    if isinstance(solver, type) or not all(hasattr(solver, name) for name in ("name", "start", "step")):
        raise ValueError(
            f"solver is {shown(solver)}, not a solver object or one of {', '.join((*SOLVERS, *ROADS))}."
        )
    phase: Phase = copy(solver)
    return phase


def _check_callback(callback: Any) -> Any:
    if not callable(callback):
        raise TypeError(f"callback is {shown(callback)}. Pass a function of one argument.")
    return callback


def _check_verbose(verbose: Any) -> int:
    return check.check_integer(
        "verbose", int(verbose) if isinstance(verbose, bool | np.bool_) else verbose, 0
    )


def _check_random_state(random_state: Any) -> Any:
    try:
        check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state is {shown(random_state)}. Pass an int such as 0, or a numpy.random.RandomState."
        ) from None
    return random_state


def _check_threshold(threshold: Any) -> Any:
    """Refuse a threshold that is wrong for any number of labels; return a `Cut` if it is to be chosen."""
    if isinstance(threshold, str) and threshold == "auto":
        return Cut()
    if not isinstance(threshold, Cut):
        check_threshold(threshold)
    return threshold


def _auto_or(check_other: Check) -> Check:
    """Return a check that lets "auto" pass."""
    return lambda value: value if isinstance(value, str) and value == "auto" else check_other(value)


def _check_kernel(kernel: Any) -> Any:
    if callable(kernel) or (isinstance(kernel, str) and kernel in KERNELS):
        return kernel
    raise ValueError(
        f"kernel is {shown(kernel)}. Pass one of {', '.join(KERNELS)}, or a function of two rows."
    )


CHECKS: dict[str, Check] = {
    **{name: partial(check.check_number, name) for name in ("alpha", "tol", "degree")},
    "alpha_ratio": partial(check.check_number, "alpha_ratio", below=1.0, above=True),
    "alphas": partial(several, "alphas", partial(check.check_number, "each of alphas")),
    "calibrate": partial(check.check_choice, "calibrate", choices=CALIBRATIONS),
    "callback": _check_callback,
    "coef0": partial(check.check_number, "coef0", least=-math.inf),
    "device": Place.named,
    "fit_intercept": partial(check.check_flag, "fit_intercept"),
    "gamma": partial(check.check_number, "gamma", above=True),
    "gammas": partial(several, "gammas", partial(check.check_number, "each of gammas", above=True)),
    "kernel": _check_kernel,
    "loss": partial(check.check_choice, "loss", choices=tuple(LOSSES)),
    "max_iter": partial(check.check_integer, "max_iter"),
    "max_rank": partial(check.check_count, "max_rank", least=1),
    "n_alphas": partial(check.check_integer, "n_alphas"),
    "prune": _auto_or(partial(check.check_integer, "prune")),
    "random_state": _check_random_state,
    "rank": partial(check.check_count, "rank", least=1),
    "ranks": partial(several, "ranks", partial(check.check_count, "each of ranks", least=1)),
    # Beyond, sums of ridges and curvatures would overflow.
    "ridge": partial(check.check_number, "ridge", below=1e306),
    "ridges": partial(several, "ridges", partial(check.check_number, "each of ridges", below=1e306)),
    "solver": _check_solver,
    "space": partial(check.check_choice, "space", choices=SPACES),
    "theta": _auto_or(partial(check.check_count, "theta", least=0)),
    "thetas": partial(several, "thetas", partial(check.check_count, "each of thetas", least=0)),
    "threshold": _check_threshold,
    "verbose": _check_verbose,
    "warm_start": partial(check.check_flag, "warm_start"),
}
"""How to check each parameter of an estimator, without the data."""


# What is minimised


@dataclass(frozen=True)
class Spec:
    """What is minimised over the rows, and how far.

    ::

        Σ loss + TailSum(theta, alpha, max_rank)(σ) + ridge · ‖W‖²_F

    """

    name: str  # of the estimator, for messages and progress
    loss: Loss
    theta: int | str | None = None  # None counts as 0, for members that have no such parameter
    alpha: float | None = 0.0  # None follows the data, as for the ridge
    ridge: float | None = 0.0
    max_rank: int | None = None
    given: Penalty | None = None  # in place of the tail sum
    space: str = "coefficients"  # σ are the singular values of W; or, for "predictions", of X̃W
    fit_intercept: bool = True
    ridge_share: float = WEAK  # the default ridge, over the one with the least squared error
    road: str = "auto"  # the coordinates that the user has asked for
    solver: str | Phase = "auto"
    max_iter: int | None = None
    tol: float | None = None
    tols: tuple[float, float] = (1e-4, 1e-4)  # by default: where sums suffice, and where rows are read
    certified: bool = False  # whether the fit is to prove its gap
    n_weights: int | None = None  # how many coefficients are kept, if not all
    factored: bool = True  # whether coefficients of labels fitted one by one are to have factors
    callback: Callback | None = None
    verbose: int = 0

    @classmethod
    def of(cls, estimator: Any, params: Any, **what: Any) -> Self:
        """Return what an estimator minimises, ``what``, with all else that its checked parameters say."""
        for name in ("loss", "fit_intercept", "solver", "max_iter", "tol", "callback", "verbose"):
            what[name] = getattr(params, name)
        what |= {"n_weights": None if params.prune == "auto" else params.prune, "factored": params.factored}
        if params.solver in ROADS:
            what |= {"solver": "auto", "road": params.solver}
        return cls(type(estimator).__name__, **what)

    @property
    def tail(self) -> TailSum:
        """The tail sum; what is not known as a number yet counts as 0."""
        if self.certified:
            return TraceNorm(self.alpha or 0.0)
        theta = 0 if isinstance(self.theta, str) else self.theta
        return TailSum(theta or 0, self.alpha or 0.0, max_rank=self.max_rank)

    @property
    def penalty(self) -> Penalty:
        """The penalty, given or a tail sum."""
        return self.tail if self.given is None else self.given

    @property
    def is_bare(self) -> bool:
        """Whether there is no penalty, but perhaps a limit of the rank."""
        return self.given is None and self.alpha == 0

    @property
    def limits(self) -> dict[str, Any]:
        """How far, as solvers take it."""
        return {"max_iter": self.max_iter, "tol": self.tol, "callback": self.callback}


def sums_suffice(loss: Loss, rows: Rows) -> bool:
    """Whether a fit is one of least squares with all labels known."""
    return loss.name == "squared" and rows.all_known


def filled(rows: Rows, spec: Spec) -> Spec:
    """Return what is minimised with numbers in place of all that follows the data, limits of the fit too."""
    place = 0 if sums_suffice(spec.loss, rows) else 1
    alpha, ridge, theta = spec.alpha, spec.ridge, spec.theta
    if alpha is None or ridge is None:
        usual = usual_strengths(rows, spec)
        if alpha is None and spec.space == "predictions":
            # If labels were independent of X, the predictions would have singular values of about half of it.
            alpha = _NOISE_SHARE * noise_along(rows, spec, 1.0)
        alpha = usual[0] if alpha is None else alpha
        ridge = spec.ridge_share * usual[1] if ridge is None else ridge
    if theta == "auto":
        space = coordinates_of(rows, fit_intercept=spec.fit_intercept, ridge=ridge)
        problem = space.problem.with_ridge(ridge)
        said = problem.cross / namespace(problem.cross).sqrt(problem.curvature)[:, None]
        theta = elbow(HOST.asarray(namespace(said).linalg.svdvals(said)) ** 2)
    return replace(
        spec,
        theta=theta,
        alpha=alpha,
        ridge=ridge,
        max_iter=_MAX_ITER[place] if spec.max_iter is None else spec.max_iter,
        tol=spec.tols[place] if spec.tol is None else spec.tol,
    )


# What follows the data. Of a `Spec`, or of checked parameters, the loss and the intercept are read.


def sort_labels(rows: Rows, spec: Any) -> tuple[Array, Array, Array]:
    """Return which labels no example has, which need coefficients, and best scores without features.

    A label that all examples have needs none if there is an intercept.
    """
    known, positive = rows.label_totals
    share, xp = rows.label_means, namespace(known)
    if rows.schema.targets == "real":
        return xp.zeros_like(known, dtype=xp.bool), known > 0, share * float(spec.fit_intercept)
    share = xp.where(xp.abs(share - 1.0) <= 1e-12, 1.0, share)  # rounding in sums of weights
    unseen = positive == 0
    if not spec.fit_intercept:
        return unseen, ~unseen, xp.zeros_like(share)
    return unseen, ~unseen & (share < 1.0), spec.loss.constant(share)


def usual_strengths(rows: Rows, spec: Any) -> tuple[float, float]:
    """Return the alpha and the ridge that suit the data; 0 if there is nothing to shrink.

    Directions of X with eigenvalues below the best ridge (of squares) are mostly noise. So alpha is the noise
    along a direction with just this eigenvalue.
    """
    ridge = _by_gcv(spectrum_of(rows, fit_intercept=spec.fit_intercept), rows.n_effective)
    return noise_along(rows, spec, ridge), ridge * loss_scale(rows, spec)


def _by_gcv(problem: SpectralProblem, n_rows: float) -> float:
    """Return the ridge with the least GCV; if there are too few rows, one that leaves half."""
    values = to_numpy(problem.curvature)
    energies = to_numpy(namespace(problem.cross).vecdot(problem.cross, problem.cross)) / values
    if not energies.sum() > 0:
        return 0.0
    ridges = np.geomspace(values.max() * 1e3, values.min() * 1e-2, 300)
    kept = values / (values + ridges[:, None])
    used = kept.sum(axis=1)
    share = used / len(values)
    allowed = (share >= _LEAST_SHARE) & (share <= _MOST_SHARE) & (used <= _MOST_SHARE * (n_rows - 1))
    if not allowed.any():
        return float(ridges[int(np.argmin(np.abs(share - 0.5)))])
    errors = (1.0 - kept) ** 2 @ energies + max(problem.target - float(energies.sum()), 0.0)
    return float(ridges[allowed][np.argmin((errors / (n_rows - 1.0 - 1.05 * used) ** 2)[allowed])])


def noise_along(rows: Rows, spec: Any, ridge: float) -> float:
    """Return ‖D^(1/2)G‖_F √(ridge / n), G (n × L) the slopes of the loss at the best constant scores.

    If labels were independent of X, the gradient of the loss along a direction of X with this eigenvalue of
    XᵀX would have about this length: the usual strength of a penalty on singular values.
    """
    if rows.only_sums:
        sums = rows.statistics
        of_means = 0.0 if spec.fit_intercept else sums.weight * float(sums.y_mean @ sums.y_mean)
        return 2.0 * math.sqrt((sums.yy + of_means) * ridge / rows.n_effective)
    known, totals = map(to_numpy, rows.label_totals)
    loss, constants = spec.loss, to_numpy(sort_labels(rows, spec)[2])
    if loss.name == "squared":
        left = np.sum(to_numpy(rows.label_squares) - constants * (2.0 * totals - known * constants))
        squares = 4.0 * max(float(left), 0.0)
    else:
        without, having = (loss.terms(np.full_like(constants, y), constants).slopes for y in (0.0, 1.0))
        squares = float((known - totals) @ without**2 + totals @ having**2)
    return math.sqrt(squares * ridge / rows.n_effective)


def loss_scale(rows: Rows, spec: Any) -> float:
    """Return the ridge that acts on the loss as a ridge of 1 acts on squares of which all are known.

    A ridge acts relative to the curvature of the loss, 2 for squares. It is taken at the best constant
    scores, times the share of labels known, as a mean over all positive labels: rare labels bend the logistic
    loss less than frequent ones.
    """
    if sums_suffice(spec.loss, rows):
        return 1.0
    known, positive = map(to_numpy, rows.label_totals)
    loss, constants = spec.loss, to_numpy(sort_labels(rows, spec)[2])
    bends = loss.terms(np.ones_like(constants), constants).curvatures * known / rows.total_weight
    weights = known if rows.schema.targets == "real" else positive
    return 0.5 * float(weights @ bends) / float(weights.sum()) if weights.any() else 1.0


def elbow(energies: npt.NDArray[np.float64]) -> int:
    """Return the theta that is farthest below the line, (1 − theta / m) − T(theta) / T(0); 0 if T(0) is 0.

    T(theta) = Σ_{j > theta} energies_j for m descending energies. It falls steeply over the directions that
    labels share, and slowly over the rest. Among ties the smallest theta wins.

    Examples
    --------
    >>> elbow(np.array([9.0, 7.0, 0.2, 0.1, 0.1]))
    2
    """
    left = np.append(np.cumsum(energies[::-1])[::-1], 0.0)
    if left[0] == 0.0:
        return 0
    return int(np.argmax(1.0 - np.arange(len(left)) / len(energies) - left / left[0]))
