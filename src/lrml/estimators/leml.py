"""LEML: low-rank coefficients as a product of two factors, at the scale of many features and labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lrml import _validation as check
from lrml._progress import solver_progress
from lrml.estimators._factored import Task, fit_moments, fit_rows
from lrml.estimators._fitting import (
    TrainingData,
    check_limits,
    is_warm_start,
    prepare,
    store,
    warn_unless_converged,
)
from lrml.estimators._linear import LinearMultiLabelModel
from lrml.solvers import Callback
from lrml.solvers import leml as core

_Float64 = npt.NDArray[np.float64]
# Sweeps over the moments are cheap. Where every sweep reads the rows, the default ended some 0.1 % above the
# best objective found for the squared loss on bibtex, and some 1 % above it for the other losses.
_TOL_MOMENTS, _TOL_ROWS = 1e-4, 1e-3
_MAX_SWEEPS = 500


class LEML(LinearMultiLabelModel):
    """Low-rank empirical risk minimisation for multi-label learning.

    Looks for factors Z (d × k) and H (L × k) and intercepts b that minimise

    ::

        Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ Z h_l + b_l) + ½ alpha (‖Z‖²_F + ‖H‖²_F),

    where ℓ is (y − s)² or another loss. Scores are X W + 1bᵀ with W = ZHᵀ. Because ½(‖Z‖² + ‖H‖²) is at least
    the trace norm of ZHᵀ, and equal to it for the best factors of a matrix, this is `MLTrace` with a limit on
    the rank: the two agree once k is at least the rank of ML-trace's solution. Unlike there, nothing of the
    size d × L is ever made or stored, so that LEML suits problems with many features and labels.

    Notes
    -----
    The objective is convex in Z and in (H, b), though not in both. Sweeps improve one after the other, and
    then balance the factors by the singular value decomposition of their product; the objective never rises.

    - *Squared loss, all labels known, and d moderate*: on the second moments, in coordinates in which XᵀX is
      diagonal. Both half-steps have closed forms, Z's is an elementwise quotient. Once O(n d² + d³ + d² L),
      then O(dLk) per sweep. The start, a reduced-rank ridge regression, is deterministic.
    - *Otherwise*: a Newton step for Z by preconditioned conjugate gradients with the fast product of Yu et
      al., and one for every label's (h_l, b_l) with a line search of its own, after a stride along the last
      sweep if that lowers the objective. A product with the Hessian costs O(nnz(X) k) and, for the labels,
      O(nk²) for the squared loss with all labels known, O(k) for each known label where fewer than a tenth
      are known, and O(nLk) else, block by block. A sparse X is centred without being densified. The start are
      the leading singular vectors of the gradient at W = 0, by subspace iteration from random directions
      (``random_state``).

    An ``alpha`` of at least ‖∇f(0)‖₂, the largest singular value of the gradient of the loss at W = 0, makes
    W vanish; ``alpha=0`` with the first way is reduced-rank regression, in closed form.

    Departures from the paper: an intercept, which is not penalised; preconditioners; a line search for every
    label; balanced factors; closed forms on the moments.

    Parameters
    ----------
    rank : int or float, default=0.2
        k. An int counts; a float in (0, 1] is a share of the labels (rounded, at least 1, at most min(d, L)).
    alpha : float, default=1.0
        Strength of the penalty.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
        What is summed over labels and examples, see `lrml.losses`.
    fit_intercept : bool, default=True
        Fit b.
    max_iter : int, optional
        Most sweeps, 500 by default.
    tol : float, optional
        Upper limit of ``residual_``, and, divided by ten, of what a sweep still gains, over the objective;
        1e-4 by default where the moments suffice, 1e-3 where the rows are read.
        The latter ends about 0.1 % above the best objective for the squared loss, and 1 % for the others;
        pass 1e-4 for more.
    threshold : float or array of shape (L,), optional
        As in `LRML`.
    warm_start : bool, default=False
        Start from the factors of the last ``fit``. A smaller rank keeps the first of them, a larger one adds
        random directions to Z.
    random_state : int, RandomState instance or None, default=None
        Of the start where the rows are read, and of directions that a warm start adds. Fits with different
        seeds differ by no more than ``tol`` accounts for, unless the rank is so small that there are several
        local optima.
    callback : callable, optional
        Called with an `lrml.solvers.IterationInfo` for the starting point (iteration 0) and after every
        sweep; a true return value stops.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    factors_ : Factors
        Thin singular value decomposition W = U diag(s) Vᵀ, from the factors; Z = U√s and H = V√s.
    coef_ : array of shape (L, d)
        Wᵀ, in scikit-learn's orientation. Made from ``factors_`` whenever it is asked for: it may be large.
    intercept_ : array of shape (L,)
        b. A label without a positive example has zero coefficients and the intercept −1 (−100 for margins).
        One without a negative example has zero coefficients too, and the intercept 1. The logistic loss has
        no best intercept for it, as it falls for ever: there it is 100, where the loss is below 1e-43.
    singular_values_ : array of shape (rank_,)
    rank_ : int
        Number of positive singular values, at most k. Small ones may still be on their way to zero.
    n_iter_ : int
        Number of sweeps.
    objective_ : float
        Of the returned factors and intercepts (those of labels of one kind not counted, which add nothing).
    residual_ : float
        ‖(∇_Z F, ∇_H F)‖_F / (‖∇f(0)‖₂ ‖(Z, H)‖_F) at the balanced factors (and, where the rows are read,
        ‖∇_b F‖ / ‖∇f(0)‖₂ with b counted from the mean of X, as the other leg of a right-angled triangle).
    converged_ : bool
        Whether ``residual_`` is within ``tol`` (or the solution is exact).
    status_, history_, classes_, unseen_labels_, n_features_in_, feature_names_in_
        As in `LRML`.

    References
    ----------
    H.-F. Yu, P. Jain, P. Kar, I. S. Dhillon. Large-scale Multi-label Learning with Missing Labels. ICML 2014.

    Examples
    --------
    >>> from lrml import LEML
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LEML(rank=5, alpha=20.0).fit(*yeast.train)
    >>> model.rank_, round(model.score(*yeast.test), 3)
    (5, 0.756)
    """

    def __init__(
        self,
        rank: int | float = 0.2,
        alpha: float = 1.0,
        *,
        loss: str = "squared",
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        threshold: float | npt.NDArray[np.floating[Any]] | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold
        self.warm_start = warm_start
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            Never densified if sparse.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels; NaN where it is not known whether a label applies. Column names of a frame become
            ``classes_``.
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row.
        observed : array, sparse matrix or frame of bool of shape (n, L), optional
            True where a label is known, as an alternative to NaN. In a sparse matrix what is not stored is
            unknown: this is the form for few known labels.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        return self._fit_data(prepare(self, X, y, sample_weight, observed))

    def _fit_data(self, data: TrainingData) -> Self:
        """Fit checked data."""
        task = Task(
            alpha=check.check_nonnegative("alpha", self.alpha, "Pass alpha=0 for no penalty."),
            rank=check.check_rank(self.rank, data.X.shape[1], data.Y.shape[1], "rank"),
            fit_intercept=check.check_flag("fit_intercept", self.fit_intercept),
            last=self._last_factors(data),
            random=check_random_state(self.random_state),
        )
        moments = data.needs_moments_only and core.prefers_moments(data.X, data.Y.shape[1], task.rank)
        with self._limits(_TOL_MOMENTS if moments else _TOL_ROWS) as limits:
            solution = (fit_moments if moments else fit_rows)(data, task, limits)
        store(self, data, solution)
        warn_unless_converged(self, solution)
        return self

    @property
    def coef_(self) -> npt.NDArray[np.floating[Any]]:
        """Wᵀ (L × d), made from ``factors_`` on demand."""
        check_is_fitted(self, "factors_")
        U, s, V = self.factors_
        return np.ascontiguousarray((V * s) @ U.T)

    @contextmanager
    def _limits(self, default_tol: float) -> Iterator[core.Limits]:
        max_iter, tol = check_limits(self, default_tol, _MAX_SWEEPS)
        callback = check.check_callback(self.callback)
        with solver_progress(self.verbose, max_iter, callback, type(self).__name__) as report:
            yield core.Limits(max_iter, tol, report)

    def _last_factors(self, data: TrainingData) -> tuple[_Float64, _Float64, _Float64] | None:
        """Z, H and the intercepts of the last fit, if warm starts are wanted."""
        if not is_warm_start(self, data):
            return None
        U, s, V = (factor.astype(np.float64) for factor in self.factors_)
        root = np.sqrt(s)
        return U * root, V * root, self.intercept_.astype(np.float64)
