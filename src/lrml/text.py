"""From texts and lists of tags to tags for new texts: one estimator around a vectorizer and a model."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lrml._door import check_label_names, check_targets
from lrml._inner import Inner, place_of
from lrml._shown import counted, shown
from lrml.core.arrays import Array, is_sparse
from lrml.core.checks import is_real
from lrml.estimators import LRML, LRMLCV, LowRankModel, TopK
from lrml.thresholds import Cut

__all__ = ["TextTagger", "default_model", "default_vectorizer"]


# From here on, the squared hinge is better than the squared loss, and takes time that one has.
_MANY_TEXTS = 5000
# Chosen on held-out texts: a cut for each tag, and probabilities.
_CHOSEN: dict[str, Any] = {"threshold": Cut(per_label=True), "calibrate": "isotonic"}


def default_vectorizer() -> TfidfVectorizer:
    """Return a new vectorizer as `TextTagger` uses it by default."""
    return TfidfVectorizer(
        sublinear_tf=True, stop_words="english", ngram_range=(1, 2), min_df=2, dtype=np.float32
    )


def default_model(n_texts: int = 0, loss: str | None = None, rule: str = "best") -> LRMLCV:
    """Return a new model as `TextTagger` uses it by default for so many texts; with your loss and rule."""
    loss = loss or ("squared" if n_texts < _MANY_TEXTS else "squared_hinge")
    # Where every candidate is a fit of its own, ridges alone are as good, in a fraction of the time.
    alphas = 0.0 if loss != "squared" and rule == "best" else None
    return LRMLCV(LRML(loss=loss, **_CHOSEN), alphas=alphas, rule=rule, random_state=0)


def _makes_probabilities(tagger: Any) -> bool:
    """Whether the model, fitted or given, has probabilities."""
    given = default_model() if tagger.model is None else tagger.model
    getattr(vars(tagger).get("model_", given), "predict_proba")  # noqa: B009 - raises the model's own error
    return True


class TextTagger(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no stubs
    """Tags for texts: a vectorizer of scikit-learn and a model of this library in one estimator.

    A text becomes a row x of numbers, and a tag j has the score x · w_j + b_j, where W comes from the model.
    A text without a known word has x = 0, so its best tags are the most frequent ones.

    Parameters
    ----------
    model : estimator, optional
        An estimator of this library for 0/1 labels, with any loss; by default what `default_model` gives,
        which chooses its parameters, the scores from which tags are predicted, and how probabilities follow
        from scores, on held-out texts.
    vectorizer : transformer, optional
        Makes a matrix, sparse or not, of a list of str: a vectorizer of scikit-learn, or a pipeline that
        begins with one. By default what `default_vectorizer` gives: TF-IDF of words and pairs of words that
        occur in two texts; in one, if there are no others.
    prune : int, "auto" or None, default="auto"
        How many coefficients are kept, as in `LRML`: "auto" are as few as predict unseen texts as well as all
        of them. It is passed to the model if that does not set it itself; not all have it, as a number needs.

    Attributes
    ----------
    vectorizer_, model_ : transformer, estimator
        The fitted parts.
    classes_ : array of shape (L,)
        The tags: sorted, if they were given in lists; otherwise names, or numbers, of columns.
    threshold_ : float or array of shape (L,)
        The score from which on ``predict`` gives a tag.

    Notes
    -----
    Parameters of the parts have names such as ``model__alpha``. scikit-learn's searches take texts and tag
    lists as they are; pass them ``cv=KFold(5, shuffle=True)`` if the order of the texts means something.

    Examples
    --------
    >>> from lrml import MLFro, TextTagger
    >>> texts = ["fast image viewer", "edit photos and images", "chess engine", "play chess on line"]
    >>> tags = [["graphics"], ["graphics", "editor"], ["game"], ["game", "network"]]
    >>> tagger = TextTagger(MLFro(0.1)).fit(texts, tags)
    >>> tagger.predict(["a chess game", "view an image"])
    [['game'], ['graphics']]
    >>> tagger.predict_top_k(["edit images"], k=2).labels
    array([['graphics', 'editor']], dtype=object)
    """

    def __init__(
        self,
        model: LowRankModel | None = None,
        *,
        vectorizer: BaseEstimator | None = None,
        prune: int | str | None = "auto",
    ) -> None:
        self.model = model
        self.vectorizer = vectorizer
        self.prune = prune

    def __sklearn_tags__(self) -> Any:
        # Not a classifier: scikit-learn would ask for the type of target, and refuse tag lists.
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also of the parts, as ``model__alpha``; a part that is None becomes the default."""
        for part, make in (("model", default_model), ("vectorizer", default_vectorizer)):
            nested = any(name.startswith(f"{part}__") for name in params)
            if nested and params.get(part, getattr(self, part)) is None:
                params[part] = make()
        super().set_params(**params)
        return self

    def fit(self, texts: Any, tags: Any, sample_weight: Any = None) -> Self:
        """Learn which words speak for which tags.

        Parameters
        ----------
        texts : list, array or column of str
        tags : list or column of tag lists, or 0/1 matrix or frame of shape (n, L)
            One list of str for every text; an empty one if it has no tag. In a matrix, NaN marks an unknown
            label.
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each text.

        A fit that fails leaves the tagger as it was.
        """
        model, vectorizer = self._new_model(), self._new_vectorizer()
        texts, labels = _check_both(texts, tags)
        model = default_model(len(texts)) if model is None else model
        if getattr(model, "kernel", "linear") == "linear" or self.prune != "auto":
            _set_prune(model, self.prune)
        X = _fit_vectorizer(vectorizer, texts, least_df=1 if self.vectorizer is None else None)
        if isinstance(labels, list):
            classes = np.array(sorted(set(chain.from_iterable(labels))), dtype=object)
            if not len(classes):
                raise ValueError(f"none of the {len(texts)} texts has a tag. Check the column of tags.")
            model.fit(X, _binarized(labels, classes), sample_weight)
            model._rename(labels=classes)
        else:
            model.fit(X, labels, sample_weight)
        self.vectorizer_, self.model_, self.classes_ = vectorizer, model, model.classes_
        self.__dict__.pop("_feature_names", None)
        return self

    def _new_model(self) -> LowRankModel | None:
        """Return an unfitted copy of the model, which must be one of this library for 0/1 labels, or None."""
        if self.model is None:
            return None
        if not isinstance(self.model, LowRankModel):
            raise TypeError(
                f"model is {shown(self.model)}, which is no estimator of lrml. Pass LRMLCV(), say."
            )
        if self.model._targets != "binary":
            raise ValueError(f"model is {shown(self.model)}, but texts have tags. Pass LRMLCV(), say.")
        if getattr(self.model, "kernel", "linear") == "precomputed":
            raise ValueError("model has kernel='precomputed', which knows no texts. Pass kernel='linear'.")
        model: LowRankModel = clone(self.model)
        return model

    def _new_vectorizer(self) -> Any:
        """Return an unfitted copy of the vectorizer."""
        if self.vectorizer is None:
            return default_vectorizer()
        if isinstance(self.vectorizer, type) or not hasattr(self.vectorizer, "fit_transform"):
            raise TypeError(f"vectorizer is {shown(self.vectorizer)}. Pass one of scikit-learn, or None.")
        return clone(self.vectorizer)

    @property
    def threshold_(self) -> Any:
        """The score from which on a tag is predicted, a number or one for each tag: that of the model."""
        check_is_fitted(self)
        return self.model_.threshold_

    def transform(self, texts: Any) -> Any:
        """Return the features of texts, n × d; dense if the vectorizer makes dense arrays."""
        check_is_fitted(self)
        return _as_features(self.vectorizer_.transform(_check_texts(texts)))

    def decision_function(self, texts: Any) -> Array:
        """Return scores, n × L in the order of ``classes_``; intercepts for a text without a known word."""
        X = self.transform(texts)
        return self.model_.decision_function(X)

    @available_if(_makes_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, texts: Any) -> Array:
        """Return the probability of every tag, n × L, if the model has probabilities."""
        X = self.transform(texts)
        return self.model_.predict_proba(X)

    def predict(self, texts: Any) -> list[list[Any]]:
        """Return a list of tags for every text: those whose score reaches the threshold, perhaps none."""
        X = self.transform(texts)
        decisions = sp.csr_array(self.model_.predict(X))
        decisions.sort_indices()
        names = self.classes_[decisions.indices].tolist()
        return [names[start:end] for start, end in pairwise(decisions.indptr.tolist())]

    def predict_top_k(self, texts: Any, k: int | None = None) -> TopK:
        """Return the k tags with the largest scores for every text, best first, and these scores: both n × k.

        k is at most the number of tags L, and min(5, L) by default.
        """
        X = self.transform(texts)
        top: TopK = self.model_.predict_top_k(X, k)
        return top

    def score(self, texts: Any, tags: Any) -> float:
        """Return the mean over the texts of the label ranking average precision of their tags, in (0, 1].

        Texts without a tag, and tags that ``fit`` has not seen, are left out; a warning counts the latter.
        """
        check_is_fitted(self)
        texts, labels = _check_both(texts, tags)
        unknown = self.unknown_tags(labels) if isinstance(labels, list) else None
        if unknown:
            more = f"{counted(len(unknown), 'different one')} such as {shown(min(unknown))}; see unknown_tags"
            message = f"score leaves out {counted(unknown.total(), 'tag')} that fit has not seen, {more}"
            warnings.warn(message, UserWarning, stacklevel=2)
        Y = _binarized(labels, self.classes_) if isinstance(labels, list) else labels
        return float(self.model_.score(self.transform(texts), Y))

    def binarize(self, tags: Any) -> sp.csr_array:
        """Turn tags, as in ``fit``, into a 0/1 matrix with the columns of ``classes_`` and no others."""
        check_is_fitted(self)
        labels = _check_tags(tags)
        if isinstance(labels, list):
            return _binarized(labels, self.classes_)
        values, names, *_ = check_targets(labels, "binary")
        check_label_names(names, self.classes_)
        if values.shape[1] != len(self.classes_):
            raise ValueError(
                f"tags have {values.shape[1]} columns. Pass {len(self.classes_)}, as in classes_."
            )
        return sp.csr_array(values)

    def unknown_tags(self, tags: Any) -> Counter[str]:
        """Count how often tags occur that ``fit`` has not seen; a matrix has none."""
        check_is_fitted(self)
        known, labels = set(self.classes_), _check_tags(tags)
        rows = labels if isinstance(labels, list) else []
        return Counter(tag for tag in chain.from_iterable(rows) if tag not in known)

    def explain(self, text: str, tag: Any, n: int | None = 5) -> list[tuple[str, float]]:
        """Return features of a text and what they contribute to a tag; negative ones speak against it.

        The score of the tag is its intercept plus the contributions x_j W_jl of all features of the text, of
        which at most n are returned, the largest first; all if n is None.
        """
        check_is_fitted(self)
        if not isinstance(text, str):
            raise TypeError(f"text must be one str, it is {shown(text)}. Explain texts one by one.")
        found = Inner(self.model_, ()).contributions(self.transform([text]), place_of(self, tag), n)
        return [(str(self._feature_names[j]), value) for j, value in found]

    @cached_property
    def _feature_names(self) -> Any:
        """Names of the features; their numbers if the vectorizer has no names."""
        if hasattr(self.vectorizer_, "get_feature_names_out"):
            return self.vectorizer_.get_feature_names_out()
        return [f"feature {j}" for j in range(self.model_.n_features_in_)]


