"""Low-rank multi-label learning that penalises only the tail of the spectrum."""

from importlib.metadata import version as _version

from lrml.estimators import CPLST, LRML, PLST, MLFro, MLTrace

__version__ = _version("lrml")

__all__ = ["CPLST", "LRML", "PLST", "MLFro", "MLTrace", "__version__"]
