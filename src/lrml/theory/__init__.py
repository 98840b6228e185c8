"""The theory of Xu et al., computed: Rademacher complexities, bounds on them, and what they say of a model.

Everything is conditional on X, and the intercept is left out. docs/theory.md has proofs, numbers, references.
"""

from lrml.theory._bounds import (
    Bound,
    global_bound,
    local_bound,
    local_dual_bound,
    local_rate,
    prediction_bound,
    printed_local_bound,
    theorem1,
    theorem2,
)
from lrml.theory._complexity import (
    LocalComplexity,
    MonteCarlo,
    Spectrum,
    global_complexity,
    local_complexity,
)
from lrml.theory._report import BoundReport, bound_report

__all__ = [
    "Bound",
    "BoundReport",
    "LocalComplexity",
    "MonteCarlo",
    "Spectrum",
    "bound_report",
    "global_bound",
    "global_complexity",
    "local_bound",
    "local_complexity",
    "local_dual_bound",
    "local_rate",
    "prediction_bound",
    "printed_local_bound",
    "theorem1",
    "theorem2",
]
