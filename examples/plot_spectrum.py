"""
What has the model learnt?
==========================

Its spectrum, how the solver came there, and which labels it takes for related.
"""

import pandas as pd

from lrml import LRML, ConvergenceDisplay, SpectrumDisplay
from lrml.datasets import load_yeast
from lrml.inspection import describe_model

yeast = load_yeast()
X, Y = yeast.train
named = pd.DataFrame(Y, columns=yeast.label_names)

# %%
# The paper's objective: three singular values of the coefficients are free, the tail is penalised.

model = LRML(theta=3, alpha=10.0, ridge=3.0).fit(X, named)
print(model.status_, "rank", model.rank_)
SpectrumDisplay.from_estimator(model)

# %%
# How far the objective was above the best of the run, and the estimated gap, which ``tol`` limits.

ConvergenceDisplay.from_estimator(LRML(3, 10.0).fit(X, Y))

# %%
# Labels whose coefficients point the same way, and the features that count most.
# :func:`lrml.report.render_html` makes a page of its ``summary``, and so does ``lrml inspect --html``.

description = describe_model(model)
print(description)
