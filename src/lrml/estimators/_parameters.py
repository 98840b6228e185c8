"""Checks of parameters: every one, and what does not go together, before any data is read.

`CHECKS` has one entry per parameter. What depends on the shape of the data (theta and ranks against
min(d, L), a threshold per label) is checked as soon as the shape is known, before anything is summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from lrml._door import check_threshold
from lrml._shown import shown
from lrml.core import checks as check
from lrml.core.arrays import Place
from lrml.core.coordinates import ROADS
from lrml.core.losses import LOSSES, Loss
from lrml.estimators._kernels import KERNELS
from lrml.solvers import ROW_SOLVERS, SOLVERS, Phase
from lrml.thresholds import Cut

Check: TypeAlias = Callable[[Any], Any]
SPACES = ("predictions", "coefficients")
"""Whose singular values a penalty may act on."""


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
    max_iter: Any = None
    tol: Any = None
    threshold: Any = None
    warm_start: bool = False
    callback: Any = None
    device: Place | None = None
    verbose: int = 0


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


def _check_theta(theta: Any) -> Any:
    return theta if isinstance(theta, str) and theta == "auto" else check.check_count("theta", theta, 0)


def _check_kernel(kernel: Any) -> Any:
    if callable(kernel) or (isinstance(kernel, str) and kernel in KERNELS):
        return kernel
    raise ValueError(
        f"kernel is {shown(kernel)}. Pass one of {', '.join(KERNELS)}, or a function of two rows."
    )


CHECKS: dict[str, Check] = {
    **{name: partial(check.check_number, name) for name in ("alpha", "ridge", "tol", "degree")},
    "alpha_ratio": partial(check.check_number, "alpha_ratio", below=1.0, above=True),
    "alphas": partial(several, "alphas", partial(check.check_number, "each of alphas")),
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
    "random_state": _check_random_state,
    "rank": partial(check.check_count, "rank", least=1),
    "ranks": partial(several, "ranks", partial(check.check_count, "each of ranks", least=1)),
    "ridges": partial(several, "ridges", partial(check.check_number, "each of ridges")),
    "solver": _check_solver,
    "space": partial(check.check_choice, "space", choices=SPACES),
    "theta": _check_theta,
    "thetas": partial(several, "thetas", partial(check.check_count, "each of thetas", least=0)),
    "threshold": _check_threshold,
    "verbose": _check_verbose,
    "warm_start": partial(check.check_flag, "warm_start"),
}
"""How to check each parameter of an estimator, without the data."""
