"""Warnings of a fit, at the line of the user's own code that called it."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lrml._shown import level_of_user
from lrml.estimators._spec import Spec
from lrml.solvers import SolverResult, Status


def warn_unless_converged(outcome: SolverResult) -> None:
    """Warn as scikit-learn does, with the remedy that the status names."""
    if outcome.status in (Status.MAX_ITER, Status.GAP_OPEN):
        gap = outcome.history[-1].gap
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
