"""The theory of Xu et al., computed: Rademacher complexities, bounds on them, and what they say of a model.

=====================  =================================================================================
global complexity      `global_complexity` (Monte Carlo), `global_bound`
local complexity       `local_complexity` (bracketed), `local_bound`, `local_dual_bound`
as the paper prints    `printed_trace_bound`, `printed_local_bound`, `printed_assumption`
risk and rates         `theorem1`, `theorem2`, `fixed_point`, `local_rate`
a fitted model         `bound_report`
=====================  =================================================================================

docs/theory.md walks through them with numbers, and lists the references that docstrings give by author and
year. Everything is conditional on X, and the intercept is left out.
"""

from lrml.theory._data import Bound, LocalComplexity, MonteCarlo, Spectrum
from lrml.theory._global import global_bound, global_complexity
from lrml.theory._local import local_bound, local_complexity, local_dual_bound
from lrml.theory._printed import (
    PrintedAssumption,
    printed_assumption,
    printed_local_bound,
    printed_trace_bound,
)
from lrml.theory._rates import fixed_point, local_rate, theorem1, theorem2
from lrml.theory._report import BoundReport, bound_report

__all__ = [
    "Bound",
    "BoundReport",
    "LocalComplexity",
    "MonteCarlo",
    "PrintedAssumption",
    "Spectrum",
    "bound_report",
    "fixed_point",
    "global_bound",
    "global_complexity",
    "local_bound",
    "local_complexity",
    "local_dual_bound",
    "local_rate",
    "printed_assumption",
    "printed_local_bound",
    "printed_trace_bound",
    "theorem1",
    "theorem2",
]


def __dir__() -> list[str]:
    return __all__
