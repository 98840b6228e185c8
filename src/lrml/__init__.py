"""Low-rank multi-label learning that penalises only the tail of the spectrum."""

from importlib.metadata import version

from lrml.estimators import LRML

__version__ = version("lrml")

__all__ = ["LRML", "__version__"]
