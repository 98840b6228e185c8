"""
Labels that nobody has looked at
================================

A label that is not known is not a 0. Mark it with NaN, and it is left out of the loss.
"""

import matplotlib.pyplot as plt
import numpy as np

from lrml import LRML
from lrml.datasets import load_yeast

yeast = load_yeast()
X, Y = yeast.train

# %%
# Hide some of the training labels at random, and learn in two ways: with NaN, and with 0 in their place.

random = np.random.default_rng(0)
order = random.random(Y.shape)
shares = [0.0, 0.3, 0.5, 0.7, 0.8]
scores = {"unknown (NaN)": [], "taken for 0": []}
for share in shares:
    hidden = order < share
    known = np.where(hidden, np.nan, Y)
    scores["unknown (NaN)"].append(LRML().fit(X, known).score(*yeast.test))
    scores["taken for 0"].append(LRML().fit(X, np.where(hidden, 0, Y)).score(*yeast.test))

# %%
# Here labels are hidden evenly, which spares the ranking: what 0 damages most are the scores themselves, and
# with them every decision.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for (name, line), colour in zip(scores.items(), ["#0072B2", "#D55E00"], strict=True):
    left.plot(shares, line, "o-", label=name, color=colour)
left.set(xlabel="share of labels hidden", ylabel="average precision on test rows")
left.legend()

hidden = order < 0.7
for name, labels, colour in [
    ("unknown (NaN)", np.where(hidden, np.nan, Y), "#0072B2"),
    ("taken for 0", np.where(hidden, 0, Y), "#D55E00"),
]:
    model = LRML().fit(X, labels)
    right.plot(
        yeast.test[1].mean(0), model.decision_function(yeast.test[0]).mean(0), "o", color=colour, label=name
    )
right.axline((0, 0), slope=1, color="0.7", lw=1)
right.set(xlabel="frequency of a label", ylabel="its mean score", title="70 % hidden")
