"""What every linear multi-label model shares: checks at the door, scores, predictions, top-k, score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin
from sklearn.metrics import r2_score
from sklearn.utils import RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from lrml import metrics
from lrml._arrays import is_sparse
from lrml._ranking import check_k
from lrml._shown import shown
from lrml._targets import (
    check_label_names,
    check_sample_weight,
    check_targets,
    check_threshold,
    check_unique_columns,
)
from lrml._threads import map_in_threads
from lrml.estimators._fitting import TrainingData, check_size, prepare
from lrml.estimators._kernels import Kernel, kernel_block
from lrml.estimators._loo import LeaveOneOut
from lrml.estimators._parameters import CHECKS, Check, Parameters, check_parameters
from lrml.estimators._scores import Scores, best_labels, choose_kernel_scorer, choose_scorer
from lrml.losses import LOSSES, LogisticLoss, Loss

_Result = TypeVar("_Result")
# Scores of one block of rows: 2 MiB of float64, so that they and their results stay near the cache.
_BLOCK_SCORES = 1 << 18
# With fewer blocks than this, BLAS uses its own threads, which may outnumber the blocks.
_LEAST_BLOCKS = 8


class TopK(NamedTuple):
    """The k best labels of every row, best first: names (or column numbers) and their scores."""

    labels: npt.NDArray[Any]
    scores: npt.NDArray[np.floating[Any]]


def _has_labels(model: Any) -> bool:
    """Decisions need labels to decide on: a regressor, in scikit-learn's terms, has none."""
    return bool(getattr(model, "targets", "binary") != "real")


def _has_probabilities(model: Any) -> bool:
    """Only the logistic loss makes probabilities of scores."""
    return getattr(model, "loss_", getattr(model, "loss", "squared")) == "logistic"


def _has_closed_form(model: Any) -> bool:
    """Whether fits are ridge regressions in some directions of label space."""
    return hasattr(vars(model).get("best_estimator_", model), "_ridge_regressions")


