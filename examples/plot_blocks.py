"""
More rows than memory holds
===========================

With the squared loss a fit needs sums over the rows. They can be read block by block, from files or a stream,
and a run that was stopped goes on where it was.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from lrml import LRML
from lrml.datasets import load_yeast, open_source, write_dataset

yeast = load_yeast()
folder = Path(tempfile.mkdtemp())
write_dataset(yeast, folder / "yeast.xmc")

# %%
# A source gives its rows in blocks, as often as needed. `fit_blocks` holds one block in memory; the
# checkpoint has the sums of those that it has read.

source = open_source(folder / "yeast.xmc", rows=500)
model = LRML().fit_blocks(source, checkpoint=folder / "sums.npz")
whole = LRML().fit(yeast.X, yeast.Y)
print("largest difference from a fit in memory:", float(np.abs(model.coef_ - whole.coef_).max()))

# %%
# From a stream: each call adds a block and solves for all rows so far.

X, Y = yeast.train
stream, seen, scores = LRML(), [], []
for start in range(0, len(X), 100):
    stream.partial_fit(X[start : start + 100], Y[start : start + 100])
    seen.append(start + 100)
    scores.append(stream.score(*yeast.test))

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot(seen, scores, "o-", ms=3)
ax.set(xlabel="rows read", ylabel="average precision on test rows")
