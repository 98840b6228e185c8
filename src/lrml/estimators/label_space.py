"""Label space dimension reduction: CPLST and PLST."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, eigsh

from lrml.core.arrays import Array, dense, is_sparse, namespace
from lrml.core.checks import check_count
from lrml.core.coordinates import RidgeRegressions, coordinates_of, with_unseen
from lrml.core.linalg import descending_eigh
from lrml.core.losses import SquaredLoss
from lrml.core.moments import CentredRows
from lrml.core.rows import Rows
from lrml.estimators._base import LabelModel, Member
from lrml.estimators._fit import fit
from lrml.estimators._fitted import Fitted, of_fit
from lrml.estimators._kernels import KernelLike
from lrml.estimators._spec import Parameters, Spec


class LabelSpaceModel(LabelModel, Member):
    """Encode labels by a few directions of label space, regress on the codes, decode linearly."""

    def __init__(
        self,
        rank: int | float = 0.2,
        *,
        ridge: float = 0.0,
        kernel: KernelLike = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        threshold: float | npt.NDArray[np.floating[Any]] | str | None = None,
        device: Any = None,
    ) -> None:
        self.rank = rank
        self.ridge = ridge
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.threshold = threshold
        self.device = device

    components_ = of_fit("components")
    n_components_ = property(lambda self: int(self.components_.shape[0]))

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        rank = check_count("rank", params.rank, 1, rows.model_shape)
        return Spec.of(self, params, ridge=params.ridge, max_rank=rank, encodes=True)

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        check_all_known(rows, type(self).__name__, "LEML or LRML")
        return super()._solved(rows, params)


def check_all_known(rows: Rows, name: str, others: str) -> None:
    """Refuse labels that are not known."""
    if not rows.all_known:
        raise ValueError(
            f"Input Y contains NaN or unobserved labels; {name} needs all, as it encodes label vectors. "
            f"Use {others} for labels that are not all known."
        )


class CPLST(LabelSpaceModel):
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
    kernel, gamma, degree, coef0, threshold, device
        As in `LRML`. All labels must be known.

    Attributes
    ----------
    components_, n_components_ : array of shape (k, L), int
        Vᵀ, orthonormal rows; k. All others are as in `LRML`.

    References
    ----------
    Y.-N. Chen, H.-T. Lin. Feature-aware Label Space Dimension Reduction for Multi-label Classification. NIPS
    2012.

    Examples
    --------
    >>> from lrml import CPLST
    >>> from lrml.datasets import load_yeast
    >>> model = CPLST(rank=5).fit(*load_yeast().train)
    >>> model.rank_, model.components_.shape
    (5, (5, 14))
    """


class PLST(LabelSpaceModel):
    """Principal label space transformation: the principal directions of the labels, predictable or not.

    As `CPLST`, but the encoder V holds the top eigenvectors of ZᵀZ, and the rank of the model may be smaller
    than the number of components. It needs all labels at once, so there is no ``fit_blocks``.

    Parameters
    ----------
    rank, ridge, kernel, gamma, degree, coef0, threshold, device
        As in `CPLST`; and so are the attributes.

    References
    ----------
    F. Tai, H.-T. Lin. Multilabel Classification with Principal Label Space Transformation. Neural Computation
    24(9), 2012.

    Examples
    --------
    >>> from lrml import PLST
    >>> from lrml.datasets import load_yeast
    >>> PLST(rank=5).fit(*load_yeast().train).rank_
    5
    """

    @property
    def fit_blocks(self) -> Any:
        """Not there: the principal directions of the labels need YᵀY."""
        raise AttributeError("PLST needs all labels at once. Use CPLST.fit_blocks, or fit.")

    fit_statistics = partial_fit = fit_blocks

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        check_all_known(rows, "PLST", "LEML or LRML")
        spec, home, mean = self._spec(params, rows), rows.home, rows.label_means
        V = _principal_directions(rows, spec.max_rank or 1)
        schema = replace(rows.schema, n_labels=V.shape[1], label_names=None, targets="real")
        Y = rows.Y if rows.place.is_host else rows.place.asarray(rows.Y, "float64")
        codes = replace(rows, Y=rows.place.asarray(Y @ V - mean @ V, "float64"), schema=schema, sums=None)
        found = fit(codes, replace(spec, max_rank=None, encodes=False))
        # Regression on the codes Z V, decoded by Vᵀ: W = (XᵀX + ridge)⁻¹ XᵀZ V Vᵀ.
        decoder, unseen, dtype = home.asarray(V), home.asarray(mean == 0), rows.model_dtype
        intercept = home.asarray(mean) + decoder @ home.asarray(found.intercept)
        right = decoder @ home.asarray(found.factors.V, "float64")
        lost = _energy(rows) - _energy(codes)
        return replace(
            found,
            schema=rows.schema,
            factors=found.factors._replace(V=home.asarray(right, dtype)),
            intercept=home.asarray(with_unseen(intercept, unseen, SquaredLoss()), dtype),
            unseen=unseen,
            alpha=None,
            objective=found.objective + lost,
            history=found.history | {"objective": found.history["objective"] + lost},
            components=home.asarray(decoder.T, rows.schema.dtype),
        )

    def _regressions(self, rows: Rows, params: Parameters, *, warm: bool = False) -> RidgeRegressions:
        problem = coordinates_of(rows, fit_intercept=True).problem.with_ridge(params.ridge)
        V = _principal_directions(rows, check_count("rank", params.rank, 1, rows.model_shape))
        V = V if problem.labels is None else problem.labels.T @ V
        return RidgeRegressions((problem.cross @ V) / problem.curvature[:, None], V, params.ridge)


def _energy(rows: Rows) -> float:
    """Σ w ‖y − ȳ‖²."""
    mean = rows.label_means
    return float(namespace(mean).sum(rows.label_squares)) - rows.total_weight * float(mean @ mean)


def _principal_directions(rows: Rows, count: int) -> Array:
    """Return the top eigenvectors of ZᵀZ (L × count)."""
    on_host, n_labels = rows.place.is_host, rows.shape[2]
    Y = rows.Y.astype(np.float64) if on_host else rows.place.asarray(rows.Y, "float64")
    centred = CentredRows.of(Y[:, :1], Y, rows.weights)
    Y, total, mean = centred.Y, centred.weight, centred.y_offset  # Z = Y − 1 meanᵀ
    w = centred.weights[:, None]
    weighted = Y.multiply(w).tocsr() if is_sparse(Y) else Y * w
    if on_host and n_labels > 2000 and count <= n_labels // 10:  # Lanczos' method needs no L × L matrix
        product = LinearOperator(
            (n_labels, n_labels),
            matvec=lambda v: weighted.T @ (Y @ v) - total * mean * (mean @ v),
            dtype=np.float64,
        )
        found: Array = eigsh(product, count, v0=np.ones(n_labels))[1][:, ::-1]
        return found
    gram = weighted.T @ Y
    return descending_eigh(dense(gram) - total * mean[:, None] * mean)[1][:, :count]
