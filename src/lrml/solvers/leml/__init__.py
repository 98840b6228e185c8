"""Low-rank empirical risk minimisation (LEML): the coefficients as a product of two thin factors.

::

    F(Z, H, b) = Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ Z h_l + b_l) + ½ alpha (‖Z‖²_F + ‖H‖²_F)

with Z d × k, H L × k. Given one factor the problem is convex in the other, so sweeps improve Z, then H and b.
After every sweep the factors are balanced, Z = U√s and H = V√s for the singular value decomposition of their
product, which never raises F and makes the penalty alpha · Σ s_j. That is, F is the trace-norm problem over
the matrices of rank k.

Squared loss with all labels known: `MomentAlternation` works on the second moments, in closed form.
Everything else: `RowAlternation` takes Newton steps by conjugate gradients, with the data behind one of three
`DataTerm` classes. Neither d × L nor n × L numbers ever exist at once.
"""

from lrml.solvers.leml._balance import Balanced, balance, resize
from lrml.solvers.leml._blocks import Blocks
from lrml.solvers.leml._choice import data_term, precondition, prefers_moments
from lrml.solvers.leml._design import Design
from lrml.solvers.leml._loop import Alternation, Outcome, alternate
from lrml.solvers.leml._moments import MomentAlternation
from lrml.solvers.leml._pairs import Pairs
from lrml.solvers.leml._rows import RowAlternation
from lrml.solvers.leml._solve import LemlResult, Limits, solve_moments, solve_rows
from lrml.solvers.leml._squares import Squares
from lrml.solvers.leml._start import spectral_start
from lrml.solvers.leml._terms import Curvature, DataTerm, Evaluation

__all__ = [
    "Alternation",
    "Balanced",
    "Blocks",
    "Curvature",
    "DataTerm",
    "Design",
    "Evaluation",
    "LemlResult",
    "Limits",
    "MomentAlternation",
    "Outcome",
    "Pairs",
    "RowAlternation",
    "Squares",
    "alternate",
    "balance",
    "data_term",
    "precondition",
    "prefers_moments",
    "resize",
    "solve_moments",
    "solve_rows",
    "spectral_start",
]
