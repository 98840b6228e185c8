"""Real targets: regression with a penalty on singular values, or a limit of the rank."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from lrml._shown import shown
from lrml.core.arrays import dtype_name, is_sparse, namespace, to_host
from lrml.core.checks import check_count, check_number
from lrml.core.coordinates import RidgeRegressions, coordinates_of, road_of
from lrml.core.linalg import Factors
from lrml.core.penalties import Penalty
from lrml.core.rows import Rows
from lrml.estimators._base import LowRankModel, Member
from lrml.estimators._constructor import Iterated, Kernelised, with_constructor
from lrml.estimators._fit import fit, record
from lrml.estimators._fitted import Fitted
from lrml.estimators._spec import CHECKS, USUAL_THETA, WEAK, Parameters, Spec
from lrml.solvers import Phase, at_once


def _each(name: str, values: Any, **rule: Any) -> Any:
    """Return numbers, one for each target, as an array."""
    if np.ndim(values) != 1:
        raise ValueError(f"{name} is {shown(values)}. Pass a number for each target.")
    return np.array([check_number(f"each of {name}", value, **rule) for value in to_host(values)])


def _check_penalty(penalty: Any) -> Any:
    """Return a penalty that has what the closed form needs."""
    missing = [name for name in ("value", "prox") if not callable(getattr(penalty, name, None))]
    if missing or isinstance(penalty, type):
        raise ValueError(
            f"penalty is {shown(penalty)}, which has no {' and no '.join(missing) or 'parameters'}. Pass an "
            "object such as lrml.penalties.MCP(10.0, 3.0)."
        )
    return penalty


@with_constructor
class SpectralRegressor(RegressorMixin, Kernelised, Iterated, Member):
    """Regression of many targets with a penalty on the singular values of the predictions.

    Minimises over W (d × L), with a free intercept b, weights D of the targets and X̃ = [X − 1x̄ᵀ; √ridge · I],

    ::

        ‖(Y − 1bᵀ − XW) D^(1/2)‖²_F + ridge · ‖W D^(1/2)‖²_F + Ω(σ(X̃ W D^(1/2))).

    Ω is a tail sum, alpha · Σ_{j > theta} σ_j over the matrices of rank ``max_rank`` at most, or any other
    penalty. With Ŵ the ridge regression and X̃ŴD^(1/2) = U diag(d) Vᵀ, the global minimum is
    Ŵ D^(1/2) V diag(s/d) Vᵀ D^(−1/2), s = prox_{Ω/2}(d): there are no iterations. Special cases:

    ======================== ==============================================
    max_rank=k               reduced-rank (ridge) regression
    theta=0                  trace norm of the predictions
    theta=k, alpha=math.inf  reduced-rank regression, as `CPLST`
    alpha=0                  ridge regression
    ======================== ==============================================

    Unknown targets (NaN) are left out of the sums; then there are iterations.

    Parameters
    ----------
    theta : int, float or "auto", optional
        How many leading singular values stay free, as in `LRML`. By default 5 % of the targets for
        predictions, 20 % for coefficients.
    alpha : float, optional
        Strength of the tail sum, perhaps ``math.inf``. By default it follows the data as in `LRML`; but it is
        0 beside ``max_rank``.
    ridge : float or array of shape (L,), optional
        Strength of a squared Frobenius norm. By default that with the least generalised cross-validation
        error, see `LEML`, or half of it beside a penalty. One for each target if nothing else is penalised.
    max_rank : int or float, optional
        Largest rank, as a count or as a share of the targets.
    penalty : object, optional
        In place of the tail sum: of `lrml.penalties`, or one of your own with ``value(sigma)`` and
        ``prox(sigma, step)`` of descending singular values; where there are iterations also ``slopes(sigma)``
        and ``n_free``.
    space : {"predictions", "coefficients"}, default="predictions"
        Whose singular values are penalised: with "coefficients" those of W D^(1/2), by iterations.
    target_weights : array of shape (L,), optional
        The diagonal of D, positive. They need rows in memory.
    fit_intercept, kernel, gamma, degree, coef0, solver, max_iter, tol, warm_start, callback, device, verbose
        As in `LRML`.

    Attributes
    ----------
    coef_, intercept_, factors_, rank_, theta_, alpha_, ridge_, objective_, status_, …
        As in `LRML`; ``factors_`` are those of W itself.

    References
    ----------
    A. Mukherjee, J. Zhu. Reduced Rank Ridge Regression and Its Kernel Extensions. Statistical Analysis and
    Data Mining 4(6), 2011. K. Chen, H. Dong, K.-S. Chan. Reduced Rank Regression via Adaptive Nuclear Norm
    Penalization. Biometrika 100(4), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml import SpectralRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.standard_normal((200, 30)), rng.standard_normal((200, 40))
    >>> Y = X @ rng.standard_normal((30, 2)) @ rng.standard_normal((2, 40)) + noise
    >>> model = SpectralRegressor(max_rank=2).fit(X, Y)
    >>> model.rank_, round(model.score(X, Y), 2)
    (2, 0.92)
    """

    theta: int | float | str | None = None
    alpha: float | None = None
    _: KW_ONLY
    ridge: float | npt.NDArray[np.floating[Any]] | None = None
    max_rank: int | float | None = None
    penalty: Penalty | None = None
    space: str = "predictions"
    target_weights: npt.NDArray[np.floating[Any]] | None = None
    solver: str | Phase = "auto"

    _checks = CHECKS | {
        "alpha": lambda value: value if value == math.inf else CHECKS["alpha"](value),
        "ridge": lambda value: _each("ridge", value) if np.ndim(value) else CHECKS["ridge"](value),
        "penalty": _check_penalty,
        "target_weights": partial(_each, "target_weights", above=True),
    }

    score = LowRankModel.score

    def _check_params(self) -> Parameters:
        params = super()._check_params()
        asked = [name for name in ("theta", "alpha", "max_rank") if getattr(params, name) is not None]
        if params.penalty is not None and asked:
            raise ValueError(f"penalty takes the place of the tail sum: leave out {' and '.join(asked)}.")
        iterated = params.space == "coefficients" and params.penalty is not None
        if iterated and not (hasattr(params.penalty, "slopes") and hasattr(params.penalty, "n_free")):
            raise ValueError(
                f"penalty is {shown(params.penalty)}, which needs slopes and n_free for coefficients. Pass "
                "space='predictions'."
            )
        bare = params.penalty is None and params.alpha == 0 and params.max_rank is None
        if np.ndim(params.ridge) and not bare:
            raise ValueError(
                "one ridge for each target needs a model without a penalty or limit: alpha=0, max_rank=None "
                "and penalty=None. Pass one number, or alpha=0."
            )
        return params

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        shape = rows.model_shape
        theta, alpha, max_rank = params.theta, params.alpha, params.max_rank
        if alpha is None and (max_rank is not None or params.penalty is not None):
            alpha = 0.0
        if theta is None and params.penalty is None:
            theta = USUAL_THETA[params.space]
        return Spec.of(
            self,
            params,
            theta=theta if theta in ("auto", None) else check_count("theta", theta, 0, shape),
            alpha=alpha,
            ridge=params.ridge,
            # Alone it is to have the least squared error; beside a penalty, which shrinks too, half of that.
            ridge_share=1.0 if alpha == 0 and max_rank is None and params.penalty is None else WEAK,
            max_rank=None if max_rank is None else check_count("max_rank", max_rank, 1, shape),
            given=params.penalty,
            space=params.space,
        )

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        spec = self._spec(params, rows)
        if np.ndim(params.ridge):
            return _with_ridges(rows, spec, _one_per_target("ridge", params.ridge, rows))
        last = self._last(rows) if params.warm_start else None
        if params.target_weights is None:
            return fit(rows, spec, last)
        if rows.only_sums or rows.n_passes is not None:
            raise ValueError(
                "target_weights need rows in memory. Multiply the columns of Y by the roots of the weights "
                "instead, and divide predictions by them."
            )
        roots = np.sqrt(_one_per_target("target_weights", params.target_weights, rows))
        if is_sparse(rows.Y):
            Y = rows.Y.multiply(roots).tocsr()
        else:
            Y = rows.place.asarray(rows.Y, "float64") * rows.place.asarray(roots)
        found = fit(replace(rows, Y=Y, sums=None), spec, None if last is None else _scaled(last, roots))
        return _scaled(found, 1.0 / roots)

    def _regressions(self, rows: Rows, params: Parameters, *, warm: bool = False) -> RidgeRegressions:
        if np.ndim(params.ridge) or params.target_weights is not None:
            raise ValueError(
                "leave-one-out scores need one ridge and no target_weights, which this model has. Use "
                "scikit-learn's cross_val_predict."
            )
        return super()._regressions(rows, params, warm=warm)


def _one_per_target(name: str, values: npt.NDArray[np.float64], rows: Rows) -> npt.NDArray[np.float64]:
    if len(values) != rows.shape[2]:
        raise ValueError(f"{name} has {len(values)} numbers for {rows.shape[2]} targets. Pass one for each.")
    return values


def _scaled(found: Fitted, roots: npt.NDArray[np.float64]) -> Fitted:
    """Return the same model with targets multiplied by these numbers."""
    place, dtype = found.place, dtype_name(found.factors.U)
    factors = Factors(*(place.asarray(factor, "float64") for factor in found.factors))
    by = place.asarray(roots)
    # The left vectors are orthonormal, in the space behind the kernel if there is one: V takes the values.
    V, s, U = Factors.of_sides(factors.V * factors.s * by[:, None], factors.U)
    return replace(
        found,
        factors=Factors(*(place.asarray(factor, dtype) for factor in (U, s, V))),
        intercept=place.asarray(place.asarray(found.intercept, "float64") * by, dtype),
    )


def _with_ridges(rows: Rows, spec: Spec, ridges: npt.NDArray[np.float64]) -> Fitted:
    """Ridge regression with a ridge for each target: (Λ + ρ_l) w̃_l = Qᵀ X_cᵀ y_l."""
    if not rows.all_known or road_of(rows, spec.road) == "compressed":
        raise ValueError(
            "a ridge for each target needs to know all targets, and rows or features few enough for a "
            "decomposition of XᵀX or XXᵀ. Fit targets with other ridges apart."
        )
    space = coordinates_of(rows, fit_intercept=spec.fit_intercept, ridge=float(ridges.min()), road=spec.road)
    problem = space.problem
    cross = problem.cross if problem.labels is None else problem.cross @ problem.labels.T
    W = cross / (problem.rows[:, None] + rows.place.asarray(ridges))
    U, s, V = Factors.of(W)
    found = Factors(space.basis @ U, s, V)
    outcome = at_once(W, found, problem.target - float(namespace(W).sum(W * cross)))
    fitted = record(rows, replace(spec, ridge=None), outcome, space.model(found), space.unseen)
    return replace(fitted, ridge=rows.home.asarray(ridges))
