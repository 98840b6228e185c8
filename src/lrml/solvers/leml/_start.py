"""Where sweeps over rows begin: the leading directions of the gradient at zero coefficients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrml.solvers.leml._balance import Float64
from lrml.solvers.leml._design import Design
from lrml.solvers.leml._terms import DataTerm

_POWER_ITERATIONS = 3
# More directions than asked for, which make the last ones of those better.
_OVERSAMPLING = 8


class SpectralStart(NamedTuple):
    """Outcome of `spectral_start`.

    Attributes
    ----------
    Z : array of shape (d, k)
        Leading left singular vectors of ∇f(0), each as long as a Newton step along it asks for.
    slope : float
        ‖∇f(0)‖₂, from below, to about a percent: from this alpha on the solution is zero.
    """

    Z: Float64
    slope: float


def spectral_start(
    design: Design, term: DataTerm, constants: Float64, rank: int, random: np.random.RandomState
) -> SpectralStart:
    """Find the leading singular vectors of ∇f(0) = XᵀG by subspace iteration from random labels.

    Parameters
    ----------
    design : Design
    term : DataTerm
    constants : array of shape (L,)
        Scores of the model without features, where the slopes G are taken.
    rank : int
        k.
    random : RandomState
    """
    count = min(rank + _OVERSAMPLING, design.n_features, len(constants))
    no_rows, no_labels = np.zeros((design.n_rows, count)), np.zeros((len(constants), count))
    labels = random.standard_normal((len(constants), count))
    for _ in range(_POWER_ITERATIONS):
        gradient = design.transposed(term.evaluate(no_rows, labels, constants).rows)
        basis, _ = np.linalg.qr(gradient)
        A = design.times(basis)
        images = term.evaluate(A, no_labels, constants).labels  # GᵀXQ
        labels, _ = np.linalg.qr(images)
    mix, sigma, _ = np.linalg.svd(images.T, full_matrices=False)
    mix = mix[:, :rank]
    bend = np.einsum("ij,ij->j", A @ mix, A @ mix)
    lengths = np.sqrt(np.divide(sigma[:rank], bend, out=np.zeros(rank), where=bend > 0))
    return SpectralStart((basis @ mix) * lengths, float(sigma[0]))
