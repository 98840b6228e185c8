"""Where fits run, other than in this process: `lrml.engines.dask`, on a cluster."""