def _set_prune(model: Any, prune: Any) -> None:
    """Set ``prune`` of a model, or of the estimator of a search, if it has such a parameter and no value."""
    own = model.get_params(deep=False)
    if "estimator" in own:
        model.set_params(estimator=model._base)  # that of its class, if none was given
        _set_prune(model.estimator, prune)
    elif own.get("prune") is None and ("prune" in own or prune not in (None, "auto")):
        model.set_params(prune=prune)


def _listed(column: Any) -> list[Any] | None:
    """Return the entries of a list, array or column; None for what has none, such as a str or a table."""
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable) or _is_table(column):
        return None
    for name in ("to_pylist", "to_list", "tolist"):  # Arrow; pandas and polars; NumPy
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def _is_table(value: Any) -> bool:
    return hasattr(value, "columns") or len(getattr(value, "shape", (1,))) != 1


def _check_both(texts: Any, tags: Any) -> tuple[list[str], Any]:
    """Return checked texts and tags, as many of one as of the other."""
    listed, labels = _check_texts(texts), _check_tags(tags)
    n_rows = len(labels) if isinstance(labels, list) else labels.shape[0]
    if len(listed) != n_rows:
        raise ValueError(f"there are {len(listed)} texts and {n_rows} rows of tags. Pass [] for no tag.")
    return listed, labels


