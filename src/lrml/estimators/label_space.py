"""CPLST: encode labels by the directions of label space that X predicts best."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any

from lrml.core.checks import check_count
from lrml.core.rows import Rows
from lrml.estimators._base import LabelModel, Member
from lrml.estimators._constructor import Kernelised, with_constructor
from lrml.estimators._fitted import Fitted
from lrml.estimators._spec import Parameters, Spec
from lrml.thresholds import CutLike


@with_constructor
class CPLST(LabelModel, Kernelised, Member):
    """Conditional principal label space transformation: the directions of label space that X predicts best.

    With Z = Y − 1ȳᵀ, X centred and H = X (XᵀX + ridge·I)⁻¹ Xᵀ, the encoder V (L × k) holds the top
    eigenvectors of ZᵀHZ. The codes ZV are regressed on X, and decoding is linear:

    ::

        W = (XᵀX + ridge·I)⁻¹ XᵀZ V Vᵀ,    scores = ȳ + (x − x̄)ᵀ W.

    W minimises ‖Z − XW‖²_F + ridge · ‖W‖²_F over the matrices of rank k: reduced-rank regression, the limit
    of `LRML` for theta = k and alpha → ∞. The solution is exact.

    Parameters
    ----------
    rank : int or float, default=0.2
        k, the number of directions. An int counts them; a float in (0, 1] is a share of the labels (rounded,
        at least 1 and at most min(d, L)).
    ridge : float, default=0.0
        Strength of a squared Frobenius norm; 0 is the method as published.
    kernel, gamma, degree, coef0, threshold, calibrate, device
        As in `LRML`. All labels must be known.

    The attributes are those of `LRML`; the columns of ``factors_.V`` span what V does.

    References
    ----------
    Y.-N. Chen, H.-T. Lin. Feature-aware Label Space Dimension Reduction for Multi-label Classification. NIPS
    2012.

    Examples
    --------
    >>> from lrml import CPLST
    >>> from lrml.datasets import load_yeast
    >>> CPLST(rank=5).fit(*load_yeast().train).rank_
    5
    """

    rank: int | float = 0.2
    _: KW_ONLY
    ridge: float = 0.0
    threshold: CutLike = None
    calibrate: str | None = None
    device: Any = None

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        rank = check_count("rank", params.rank, 1, rows.model_shape)
        return Spec.of(self, params, ridge=params.ridge, max_rank=rank)

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        check_all_known(rows, "CPLST", "LEML or LRML")
        return replace(super()._solved(rows, params), alpha=None)  # its only strength is the ridge


def check_all_known(rows: Rows, name: str, others: str) -> None:
    """Refuse labels that are not known."""
    if not rows.all_known:
        raise ValueError(
            f"Input Y contains NaN or unobserved labels; {name} needs all, as it encodes label vectors. "
            f"Use {others} for labels that are not all known."
        )
