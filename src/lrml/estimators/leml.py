"""LEML: the trace norm, or a ridge only, over the matrices of limited rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from lrml.core.checks import check_count
from lrml.core.rows import Rows
from lrml.estimators._base import LabelModel, Member
from lrml.estimators._constructor import Iterated, with_constructor
from lrml.estimators._spec import Parameters, Spec
from lrml.thresholds import CutLike

# Defaults are shares of the labels, or of this many if there are fewer: with few labels a rank below theirs
# saves little time and costs much quality.
_RANK_SHARE, _FEW_LABELS, _LARGEST_RANK = 0.8, 320, 512


@with_constructor
class LEML(LabelModel, Iterated, Member):
    """Low-rank empirical risk minimisation: a trace norm, or a ridge only, over matrices of rank k at most.

    Finds W (d × L) of rank k at most, and intercepts b, that minimise

    ::

        Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ w_l + b_l) + alpha · Σ_j σ_j(W) + ridge · ‖W‖²_F.

    With W = ZHᵀ, Z d × k and H L × k, the trace norm is the least ½(‖Z‖²_F + ‖H‖²_F), the penalty of the
    paper. So this is `LRML` on the coefficients with theta = 0 and a limit on the rank. With alpha = 0, the
    default, it is ridge regression of rank k, exact where sums suffice; without a ridge, too, it is `CPLST`.
    The ridge is not in the paper: the trace norm hardly shrinks leading directions, which overfit wide text.

    Parameters
    ----------
    rank : int or float, optional
        k. An int counts; a float in (0, 1] is a share of the labels (rounded, at least 1, at most min(d, L)).
        By default 80 % of the labels, but at least 256 and at most 512, or min(d, L) if that is less: with a
        smaller one, rare labels do not fit in.
    alpha : float, default=0.0
        Strength of the paper's penalty, a trace norm. From ‖∇f(0)‖₂ on, W is 0.
    ridge : float, optional
        Strength of the ridge penalty. By default 0 if alpha is given; otherwise half of that with the least
        generalised cross-validation error of ridge regression, as less of it ranks labels better:
        ‖(I − H_ρ)Y‖² / (n − 1 − 1.05 tr H_ρ)² with H_ρ = X(XᵀX + ρ)⁻¹Xᵀ, X and Y centred, times the
        curvature of the loss relative to squares.
    tol : float, optional
        As in `LRML`; 1e-6 by default where sums suffice, and 1e-4 elsewhere.
    loss, fit_intercept, threshold, calibrate, max_iter, warm_start, callback, device, verbose
        As in `LRML`; and so are the attributes.

    References
    ----------
    H.-F. Yu, P. Jain, P. Kar, I. S. Dhillon. Large-scale Multi-label Learning with Missing Labels. ICML 2014.

    Examples
    --------
    >>> from lrml import LEML
    >>> from lrml.datasets import load_yeast
    >>> LEML(rank=5).fit(*load_yeast().train).rank_
    5
    """

    rank: int | float | None = None
    alpha: float | None = None
    _: KW_ONLY
    ridge: float | None = None
    loss: str = "squared"
    threshold: CutLike = None
    calibrate: str | None = None

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        shape, alpha = rows.model_shape, params.alpha
        rank = usual_ranks([_RANK_SHARE], shape)[0] if params.rank is None else params.rank
        rank, ridge = check_count("rank", rank, 1, shape), params.ridge
        ridge = 0.0 if ridge is None and alpha is not None else ridge
        return Spec.of(self, params, max_rank=rank, alpha=alpha or 0.0, ridge=ridge, tols=(1e-6, 1e-4))


def usual_ranks(shares: Sequence[float], shape: tuple[int, int]) -> list[int]:
    """Return ranks for coefficients of this shape (d × L)."""
    counts = [
        min(*shape, _LARGEST_RANK, max(1, round(share * max(shape[1], _FEW_LABELS)))) for share in shares
    ]
    return list(dict.fromkeys(counts))
