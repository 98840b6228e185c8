"""Checks at the door: every parameter of every estimator and path, before any data is read.

`CHECKS` has one entry per parameter. What depends on the shape of the data (theta and ranks against
min(d, L), a threshold per label) is checked as soon as the shape is known, before anything is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from lrml._shown import shown
from lrml.core import checks as check
from lrml.core.arrays import Place, to_host
from lrml.core.coordinates import ROADS
from lrml.core.losses import LOSSES, Loss
from lrml.estimators._kernels import KERNELS
from lrml.solvers import SOLVERS, Callback, Phase
from lrml.thresholds import Cut

Check: TypeAlias = Callable[[Any], Any]


class Parameters(SimpleNamespace):
    """Checked values by the names of the parameters; None stands for a default that depends on the data."""


def check_parameters(values: Mapping[str, Any], checks: Mapping[str, Check]) -> Parameters:
    """Check all values; parameters without an entry (of a user's own subclass) pass unchecked."""
    return Parameters(
        **{name: checks[name](value) if name in checks else value for name, value in values.items()}
    )


def optional(check_one: Check) -> Check:
    """Let None pass as well: a default that follows the data."""
    return lambda value: None if value is None else check_one(value)


def _check_loss(loss: Any) -> Loss:
    return LOSSES[check.check_choice("loss", loss, tuple(LOSSES))]


SPACES = ("predictions", "coefficients")
"""Whose singular values a penalty may act on."""


def _check_solver(solver: Any) -> str | Phase:
    """Return the name of a solver, or a copy of a solver object, so that fits leave the original alone."""
    if isinstance(solver, str):
        return check.check_choice("solver", solver, (*SOLVERS, *ROADS))
    members = ("name", "start", "step")
    if isinstance(solver, type) or not all(hasattr(solver, name) for name in members):
        listed = ", ".join(map(repr, (*SOLVERS, *ROADS)))
        raise ValueError(
            f"solver must be one of {listed} or a solver object, got {shown(solver)}. Use 'auto' if in doubt."
        )
    phase: Phase = copy(solver)
    return phase


def _check_callback(callback: Any) -> Callback | None:
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be callable or None, got {shown(callback)}. Pass a function of one argument."
        )
    checked: Callback | None = callback
    return checked


def _check_verbose(verbose: Any) -> int:
    if not isinstance(verbose, bool | np.bool_) and not (check.is_integer(verbose) and verbose >= 0):
        raise ValueError(
            f"verbose must be an int of at least 0 or a bool, got {shown(verbose)}. Pass 1 for a bar."
        )
    return int(verbose)


def _check_random_state(random_state: Any) -> Any:
    try:
        check_random_state(random_state)
    except ValueError:
        raise ValueError(
            "random_state must be None, an int in [0, 4294967295] or a numpy.random.RandomState, got "
            f"{shown(random_state)}. Pass an int such as 0 for results that can be repeated."
        ) from None
    return random_state


