"""LRML: least squares with a penalty on the tail of the singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrml import _validation as check
from lrml.estimators._elbow import theta_at_elbow
from lrml.estimators._fitting import TrainingData
from lrml.estimators._spectral import SpectralModel
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.row_problem import RowProblem
from lrml.solvers import Callback, Phase, SolverResult


class LRML(SpectralModel):
    """Low-rank multi-label learning by penalising only the tail of the spectrum.

    Finds a stationary point W (d × L) of

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_{j > theta} σ_j(W) + ridge · ‖W‖²_F,    σ_1 ≥ σ_2 ≥ …

    with a free intercept b, or with another loss in place of the squared error. The loss is a sum over the
    known labels of all examples, not a mean. theta = 0 is the trace norm;
    alpha = 0 is (ridge) least squares; alpha → ∞ is least squares of rank at most theta. In between the
    problem is not convex: a fit ends near the objective of a stationary point, which need not be the best.
    Features may be of any scale; where they differ by more than 1e8 a warning names them.

    Parameters
    ----------
    theta : int, float or "auto", default=0.2
        How many leading singular values stay free. An int counts them; a float in [0, 1] is a share of the
        number of labels (rounded, at most min(d, L)). Mind the type: 1 is one value, 1.0 is all of them.
        "auto" takes the elbow of the energy of the least-squares predictions, see Notes.
    alpha : float, default=1.0
        Strength of the penalty, the paper's C. (scikit-learn reads ``C`` as an inverse strength, hence the
        name.)
    ridge : float, default=0.0
        Strength of an additional squared Frobenius norm, which also tames the free singular values. Not in
        the paper. With the other losses it should be positive: labels that can be separated have no optimum
        without it.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
        What is summed over labels and examples, see `lrml.losses`. "squared" with all labels known needs one
        pass over the data; otherwise every iteration takes one, in blocks of rows.
    fit_intercept : bool, default=True
        Fit b. The paper has none.
    solver : {"auto", "apg", "pg", "paper"} or solver object, default="auto"
        "auto": least squares on both sides of W in turn around a proximal step, see
        `lrml.solvers.Alternating`. "apg": monotone accelerated proximal gradient. "pg": proximal gradient
        with backtracking. "paper": Algorithm 1 to the letter; see `lrml.solvers.Algorithm1`, an instance of
        which may be passed to set t₀, γ and the rule. For other losses, and if labels are unknown, "auto" is
        proximal Newton, and only "apg" is offered beside it.
    max_iter : int, optional
        Most iterations (for "paper": the number of iterations). By default 5000, or 1000 where every
        iteration reads the rows.
    tol : float, optional
        Upper limit of the estimated gap (F − F*) / F of the objective F to the one that the iteration leads
        to, see `lrml.solvers.Point`; 1e-4 by default. Where the moments suffice, ten steps that together gain
        less than 1 % of it end a fit as well. Where every iteration reads the rows, scores are in single
        precision, unless ``tol`` is below 1e-5, or features differ by more than 1e3 in scale or are far from
        zero beside their spread. For predictions on large data 0.01 is often enough.
    targets : {"binary", "real"}, default="binary"
        "binary" insists on 0/1 labels; "real" accepts any finite numbers, and ``predict`` returns scores.
    threshold : float or array of shape (L,), optional
        A label is predicted if its score is at least this; by default 0.5 for the squared loss, whose scores
        estimate 0/1, and 0 for the others, whose scores are margins.
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
        b. A label without a positive example has zero coefficients and the intercept −1 (−100 for margins),
        so that it does not rank above real candidates. With another loss, or unknown labels, one that all
        examples have gets zero coefficients and the best intercept, 1 (100 for the logistic loss).
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
        L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F, L the Lipschitz constant of ∇f: how nearly W is
        stationary, as seen by the directions in which X varies most.
    converged_ : bool
        Whether ``tol`` was reached (or the solution is exact).
    status_ : str
        How the solver ended, with the remedy where one is needed.
    history_ : dict of arrays
        iteration, phase, objective, gap (what ``tol`` limits; infinite where the phase has none), residual
        (of an element of the subdifferential), rank, seconds.
    classes_ : array of shape (L,)
        Label names if Y was a frame, else 0, …, L − 1.
    loss_ : str
        The loss of the fit.
    sparse_output_ : bool
        Whether Y was sparse, and ``predict`` is.
    unseen_labels_ : bool array of shape (L,)
        Labels without a positive training example.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    ``theta="auto"`` is a heuristic. With A = (Λ + ridge)^(−1/2) QᵀXᵀY in the eigenvectors of XᵀX = QΛQᵀ,
    least squares of rank theta leaves T(theta) = Σ_{j>theta} σ_j(A)² of the energy of its predictions; the
    elbow is the theta at which T(theta)/T(0) is farthest below the line 1 − theta/m, m the number of values.
    Unknown labels count as absent, and another loss than the squared one is not considered. The theta that
    minimises the paper's bound is of no use here: on all data we tried it is near min(d, L).

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
        theta: int | float | str = 0.2,
        alpha: float = 1.0,
        *,
        ridge: float = 0.0,
        loss: str = "squared",
        fit_intercept: bool = True,
        solver: str | Phase = "auto",
        max_iter: int | None = None,
        tol: float | None = None,
        targets: str = "binary",
        threshold: float | npt.NDArray[np.floating[Any]] | None = None,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.theta = theta
        self.alpha = alpha
        self.ridge = ridge
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.targets = targets
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose

    def _penalty(self, data: TrainingData) -> TailSum:
        remedy = "Pass alpha=0 for no penalty, a large number such as 1e12 for a rank of at most theta."
        alpha = check.check_nonnegative("alpha", self.alpha, remedy)
        return TailSum(self._count_theta(data), alpha)

    def _count_theta(self, data: TrainingData) -> int:
        """Return the number of free singular values that ``theta`` stands for."""
        if isinstance(self.theta, str) and self.theta == "auto":
            fit_intercept = check.check_flag("fit_intercept", self.fit_intercept)
            return theta_at_elbow(data.problem(fit_intercept=fit_intercept).with_ridge(self._ridge()))
        return check.check_theta(self.theta, data.X.shape[1], data.Y.shape[1])

    def _ridge(self) -> float:
        return check.check_nonnegative("ridge", self.ridge, "Pass ridge=0 for none.")

    def _extras(
        self, penalty: TailSum, problem: SpectralProblem | RowProblem | None, result: SolverResult | None
    ) -> dict[str, Any]:
        return {"theta_": penalty.theta}
