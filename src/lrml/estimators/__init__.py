"""scikit-learn estimators."""

from lrml.estimators._linear import TopK
from lrml.estimators.lrml import LRML

__all__ = ["LRML", "TopK"]
