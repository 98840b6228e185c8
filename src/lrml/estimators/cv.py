"""Searches: each chooses the parameters of a member of the family on rows that the model has not seen."""

from __future__ import annotations

from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from lrml.core.rows import Rows
from lrml.estimators._base import LabelModel, LowRankModel
from lrml.estimators._constructor import with_constructor
from lrml.estimators._search import SearchModel
from lrml.estimators._spec import Parameters, several
from lrml.estimators.label_space import CPLST, check_all_known
from lrml.estimators.leml import LEML, usual_ranks
from lrml.estimators.lrml import LRML, MLFro, MLTrace
from lrml.estimators.spectral import SpectralRegressor

# Ranks of LEML: shares of the labels.
_LEML_SHARES = (0.4, 0.8)


@with_constructor
class LRMLCV(LabelModel, SearchModel):
    """`LRML` with theta, alpha and ridge chosen by scores of rows that the model has not seen.

    With the squared loss and all labels known, leave-one-out scores judge ridges, and five folds up to eight
    candidates with a penalty. One of these is chosen if choosing it pays; otherwise the best ridge is, with
    alpha = 0. That costs O(n d² + d³ + d² L), once and per fold. Other losses and unknown labels take a
    warm-started fit per candidate and split. If ``alphas`` are given, the whole grid is judged, and nothing
    else is tried. docs/search.md has all steps.

    Parameters
    ----------
    estimator : LRML, optional
        All other parameters (loss, space, kernel, threshold, …). Its theta, alpha and ridge do not matter. If
        its space is None, the penalty acts on the predictions, but on the coefficients with given alphas,
        other losses or unknown labels, as in `LRML`. If its threshold is "auto", that is chosen on held-out
        scores, and so are the probabilities that its ``calibrate`` asks for.
    thetas : int, float or sequence of these, optional
        Those allowed, as in `LRML`. By default all; with given alphas 0 (the trace norm), 5, 10, 20 and 40 %
        of the labels; 0 and 5 % where every candidate is a fit of its own.
    alphas : float or sequence of float, optional
        A grid; 0 is no penalty. By default they follow the data.
    ridges : float or sequence of float, optional
        Those allowed. By default a search that begins with those that leave 98, 90, 75, 50, 25 and 10 % of
        the effective directions Σ λ_i / (λ_i + ridge), λ_i the eigenvalues of XᵀX, and goes on between and
        beyond.
    gammas : float or sequence of float, optional
        Widths of the kernel, compared first: docs/kernels.md. By default the estimator's gamma is kept; if
        that is None, they follow the data.
    cv : int, float, splitter or iterable, optional
        A number of folds (`MultilabelStratifiedKFold`; random ones for real targets); a held-out share; a
        splitter of scikit-learn; or (train, test) row numbers. By default as above, but 0.2 for wide text;
        and where every candidate is a fit of its own, 0.2 from 3,000 rows on, and 5 below. Pass a splitter if
        rows come in groups, or repeat.
    scoring : str, callable, list of these or None, default=None
        A metric of `lrml.metrics` by name, such as "precision_at_1"; a scorer of scikit-learn; or a function
        of (Y, scores), larger for better scores. None is "label_ranking_average_precision", "r2" for real
        targets, and the loss for a single label. The first one of a list chooses the model.
    rule : {"best", "one_standard_error", "smallest"}, default="best"
        "one_standard_error" takes the least rank that is within one standard error of the paired difference
        to the best candidate; "smallest" the fewest bytes (``nbytes_``) within one standard error of the best
        score itself, which is wider. Without a grid the search then also tries small models.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    best_params_, best_index_, best_score_
        The choice, with "gamma" if the kernel has one; its place; its mean held-out score (of a loss, the
        negative), or that of the best ridge plus its lead over it.
    best_estimator_ : LRML
        Fitted on all rows, in the ``space`` that was searched, which ``best_params_`` leave out.
    best_estimators_, best_indices_ : dict
        If ``scoring`` is a list: the same by the name of each metric.
    cv_results_ : dict of arrays
        As in scikit-learn's searches, without times; also error_test_score, the standard error of the
        difference to the best (ridge, in the search above), mean_model_rank and mean_model_nbytes. A
        candidate with a penalty has the score of the best ridge plus its lead over it on folds.
    search_ : dict
        By the first metric: the best ridge alone and its ridge_score; the gain of what folds would choose,
        its standard error gain_error, and gain_rows, the rows that tell. NaN where no penalty was judged so,
        and where ``ranks`` limit the ridge regression, too.
        ``judged_by`` says how, as "by leave-one-out scores and on 5 folds".
    gamma_results_, n_splits_, refit_time_, threshold_
        The gammas compared; 1 for leave-one-out scores; seconds of the final fit; where ``predict`` cuts.
    coef_, intercept_, factors_, rank_, theta_, status_, …
        Of ``best_estimator_``, as in `LRML`.

    Examples
    --------
    >>> from lrml import LRML, LRMLCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LRMLCV(random_state=0).fit(*yeast.train)
    >>> len(model.cv_results_["params"]) < 50, round(model.score(*yeast.test), 3)
    (True, 0.755)
    >>> grid = LRMLCV(LRML(tol=1e-3), thetas=[0, 2, 4], alphas=[5, 20, 80], cv=3, random_state=0)
    >>> len(grid.fit(*yeast.train).cv_results_["params"]), round(grid.score(*yeast.test), 3)
    (45, 0.755)
    """

    _: KW_ONLY
    thetas: Any = None
    alphas: Any = None
    ridges: Any = None
    gammas: Any = None

    _member: ClassVar[Any] = LRML
    _names = {"theta": "theta", "alpha": "alpha", "ridge": "ridge"}  # noqa: RUF012
    _row_tol = 1e-3


