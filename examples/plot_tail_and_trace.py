"""
Why only the tail?
==================

The trace norm shrinks every singular value to get rid of the small ones. The tail sum leaves the large ones
alone.
"""

import matplotlib.pyplot as plt
import numpy as np

from lrml import SpectralRegressor

random = np.random.default_rng(1)
X = random.standard_normal((300, 60))
truth = random.standard_normal((60, 4)) @ random.standard_normal((4, 40)) / 8
Y = X @ truth + 1.5 * random.standard_normal((300, 40))

# %%
# Fits of rising strength: the error of the coefficients, and how much of the largest singular value is left.

alphas = np.geomspace(1, 400, 25)
lines = {0: ([], []), 4: ([], [])}
largest = np.linalg.norm(truth, 2)
for theta, (errors, kept) in lines.items():
    for alpha in alphas:
        model = SpectralRegressor(theta=theta, alpha=alpha, ridge=1.0).fit(X, Y)
        errors.append(np.linalg.norm(model.coef_.T - truth) / np.linalg.norm(truth))
        kept.append(model.singular_values_[0] / largest if model.rank_ else 0)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for theta, (errors, kept) in lines.items():
    name = f"tail sum, theta = {theta}" if theta else "trace norm (theta = 0)"
    axes[0].semilogx(alphas, errors, label=name)
    axes[1].semilogx(alphas, kept, label=name)
axes[0].set(xlabel="alpha", ylabel="relative error of W", ylim=(0, None))
axes[1].set(xlabel="alpha", ylabel="largest singular value, fitted / true", ylim=(0, None))
axes[0].legend()

# %%
# The best trace norm has to give up part of the truth. The tail sum keeps it, for any alpha that is large
# enough: a wrong theta would hurt, a wrong alpha hardly does.

for theta, (errors, _) in lines.items():
    print(f"theta {theta}: least error {min(errors):.3f}")
