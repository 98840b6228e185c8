"""
Thresholds and probabilities
============================

Which labels to assign is a question of its own: where to cut the scores, and whether they are probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve

from lrml import LRML
from lrml.datasets import load_yeast
from lrml.metrics import f1_micro
from lrml.thresholds import Cut

yeast = load_yeast()
X_test, Y_test = yeast.test

# %%
# Scores of the squared loss are cut at 0.5 unless you say otherwise. ``threshold="auto"`` chooses the cut on
# scores of rows that the fit has not seen, for micro-F1; `Cut` names another metric, or asks for a cut for
# each label.

plain = LRML().fit(*yeast.train)
auto = LRML(threshold="auto").fit(*yeast.train)
each = LRML(threshold=Cut("f1_macro", per_label=True)).fit(*yeast.train)
for name, model in [("0.5", plain), ("auto", auto), ("one for each label", each)]:
    print(f"{name:20} micro F1 {f1_micro(Y_test, model.predict(X_test)):.3f}")

# %%
# The logistic loss gives probabilities. Where the curve follows the diagonal, 0.3 means three of ten.

logistic = LRML(loss="logistic").fit(*yeast.train)
probabilities = logistic.predict_proba(X_test)

cuts = np.linspace(0, 1, 101)
scores = plain.decision_function(X_test)
curve = [f1_micro(Y_test, scores >= cut) for cut in cuts]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(cuts, curve)
left.axvline(float(auto.threshold_), color="#D55E00", label="chosen on training rows")
left.set(xlabel="cut", ylabel="micro F1 on test rows")
left.legend()
seen, said = calibration_curve(Y_test.ravel(), probabilities.ravel(), n_bins=10)
right.plot(said, seen, "o-")
right.axline((0, 0), slope=1, color="0.7", lw=1)
right.set(xlabel="probability said", ylabel="share that is right")
