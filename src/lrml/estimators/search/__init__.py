"""Choosing parameters on held-out rows: the parts of the ``…CV`` estimators.

A `SearchModel` is an estimator; a `Plan` proposes candidates, and a `Family` fits those that follow from
second moments. Each search is defined beside the estimator whose parameters it chooses: `LRMLCV` beside
`LRML`.
"""

from lrml.estimators.search._base import SearchModel
from lrml.estimators.search._plans import Limit, extending, once, ridge_plan, tail_plan
from lrml.estimators.search._search import Family, Params, Piece, Plan, Visit, fit_ridge, ridge_pieces

__all__ = [
    "Family",
    "Limit",
    "Params",
    "Piece",
    "Plan",
    "SearchModel",
    "Visit",
    "extending",
    "fit_ridge",
    "once",
    "ridge_pieces",
    "ridge_plan",
    "tail_plan",
]
