"""
A penalty of your own
=====================

`SpectralRegressor` takes any object with ``value`` and ``prox``: what singular values cost, and what
minimises ½ (s − σ)² + step · cost.
"""

import matplotlib.pyplot as plt
import numpy as np

from lrml import SpectralRegressor
from lrml.penalties import MCP, TailSum, TraceNorm

# %%
# Firm thresholding: zero below ``low``, untouched above ``high``, a straight line between. Singular values
# are descending.


class Firm:
    """Firm thresholding of Gao and Bruce (1997), which is MCP in other words."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def value(self, sigma):
        """Return what these singular values cost."""
        sigma = np.minimum(sigma, self.high)
        return float((self.low * sigma - self.low * sigma**2 / (2 * self.high)).sum())

    def prox(self, sigma, step=1.0):
        """Return the singular values that minimise ½ (s − σ)² + step · value(s)."""
        low = self.low * step
        slope = self.high / (self.high - low)
        return np.where(sigma >= self.high, sigma, np.maximum(0, (sigma - low) * slope))


# %%
# Twenty targets of rank 2 and noise.

random = np.random.default_rng(0)
X = random.standard_normal((100, 30))
truth = random.standard_normal((30, 2)) @ random.standard_normal((2, 20)) / 3
Y = X @ truth + random.standard_normal((100, 20))
penalties = {
    "none": None,
    "trace norm": TraceNorm(25.0),
    "tail sum, theta = 2": TailSum(2, 25.0),
    "firm, your own": Firm(25.0, 40.0),
}

fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for name, penalty in penalties.items():
    given = {"alpha": 0} if penalty is None else {"penalty": penalty}
    model = SpectralRegressor(ridge=1.0, **given).fit(X, Y)
    error = np.linalg.norm(model.coef_.T - truth) / np.linalg.norm(truth)
    values = np.zeros(12)
    values[: min(12, model.rank_)] = model.singular_values_[:12]
    ax.plot(range(1, 13), values, "o-", ms=4, label=f"{name}: error {error:.2f}")
ax.set(xlabel="j", ylabel="singular value of the coefficients", xlim=(0.5, 12.5))
ax.legend()

# %%
# It is MCP of `lrml.penalties` with other names for its numbers, so both give the same model.

same = SpectralRegressor(ridge=1.0, penalty=MCP(25.0, 40.0 / 25.0)).fit(X, Y)
print("largest difference from MCP:", float(np.abs(same.coef_ - model.coef_).max()))
