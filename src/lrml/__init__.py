"""Low-rank multi-label learning that penalises only the tail of the spectrum."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml._version import __version__
    from lrml.displays import ConvergenceDisplay, LowRankDisplay, PathDisplay, SpectrumDisplay
    from lrml.estimators import (
        CPLST,
        CPLSTCV,
        LEML,
        LEMLCV,
        LRML,
        LRMLCV,
        PLST,
        MLFro,
        MLFroCV,
        MLTrace,
        MLTraceCV,
        SpectralRegressor,
        SpectralRegressorCV,
        alpha_max,
        lrml_path,
        predict_top_k,
    )
    from lrml.export import to_onnx
    from lrml.storage import load, save
    from lrml.text import TextTagger

__all__ = [
    "CPLST",
    "CPLSTCV",
    "LEML",
    "LEMLCV",
    "LRML",
    "LRMLCV",
    "PLST",
    "ConvergenceDisplay",
    "LowRankDisplay",
    "MLFro",
    "MLFroCV",
    "MLTrace",
    "MLTraceCV",
    "PathDisplay",
    "SpectralRegressor",
    "SpectralRegressorCV",
    "SpectrumDisplay",
    "TextTagger",
    "__version__",
    "alpha_max",
    "load",
    "lrml_path",
    "predict_top_k",
    "save",
    "to_onnx",
]

# scikit-learn takes a second to import; reading a file or the version should not wait for it.
_HOMES = dict.fromkeys(__all__, "lrml.estimators") | {
    "ConvergenceDisplay": "lrml.displays",
    "LowRankDisplay": "lrml.displays",
    "PathDisplay": "lrml.displays",
    "SpectrumDisplay": "lrml.displays",
    "TextTagger": "lrml.text",
    "__version__": "lrml._version",
    "load": "lrml.storage",
    "save": "lrml.storage",
    "to_onnx": "lrml.export",
}
_SUBMODULES = (
    "blocks",
    "completion",
    "core",
    "datasets",
    "displays",
    "estimators",
    "evaluation",
    "export",
    "inspection",
    "metrics",
    "model_selection",
    "penalties",
    "serving",
    "solvers",
    "storage",
    "text",
    "theory",
    "thresholds",
)

if not TYPE_CHECKING:  # with this, a type checker would accept any name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _SUBMODULES)
