"""The numeric core: arrays, sums over rows, losses, penalties, spectral coordinates and quadratics.

It knows neither scikit-learn nor data files; estimators, theory and completion stand on it.
"""

from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum, TraceNorm

__all__ = ["Statistics", "TailSum", "TraceNorm"]
