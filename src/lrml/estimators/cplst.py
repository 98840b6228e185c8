"""Label space dimension reduction: CPLST and PLST."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml import _validation as check
from lrml._arrays import descending_eigh, is_sparse
from lrml.estimators._fitting import Solution, TrainingData, check_feature_count, prepare, store
from lrml.estimators._linear import LinearMultiLabelModel
from lrml.problem import SpectralProblem
from lrml.solvers import Factors, History, IterationInfo, Status
from lrml.statistics import Statistics

_Float64 = npt.NDArray[np.float64]


class LabelSpaceModel(LinearMultiLabelModel):
    """Encode labels by a few directions of label space, regress on the codes, decode linearly.

    Subclasses choose the directions in ``_directions``.
    """

    def __init__(
        self,
        rank: int | float = 0.2,
        *,
        ridge: float = 0.0,
        threshold: float | npt.NDArray[np.floating[Any]] | None = None,
    ) -> None:
        self.rank = rank
        self.ridge = ridge
        self.threshold = threshold

    def _directions(
        self, data: TrainingData, statistics: Statistics, problem: SpectralProblem, count: int
    ) -> _Float64:
        """Return orthonormal directions (L × count) of label space."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            Never densified if sparse.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels, all of them known. Column names of a frame become ``classes_``.
        sample_weight : array of shape (n,), optional
            Multiplies the squared error of each row.
        observed : array, sparse matrix or frame of bool of shape (n, L), optional
            All True: labels that are not known are refused.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        return self._fit_data(prepare(self, X, y, sample_weight, observed))

    def _fit_data(self, data: TrainingData) -> Self:
        """Fit checked data."""
        if data.mask is not None:
            name = type(self).__name__
            raise ValueError(
                f"Input Y contains NaN or unobserved labels; {name} needs all, as it encodes label vectors. "
                "Use LEML or LRML for labels that are not all known."
            )
        check_feature_count(data.X.shape[1], type(self).__name__)
        count = check.check_rank(self.rank, data.X.shape[1], data.Y.shape[1])
        ridge = check.check_nonnegative("ridge", self.ridge, "Pass ridge=0 for none.")
        statistics = data.statistics
        problem = data.problem(fit_intercept=True).with_ridge(ridge)
        V = self._directions(data, statistics, problem, count)
        # Regression on the codes Z V, decoded by Vᵀ: W = (XᵀX + ridge)⁻¹ XᵀZ V Vᵀ.
        cross = problem.cross if problem.labels is None else problem.cross @ problem.labels.T
        encoder = problem.features @ ((cross @ V) / problem.curvature[:, None])
        objective = problem.target - float(np.sum((cross @ V) ** 2 / problem.curvature[:, None]))
        solution = _solution(encoder, V, statistics, data, objective)
        U, s, right = solution.factors
        coef = np.ascontiguousarray((right * s) @ U.T, dtype=data.X.dtype)
        store(
            self, data, solution, coef_=coef, n_components_=V.shape[1], components_=V.T.astype(data.X.dtype)
        )
        return self


def _solution(
    encoder: _Float64, V: _Float64, statistics: Statistics, data: TrainingData, objective: float
) -> Solution:
    U, s, mix = np.linalg.svd(encoder, full_matrices=False)
    rank = int(np.count_nonzero(s > max(encoder.shape) * np.finfo(s.dtype).eps * s[0]))
    factors = Factors(U[:, :rank], s[:rank], V @ mix[:rank].T)
    intercept = statistics.y_mean - ((statistics.x_mean @ factors.U) * factors.s) @ factors.V.T
    unseen = statistics.y_mean == 0
    intercept[unseen] = data.loss.unseen_score
    history = History([IterationInfo(0, "closed form", objective, 0.0, rank, 0.0)])
    return Solution(factors, intercept, unseen, Status.CLOSED_FORM, 0, objective, 0.0, history)


