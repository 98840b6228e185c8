"""scikit-learn estimators."""

from lrml._ranking import TopK
from lrml.estimators._base import LowRankModel
from lrml.estimators._calibration import Calibration as Calibration  # for model files
from lrml.estimators._fitted import Fitted as Fitted
from lrml.estimators._kernels import KERNELS as KERNELS  # for model files
from lrml.estimators._kernels import Kernel as Kernel
from lrml.estimators._scores import predict_top_k
from lrml.estimators.cv import CPLSTCV, LEMLCV, LRMLCV, MLFroCV, MLTraceCV, SpectralRegressorCV
from lrml.estimators.label_space import CPLST
from lrml.estimators.leml import LEML
from lrml.estimators.lrml import LRML, MLFro, MLTrace
from lrml.estimators.path import LRMLPath, lrml_path
from lrml.estimators.spectral import SpectralRegressor

__all__ = [
    "CPLST",
    "CPLSTCV",
    "LEML",
    "LEMLCV",
    "LRML",
    "LRMLCV",
    "LRMLPath",
    "LowRankModel",
    "MLFro",
    "MLFroCV",
    "MLTrace",
    "MLTraceCV",
    "SpectralRegressor",
    "SpectralRegressorCV",
    "TopK",
    "lrml_path",
    "predict_top_k",
]
