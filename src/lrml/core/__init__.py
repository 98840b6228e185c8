"""The numeric core: arrays, sums over rows, losses, penalties, spectral coordinates and quadratics.

It knows neither scikit-learn nor data files; estimators, theory and completion stand on it.
"""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.core.moments import Statistics
    from lrml.core.penalties import TailSum, TraceNorm

__all__ = ["Statistics", "TailSum", "TraceNorm"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(__all__, "lrml.core.penalties") | {"Statistics": "lrml.core.moments"},
    )
