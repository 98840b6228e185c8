"""The ridge that generalised cross-validation chooses for least squares, from spectra instead of solutions.

::

    GCV(ρ) = n ‖(I − H_ρ) Y‖²_F / (n − 1 − c tr H_ρ)²,   H_ρ = X (XᵀX + ρ)⁻¹ Xᵀ,   X and Y centred

(Golub, Heath, Wahba 1979) needs tr H_ρ = Σ λ_i / (λ_i + ρ) and ‖(I − H_ρ) Y‖² = Σ e_i (ρ / (λ_i + ρ))², e_i
the squared length of Y along the i-th left singular vector of X. Both are sums over the spectrum, exact or
estimated by quadrature, and then all ρ cost nothing. c = 1 is the textbook; where the minimum is flat, that
chooses too weak a ridge, so c is a little larger (Kim and Gu 2004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrml.solvers.leml._factors import Float64

# Ridges are compared that leave between these shares of the directions; beyond, the quotient is 0/0 or flat.
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.9
_N_RIDGES = 300
_INFLATION = 1.05


class Spectrum(NamedTuple):
    """Eigenvalues of XᵀX and what each counts for: a number of directions, or a squared length."""

    values: Float64
    weights: Float64

    def left(self, ridges: Float64) -> Float64:
        """Σ weight · value / (value + ridge) for each ridge."""
        left: Float64 = (self.values / (self.values + ridges[:, None])) @ self.weights
        return left

    def removed(self, ridges: Float64) -> Float64:
        """Σ weight · (ridge / (value + ridge))² for each ridge."""
        removed: Float64 = (ridges[:, None] / (self.values + ridges[:, None])) ** 2 @ self.weights
        return removed


def ridge_by_validation(directions: Spectrum, target: Spectrum, n_rows: float) -> float:
    """Return the ridge with the least GCV, 0 if there is nothing to shrink.

    ``n_rows`` is the sum of the weights. If that is too small, the ridge leaves half of the directions.
    """
    if not len(directions.values) or not target.weights.sum() > 0:
        return 0.0
    low, high = directions.values.min() * 1e-2, directions.values.max() * 1e3
    ridges = np.geomspace(high, low, _N_RIDGES)
    used = directions.left(ridges)
    share = used / float(directions.weights.sum())
    allowed = (share >= _LEAST_SHARE) & (share <= _MOST_SHARE) & (used <= _MOST_SHARE * (n_rows - 1))
    if not allowed.any():
        return float(ridges[int(np.argmin(np.abs(share - 0.5)))])
    ridges, used = ridges[allowed], used[allowed]
    return float(ridges[int(np.argmin(target.removed(ridges) / (n_rows - 1.0 - _INFLATION * used) ** 2))])
