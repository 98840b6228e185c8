"""
Does low rank pay on my data?
=============================

One call answers it: :func:`lrml.inspection.low_rank_gain` compares ridge regression with what a search finds
that may also penalise singular values, on rows that neither has seen.
"""

import numpy as np

from lrml import LowRankDisplay
from lrml.datasets import load_yeast
from lrml.inspection import low_rank_gain

# %%
# A hundred targets that share five directions: the classic case for low rank.

random = np.random.default_rng(0)
X = random.standard_normal((200, 100))
W = random.standard_normal((100, 5)) @ random.standard_normal((5, 100)) / 32
Y = X @ W + random.standard_normal((200, 100))
found = low_rank_gain(X, Y, random_state=0)
print(found)
LowRankDisplay(found, name="planted rank 5").plot()

# %%
# The 14 labels of yeast have little to share, and ridge regression is enough. The answer says so.

yeast = load_yeast()
found = low_rank_gain(*yeast.train, random_state=0)
print(found)
LowRankDisplay(found, name="yeast").plot()