class LinearMultiLabelModel(MultiOutputMixin, ClassifierMixin, BaseEstimator):
    """A multi-label model with scores X coef_ᵀ + intercept_.

    Subclasses implement ``_fit_data``, which gets checked data and parameters, and set ``factors_``,
    ``intercept_``, ``classes_``, ``loss_``, ``unseen_labels_`` and ``sparse_output_``.
    """

    _checks: ClassVar[Mapping[str, Check]] = CHECKS
    # Values of parameters that a subclass does not have.
    _assumed: ClassVar[Mapping[str, Any]] = {
        "loss": "squared",
        "fit_intercept": True,
        "targets": "binary",
        "kernel": "linear",
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self, "kernel", "linear") == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.target_tags.single_output = False
        if not _has_labels(self):
            tags.estimator_type, tags.classifier_tags = "regressor", None
            tags.regressor_tags = RegressorTags()
        else:
            tags.classifier_tags.multi_class = False
            tags.classifier_tags.multi_label = True
        return tags

    def _keep(self, given: dict[str, Any]) -> None:
        """Store the arguments of a constructor under their names, as scikit-learn expects."""
        self.__dict__.update({name: value for name, value in given.items() if name != "self"})

    def _check_params(self) -> Parameters:
        """Return all parameters, checked as far as possible without the data."""
        params = check_parameters({**self._assumed, **self.get_params(deep=False)}, self._checks)
        if params.targets == "real" and params.loss.name != "squared":
            raise ValueError(
                f"targets='real' needs loss='squared', got loss={params.loss.name!r}, which is made for 0/1 "
                "labels. Pass loss='squared'."
            )
        if params.kernel != "linear" and params.loss.name != "squared":
            raise ValueError(
                f"kernel={shown(params.kernel)} needs loss='squared', got loss={params.loss.name!r}. Pass "
                "loss='squared', or kernel='linear' on features of sklearn.kernel_approximation.Nystroem."
            )
        return params

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> Self:
        """Fit the model; a search first chooses its parameters on held-out rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            Never densified as a whole if sparse.
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels, or any finite numbers if ``targets="real"``; NaN marks an unknown label (not for
            `CPLST`, `PLST` and `CPLSTCV`, nor for real targets in a search). Column names of a frame become
            ``classes_``.
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row; in a search also its weight in the mean of held-out scores (but
            not in F1, a scorer, a function, or the choice of a threshold).
        observed : array, sparse matrix or frame of bool of shape (n, L), optional
            True where a label is known, as an alternative to NaN. In a sparse matrix, entries that are not
            stored are unknown; use this form if few labels are known.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        params = self._check_params()
        return self._fit_data(prepare(self, params, X, y, sample_weight, observed), params)

    def _fit_data(self, data: TrainingData, params: Parameters) -> Self:
        """Check parameters against the shape of the data, then fit."""
        raise NotImplementedError

    @property
    def dual_coef_(self) -> npt.NDArray[np.float64]:
        """Coefficients of the kernel values (n × L), made from ``factors_`` on demand; for kernels only."""
        if vars(self).get("kernel_") is None:
            raise AttributeError(f"{type(self).__name__} has dual_coef_ only if fitted with a kernel.")
        U, s, V = self.factors_
        return np.ascontiguousarray((U * s) @ V.T)

    def __getattr__(self, name: str) -> Any:
        if name == "coef_" and vars(self).get("kernel_") is not None:
            raise AttributeError("coef_ exists for kernel='linear' only; kernels have dual_coef_ instead.")
        if name == "coef_" and "factors_" in vars(self):  # too large to be kept
            U, s, V = self.factors_
            return np.ascontiguousarray((V * s) @ U.T)
        own = getattr(type(self), name, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)  # once more, because its own error explains more than the one below
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _loss(self) -> Loss:
        return LOSSES[self.loss_]

    @property
    def _decision_threshold(self) -> Any:
        """Where scores are cut; None for the loss's own."""
        return self.threshold

    def _validated(self, X: Any) -> Any:
        """X for prediction: same columns in the same order as in ``fit``."""
        check_is_fitted(self)
        check_unique_columns(X, "X")
        kernel: Kernel | None = vars(self).get("kernel_")
        precomputed = kernel is not None and kernel.is_precomputed
        accepted = False if precomputed else ["csr", "csc"]
        try:
            return validate_data(self, X, reset=False, accept_sparse=accepted, dtype=[np.float64, np.float32])
        except ValueError as error:
            if not precomputed or "is expecting" not in str(error):
                raise
            raise ValueError(
                f"{str(error).rstrip('.')}: kernel='precomputed' needs k(x, x_i) for all "
                f"{self.n_features_in_} training rows x_i. Pass these values, in the same order."
            ) from None

    def _map_scores(self, function: Callable[[slice, Scores], _Result], X: Any) -> Iterator[_Result]:
        """Apply a function to blocks of rows and their scores; yield the results in order.

        The n × L scores never exist at once. The blocks, and so the last digits of the scores, depend neither
        on the caller nor on the number of threads.
        """
        X = X.tocsr() if is_sparse(X) else X
        step = max(1, _BLOCK_SCORES // len(self.intercept_))
        kernel: Kernel | None = vars(self).get("kernel_")
        if kernel is None:
            # LEML stores no coefficients; they would have to be built.
            scorer = choose_scorer(X, self.factors_, vars(self).get("coef_"), self.intercept_)
        else:
            scorer = choose_kernel_scorer(self.factors_, self.intercept_)
            step = min(step, kernel_block(len(self.factors_.U)))
        blocks = [slice(start, start + step) for start in range(0, X.shape[0], step)]

        def work(rows: slice) -> _Result:
            block = X[rows] if kernel is None else kernel(X[rows], vars(self).get("X_fit_"))
            return function(rows, scorer(block))

        one_by_one = len(blocks) < _LEAST_BLOCKS or not (kernel is None or kernel.is_thread_safe)
        return map(work, blocks) if one_by_one else map_in_threads(work, blocks)

    def _filled(self, function: Callable[[Scores], npt.NDArray[Any]], X: Any, dtype: npt.DTypeLike) -> Any:
        """Apply a function to the scores, entry by entry; return an n × L array."""
        filled = np.empty((X.shape[0], len(self.intercept_)), dtype=dtype)

        def fill(rows: slice, scores: Scores) -> None:
            filled[rows] = function(scores)

        for _ in self._map_scores(fill, X):
            pass
        return filled

    def _scores(self, X: Any) -> Scores:
        scores: Scores = self._filled(lambda block: block, X, np.result_type(X.dtype, self.intercept_.dtype))
        return scores

    @available_if(_has_labels)  # type: ignore[untyped-decorator]  # scikit-learn has no stubs
    def decision_function(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Real-valued scores, one per row and label: X coef_ᵀ + intercept_.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)

        Returns
        -------
        array of shape (n, L)
        """
        return self._scores(self._validated(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Probability of every label, 1/(1 + exp(−score)); with the logistic loss only.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)

        Returns
        -------
        array of shape (n, L)
            As scikit-learn's one-vs-rest classifiers return it for label matrices. Rows do not add up to 1.
        """
        return LogisticLoss().probability(self._scores(self._validated(X)))

    def predict(self, X: Any) -> Any:
        """Labels whose score reaches ``threshold`` (scores themselves if ``targets="real"``).

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)

        Returns
        -------
        array of shape (n, L)
            0/1; a SciPy ``csr_array`` if the model was fitted on a sparse Y.
        """
        X = self._validated(X)
        if not _has_labels(self):
            return self._scores(X)
        cut = check_threshold(self._decision_threshold, len(self.intercept_), self._loss.threshold)
        if not self.sparse_output_:
            return self._filled(lambda scores: scores >= cut, X, np.int64)
        decisions = self._map_scores(lambda _, scores: sp.csr_array(scores >= cut, dtype=np.int64), X)
        return sp.vstack(list(decisions), format="csr")

    def predict_top_k(self, X: Any, k: int | None = None) -> TopK:
        """Return the k labels with the largest scores for every row, best first.

        Ties go to the label that comes first. Labels without a positive training example come last, whatever
        their score, because nothing is known about them.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
        k : int, optional
            From 1 to the number of labels L; min(5, L) by default.

        Returns
        -------
        TopK
            ``labels`` (n × k; names if Y was a frame, column numbers otherwise) and ``scores`` (n × k).
        """
        X = self._validated(X)
        n_labels = len(self.intercept_)
        k = min(5, n_labels) if k is None else check_k(k, n_labels, "k")
        labels = np.empty((X.shape[0], k), dtype=self.classes_.dtype)
        best = np.empty((X.shape[0], k), dtype=np.result_type(X.dtype, self.intercept_.dtype))

        def rank(rows: slice, scores: Scores) -> None:
            columns = best_labels(scores, self.unseen_labels_, k)
            labels[rows] = self.classes_[columns]
            best[rows] = np.take_along_axis(scores, columns, axis=1)

        for _ in self._map_scores(rank, X):
            pass
        return TopK(labels, best)

    @available_if(_has_closed_form)  # type: ignore[untyped-decorator]
    def leave_one_out_scores(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> npt.NDArray[np.floating[Any]]:
        """Scores that each row would get from a fit to all the other rows, without refitting.

        They are what thresholds, calibration and model choice need: scores of rows that the model has not
        seen, for all rows, at little more than the cost of one fit, with n (min(n, d) + L) numbers in memory
        beside those of the fit. Exact for `MLFro`, and an estimate for penalties on singular values and for
        limits of the rank, see ``docs/selection.md``. Needs the squared loss with all labels known. It fits
        anew with the parameters of the model, which does not change: pass the training rows, and the weights
        of the fit, if it had any. A search must be fitted, and takes its ``best_params_``.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
        y : array, sparse matrix or frame of shape (n, L)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        array of shape (n, L)
            A label that no other row has gets −1, as by a fit without that row.

        Examples
        --------
        >>> from lrml import MLFro
        >>> from lrml.datasets import load_yeast
        >>> X, Y = load_yeast().train
        >>> seen = MLFro(1.0).fit(X, Y).score(X, Y)
        >>> from lrml.metrics import average_precision
        >>> unseen = average_precision(Y, MLFro(1.0).leave_one_out_scores(X, Y))
        >>> round(seen, 2), round(unseen, 2)
        (0.8, 0.76)
        """
        model = vars(self).get("best_estimator_", self)
        params = model._check_params()
        data = prepare(model, params, X, y, sample_weight, None)
        if hasattr(model, "factors_"):
            self._validated(X)  # the columns of the last fit, and its labels
            check_label_names(data.label_names, model.classes_)
        if not data.needs_moments_only:
            raise ValueError(
                "leave-one-out scores need loss='squared' with all labels known, got "
                f"loss={params.loss.name!r}{'' if data.mask is None else ' and unknown labels'}. Use "
                "scikit-learn's cross_val_predict."
            )
        rows = np.arange(data.X.shape[0])
        # All directions of a kernel matrix, before the fit asks for the leading ones only.
        data = data.exactly()
        check_size(data, type(model).__name__)
        space = data.space(fit_intercept=params.fit_intercept)
        regressions = model._ridge_regressions(data, params)
        scorer = LeaveOneOut(space, data, rows, fit_intercept=params.fit_intercept, precise=True)
        scores: Scores = scorer.of(regressions)(slice(None)).astype(data.X.dtype, copy=False)
        return scores

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> float:
        """Mean over the examples of the label ranking average precision (R² if ``targets="real"``).

        Subset accuracy, scikit-learn's choice for multi-label classifiers, is near zero for more than a few
        labels and says little. Rows without a label are left out, as in `lrml.metrics.average_precision`.
        Unknown labels (NaN in y, or not ``observed``) are left out of the ranking, and R² of a target is
        taken over the rows where it is known.
        """
        binary = _has_labels(self)
        Y, names, mask = check_targets(
            y, "binary" if binary else "real", allow_unknown=True, observed=observed
        )
        scores = self._scores(self._validated(X))
        known = None
        if mask is not None and Y.shape == scores.shape:
            known = mask.block(slice(None), np.bool_).astype(np.bool_)
        check_label_names(names, self.classes_)
        weights = check_sample_weight(sample_weight, len(scores))
        if not binary:
            return _r_squared(Y.toarray() if is_sparse(Y) else Y, scores, weights, known)
        if known is not None:
            # Ranked below all others, they neither count nor push another label down.
            scores = np.where(known, scores, scores.min() - 1.0)
        if weights is None:
            return metrics.average_precision(Y, scores)
        values = metrics.average_precision(Y, scores, per_example=True)
        counted = np.isfinite(values)
        return float(
            np.average(values[counted], weights=check_sample_weight(weights[counted], counted.sum()))
        )


def _r_squared(Y: Any, scores: Scores, weights: Any, known: npt.NDArray[np.bool_] | None) -> float:
    """Mean of the targets' R², each over the rows where it is known; one known fewer than twice has none."""
    if known is None:
        return float(r2_score(Y, scores, sample_weight=weights))
    parts = [
        r2_score(
            Y[rows, label], scores[rows, label], sample_weight=None if weights is None else weights[rows]
        )
        for label, rows in enumerate(known.T)
        if np.count_nonzero(rows) > 1
    ]
    return float(np.mean(parts)) if parts else float("nan")
