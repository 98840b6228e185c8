"""Choosing parameters on held-out rows: the parts of the ``…CV`` estimators.

A `SearchModel` is an estimator; a `Family` lists candidates whose fits follow from second moments. Each
search is defined beside the estimator whose parameters it chooses: `LRMLCV` beside `LRML`.
"""

from lrml.estimators.search._base import SearchModel
from lrml.estimators.search._search import Family, Piece, Visit

__all__ = ["Family", "Piece", "SearchModel", "Visit"]
