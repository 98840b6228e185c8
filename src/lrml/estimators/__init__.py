"""scikit-learn estimators."""

from lrml.estimators._linear import TopK
from lrml.estimators._path_models import LRMLPath, PathModel
from lrml.estimators.cplst import CPLST, PLST
from lrml.estimators.leml import LEML
from lrml.estimators.lrml import LRML
from lrml.estimators.path import alpha_max, lrml_path, lrml_path_from_statistics
from lrml.estimators.ridge import MLFro, RidgePath, ml_fro_path
from lrml.estimators.search import CPLSTCV, LEMLCV, LRMLCV, MLFroCV, MLTraceCV
from lrml.estimators.trace import MLTrace

__all__ = [
    "CPLST",
    "CPLSTCV",
    "LEML",
    "LEMLCV",
    "LRML",
    "LRMLCV",
    "PLST",
    "LRMLPath",
    "MLFro",
    "MLFroCV",
    "MLTrace",
    "MLTraceCV",
    "PathModel",
    "RidgePath",
    "TopK",
    "alpha_max",
    "lrml_path",
    "lrml_path_from_statistics",
    "ml_fro_path",
]