@with_constructor
class MLTraceCV(LabelModel, SearchModel):
    """`MLTrace` with alpha and ridge chosen by scores of unseen rows: `LRMLCV` with theta = 0.

    Parameters
    ----------
    estimator : MLTrace, optional
        All other parameters; its alpha and ridge do not matter. The penalty acts on the coefficients unless
        its space is "predictions".
    alphas, ridges, gammas, cv, scoring, rule, random_state, verbose
        As in `LRMLCV`; ``ridges=0`` is the method as published.

    Examples
    --------
    >>> from lrml import MLTraceCV
    >>> from lrml.datasets import load_yeast
    >>> MLTraceCV(alphas=[1, 10, 100], random_state=0).fit(*load_yeast().train).best_params_["alpha"]
    10.0
    """

    _: KW_ONLY
    alphas: Any = None
    ridges: Any = None
    gammas: Any = None

    _member = MLTrace
    _names = {"alpha": "alpha", "ridge": "ridge"}  # noqa: RUF012
    _row_tol = 1e-3

    def _asked(self, data: Rows, params: Parameters) -> None:
        super()._asked(data, params)
        params.thetas = [0]


@with_constructor
class MLFroCV(LabelModel, SearchModel):
    """`MLFro` with alpha chosen by scores of unseen rows: the first step of `LRMLCV`.

    Parameters
    ----------
    estimator : MLFro, optional
        All other parameters; its alpha does not matter.
    alphas : float or sequence of float, optional
        By default as ``ridges`` of `LRMLCV`. If every candidate is a fit of its own, the search begins with
        those that leave 60, 40 and 20 %, times the curvature of the loss relative to squares.
    gammas, cv, scoring, rule, random_state, verbose
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import MLFroCV
    >>> from lrml.datasets import load_yeast
    >>> MLFroCV(alphas=[0.1, 1, 10], random_state=0).fit(*load_yeast().train).best_params_
    {'alpha': 10.0}
    """

    _: KW_ONLY
    alphas: Any = None
    gammas: Any = None

    _member = MLFro
    _names = {"alpha": "ridge"}  # noqa: RUF012

    def _asked(self, data: Rows, params: Parameters) -> None:
        super()._asked(data, params)
        params.ridges, params.alphas = params.alphas, [0.0]


