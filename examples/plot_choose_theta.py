"""
Choosing theta, alpha and ridge
===============================

`LRMLCV` chooses by held-out rows. Without a grid it finds its own candidates; with one it tries all of it.
"""

import matplotlib.pyplot as plt

from lrml import LRMLCV, PathDisplay
from lrml.datasets import load_yeast

yeast = load_yeast()
X, Y = yeast.train

# %%
# A grid of your own, and how each of its models ranks the labels of held-out rows. theta singular values are
# free, alpha is the price of the others.

grid = LRMLCV(thetas=[0, 1, 2, 3, 5, 8], alphas=[0.3, 1, 3, 10, 30, 100], ridges=[0.3, 3.0], random_state=0)
grid.fit(X, Y)
PathDisplay.from_estimator(grid)
print(grid.best_params_, round(grid.score(*yeast.test), 4))

# %%
# The default search: ridges first, by leave-one-out scores in closed form, then models with a penalty, on
# folds. It takes the penalty only if that leads by more than a standard error; here ridge regression is as
# good.

search = LRMLCV(random_state=0).fit(X, Y)
print(search.best_params_, round(search.score(*yeast.test), 4))

# %%
# Scores hardly move over a wide range of strengths, as so often: what matters is not to be far off.

ridges = search.cv_results_["param_ridge"]
scores = search.cv_results_["mean_test_score"]
plain = [k for k, alpha in enumerate(search.cv_results_["param_alpha"]) if alpha == 0]
order = sorted(plain, key=lambda k: ridges[k])
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot([ridges[k] for k in order], [scores[k] for k in order], "o-")
ax.set(xscale="log", xlabel="ridge", ylabel="average precision", title="Leave-one-out scores of ridges alone")
