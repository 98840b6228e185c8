"""What the sweeps need of the data: losses and derivatives, with X already behind the n × k matrix A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lrml.losses import Floats
from lrml.solvers.leml._balance import Float64


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The summed loss at scores S = AHᵀ + 1cᵀ, and G_il = w_i dℓ/ds_il (0 where unknown) through the factors.

    Attributes
    ----------
    values : array of shape (L,)
        Loss of each label.
    rows : array of shape (n, k)
        GH, the gradient with respect to A.
    labels : array of shape (L, k)
        GᵀA, the gradient with respect to H.
    totals : array of shape (L,)
        Gᵀ1, the gradient with respect to c.
    """

    values: Float64
    rows: Float64
    labels: Float64
    totals: Float64

    def through(self, left: Float64, right: Float64) -> Evaluation:
        """Return the same for factors that are multiplied by these matrices, with the same scores."""
        return Evaluation(self.values, self.rows @ right, self.labels @ left, self.totals)


class Curvature(Protocol):
    """The second derivatives C_il = w_i d²ℓ/ds²_il at a point (0 where unknown), as linear maps.

    Attributes
    ----------
    means : array of shape (L,)
        Σ_i C_il / Σ_i w_i.
    """

    means: Float64

    def along_rows(self, E: Floats) -> Floats:
        """(C ∘ EHᵀ)H for E of shape (n, k), in either precision: the Hessian with respect to A."""

    def along_labels(self, D: Float64, e: Float64) -> tuple[Float64, Float64]:
        """SᵀA and Sᵀ1 with S = C ∘ (ADᵀ + 1eᵀ): the Hessian with respect to H and c."""


class DataTerm(Protocol):
    """A loss summed over the known labels of all examples."""

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Evaluate at the scores AHᵀ + 1cᵀ."""

    def curvature(self, A: Float64, H: Float64, c: Float64) -> Curvature:
        """Return the second derivatives at these scores."""
