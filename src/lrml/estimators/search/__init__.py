"""Choosing parameters on held-out rows: the parts of the ``…CV`` estimators.

A `SearchModel` is an estimator, and a `BlockSearch` one that takes rows in blocks, too; a `Plan` proposes
candidates, and a `Family` fits those that follow from second moments. Each search is defined beside the
estimator whose parameters it chooses: `LRMLCV` beside `LRML`.
"""

from lrml.estimators.search._base import MANY_ROWS, SearchModel
from lrml.estimators.search._blocks import BlockSearch
from lrml.estimators.search._plans import (
    Limit,
    Start,
    extending,
    of_less_rank,
    once,
    ridge_plan,
    shrinking,
    tail_plan,
)
from lrml.estimators.search._search import (
    Family,
    Params,
    Piece,
    Plan,
    Visit,
    fit_ridge,
    reduced_rank_pieces,
    ridge_pieces,
)

__all__ = [
    "MANY_ROWS",
    "BlockSearch",
    "Family",
    "Limit",
    "Params",
    "Piece",
    "Plan",
    "SearchModel",
    "Start",
    "Visit",
    "extending",
    "fit_ridge",
    "of_less_rank",
    "once",
    "reduced_rank_pieces",
    "ridge_pieces",
    "ridge_plan",
    "shrinking",
    "tail_plan",
]
