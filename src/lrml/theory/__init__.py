"""The theory of Xu et al., computed: Rademacher complexities, bounds on them, and what they say of a model.

================================  ====================================================================
global complexity                 `global_complexity` (Monte Carlo), `global_bound`, `printed_trace_bound`
local complexity                  `local_complexity` (bracketed), `local_bound`, `local_dual_bound`
the paper's local bound           `printed_local_bound`, `printed_class_complexity`, `printed_assumption`
where it fails                    `scale_data`, `scale_predictors`, `printed_bound_fails_below`
risk                              `theorem1`, `theorem2`
rates                             `fixed_point`, `local_rate`, `excess_risk_rate`, `fitted_slope`
a fitted model                    `bound_report`
================================  ====================================================================

docs/theory.md walks through them with numbers. Everything is conditional on X, and the intercept is left out.
"""

from lrml.theory._bounds import local_bound, local_dual_bound
from lrml.theory._data import Spectrum
from lrml.theory._fixed_point import (
    decaying_spectrum,
    excess_risk_rate,
    fitted_slope,
    fixed_point,
    local_rate,
)
from lrml.theory._global import global_bound, global_complexity, printed_trace_bound
from lrml.theory._local import local_complexity
from lrml.theory._printed import (
    PrintedAssumption,
    Scaling,
    printed_assumption,
    printed_bound_fails_below,
    printed_class_complexity,
    printed_local_bound,
    scale_data,
    scale_predictors,
)
from lrml.theory._records import Bound, LocalComplexity, MonteCarlo
from lrml.theory._report import BoundReport, bound_report
from lrml.theory._risk import theorem1, theorem2

__all__ = [
    "Bound",
    "BoundReport",
    "LocalComplexity",
    "MonteCarlo",
    "PrintedAssumption",
    "Scaling",
    "Spectrum",
    "bound_report",
    "decaying_spectrum",
    "excess_risk_rate",
    "fitted_slope",
    "fixed_point",
    "global_bound",
    "global_complexity",
    "local_bound",
    "local_complexity",
    "local_dual_bound",
    "local_rate",
    "printed_assumption",
    "printed_bound_fails_below",
    "printed_class_complexity",
    "printed_local_bound",
    "printed_trace_bound",
    "scale_data",
    "scale_predictors",
    "theorem1",
    "theorem2",
]