class CPLST(LabelSpaceModel):
    """Conditional principal label space transformation.

    With Z = Y − 1ȳᵀ the labels without their means, X centred likewise and H = X (XᵀX + ridge·I)⁻¹ Xᵀ the
    (ridge) hat matrix, the encoder V (L × k) holds the top eigenvectors of ZᵀHZ: the directions of label
    space that can be predicted best, weighted by how much there is to predict. The codes ZV are regressed on
    X, and decoding is linear:

    ::

        W = (XᵀX + ridge·I)⁻¹ XᵀZ V Vᵀ,    scores = ȳ + (x − x̄)ᵀ W,

    rounded by ``threshold`` in ``predict``. This is the minimiser of ‖Z − XW‖²_F + ridge · ‖W‖²_F over the
    matrices of rank k, that is, reduced-rank regression, and the limit of `LRML` for theta = k, alpha → ∞.
    Exact and without iteration, by the eigendecompositions of XᵀX (d × d) and of ZᵀHZ (L × L, or as small as
    the rank of X): O(n d² + d³ + d L min(d, L)).

    Parameters
    ----------
    rank : int or float, default=0.2
        k, the number of directions. An int counts them; a float in (0, 1] is a share of the labels (rounded,
        at least 1 and at most min(d, L)).
    ridge : float, default=0.0
        Strength of a squared Frobenius norm; 0 is the method as published.
    threshold : float or array of shape (L,), optional
        A label is predicted if its score is at least this; 0.5 by default.

    Attributes
    ----------
    components_ : array of shape (k, L)
        Vᵀ, orthonormal rows.
    n_components_ : int
        k.
    coef_, intercept_, factors_, singular_values_, rank_, objective_, classes_, unseen_labels_
        As in `LRML`; the objective is that of reduced-rank regression.
    n_iter_, residual_, converged_, status_, history_, n_features_in_, feature_names_in_
        As in `LRML`; there are no iterations.

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

    def _directions(
        self, data: TrainingData, statistics: Statistics, problem: SpectralProblem, count: int
    ) -> _Float64:
        # ZᵀHZ = Cᵀ(Λ + ridge)⁻¹C with C = QᵀXᵀZ: no n × n hat matrix is needed.
        top: _Float64 = problem.reduced_rank_factors(count).right
        return top if problem.labels is None else problem.labels @ top


class PLST(LabelSpaceModel):
    """Principal label space transformation.

    As `CPLST`, but the encoder V holds the top eigenvectors of ZᵀZ, the principal directions of the labels
    themselves, whatever can be predicted of them:

    ::

        W = (XᵀX + ridge·I)⁻¹ XᵀZ V Vᵀ.

    Exact, by the eigendecompositions of XᵀX (d × d) and ZᵀZ (L × L).

    Parameters
    ----------
    rank : int or float, default=0.2
        Number of directions, as in `CPLST`.
    ridge : float, default=0.0
        Strength of a squared Frobenius norm.
    threshold : float or array of shape (L,), optional
        A label is predicted if its score is at least this; 0.5 by default.

    Attributes
    ----------
    components_, n_components_
        As in `CPLST`; the rank of the model may be smaller than the number of components.
    coef_, intercept_, factors_, singular_values_, rank_, objective_, classes_, unseen_labels_
        As in `LRML`.
    n_iter_, residual_, converged_, status_, history_, n_features_in_, feature_names_in_
        As in `LRML`; there are no iterations.

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

    def _directions(
        self, data: TrainingData, statistics: Statistics, problem: SpectralProblem, count: int
    ) -> _Float64:
        Y = data.Y.astype(np.float64)
        weighted = Y
        if data.weights is not None:
            weighted = sp.diags_array(data.weights) @ Y if is_sparse(Y) else Y * data.weights[:, None]
        gram = Y.T @ weighted
        gram = gram.toarray() if is_sparse(gram) else gram
        mean = statistics.y_mean
        _, V = descending_eigh(gram - statistics.weight * np.outer(mean, mean))
        top: _Float64 = V[:, :count]
        return top