@with_constructor
class LEMLCV(LabelModel, SearchModel):
    """`LEML` with rank and ridge chosen by scores of unseen rows.

    With the squared loss and all labels known, one decomposition per fold serves all candidates, which are
    judged as in `CPLSTCV`, or as a grid if alphas are given. Otherwise each of them is a warm-started fit:
    ridges at the largest rank, then the other ranks.

    Parameters
    ----------
    estimator : LEML, optional
        All other parameters; its rank, alpha and ridge do not matter.
    ranks : int, float or sequence of these, optional
        As in `LEML`. By default 40 and 80 % of the labels, but at least 128 and 256, and at most 512 or
        min(d, L).
    alphas : float or sequence of float, optional
        A grid of trace norms; by default 0 only.
    ridges : float or sequence of float, optional
        By default a search; only 0 if alphas are given.
    cv, scoring, rule, random_state, verbose
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import LEMLCV
    >>> from lrml.datasets import load_yeast
    >>> LEMLCV(ranks=[2, 8], random_state=0).fit(*load_yeast().train).rank_
    8
    """

    _: KW_ONLY
    ranks: Any = None
    alphas: Any = None
    ridges: Any = None

    _member = LEML
    _names = {"rank": "rank", "alpha": "alpha", "ridge": "ridge"}  # noqa: RUF012
    _limited, _tol = True, 1e-6

    def _asked(self, data: Rows, params: Parameters) -> None:
        super()._asked(data, params)
        if params.ranks is None:
            params.ranks = usual_ranks(_LEML_SHARES, data.model_shape)


@with_constructor
class CPLSTCV(LabelModel, SearchModel):
    """`CPLST` with rank and ridge chosen by scores of unseen rows.

    Ridges are judged by leave-one-out scores, and ranks on three folds, as in `LRMLCV`: a rank that does not
    pay is not chosen. If ranks and ridges are given, the whole grid is judged on folds.

    Parameters
    ----------
    estimator : CPLST, optional
        All other parameters; its rank and ridge do not matter.
    ranks : int, float or sequence of these, optional
        Those allowed, as in `CPLST`; by default all.
    ridges, gammas, cv, scoring, rule, random_state, verbose
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import CPLSTCV
    >>> from lrml.datasets import load_yeast
    >>> CPLSTCV(ranks=[1, 3], ridges=10.0, random_state=0).fit(*load_yeast().train).best_params_
    {'rank': 3, 'ridge': 10.0}
    """

    _: KW_ONLY
    ranks: Any = None
    ridges: Any = None
    gammas: Any = None

    _member = CPLST
    _names = {"rank": "rank", "ridge": "ridge"}  # noqa: RUF012
    _limited = True

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        check_all_known(data, "CPLSTCV", "LEMLCV or LRMLCV")
        super()._check_shapes(data, params)


@with_constructor
class SpectralRegressorCV(RegressorMixin, SearchModel):
    """`SpectralRegressor` with theta, alpha, ridge or rank chosen by scores of unseen rows, as in `LRMLCV`.

    By default a tail sum on the predictions competes with the best ridge. Special cases: ``thetas=0`` is the
    trace norm, ``alphas=0`` the ridge alone, ``alphas=math.inf`` or ``ranks`` reduced-rank regression.

    Parameters
    ----------
    estimator : SpectralRegressor, optional
        All other parameters; its theta, alpha, ridge and max_rank do not matter. It must have no ``penalty``
        or ``target_weights``: multiply the columns of Y by the roots of weights instead.
    thetas, alphas, ridges
        As in `LRMLCV`; alphas may be infinite.
    ranks : int, float or sequence of these, optional
        Limits of the rank, in place of theta; alphas are tried beside them only if given.
    gammas, cv, scoring, rule, random_state, verbose
        As in `LRMLCV`; ``scoring=None`` is "r2".

    Attributes
    ----------
    best_params_, best_score_, best_estimator_, cv_results_, search_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml import SpectralRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.standard_normal((200, 30)), rng.standard_normal((200, 40))
    >>> Y = X @ rng.standard_normal((30, 2)) @ rng.standard_normal((2, 40)) + 4.0 * noise
    >>> SpectralRegressorCV(random_state=0).fit(X, Y).rank_
    2
    """

    _: KW_ONLY
    thetas: Any = None
    alphas: Any = None
    ridges: Any = None
    ranks: Any = None
    gammas: Any = None

    _member = SpectralRegressor
    _names = {"theta": "theta", "alpha": "alpha", "ridge": "ridge", "max_rank": "rank"}  # noqa: RUF012
    _checks = SearchModel._checks | {"alphas": partial(several, "alphas", SpectralRegressor._checks["alpha"])}
    score = LowRankModel.score

    def _check_params(self) -> Parameters:
        params = super()._check_params()
        for name in ("penalty", "target_weights"):
            if getattr(params, name) is not None:
                raise ValueError(f"A search takes no {name} of its estimator. Use GridSearchCV for one.")
        return params
