"""Top-k labels through what scikit-learn wraps around an estimator."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from lrml._ranking import TopK
from lrml._shown import shown


def predict_top_k(estimator: Any, X: Any, k: int | None = None) -> TopK:
    """Return the k best labels of every row, by an estimator of lrml alone or inside a pipeline or a search.

    A `Pipeline` and a search of scikit-learn such as `GridSearchCV` pass on only the methods that
    scikit-learn knows, so they have no ``predict_top_k`` of their own. This function goes through any nesting
    of them: it applies the steps of a pipeline, and takes the ``best_estimator_`` of a search.

    Parameters
    ----------
    estimator : estimator
        Fitted: an estimator of lrml, or a pipeline or a search that ends in one.
    X : array, sparse matrix, frame, or list of texts
        What ``estimator.predict`` takes.
    k : int, optional
        From 1 to the number of labels L; min(5, L) by default.

    Returns
    -------
    TopK
        ``labels`` (n × k; names if the model has them, column numbers otherwise) and ``scores`` (n × k).

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lrml import LRML, predict_top_k
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> pipeline = make_pipeline(StandardScaler(), LRML(3, 100.0)).fit(*yeast.train)
    >>> predict_top_k(pipeline, yeast.test[0][:1], k=3).labels
    array([[11, 12,  4]])
    """
    inner = estimator
    while not hasattr(inner, "predict_top_k"):
        if isinstance(inner, Pipeline) and len(inner):
            X = inner[:-1].transform(X) if len(inner) > 1 else X
            inner = inner[-1]
        elif hasattr(inner, "best_estimator_"):
            inner = inner.best_estimator_
        else:
            raise TypeError(
                "predict_top_k needs an estimator of lrml, or a pipeline or fitted search that ends in one, "
                f"got {shown(estimator)}. For other classifiers, sort decision_function(X)."
            )
    top: TopK = inner.predict_top_k(X, k)
    return top
