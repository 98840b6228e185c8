"""Fits, predictions and metrics on a cluster of Dask: what one machine's memory cannot hold.

Everything that a fit needs of the rows is a sum over them. The workers read blocks of rows and sum them up;
sums, never rows, travel to this process, which solves. See ``docs/cluster.md``.

Needs ``dask[distributed]``: ``pip install "lrml[dask]"``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

try:
    from lrml.engines._answers import decision_function, evaluate, predict, predict_top_k, score
    from lrml.engines._cluster import ClusterError, connect
    from lrml.engines._sources import DaskBlocks, as_blocks
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError(
        f"A cluster needs Dask, and {error.name} cannot be imported. Install it with: pip install "
        '"lrml[dask]"'
    ) from error

if TYPE_CHECKING:
    from distributed import Client

    from lrml.blocks import Checkpoint

__all__ = [
    "ClusterError",
    "DaskBlocks",
    "connect",
    "decision_function",
    "evaluate",
    "fit",
    "predict",
    "predict_top_k",
    "score",
]


def __dir__() -> list[str]:
    return __all__


_Model = TypeVar("_Model")


def fit(
    model: _Model,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    client: Client | str | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    classes: Any = None,
) -> _Model:
    """Fit a model to rows on a cluster: ``model.fit_blocks`` on `DaskBlocks`.

    Parameters
    ----------
    model : estimator
        One with ``fit_blocks``: `LRML`, `MLTrace`, `MLFro`, `CPLST` or `LRMLCV`.
    X : Dask array or dataframe, bag or list of files, list of Delayed objects, or DaskBlocks
        Files and Delayed objects have the labels too; see `DaskBlocks`.
    y : Dask array, dataframe or series, or list of str, optional
        Labels; or the columns of the dataframe X that are labels.
    sample_weight : Dask array or series, or str, optional
    client : distributed.Client or str, optional
        A client, or the address of a scheduler. By default the current client or, if there is none, a local
        cluster with a process per core, which is closed afterwards.
    checkpoint : path-like or Checkpoint, optional
        A file that keeps the sum so far. If the scheduler is lost, the same call goes on from there.
    classes : sequence, optional
        As in ``fit_blocks``.

    Returns
    -------
    model
        Fitted.

    Raises
    ------
    BlockError
        If a block breaks a rule: which one, which row, and the sum of all blocks before it.
    ClusterError
        If the scheduler is lost, there have been no workers for 30 seconds (``lrml.worker-timeout`` in the
        configuration of Dask), or a block ends every worker that it is given to.
    """
    fit_blocks: Any = getattr(model, "fit_blocks", None)
    if fit_blocks is None:
        raise TypeError(
            f"a fit on a cluster needs a model with fit_blocks, got {type(model).__name__}. Use LRML, "
            "MLTrace, MLFro, CPLST or LRMLCV."
        )
    with as_blocks(X, y, sample_weight, client=client) as source:
        fit_blocks(source, classes=classes, checkpoint=checkpoint)
    return model