def _check_texts(texts: Any) -> list[str]:
    """Return texts as a list, or say what is wrong, and where."""
    listed = None if isinstance(texts, Set) else _listed(texts)
    if listed is None:
        raise TypeError(f"texts are {shown(texts)}. Pass a list, an array or one column of str.")
    if not listed:
        raise ValueError("there are no texts. Check what was read.")
    for i, text in enumerate(listed):
        if not isinstance(text, str):
            remedy = "Put '' where there is no text, decode bytes, join lists of words."
            raise TypeError(f"the text in row {i} (counted from 0) is {shown(text)}. {remedy}")
    return listed


def _check_tags(tags: Any) -> Any:
    """Return a list of tag lists, or a matrix that the model will check, or say what is wrong, and where."""
    if tags is None:
        raise ValueError("TextTagger requires y to be passed, but the target y is None. Pass lists of tags.")
    if is_sparse(tags):
        return tags
    if _is_table(tags):
        # A table of words: tags in columns of their own, or a column that was not taken out.
        cells = np.asarray(tags)
        words = (cell for cell in cells.flat if isinstance(cell, str | list | np.ndarray))
        if cells.dtype.kind in "OUST" and (found := next(words, None)) is not None:
            raise ValueError(
                f"a table of tags holds {shown(found)}. Pass one column of tag lists, or 0 and 1."
            )
        return tags
    rows = None if isinstance(tags, Set) else _listed(tags)
    if rows is None:
        raise TypeError(f"tags are {shown(tags)}. Pass a list of tags for every text.")
    listed = [_listed(row) for row in rows]
    if listed and all(row and all(map(_is_flag, row)) for row in listed):
        return np.asarray(listed)
    for i, (row, found) in enumerate(zip(rows, listed, strict=True)):
        _check_row(row, found, f"in row {i} (counted from 0)")
    return listed


