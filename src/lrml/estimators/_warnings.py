"""Warnings of a fit, at the line of the user's own code that called it."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from lrml._shown import shown
from lrml.core.arrays import HOST, Array, is_host, namespace
from lrml.core.moments import Statistics, extremes
from lrml.core.rows import Schema
from lrml.estimators._spec import Spec
from lrml.solvers import SolverResult, Status

# Up to this ratio between the ranges of features, all of them keep enough digits.
_WIDEST = 1e8


def level_of_user() -> int:
    """Return the ``stacklevel`` of the line outside this package that called the fit."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lrml."):
        level, frame = level + 1, frame.f_back
    return level


def warn_of_scales(X: Any, names: npt.NDArray[Any] | None = None) -> None:
    """Warn if some features vary so little, compared with others, that rounding may swamp them."""
    low, high = extremes(X)
    warn_of_ranges(0.5 * high - 0.5 * low, names)  # so that nothing overflows


def warn_of_spreads(statistics: Statistics, schema: Schema) -> None:
    """Warn of the same, given sums."""
    xp = statistics.place.xp
    with np.errstate(invalid="ignore", divide="ignore"):
        spreads = xp.sqrt(xp.linalg.diagonal(statistics.xx) / statistics.weight)
    warn_of_ranges(spreads, schema.feature_names)


def warn_of_ranges(ranges: Array, names: npt.NDArray[Any] | None = None) -> None:
    """Warn if some of these ranges of features are far smaller than others."""
    if not is_host(ranges):
        xp = namespace(ranges)
        if not bool(xp.any((ranges > 0) & (ranges < xp.max(ranges) / _WIDEST))):
            return
        ranges = HOST.asarray(ranges)
    ranges = np.asarray(ranges, dtype=np.float64)
    largest = int(np.argmax(ranges))
    lost = np.flatnonzero((ranges > 0) & (ranges < ranges[largest] / _WIDEST))
    if len(lost) == 0:
        return
    places = [*lost[:5].tolist(), largest]
    *few, beside = [shown(place if names is None else names[place]) for place in places]
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    warnings.warn(
        f"features should vary within a factor of {_WIDEST:.0e} of each other, got column(s) "
        f"{', '.join(few)}{more}, which vary up to {ranges[largest] / ranges[lost].min():.0e} times less "
        f"than column {beside}: rounding may decide about them. Scale X, for example with StandardScaler.",
        UserWarning,
        stacklevel=level_of_user(),
    )


def warn_unless_converged(outcome: SolverResult) -> None:
    """Warn as scikit-learn does, with the remedy that the status names."""
    if outcome.status in (Status.MAX_ITER, Status.GAP_OPEN):
        gap = outcome.history.entries[-1].gap
        reached = f"estimated gap {gap:.1e}" if np.isfinite(gap) else f"residual {outcome.residual:.1e}"
        message = f"{outcome.status.value} ({reached} after {len(outcome.history) - 1} iterations)"
        warnings.warn(message, ConvergenceWarning, stacklevel=level_of_user())


def warn_of_subspace(spec: Spec, gap: float) -> None:
    """Warn that a subspace costs too much."""
    strength = "alpha" if spec.ridge_is_alpha else "ridge"
    warnings.warn(
        f"the fit in a subspace is an estimated {gap:.1%} above the exact objective. Raise {strength} (now "
        f"{spec.ridge:g}; searches such as LRMLCV find one), scale X, or use a model with solver='primal' or "
        "'dual', which take more memory.",
        ConvergenceWarning,
        stacklevel=level_of_user(),
    )


def warn_of_weakness(alpha: float, enough: float) -> None:
    """Warn, before the long work, if so weak a penalty lets very many directions of label space in."""
    warnings.warn(
        f"alpha={alpha:g} lets hundreds of directions of label space in: the fit may take very long. Raise "
        f"alpha to about {enough:.2g}.",
        UserWarning,
        stacklevel=level_of_user(),
    )
