"""LRML: least squares with a penalty on the tail of the singular values."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from lrml import _validation as check
from lrml._arrays import is_sparse, to_numpy
from lrml._progress import solver_progress
from lrml.estimators._linear import LinearMultiLabelModel
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers import Callback, Factors, Phase, SolverResult, Status, solve
from lrml.statistics import Statistics


class LRML(LinearMultiLabelModel):
    """Low-rank multi-label learning by penalising only the tail of the spectrum.

    Finds a stationary point W (d × L) of

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_{j > theta} σ_j(W) + ridge · ‖W‖²_F,    σ_1 ≥ σ_2 ≥ …

    with a free intercept b. The loss is a sum over examples, not a mean. theta = 0 is the trace norm;
    alpha = 0 is (ridge) least squares; alpha → ∞ is least squares of rank at most theta. In between the
    problem is not convex, and stationarity, not global optimality, is what ``residual_`` certifies.

    Parameters
    ----------
    theta : int or float, default=0.2
        How many leading singular values stay free. An int counts them; a float in [0, 1] is a share of the
        number of labels (rounded, at most min(d, L)). Mind the type: 1 is one value, 1.0 is all of them.
    alpha : float, default=1.0
        Strength of the penalty, the paper's C. (scikit-learn reads ``C`` as an inverse strength, hence the
        name.)
    ridge : float, default=0.0
        Strength of an additional squared Frobenius norm, which also tames the free singular values. Not in
        the paper.
    fit_intercept : bool, default=True
        Fit b, by centring. The paper has none.
    solver : {"auto", "apg", "pg", "paper"} or solver object, default="auto"
        "auto": reweighted least squares, then accelerated ADMM. "apg": monotone accelerated proximal
        gradient. "pg": proximal gradient with backtracking. "paper": Algorithm 1 to the letter; see
        `lrml.solvers.Algorithm1`, an instance of which may be passed to set t₀, γ and the rule.
    max_iter : int, default=5000
        Most iterations (for "paper": the number of iterations).
    tol : float, default=1e-3
        Upper limit of the stationarity residual.
    targets : {"binary", "real"}, default="binary"
        "binary" insists on 0/1 labels; "real" accepts any finite numbers, and ``predict`` returns scores.
    threshold : float or array of shape (L,), default=0.5
        A label is predicted if its score is at least this.
    warm_start : bool, default=False
        Start from the coefficients of the last ``fit``.
    callback : callable, optional
        Called with an `lrml.solvers.IterationInfo` for the starting point (iteration 0) and after every
        iteration; a true return value stops.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    coef_ : array of shape (L, d)
        Wᵀ, in scikit-learn's orientation.
    intercept_ : array of shape (L,)
        b. A label without a positive example has zero coefficients and the intercept −1, so that it does not
        rank above real candidates, whose scores lie around [0, 1].
    factors_ : Factors
        Thin SVD W = U diag(s) Vᵀ.
    singular_values_ : array of shape (rank_,)
    rank_ : int
        Number of positive singular values. Small ones may still be on their way to zero: a smaller ``tol``
        can lower the rank a little.
    theta_ : int
        The number of free singular values that ``theta`` stands for.
    n_iter_ : int
    objective_ : float
        Of the returned W and its best intercept (that of an unseen label, which is 0, not −1).
    residual_ : float
        L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F, L the Lipschitz constant of ∇f.
    converged_ : bool
        Whether ``residual_`` is within ``tol`` (or the solution is exact).
    status_ : str
        How the solver ended, with the remedy where one is needed.
    history_ : dict of arrays
        iteration, phase, objective, residual (an estimate; infinite where the phase has none), rank, seconds.
    classes_ : array of shape (L,)
        Label names if Y was a frame, else 0, …, L − 1.
    unseen_labels_ : bool array of shape (L,)
        Labels without a positive training example.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    C. Xu, T. Liu, D. Tao, C. Xu. Local Rademacher Complexity for Multi-label Learning. IEEE Transactions on
    Image Processing 25(3), 2016.

    Examples
    --------
    >>> from lrml import LRML
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LRML(theta=3, alpha=20.0).fit(*yeast.train)
    >>> model.rank_, round(model.score(*yeast.test), 3)
    (8, 0.755)
    """

    def __init__(
        self,
        theta: int | float = 0.2,
        alpha: float = 1.0,
        *,
        ridge: float = 0.0,
        fit_intercept: bool = True,
        solver: str | Phase = "auto",
        max_iter: int = 5000,
        tol: float = 1e-3,
        targets: str = "binary",
        threshold: float | npt.NDArray[np.floating[Any]] = 0.5,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.theta = theta
        self.alpha = alpha
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.targets = targets
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LRML:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            Never densified if sparse.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels. Column names of a frame become ``classes_``.
        sample_weight : array of shape (n,), optional
            Multiplies the squared error of each row.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        # scikit-learn's validation writes to the estimator it is given: a stand-in takes that for now.
        checked = copy(self)
        check.check_unique_columns(X, "X")
        X = validate_data(checked, X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32])
        targets = check.check_choice("targets", self.targets, ("binary", "real"))
        Y, label_names = check.check_targets(y, targets)
        weights = check.check_sample_weight(sample_weight, X.shape[0])
        penalty = self._penalty(X.shape[1], Y.shape[1])
        ridge = check.check_nonnegative("ridge", self.ridge, "Pass ridge=0 for none.")
        check.check_threshold(self.threshold, Y.shape[1])
        fit_intercept = check.check_flag("fit_intercept", self.fit_intercept)

        statistics = Statistics.from_arrays(X, Y, weights)
        moments = statistics.centered() if fit_intercept else statistics.uncentered()
        problem = SpectralProblem.from_moments(moments, ridge)
        result = self._solve(problem, penalty, self._start(problem, X.shape[1], Y.shape[1]))
        self._store(checked, penalty, statistics, result, X.dtype, label_names, sparse_output=is_sparse(Y))
        if result.status is Status.MAX_ITER:
            warnings.warn(f"{self.status_} (residual {self.residual_:.1e})", ConvergenceWarning, stacklevel=2)
        return self

    def _penalty(self, n_features: int, n_labels: int) -> TailSum:
        remedy = "Pass alpha=0 for no penalty, a large number such as 1e12 for a rank of at most theta."
        return TailSum(
            check.check_theta(self.theta, n_features, n_labels),
            check.check_nonnegative("alpha", self.alpha, remedy),
        )

    def _solve(self, problem: SpectralProblem, penalty: TailSum, start: Any) -> SolverResult:
        solver = check.check_solver(self.solver)
        max_iter = check.check_max_iter(self.max_iter)
        tol = check.check_nonnegative("tol", self.tol, "Pass a small number such as tol=1e-3.")
        with solver_progress(self.verbose, max_iter, check.check_callback(self.callback)) as callback:
            return solve(
                problem, penalty, solver=solver, start=start, max_iter=max_iter, tol=tol, callback=callback
            )

    def _start(self, problem: SpectralProblem, n_features: int, n_labels: int) -> Any:
        """Coefficients of the last fit in the coordinates of this one, if warm starts are wanted."""
        if not (check.check_flag("warm_start", self.warm_start) and hasattr(self, "coef_")):
            return None
        if self.coef_.shape != (n_labels, n_features):
            raise ValueError(
                "warm_start needs the shape (labels, features) of the last fit, "
                f"{self.coef_.shape}, got {(n_labels, n_features)}. Pass warm_start=False or a new estimator."
            )
        return problem.compress(self.coef_.T.astype(np.float64))

    def _store(
        self,
        checked: LRML,
        penalty: TailSum,
        statistics: Statistics,
        result: SolverResult,
        dtype: npt.DTypeLike,
        label_names: npt.NDArray[Any] | None,
        *,
        sparse_output: bool,
    ) -> None:
        """Set every fitted attribute, in the type of X; nothing here can fail half-way."""
        U, s, V = (to_numpy(factor) for factor in result.factors)
        W = (U * s) @ V.T
        intercept = statistics.y_mean - statistics.x_mean @ W if self.fit_intercept else np.zeros(W.shape[1])
        unseen = (statistics.y_mean == 0) & (self.targets == "binary")
        intercept[unseen] = -1.0
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(checked, name):
                setattr(self, name, getattr(checked, name))
            elif hasattr(self, name):
                delattr(self, name)
        self.coef_ = np.ascontiguousarray(W.T, dtype=dtype)
        self.intercept_ = intercept.astype(dtype)
        self.theta_ = penalty.theta
        self.factors_ = Factors(*(factor.astype(dtype) for factor in (U, s, V)))
        self.singular_values_ = self.factors_.s
        self.rank_ = len(s)
        self.n_iter_ = result.n_iter
        self.objective_ = result.objective
        self.residual_ = result.residual
        self.converged_ = result.status in (Status.CONVERGED, Status.EXACT)
        self.status_ = result.status.value
        self.history_ = result.history.as_dict()
        self.classes_ = np.arange(W.shape[1]) if label_names is None else label_names
        self.unseen_labels_ = unseen
        self.sparse_output_ = sparse_output
