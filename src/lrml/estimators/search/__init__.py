"""Estimators that choose their own parameters on held-out rows."""

from lrml.estimators.search.rivals import CPLSTCV, LEMLCV, MLFroCV
from lrml.estimators.search.tail import LRMLCV, MLTraceCV

__all__ = ["CPLSTCV", "LEMLCV", "LRMLCV", "MLFroCV", "MLTraceCV"]
