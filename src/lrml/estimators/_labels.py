"""What models of labels add to those of real targets: decisions, probabilities, best labels, a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from lrml import metrics
from lrml._door import check_threshold
from lrml._ranking import TopK
from lrml.core.arrays import Array, namespace, to_host, to_numpy
from lrml.core.checks import check_integer
from lrml.core.losses import LogisticLoss
from lrml.estimators._scores import counted_from


def _has_probabilities(model: Any) -> bool:
    """Only the logistic loss makes probabilities of scores."""
    if getattr(model, "loss_", getattr(model, "loss", "squared")) != "logistic":
        raise AttributeError(
            "predict_proba needs loss='logistic'. Or calibrate the scores of each label: "
            "MultiOutputClassifier(CalibratedClassifierCV(model))."
        )
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
    def _cut(self: Any) -> npt.NDArray[np.float64]:
        """Where scores are cut."""
        found = check_threshold(self._decision_threshold, self.fitted_.n_labels, self.fitted_.loss.threshold)
        return np.asarray(found)

    def decision_function(self: Any, X: Any) -> Array:
        """Real-valued scores, X coef_ᵀ + intercept_, of shape (n, L).

        Of shape (n,) if y was 1-D, and then counted from the threshold: from 0 on, ``predict`` gives the
        second class, as wrappers such as scikit-learn's `OneVsRestClassifier` expect.
        """
        scores = self._scores(X)
        return counted_from(self._cut, scores) if self.flat_output_ else scores

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn has no stubs
    def predict_proba(self: Any, X: Any) -> Array:
        """Probability of every label, 1/(1 + exp(−score)), of shape (n, L); with the logistic loss only.

        As from scikit-learn's one-vs-rest classifiers, rows do not add up to 1. Of shape (n, 2) if y was 1-D.
        """
        probability = LogisticLoss().probability(self._scores(X))
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
        labels and says little. Rows without a label are left out, as in `lrml.metrics.average_precision`, and
        so are unknown labels (NaN in y, or not ``observed``).
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
            values = to_numpy(metrics.average_precision(Y, scores, per_example=True))
            counted = np.isfinite(values)
        if not counted.any():
            raise ValueError("No row of y has a known label to judge by.")
        return float(np.average(values[counted], weights=None if weights is None else weights[counted]))