def _is_flag(tag: Any) -> bool:
    """Whether a tag is no name, but says whether one applies, or that it is unknown."""
    return isinstance(tag, bool) or (is_real(tag) and (tag in (0, 1) or bool(np.isnan(tag))))


def _check_row(row: Any, listed: list[Any] | None, where: str) -> None:
    if listed is None:
        remedy = "Pass a list, [] for no tag; split a str at its commas."
        raise TypeError(f"the tags {where} are {shown(row)}. {remedy}")
    for tag in listed:
        if not (isinstance(tag, str) and tag):
            error = ValueError if isinstance(tag, str) else TypeError
            raise error(f"a tag {where} is {shown(tag)}. Pass a str with letters; [] for no tag.")


def _binarized(rows: list[list[str]], classes: npt.NDArray[Any]) -> sp.csr_array:
    """Return 0/1 labels; tags that are not among the classes are left out, and repeated ones count once."""
    columns = {tag: column for column, tag in enumerate(classes)}
    found = [sorted({columns[tag] for tag in row if tag in columns}) for row in rows]
    ends = np.cumsum([0, *map(len, found)])
    indices = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=ends[-1])
    return sp.csr_array((np.ones(len(indices), np.int64), indices, ends), shape=(len(rows), len(classes)))


def _fit_vectorizer(vectorizer: Any, texts: list[str], least_df: int | None = None) -> Any:
    """Return features of the texts, of which there must be some, if need be with another ``min_df``."""
    try:
        return _as_features(vectorizer.fit_transform(texts))
    except ValueError as error:
        no_words = "empty vocabulary", "no terms remain", "documents than min_df"
        if not any(part in str(error) for part in no_words):
            raise
        if least_df is not None:
            return _fit_vectorizer(vectorizer.set_params(min_df=least_df), texts)
        raise ValueError(
            f"the vectorizer keeps no word of {counted(len(texts), 'text')} ({str(error).rstrip('.')}). Pass "
            "other texts, or vectorizer=TfidfVectorizer(min_df=1) (on the command line: min_df = 1 in the "
            "table [text] of --config)."
        ) from error


def _as_features(X: Any) -> Any:
    return sp.csr_array(X) if is_sparse(X) else np.asarray(X)