def check_cut(threshold: Any) -> Any:
    """Refuse a threshold that is wrong for any number of labels; return a `Cut` if it is to be chosen."""
    if isinstance(threshold, str) and threshold == "auto":
        return Cut()
    threshold = to_host(threshold)
    if threshold is None or isinstance(threshold, Cut):
        return threshold
    try:
        cut = np.asarray(np.nan if isinstance(threshold, str) else threshold, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        cut = np.array(np.nan)
    if cut.ndim > 1 or cut.size == 0 or not np.all(np.isfinite(cut)):
        raise ValueError(
            f"threshold must be a finite number, one per label, None, 'auto' or a lrml.thresholds.Cut, got "
            f"{shown(threshold)}. Use None for the cut that belongs to the loss, or 'auto' to have it chosen."
        )
    return threshold


def _check_count(name: str, least: int, value: Any) -> Any:
    """Refuse a count of singular values, or a share of the labels, that is wrong for any shape."""
    if check.is_integer(value) and value < least:
        raise ValueError(
            f"{name} must be at least {least}, got {value}. Choose a count of singular values, or pass a "
            "fraction of the labels such as 0.5."
        )
    if not check.is_integer(value):
        check.check_count(name, value, least, (1, 1))  # rules for shares and types need no shape
    return value


check_theta: Check = partial(_check_count, "theta", 0)


def check_theta_or_auto(theta: Any) -> Any:
    """Let "auto" pass as well."""
    if isinstance(theta, str) and theta == "auto":
        return theta
    if not check.is_real(theta):
        raise TypeError(
            "theta must be an int (a count), a float (a share of the labels) or 'auto', got "
            f"{shown(theta)}. Pass 'auto' to have it chosen."
        )
    return check_theta(theta)


def _check_n_alphas(n_alphas: Any) -> int:
    if not check.is_integer(n_alphas) or n_alphas < 1:
        raise ValueError(
            f"n_alphas must be an int of at least 1, got {shown(n_alphas)}. Pass a number such as 20."
        )
    return int(n_alphas)


def _check_ratio(ratio: Any) -> float:
    found = check.check_nonnegative("alpha_ratio", ratio, "Pass a small number such as 1e-3.")
    if not 0 < found < 1:
        raise ValueError(f"alpha_ratio must be in (0, 1), got {ratio}. Pass a number such as 1e-3.")
    return found


def _listed(values: Any) -> list[Any]:
    """Return one or several values as a list."""
    if isinstance(values, np.ndarray):
        values = np.atleast_1d(values)  # an array without a dimension is one number
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else [values]


def _check_several(name: str, check_one: Check, values: Any) -> list[Any]:
    """Return one or several values, each checked, as a non-empty list without repetitions."""
    checked = [check_one(value) for value in _listed(values)]
    if not checked:
        raise ValueError(
            f"{name} must hold at least one number, got none. Pass a list, or None for defaults."
        )
    return list({(check.is_integer(value), value): value for value in checked}.values())  # 1 is not 1.0


def _strength(name: str, remedy: str) -> Check:
    return lambda value: check.check_nonnegative(name, value, remedy)


_check_one_alpha = _strength("each of alphas", "Pass numbers such as [0.1, 1, 10].")
_check_one_ridge = _strength("each of ridges", "Pass ridges=0 for none.")


def check_alphas_in_order(alphas: Any) -> list[float]:
    """Return several strengths as they are, repetitions included."""
    if not isinstance(alphas, Iterable):
        raise TypeError(
            f"alphas must be several numbers, got {shown(alphas)}. Pass a list such as [0.1, 1, 10]."
        )
    return [_check_one_alpha(alpha) for alpha in _listed(alphas)]


def _check_kernel(kernel: Any) -> Any:
    if callable(kernel) or (isinstance(kernel, str) and kernel in KERNELS):
        return kernel
    raise ValueError(
        f"kernel must be one of {', '.join(map(repr, KERNELS))} or a function of two rows, got "
        f"{shown(kernel)}. Use 'linear' for a linear model, or 'rbf'."
    )


def _check_gamma(name: str, remedy: str, gamma: Any) -> float:
    if not check.is_real(gamma) or not 0 < gamma < np.inf:
        raise ValueError(f"{name} must be a finite number above 0 or None, got {shown(gamma)}. {remedy}")
    return float(gamma)


_check_one_gamma = partial(_check_gamma, "each of gammas", "Pass None to have them chosen.")


def _check_coef0(coef0: Any) -> float:
    if not check.is_real(coef0) or not np.isfinite(coef0):
        raise ValueError(f"coef0 must be a finite number, got {shown(coef0)}. Pass coef0=1.")
    return float(coef0)


CHECKS: dict[str, Check] = {
    "alpha": _strength("alpha", "Pass alpha=0 for no penalty."),
    "alpha_ratio": optional(_check_ratio),
    "alphas": optional(partial(_check_several, "alphas", _check_one_alpha)),
    "callback": _check_callback,
    "coef0": _check_coef0,
    "device": optional(Place.named),
    "degree": _strength("degree", "Pass degree=2 for products of two features."),
    "fit_intercept": partial(check.check_flag, "fit_intercept"),
    "gamma": optional(partial(_check_gamma, "gamma", "Pass None for 1 / (number of features).")),
    "gammas": optional(partial(_check_several, "gammas", _check_one_gamma)),
    "kernel": _check_kernel,
    "loss": _check_loss,
    "max_iter": optional(check.check_max_iter),
    "max_rank": optional(partial(_check_count, "max_rank", 1)),
    "n_alphas": optional(_check_n_alphas),
    "random_state": _check_random_state,
    "rank": partial(_check_count, "rank", 1),
    "ranks": optional(partial(_check_several, "ranks", partial(_check_count, "each of ranks", 1))),
    "ridge": _strength("ridge", "Pass ridge=0 for none."),
    "ridges": optional(partial(_check_several, "ridges", _check_one_ridge)),
    "solver": _check_solver,
    "space": optional(lambda value: check.check_choice("space", value, SPACES)),
    "targets": lambda value: check.check_choice("targets", value, ("binary", "real")),
    "theta": check_theta,
    "thetas": optional(partial(_check_several, "thetas", check_theta)),
    "threshold": check_cut,
    "tol": optional(_strength("tol", "Pass a small number such as tol=1e-3.")),
    "verbose": _check_verbose,
    "warm_start": partial(check.check_flag, "warm_start"),
}
"""How to check each parameter of an estimator, without the data."""
