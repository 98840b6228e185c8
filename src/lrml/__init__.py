"""Low-rank multi-label learning that penalises only the tail of the spectrum."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml._version import __version__
    from lrml.estimators import CPLST, LEML, LRML, PLST, MLFro, MLTrace

__all__ = ["CPLST", "LEML", "LRML", "PLST", "MLFro", "MLTrace", "__version__"]

# scikit-learn takes a second to import; who asks for the version or reads a file need not wait for it.
_HOMES = dict.fromkeys(__all__, "lrml.estimators") | {"__version__": "lrml._version"}
_SUBMODULES = ("datasets", "estimators", "metrics", "model_selection", "solvers")

__getattr__, __dir__ = lazy_names(__name__, _HOMES, _SUBMODULES)
