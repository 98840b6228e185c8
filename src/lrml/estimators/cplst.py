"""Label space dimension reduction: CPLST, PLST and CPLSTCV."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from lrml.blocks import Columns
from lrml.core.arrays import Array, descending_eigh, dtype_name, inner, is_sparse, namespace, thin_svd
from lrml.core.checks import check_count
from lrml.core.moments import CentredRows
from lrml.core.quadratic import SpectralProblem
from lrml.estimators._base import LinearMultiLabelModel, of_fit
from lrml.estimators._blocks import BlockFitting
from lrml.estimators._fitted import Fitted
from lrml.estimators._fitting import ClosedForm, Solution, TrainingData, record, warn_of_subspace
from lrml.estimators._grid import resolve_ranks, ridges_leaving
from lrml.estimators._kernels import KernelLike
from lrml.estimators._parameters import Parameters
from lrml.estimators._size import check_size
from lrml.estimators._space import MOST_COMPRESSED, RidgeRegressions, Space, solve_extending
from lrml.estimators.search import BlockSearch, Family, once, reduced_rank_pieces
from lrml.solvers import Factors

_Float64 = npt.NDArray[np.float64]
# Default grid of the search: shares of the labels, and shares of effective directions left by the ridges.
_RANK_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.3)
# From so many labels on, PLST finds a few directions of label space by Lanczos' method.
_MANY_LABELS = 2000


class LabelSpaceModel(LinearMultiLabelModel):
    """Encode labels by a few directions of label space, regress on the codes, decode linearly.

    Subclasses choose the directions in ``_directions``.
    """

    def __init__(
        self,
        rank: int | float = 0.2,
        *,
        ridge: float = 0.0,
        kernel: KernelLike = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        targets: str = "binary",
        threshold: float | npt.NDArray[np.floating[Any]] | str | None = None,
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        device: Any = None,
    ) -> None:
        self._keep(locals())

    def _directions(self, data: TrainingData, problem: SpectralProblem, count: int) -> Array:
        """Return orthonormal directions (L × count) of label space."""
        raise NotImplementedError

    def _ridge_regressions(
        self, data: TrainingData, params: Parameters, *, warm: bool = False
    ) -> RidgeRegressions:
        problem = data.space(fit_intercept=True).problem.with_ridge(params.ridge)
        V = self._directions(data, problem, check_count("rank", params.rank, 1, data.shape))
        V = V if problem.labels is None else problem.labels.T @ V
        left = (problem.cross @ V) / problem.curvature[:, None]
        return RidgeRegressions(left, V, params.ridge)

    def _solved(self, data: TrainingData, params: Parameters) -> Fitted:
        check_all_known(data, type(self).__name__, "LEML or LRML")
        check_size(data, type(self).__name__)
        count = check_count("rank", params.rank, 1, data.shape)

        def solve(space: Space) -> tuple[tuple[Array, Array, float], RidgeRegressions, float]:
            problem = space.problem.with_ridge(params.ridge)
            V = self._directions(data, problem, count)
            # Regression on the codes Z V, decoded by Vᵀ: W = (XᵀX + ridge)⁻¹ XᵀZ V Vᵀ.
            right = V if problem.labels is None else problem.labels.T @ V
            codes = problem.cross @ right
            encoder = codes / problem.curvature[:, None]
            objective = problem.target - inner(codes, encoder)
            return (V, encoder, objective), RidgeRegressions(encoder, right, params.ridge), objective

        space, (V, encoder, objective), gap = solve_extending(
            data.space(fit_intercept=True, ridge=params.ridge, directions=count), solve
        )
        extras: dict[str, Any] = {}
        if gap is not None:
            extras = {"compression_gap": gap} | warn_of_subspace(self, gap, 2 * MOST_COMPRESSED)
        U, s, mix = thin_svd(encoder)
        xp = namespace(s)
        rank = int(xp.count_nonzero(s > max(data.shape) * xp.finfo(s.dtype).eps * s[0]))
        found = Factors(space.problem.features @ U[:, :rank], s[:rank], V @ mix[:rank, :].T)
        factors = space.factors(found)
        intercept = space.intercept(factors.U, factors.V * factors.s)
        solution = Solution(factors, intercept, space.unseen, ClosedForm(objective, rank))
        extras |= space.kernel_gap(params.ridge, objective)
        extras["components"] = data.home.asarray(V.T, dtype_name(data.X))
        return record(data, solution, **extras)

    components_ = of_fit("components")
    n_components_ = property(lambda self: int(self.components_.shape[0]))


def check_all_known(data: TrainingData, name: str, others: str) -> None:
    """Refuse labels that are not known."""
    if data.mask is not None:
        raise ValueError(
            f"Input Y contains NaN or unobserved labels; {name} needs all, as it encodes label vectors. "
            f"Use {others} for labels that are not all known."
        )


class CPLST(BlockFitting, LabelSpaceModel):
    """Conditional principal label space transformation.

    With Z = Y − 1ȳᵀ the labels without their means, X centred likewise and H = X (XᵀX + ridge·I)⁻¹ Xᵀ the
    (ridge) hat matrix, the encoder V (L × k) holds the top eigenvectors of ZᵀHZ: the directions of label
    space whose predictable variation is largest. The codes ZV are regressed on X, and decoding is linear:

    ::

        W = (XᵀX + ridge·I)⁻¹ XᵀZ V Vᵀ,    scores = ȳ + (x − x̄)ᵀ W,

    cut at ``threshold`` in ``predict``. W is the minimiser of ‖Z − XW‖²_F + ridge · ‖W‖²_F over the matrices
    of rank k, that is, reduced-rank regression, and the limit of `LRML` for theta = k, alpha → ∞. The
    solution is exact and needs no iteration, only the eigendecompositions of XᵀX (d × d) and of ZᵀHZ (L × L,
    or smaller if the rank of X is).

    Cost: time O(n d² + d³ + d L min(d, L)), memory 3 d² + 2 d L numbers beside the data; with more features
    than rows, and for kernels, as in `LRML`.

    Parameters
    ----------
    rank : int or float, default=0.2
        k, the number of directions. An int counts them; a float in (0, 1] is a share of the labels (rounded,
        at least 1 and at most min(d, L)).
    ridge : float, default=0.0
        Strength of a squared Frobenius norm; 0 is the method as published.
    kernel, gamma, degree, coef0
        As in `LRML`; X is then replaced by the features behind the kernel.
    targets : {"binary", "real"}, default="binary"
        As in `LRML`.
    threshold : float, array of shape (L,) or "auto", optional
        A label is predicted if its score is at least this; 0.5 by default. "auto" as in `LRML`.
    threshold_scoring, threshold_per_label
        As in `LRML`.

    Attributes
    ----------
    components_ : array of shape (k, L)
        Vᵀ, orthonormal rows.
    n_components_ : int
        k.
    coef_, dual_coef_, X_fit_, intercept_, factors_, singular_values_, rank_, objective_, classes_
        As in `LRML`; the objective is that of reduced-rank regression.
    unseen_labels_, n_iter_, residual_, converged_, status_, history_, n_features_in_, feature_names_in_
        As in `LRML`; there are no iterations.
    compression_gap_
        As in `LRML`: what a subspace costs, where n and d are both large.

    References
    ----------
    Y.-N. Chen, H.-T. Lin. Feature-aware Label Space Dimension Reduction for Multi-label Classification. NIPS
    2012.

    Examples
    --------
    >>> from lrml import CPLST
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = CPLST(rank=5).fit(*yeast.train)
    >>> model.rank_, model.components_.shape
    (5, (5, 14))
    """

    def _check_before(self, columns: Columns, params: Parameters) -> None:
        check_count("rank", params.rank, 1, (columns.n_features, columns.n_labels))

    def _directions(self, data: TrainingData, problem: SpectralProblem, count: int) -> Array:
        # ZᵀHZ = Cᵀ(Λ + ridge)⁻¹C with C = QᵀXᵀZ: no n × n hat matrix is needed.
        top: Array = problem.reduced_rank_factors(count).right
        return top if problem.labels is None else problem.labels @ top


class PLST(LabelSpaceModel):
    """Principal label space transformation.

    As `CPLST`, but the encoder V holds the top eigenvectors of ZᵀZ, the principal directions of the labels
    alone, whether or not X predicts them:

    ::

        W = (XᵀX + ridge·I)⁻¹ XᵀZ V Vᵀ.

    Cost: exact, by the eigendecompositions of XᵀX (d × d) and ZᵀZ (L × L): time
    O(n d² + n L² + d³ + L³), memory 3 d² + 2 L² + 2 d L numbers beside the data. Of more than 2,000 labels,
    up to a tenth as many directions are found by Lanczos' method, in memory O(L k).

    Parameters
    ----------
    rank, ridge, kernel, gamma, degree, coef0, targets, threshold, threshold_scoring, threshold_per_label
        As in `CPLST`.

    Attributes
    ----------
    components_, n_components_
        As in `CPLST`; the rank of the model may be smaller than the number of components.
    coef_, dual_coef_, X_fit_, intercept_, factors_, singular_values_, rank_, objective_, classes_
        As in `LRML`.
    unseen_labels_, n_iter_, residual_, converged_, status_, history_, n_features_in_, feature_names_in_
        As in `LRML`; there are no iterations.
    compression_gap_
        As in `LRML`: what a subspace costs, where n and d are both large.

    References
    ----------
    F. Tai, H.-T. Lin. Multilabel Classification with Principal Label Space Transformation. Neural Computation
    24(9), 2012.

    Examples
    --------
    >>> from lrml import PLST
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> PLST(rank=5).fit(*yeast.train).rank_
    5
    """

    def _directions(self, data: TrainingData, problem: SpectralProblem, count: int) -> Array:
        if not data.place.is_host:
            Y = data.place.asarray(data.Y, "float64")
            rows = CentredRows.of(Y[:, :1], Y, data.weights)
            return descending_eigh((rows.Y * rows.weights[:, None]).T @ rows.Y)[1][:, :count]
        Y = data.Y.astype(np.float64)
        weighted = Y
        if data.weights is not None:
            weighted = sp.diags_array(data.weights) @ Y if is_sparse(Y) else Y * data.weights[:, None]
        total = data.X.shape[0] if data.weights is None else float(data.weights.sum())
        mean = np.asarray(weighted.sum(axis=0)).ravel() / total
        if Y.shape[1] > _MANY_LABELS and count <= Y.shape[1] // 10:  # no L × L matrix
            gram = LinearOperator(
                (Y.shape[1],) * 2,
                matvec=lambda v: weighted.T @ (Y @ v) - total * mean * (mean @ v),
                dtype=np.float64,
            )
            found: _Float64 = eigsh(gram, count, v0=np.ones(Y.shape[1]))[1][:, ::-1]
            return found
        gram = Y.T @ weighted
        gram = gram.toarray() if is_sparse(gram) else gram
        _, V = descending_eigh(gram - total * np.outer(mean, mean))
        top: Array = V[:, :count]
        return top


class CPLSTCV(BlockSearch):
    """`CPLST` with rank and ridge chosen by scores of unseen rows.

    The whole grid is tried. Leave-one-out scores are exact for the full rank, and estimates for lower ones,
    whose lead is confirmed as in `LRMLCV`.

    Cost: O(n d² + d³ + d² L) once, per ridge one decomposition of a min(d, L)² matrix, which serves all
    ranks, and O(mk (d + L)) for each candidate of rank k, judged on m rows; memory 3 d² + O(m (d + L))
    numbers beside the data. A number of folds takes one decomposition of each kind per fold.

    Parameters
    ----------
    ranks : sequence of int or float, optional
        By default 5, 10, 20, 40, 60, 80 and 100 % of the labels.
    ridges : float or sequence of float, optional
        By default 0 and the ridges that leave 90, 60 and 30 % of the effective directions, see `MLFroCV`.
    kernel, gammas, degree, coef0, targets, cv, scoring, rule, abandon, threshold, threshold_scoring
        As in `LRMLCV`.
    threshold_per_label, random_state
        As in `LRMLCV`.
    verbose
        As in `LRMLCV`.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, n_splits_, threshold_, coef_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import CPLSTCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(CPLSTCV(cv=3, random_state=0).fit(*yeast.train).score(*yeast.test), 2)
    0.75
    """

    _member = CPLST

    def __init__(
        self,
        ranks: Any = None,
        ridges: Any = None,
        *,
        kernel: KernelLike = "linear",
        gammas: Any = None,
        degree: float = 3,
        coef0: float = 1,
        targets: str = "binary",
        cv: Any = None,
        scoring: Any = None,
        rule: Any = "best",
        abandon: bool = True,
        threshold: Any = None,
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_shapes(self, data: TrainingData, params: Parameters) -> None:
        super()._check_shapes(data, params)
        check_all_known(data, "CPLSTCV", "LEMLCV or LRMLCV")
        params.ranks = resolve_ranks(params.ranks, _RANK_SHARES, data.shape)

    def _family(self, data: TrainingData, params: Parameters) -> Family:
        ridges = params.ridges
        if ridges is None:
            ridges = ridges_leaving(data.space(fit_intercept=True).problem, _RIDGE_SHARES)
        candidates = [{"rank": rank, "ridge": ridge} for ridge in ridges for rank in params.ranks]
        return Family(once(candidates), reduced_rank_pieces)
