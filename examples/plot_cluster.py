"""
A cluster
=========

Workers of a Dask cluster read the rows and add them up; sums travel, rows do not. However the rows are cut
into blocks, the model is the same up to rounding.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from lrml import LRML
from lrml.datasets import load_yeast
from lrml.engines import dask as cluster

yeast = load_yeast()
X, Y = yeast.train
local = LRML(3, 20.0).fit(X, Y)

# %%
# Two workers, here as threads of this process; `connect("tcp://…")` joins a cluster that is running.

sizes, gaps = [100, 200, 500, 1500], []
with cluster.connect(n_workers=2, processes=False) as client:
    for size in sizes:
        there = da.from_array(X, chunks=(size, -1)), da.from_array(Y, chunks=(size, -1))
        model = cluster.fit(LRML(3, 20.0), *there, client=client)
        gaps.append(float(np.abs(model.coef_ - local.coef_).max()))
    lazy = cluster.predict(model, da.from_array(yeast.test[0], chunks=(300, -1)))
    print(lazy.compute().shape)

# %%
# The largest difference of any coefficient from a fit in memory.

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogy([f"{1500 // size} × {size}" for size in sizes], np.maximum(gaps, 1e-17), "o-")
ax.set(xlabel="blocks × rows", ylabel="difference", ylim=(1e-17, 1e-2))
