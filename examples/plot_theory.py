"""
The theory, computed on yeast
=============================

Complexities by Monte Carlo beside the bounds: which hold, and which of the printed ones do not.
"""

import matplotlib.pyplot as plt
import numpy as np

from lrml import LRML
from lrml.datasets import load_yeast
from lrml.theory import Spectrum, bound_report, local_bound, local_complexity, local_dual_bound

yeast = load_yeast()
X, Y = yeast.train

# %%
# All bounds for one model.

print(bound_report(LRML(theta=3, alpha=10.0).fit(X, Y), X, n_draws=50, random_state=0))

# %%
# The local complexity of all W with ‖W‖ ≤ 1 and ‖XW‖²/n ≤ r, against r. The bounds hold for every X and are
# within a few per cent of the truth; they contain the spectrum of the data.

spectrum = Spectrum.of(X)
n, n_labels = Y.shape
radii = np.geomspace(1e-3, 1, 8)
measured = [local_complexity(spectrum, n_labels, r, n_draws=30, random_state=0).upper.mean for r in radii]

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.loglog(radii, measured, "o", label="measured")
for name, bound in [("local_bound", local_bound), ("local_dual_bound", local_dual_bound)]:
    ax.loglog(radii, [bound(spectrum.eigenvalues, n, n_labels, r).value for r in radii], label=name)
ax.loglog(radii, radii * np.sqrt(3 / n), "--", label="Theorem 3 as printed (theta = 3, no tail)")
ax.set(xlabel="r", ylabel="local Rademacher complexity")
ax.legend()

# %%
# The printed bound is linear in r, and lies below the truth: :doc:`/theory` says where the proof goes wrong,
# and what holds in its place.
