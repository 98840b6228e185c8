"""Choosing parameters on held-out rows: the parts of the ``…CV`` estimators.

A `SearchModel` is an estimator; a `Plan` proposes candidates, and a `Family` fits those that follow from
second moments. Each search is defined beside the estimator whose parameters it chooses: `LRMLCV` beside
`LRML`.
"""

from lrml.estimators.search._base import SearchModel
from lrml.estimators.search._score_table import ScoreTable
from lrml.estimators.search._search import Family, Judged, Params, Piece, Plan, Visit

__all__ = ["Family", "Judged", "Params", "Piece", "Plan", "ScoreTable", "SearchModel", "Visit"]
