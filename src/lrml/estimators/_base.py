"""What models share: the attributes of a fit, scores, decisions on labels; and members of the family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from lrml import metrics
from lrml._door import (
    check_features,
    check_label_names,
    check_sample_weight,
    check_targets,
    check_threshold,
    checked_rows,
    moved,
    warn_of_ranges,
)
from lrml._ranking import TopK
from lrml.core.arrays import (
    HOST,
    Array,
    Place,
    at_home,
    dense,
    dtype_name,
    namespace,
    to_host,
    to_numpy,
)
from lrml.core.checks import check_integer
from lrml.core.coordinates import RidgeRegressions
from lrml.core.moments import Statistics, extremes, without_weightless
from lrml.core.rows import Rows
from lrml.estimators._block_fits import MOST_KEPT, BlockFits
from lrml.estimators._callbacks import CALLED, CallbackSupportMixin, told_of_fit, with_callbacks
from lrml.estimators._fit import fit, regressions
from lrml.estimators._fitted import Fitted, Sums, in_order, of_fit
from lrml.estimators._kernels import Kernel, check_kernel_matrix
from lrml.estimators._loo import automatically_pruned, chosen_on_unseen, left_out_scores
from lrml.estimators._pruning import Changeable
from lrml.estimators._scores import Scores, counted_from, r_squared
from lrml.estimators._spec import CHECKS, Check, Parameters, Spec, check_together
from lrml.thresholds import Cut


def _has_closed_form(model: Any) -> bool:
    """Whether fits are ridge regressions in some directions of label space."""
    return hasattr(vars(model).get("best_estimator_", model), "_regressions")


_PRUNED = "A pruned model has a sparse coef_ instead: read it from the model before it is pruned"


class LowRankModel(Changeable, CallbackSupportMixin, MultiOutputMixin, BaseEstimator):
    """A model of many targets with scores X coef_ᵀ + intercept_.

    Subclasses implement ``_found``, which gets checked rows and parameters and returns what is to be stored,
    the record of the fit (``fitted_``) above all. It is stored by one assignment: a fit changes the model as
    a whole or not at all. All other attributes of a fit are read from there.
    """

    _checks: ClassVar[Mapping[str, Check]] = CHECKS
    _targets: str = "real"  # or "binary": what Y may hold
    threshold: Any = None
    calibrate: str | None = None
    fitted_: Fitted

    alpha_ = of_fit("alpha")
    classes_ = of_fit("classes")
    compression_gap_ = of_fit("compression_gap")
    converged_ = of_fit("converged")
    factors_ = of_fit("factors", _PRUNED)
    gap_ = of_fit("gap")
    history_ = of_fit("history")
    intercept_ = of_fit("intercept")
    kernel_ = of_fit("kernel")
    kernel_gap_ = of_fit("kernel_gap")
    loss_ = of_fit("loss_name")
    n_iter_ = of_fit("n_iter")
    n_passes_ = of_fit("n_passes")
    n_weights_ = of_fit("n_weights")
    nbytes_ = of_fit("nbytes")
    objective_ = of_fit("objective")
    rank_ = of_fit("rank", _PRUNED)
    residual_ = of_fit("residual")
    ridge_ = of_fit("ridge")
    space_ = of_fit("space")
    singular_values_ = of_fit("factors.s", _PRUNED)
    status_ = of_fit("status")
    theta_ = of_fit("theta")
    unseen_labels_ = of_fit("unseen")
    X_fit_ = of_fit("X_fit")

    @property
    def coef_(self) -> Any:
        """Wᵀ (L × d), made from ``factors_`` on demand if it is large, sparse if pruned; not for kernels."""
        if hasattr(self, "kernel_"):
            raise AttributeError("coef_ exists for kernel='linear' only; kernels have dual_coef_ instead.")
        return self.fitted_.product

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of the kernel values (n × L), made from ``factors_`` on demand; for kernels only."""
        if not hasattr(self, "kernel_"):
            raise AttributeError(f"{type(self).__name__} has dual_coef_ only if fitted with a kernel.")
        U, s, V = self.factors_
        return in_order((U * s) @ V.T)

    # What scikit-learn asks for.
    n_features_in_ = of_fit("schema.n_features")
    feature_names_in_ = of_fit("schema.feature_names")
    flat_output_ = of_fit("schema.flat")
    sparse_output_ = of_fit("schema.sparse_labels")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self, "kernel", "linear") == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.array_api_support = True
        return tags

    def _check_params(self) -> Parameters:
        """Return all parameters, checked as far as possible without the data."""
        params = Parameters.of(self, self._checks)
        params.targets = self._targets
        check_together(params)
        return params

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> Self:
        """Fit the model; a search first chooses its parameters on held-out rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            Never densified as a whole if sparse.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels, or any finite numbers for `SpectralRegressor`; NaN marks an unknown label (not for
            `CPLST`, `PLST` and `CPLSTCV`, nor for real targets in a search). Column names of a frame become
            ``classes_``. One label may also be 1-D, of shape (n,), with any two classes, and then the model
            is a binary classifier of scikit-learn: ``classes_`` has the two classes, answers are 1-D, and
            ``score`` is the accuracy.
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row; in a search also its weight in the mean of held-out scores (but
            not in F1, a scorer, a function, chosen cuts or calibration). 1e-100 ≤ the largest ≤ 1e100.
        observed : array, sparse matrix or frame of bool of shape (n, L), optional
            True where a label is known, as an alternative to NaN. In a sparse matrix, entries that are not
            stored are unknown; use this form if few labels are known.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        params = self._check_params()
        rows = self._rows(params, X, y, sample_weight, observed)
        n, d, n_labels = rows.shape
        told = told_of_fit(self, params, X, y, sample_weight) if CALLED & vars(self).keys() else nullcontext()
        with rows.place.explaining_errors(f"{n} rows, {d} features and {n_labels} labels"), told:
            return self._keep(**self._found(rows, params))

    def _rows(
        self, params: Parameters, X: Any, y: Any, sample_weight: Any = None, observed: Any = None
    ) -> Rows:
        """Return the data of a fit, checked."""
        kernel = None
        if params.kernel != "linear":
            kernel = Kernel(params.kernel, params.gamma, params.degree, params.coef0)
        precomputed = kernel is not None and kernel.is_precomputed
        rows = checked_rows(X, y, sample_weight, observed, targets=self._targets, precomputed=precomputed)
        home, device = rows.home, rows.home if params.device is None else params.device
        if device != home and not home.is_host:
            raise ValueError(f"X is an array of {home}, but device is {device}. Leave device out.")
        if not isinstance(params.threshold, Cut):
            check_threshold(params.threshold, rows.shape[2], params.loss.threshold)
        if kernel is not None:
            if not rows.all_known:
                raise ValueError(
                    "Y has unknown labels, but a kernel needs to know all. Pass kernel='linear', for example "
                    "on features of sklearn.kernel_approximation.Nystroem."
                )
            rows = replace(rows, kernel=kernel)
        if precomputed:
            check_kernel_matrix(rows.X)
        else:
            low, high = extremes(without_weightless(rows.X, rows.X[:, :1], rows.weights)[0])
            warn_of_ranges(0.5 * high - 0.5 * low, rows.schema.feature_names)  # so that nothing overflows
        return rows if device == home else moved(rows, device, sums_suffice=params.loss.name == "squared")

    def _found(self, rows: Rows, params: Parameters) -> dict[str, Any]:
        """Return the fitted attributes: the record of the fit; a search has more."""
        raise NotImplementedError

    def _keep(self, **found: Any) -> Self:
        """Store the attributes of a fit in place of those of the last one."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(self, name)
        self.__dict__.update(found)
        return self

    def to_numpy(self) -> Self:
        """Return a copy of the model with all arrays as NumPy's: home from a GPU.

        It predicts on NumPy arrays and sparse matrices. ``lrml.save`` and pickle do this by themselves.
        Arrays that are NumPy's already are shared.
        """
        return self._at_home({})

    def _at_home(self, known: dict[int, Any]) -> Self:
        """Return the copy; ``known`` as in `lrml.core.arrays.at_home`."""
        twin = copy(self)
        twin.__dict__ = dict(at_home(vars(self), known))
        return twin

    @property
    def _decision_threshold(self) -> Any:
        """Where scores are cut; None for the loss's own."""
        if not isinstance(self.threshold, str | Cut):
            return self.threshold
        if self.fitted_.cut is None:
            raise NotFittedError("threshold='auto' is chosen by a fit. Fit again, or pass a number.")
        return self.fitted_.cut

    def _validated(self, X: Any) -> Any:
        """X for prediction: same columns in the same order as in ``fit``."""
        check_is_fitted(self)
        kernel, home = self.fitted_.kernel, self.fitted_.place
        validate = partial(validate_data, self, reset=False)
        found = check_features(X, validate, precomputed=kernel is not None and kernel.is_precomputed)
        if Place.of(found) != home:
            raise ValueError(
                f"X is an array of {Place.of(found)}, but the model is one of {home}. Move X, take "
                "model.to_numpy() for NumPy arrays, or turn on scikit-learn's array API dispatch."
            )
        return found

    def _scores(self, X: Any) -> Scores:
        """Scores of rows that are checked first."""
        X = self._validated(X)
        return self.fitted_.scores(X)

    def predict(self, X: Any) -> Any:
        """Predicted targets, ``X coef_ᵀ + intercept_``, of shape (n, L), or (n,) if y was 1-D."""
        scores = self._scores(X)
        return scores[:, 0] if self.flat_output_ else scores

    @available_if(_has_closed_form)  # type: ignore[untyped-decorator]
    def leave_one_out_scores(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Scores that each row would get from a fit to all the other rows, without refitting.

        They are what thresholds, calibration and model choice need: scores of rows that the model has not
        seen, for all rows, at little more than the cost of one fit, with n (min(n, d) + L) numbers in memory
        beside those of the fit. Exact for `MLFro`, and an estimate for penalties on singular values and for
        limits of the rank, see ``docs/selection.md``. Needs the squared loss with all labels known. It fits
        anew with the parameters of the model, which does not change: pass the rows, labels and weights of the
        fit. A search must be fitted, and takes its ``best_params_``.

        Returns
        -------
        array of shape (n, L)
            A label that no other row has gets −1, as by a fit without that row. For a 1-D y of shape (n,),
            and counted from the threshold, as in ``decision_function``.

        Examples
        --------
        >>> from lrml import MLFro, metrics
        >>> from lrml.datasets import load_yeast
        >>> X, Y = load_yeast().train
        >>> unseen = metrics.label_ranking_average_precision(Y, MLFro(1.0).leave_one_out_scores(X, Y))
        >>> round(MLFro(1.0).fit(X, Y).score(X, Y), 2), round(unseen, 2)
        (0.8, 0.76)
        """
        model = vars(self).get("best_estimator_", self)
        params = model._check_params()
        rows = model._rows(params, X, y, sample_weight)
        if hasattr(model, "intercept_"):
            self._validated(X)  # the columns of the last fit, and its labels
            check_label_names(rows.schema.label_names, model.classes_)
        if params.loss.name != "squared" or not rows.all_known or params.prune not in (None, "auto"):
            found = f"loss={params.loss.name!r}" if params.loss.name != "squared" else f"prune={params.prune}"
            raise ValueError(
                "leave-one-out scores need the squared loss with all labels known, of all coefficients, got "
                f"{found if rows.all_known else 'unknown labels'}. Use scikit-learn's cross_val_predict."
            )
        rows, everyone = replace(rows, only_exact=True), np.arange(rows.shape[0])
        scores = left_out_scores(model, rows, params, everyone, precise=True)
        scores = rows.home.asarray(scores, dtype_name(rows.X))
        if not rows.schema.flat or params.targets == "real":
            return scores[:, 0] if rows.schema.flat else scores
        fitted = hasattr(model, "intercept_") or not isinstance(params.threshold, Cut)
        cut = model._decision_threshold if fitted else None
        return counted_from(check_threshold(cut, 1, params.loss.threshold), scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> float:
        """Mean of the targets' R², each over the rows where it is known (not NaN, and ``observed``)."""
        Y, scores, known, weights = self._compared(X, y, sample_weight, observed)
        return r_squared(to_numpy(dense(Y)), to_numpy(scores), weights, to_host(known))

    def _compared(self, X: Any, y: Any, sample_weight: Any, observed: Any) -> tuple[Any, Scores, Any, Any]:
        """Return labels, scores, which labels are known (None: all) and weights, for a score."""
        check_is_fitted(self)
        place, schema = self.fitted_.place, self.fitted_.schema
        classes = schema.label_names if schema.flat else None
        Y, names, mask, flat = check_targets(y, self._targets, observed, classes=classes, place=place)
        if not flat:
            check_label_names(names, self.classes_)
        scores = self._scores(X)
        if Y.shape[0] != scores.shape[0]:
            raise ValueError(f"X has {scores.shape[0]} rows, but y has {Y.shape[0]}.")
        known = mask.known() if mask is not None and Y.shape == scores.shape else None
        if sample_weight is not None:
            sample_weight = to_host(check_sample_weight(sample_weight, scores.shape[0], place))
        return Y, scores, known, sample_weight


def _has_probabilities(model: Any) -> bool:
    """Only the logistic loss and calibration make probabilities of scores."""
    fitted = vars(model).get("fitted_")
    asked = getattr(model, "calibrate", None) or getattr(model, "loss", "squared") == "logistic"
    if not (asked if fitted is None else fitted.has_probabilities):
        raise AttributeError("predict_proba needs calibrate='isotonic' or 'sigmoid', or loss='logistic'.")
    return True


class LabelModel(ClassifierMixin):
    """A `LowRankModel` whose targets are 0/1 labels."""

    _targets = "binary"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    @property
    def _cut(self: Any) -> Any:
        """Where scores are cut, as an array."""
        return check_threshold(self._decision_threshold, self.fitted_.n_labels, self.fitted_.loss.threshold)

    @property
    def threshold_(self: Any) -> Any:
        """The cut in use, a number or one for each label: as given, as the fit has chosen, or the loss's."""
        check_is_fitted(self)
        return self._cut if self._cut.ndim else float(self._cut)

    def decision_function(self: Any, X: Any) -> Array:
        """Real-valued scores, ``X coef_ᵀ + intercept_``, of shape (n, L).

        Of shape (n,) if y was 1-D, and then counted from the threshold: from 0 on, ``predict`` gives the
        second class, as wrappers such as scikit-learn's `OneVsRestClassifier` expect.
        """
        scores = self._scores(X)
        return counted_from(self._cut, scores) if self.flat_output_ else scores

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no stubs
    def predict_proba(self: Any, X: Any) -> Array:
        """Probability of every label, of shape (n, L); with ``calibrate``, or the logistic loss.

        Without ``calibrate`` it is 1/(1 + exp(−score)). As from scikit-learn's one-vs-rest classifiers, rows
        do not add up to 1. Of shape (n, 2) if y was 1-D.
        """
        X, fitted = self._validated(X), self.fitted_
        probability = fitted.filled(
            lambda labels, scores: fitted.probability(scores, labels), X, fitted.score_type(X)
        )
        if not self.flat_output_:
            return probability
        return namespace(probability).concat([1.0 - probability, probability], axis=1)

    def predict(self: Any, X: Any) -> Any:
        """Labels whose score reaches ``threshold``, 0/1 of shape (n, L).

        A SciPy ``csr_array`` if the model was fitted on a sparse Y (dense on a device). Of shape (n,) if it
        was 1-D, with its classes: where X is if they are numbers, on the host otherwise.
        """
        X = self._validated(X)
        if not self.flat_output_:
            return self.fitted_.decided(X, self._cut, sparse=self.sparse_output_)
        positive = counted_from(self._cut, self.fitted_.scores(X)) >= 0
        return self.fitted_.class_of(namespace(positive).astype(positive, namespace(positive).int64))

    def predict_top_k(self: Any, X: Any, k: int | None = None) -> TopK:
        """Return the k labels with the largest scores for every row, best first.

        Exact, for any number of labels: the scores come in blocks of rows and labels. Among equal scores the
        label that comes first is better. Labels without a positive training example come last, whatever their
        score, because nothing is known about them. At the end of a pipeline, or in a search of scikit-learn,
        call ``lrml.predict_top_k(pipeline, X, k)``.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
        k : int, optional
            From 1 to the number of labels L; min(5, L) by default.

        Returns
        -------
        TopK
            ``labels`` (n × k; names if Y was a frame, column numbers otherwise) and ``scores`` (n × k). Names
            are on the host, all else is where X is.
        """
        X = self._validated(X)
        if self.flat_output_:
            raise ValueError(
                "predict_top_k ranks the labels of a matrix, but y was 1-D. Use decision_function, or fit "
                "on y.reshape(-1, 1)."
            )
        n_labels = self.fitted_.n_labels
        count = min(5, n_labels) if k is None else check_integer("k", k, 1, n_labels)
        columns, scores = self.fitted_.top(X, count)
        return TopK(self.fitted_.class_of(columns), scores, self.classes_)

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> float:
        """Mean over the examples of the label ranking average precision; the accuracy if y is 1-D.

        Subset accuracy, scikit-learn's choice for multi-label classifiers, is near zero for more than a few
        labels and says little. Rows without a label are left out, as in
        `lrml.metrics.label_ranking_average_precision`, and so are unknown labels (NaN in y, or not
        ``observed``).
        """
        Y, scores, known, weights = self._compared(X, y, sample_weight, observed)
        if self.flat_output_:
            values = to_numpy((counted_from(self._cut, scores) >= 0) == (Y[:, 0] > 0))
            counted = np.ones(len(values), np.bool_) if known is None else to_host(known)[:, 0]
        else:
            if known is not None:
                # Ranked below all others, they neither count nor push another label down.
                xp = namespace(scores)
                scores = xp.where(known, scores, xp.min(scores) - 1.0)
            values = to_numpy(metrics.label_ranking_average_precision(Y, scores, per_example=True))
            counted = np.isfinite(values)
        if not counted.any():
            raise ValueError("No row of y has a known label to judge by.")
        return float(np.average(values[counted], weights=None if weights is None else weights[counted]))


class Member(BlockFits, LowRankModel):
    """A model that is defined by what it minimises, ``_spec``; the rest is the same for all."""

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        """Return what is minimised over some rows; refuse counts beyond their features and labels."""
        raise NotImplementedError

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        """Return the record of a fit, without a threshold of its own."""
        return fit(rows, self._spec(params, rows), self._last(rows) if params.warm_start else None)

    def _last(self, rows: Rows) -> Fitted | None:
        """Return the last fit if the next one is to start there; refuse if that had other columns."""
        last: Fitted | None = vars(self).get("fitted_")
        if last is None or last.kernel != rows.kernel:
            return None
        (d, n_labels), now = (last.schema.n_features, last.n_labels), rows.shape[1:]
        if (d, n_labels) != now:
            raise ValueError(
                f"warm_start needs the columns of the last fit, {d} features and {n_labels} labels, not "
                f"{now[0]} and {now[1]}."
            )
        return last

    def _found(self, rows: Rows, params: Parameters) -> dict[str, Any]:
        """Return the record of the fit, with its threshold, and small sums for ``partial_fit``."""
        fitted = self._solved(rows, params)
        if params.calibrate is not None or isinstance(params.threshold, Cut):
            twin = copy(self)
            twin.fitted_ = fitted
            fitted = replace(fitted, **chosen_on_unseen(twin, rows, params))
        if params.prune == "auto":
            fitted = automatically_pruned(self, fitted, rows)
        sums: Statistics | None = vars(rows).get("statistics")
        squared = params.loss.name == "squared" and rows.all_known and rows.home.is_host
        if sums is not None and squared and math.prod(sums.xx.shape) + math.prod(sums.xy.shape) <= MOST_KEPT:
            fitted = replace(fitted, sums=Sums(sums.at(HOST), 1, lasting=False))
        return {"fitted_": fitted}

    def _fit_to(self, rows: Rows, params: Parameters) -> Self:
        """Fit to checked rows, without a threshold of its own."""
        return self._keep(fitted_=self._solved(rows, params))

    def _regressions(self, rows: Rows, params: Parameters, *, warm: bool = False) -> RidgeRegressions:
        """Solve once more, from the fitted model if ``warm``, and read the solution as regressions."""
        return regressions(rows, self._spec(params, rows), self.fitted_ if warm else None)
