"""Choosing parameters on held-out rows: the parts of the ``…CV`` estimators.

A `SearchModel` is an estimator, and a `BlockSearch` one that takes rows in blocks, too; a `Plan` proposes
candidates, and a `Family` fits those that follow from second moments. Each search is defined beside the
estimator whose parameters it chooses: `LRMLCV` beside `LRML`.
"""

from lrml.estimators.search._base import MANY_ROWS, SearchModel
from lrml.estimators.search._blocks import BlockSearch
from lrml.estimators.search._folded import FoldedSearch, prediction_pieces
from lrml.estimators.search._plans import (
    Start,
    extending,
    once,
    ridge_plan,
    shrinking,
    tail_plan,
)
from lrml.estimators.search._search import (
    Comparison,
    Family,
    Params,
    Piece,
    Plan,
    Search,
    Visit,
    fit_ridge,
    reduced_rank_pieces,
    ridge_pieces,
)

__all__ = [
    "MANY_ROWS",
    "BlockSearch",
    "Comparison",
    "Family",
    "FoldedSearch",
    "Params",
    "Piece",
    "Plan",
    "Search",
    "SearchModel",
    "Start",
    "Visit",
    "extending",
    "fit_ridge",
    "once",
    "prediction_pieces",
    "reduced_rank_pieces",
    "ridge_pieces",
    "ridge_plan",
    "shrinking",
    "tail_plan",
]
