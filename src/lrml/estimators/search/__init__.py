"""Choosing parameters on held-out rows: what the ``…CV`` estimators are made of.

A `SearchModel` is an estimator; a `Family` lists candidates whose fits follow from second moments. The
estimators themselves stand beside those whose parameters they choose: `LRMLCV` beside `LRML`.
"""

from lrml.estimators.search._base import SearchModel
from lrml.estimators.search._search import Family, Piece, Visit

__all__ = ["Family", "Piece", "SearchModel", "Visit"]
