"""
Completing a matrix
===================

The tail of the singular values instead of all of them: the paper's example, then a larger one.
"""

import matplotlib.pyplot as plt
import numpy as np

from lrml.completion import complete, select_alpha
from lrml.penalties import TailSum, TraceNorm

# %%
# Two entries are missing. The trace norm prefers small numbers and finds a matrix of rank 3; the tail sum,
# which leaves two singular values alone, finds the one of rank 2 that everybody would write down.

M = np.array([[2, 1, 2, 1], [1, 1, np.nan, 2], [1, 1, 2, np.nan]])
for name, penalty in [("trace norm", TraceNorm(1.0)), ("tail sum", TailSum(2, 1.0))]:
    print(name, complete(M, penalty, exact=True).values([1, 2], [2, 3]).round(4))

# %%
# Sixty by fifty, rank 3, a third of the entries seen, with a little noise. alpha is chosen on a tenth of
# those.

random = np.random.default_rng(0)
truth = random.standard_normal((60, 3)) @ random.standard_normal((3, 50))
noisy = truth + 0.1 * random.standard_normal(truth.shape)
seen = np.where(random.random(truth.shape) < 0.35, noisy, np.nan)
found = {}
for name, theta in [("trace norm", 0), ("tail sum, theta = 3", 3)]:
    alpha = select_alpha(seen, theta, random_state=0).alpha
    found[name] = complete(seen, TailSum(theta, alpha)).dense()
    error = np.linalg.norm(found[name] - truth) / np.linalg.norm(truth)
    print(f"{name}: relative error {error:.3f}")

# %%
fig, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
pictures = {"truth": truth, "seen": seen, **found}
for ax, (name, matrix) in zip(axes, pictures.items(), strict=True):
    ax.imshow(matrix, cmap="RdBu", vmin=-4, vmax=4)
    ax.set(title=name, xticks=[], yticks=[])
