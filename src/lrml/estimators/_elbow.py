"""How many singular values to leave free, read off the spectrum of the least-squares predictions.

With XᵀX = QΛQᵀ, B = XᵀY and A = (Λ + ridge)^(−1/2) Qᵀ B, least squares of rank theta lowers the objective by

::

    Σ_{j ≤ theta} σ_j(A)²,

the energy of its predictions. What is left, T(theta) = Σ_{j > theta} σ_j(A)², falls steeply over the
directions that labels share and slowly over the rest. The elbow is where T, scaled to fall from 1 to 0 over
m values, is farthest below the straight line between these ends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lrml.problem import SpectralProblem


def theta_at_elbow(problem: SpectralProblem) -> int:
    """Return the theta at the elbow of the energy of the predictions; 0 if there is nothing to predict."""
    scaled = problem.cross / np.sqrt(problem.curvature)[:, None]
    return elbow(np.linalg.svd(scaled, compute_uv=False) ** 2)


def elbow(energies: npt.NDArray[np.float64]) -> int:
    """Return argmax over theta of (1 − theta / m) − T(theta) / T(0); the smallest of equals.

    Parameters
    ----------
    energies : array of shape (m,)
        Descending and not negative.

    Examples
    --------
    >>> elbow(np.array([9.0, 7.0, 0.2, 0.1, 0.1]))
    2
    """
    left = np.append(np.cumsum(energies[::-1])[::-1], 0.0)
    if left[0] == 0.0:
        return 0
    return int(np.argmax(1.0 - np.arange(len(left)) / len(energies) - left / left[0]))
