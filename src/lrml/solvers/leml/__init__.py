"""Low-rank empirical risk minimisation (LEML): the coefficients as a product of two thin factors.

::

    F(Z, H, b) = Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ Z h_l + b_l) + ½ alpha (‖Z‖²_F + ‖H‖²_F) + ridge ‖ZHᵀ‖²_F

with Z d × k, H L × k. Given one factor the problem is convex in the other, so sweeps improve Z, then H and b.
After every sweep the factors are balanced, Z = U√s and H = V√s for the singular value decomposition of their
product, which never raises F and makes the penalty alpha · Σ s_j + ridge · Σ s_j². That is, F is the problem
of the trace norm and a ridge over the matrices of rank k.

Squared loss with all labels known: `solve_moments` works on the second moments, in closed form. Everything
else: `solve_rows` takes Newton steps by conjugate gradients, with the data behind one of three data terms.
It never holds d × L or n × L numbers at once; on a device, where Y is dense, n × L second derivatives are
kept in single precision.

All solvers run where their arrays are. Factors, objectives and gradients are in double precision everywhere;
only products with the Hessian of `solve_rows` are in single precision, where the numbers of X permit (never
TF32). Conjugate gradients are inexact anyway.

For the library's own use; users fit `lrml.LEML`.
"""

from lrml.solvers.leml._design import Design, precondition, spectral_start
from lrml.solvers.leml._factors import LemlResult, Limits, Penalty, balance, resize
from lrml.solvers.leml._moments import prefers_moments, solve_moments
from lrml.solvers.leml._rows import backtrack, newton_direction, solve_rows
from lrml.solvers.leml._terms import Blocks, DataTerm, Pairs, Squares, data_term

__all__ = [
    "Blocks",
    "DataTerm",
    "Design",
    "LemlResult",
    "Limits",
    "Pairs",
    "Penalty",
    "Squares",
    "backtrack",
    "balance",
    "data_term",
    "newton_direction",
    "precondition",
    "prefers_moments",
    "resize",
    "solve_moments",
    "solve_rows",
    "spectral_start",
]
