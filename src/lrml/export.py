"""Fitted models as ONNX graphs, which run without Python.

The graph of a linear model is short: with W = U diag(s) Vᵀ, scores are (X · U diag(s)) · Vᵀ + 1bᵀ. In front
of it there may be scikit-learn's bag of words, where ONNX operators do the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.utils.validation import check_is_fitted

from lrml._shown import shown
from lrml._version import __version__
from lrml.core.arrays import at_home
from lrml.core.checks import check_flag, check_integer
from lrml.estimators import LowRankModel
from lrml.text import TextTagger

if TYPE_CHECKING:
    import onnx

__all__ = ["to_onnx"]


def __dir__() -> list[str]:
    return __all__


# onnxruntime 1.12 and later run these versions of the format and of its operators.
_IR_VERSION, _OPSET = 8, 17
_MICROSOFT = "com.microsoft"  # onnxruntime's own operators: the Tokenizer is one
_MOST_BYTES = 2**31 - 2**20  # Protocol Buffers end at 2 GiB; the rest of the graph is small
_PAD = " "  # fills short rows of tokens; no token contains it
_LETTERS = r"\pL\pN_"  # Python's \w for RE2, whose own \w knows ASCII alone
# How many letters a word has at least, by scikit-learn's token_pattern.
_LEAST_LETTERS = {r"(?u)\b\w\w+\b": 2, r"\b\w\w+\b": 2, r"(?u)\b\w+\b": 1, r"\b\w+\b": 1, r"\w+": 1}


def to_onnx(model: Any, *, top_k: int | None = None, text: bool = True) -> onnx.ModelProto:
    """Return a fitted model as an ONNX graph, which onnxruntime and others run.

    ::

        scores = (X · U diag(s)) · Vᵀ + 1bᵀ

    or X · W + 1bᵀ, if W has fewer numbers than its factors. All numbers have the precision of the model.

    Parameters
    ----------
    model : estimator
        A fitted member of the family or one of its searches, with ``kernel="linear"``, or a `TextTagger`.
    top_k : int, optional
        Add the k best labels of every row to the outputs, in the order of ``predict_top_k``: among equal
        scores, the label that comes first. Runtimes round differently from NumPy, so labels whose scores
        differ in the last digit only, or would be equal in exact arithmetic, may change places.
    text : bool, default=True
        Whether the graph of a `TextTagger` takes texts; it then needs onnxruntime, whose tokenizer it uses.
        False gives a graph that takes what ``transform`` returns, as a dense array. No matter for others.

    Returns
    -------
    onnx.ModelProto
        Input: ``features`` (n × d), or ``text`` (n strings, at least one). Outputs: ``scores`` (n × L); with
        the logistic loss ``probabilities`` (n × L); with ``top_k``, ``top_labels`` (names, or column numbers
        of labels without a name), ``top_indices`` and ``top_scores`` (n × k). The metadata holds ``labels``
        (a JSON list), ``features`` if they have names, ``model`` and ``lrml_version``.

    Raises
    ------
    ValueError
        If the model has a kernel, takes more than 2 GB, or turns texts into features in a way that ONNX
        operators do not repeat.
    ImportError
        Without the package onnx.

    Notes
    -----
    Lower case of letters beyond ASCII is left to the system's locale C.UTF-8, and only if the vocabulary has
    such letters. It differs from Python's in "İ" and in a sigma at the end of a word.

    Examples
    --------
    >>> from lrml import MLFro
    >>> from lrml.datasets import load_yeast
    >>> from lrml.export import to_onnx
    >>> graph = to_onnx(MLFro(1.0).fit(*load_yeast().train), top_k=3).graph
    >>> [output.name for output in graph.output]
    ['scores', 'top_indices', 'top_scores', 'top_labels']
    """
    text = check_flag("text", text)
    tagger = model if isinstance(model, TextTagger) else None
    if tagger is not None:
        check_is_fitted(tagger)
        model = tagger.model_
    _check_linear(model)
    model = at_home(model)
    if top_k is not None:
        top_k = check_integer("top_k", top_k, 1, len(model.intercept_))
    front = _TextFront(tagger.vectorizer_) if tagger is not None and text else None
    weights = _weights(model)
    graph = _Graph(_numbers_of(model.intercept_.dtype))
    features = graph.input_features(len(model.factors_.U)) if front is None else front.add_to(graph)
    classes = np.asarray(model.classes_ if tagger is None else tagger.classes_)
    _add_scores(graph, features, weights, model)
    if top_k is not None:
        _add_top(graph, top_k, model.unseen_labels_, classes)
    described = {"labels": [str(name) for name in classes], "features": _feature_names(model, tagger)}
    metadata = {key: json.dumps(names, ensure_ascii=False) for key, names in described.items() if names}
    kind = type(model).__name__ if tagger is None else f"{type(tagger).__name__}({type(model).__name__})"
    return graph.finished(metadata | {"model": kind, "lrml_version": __version__})


def _check_linear(model: Any) -> None:
    if not isinstance(model, LowRankModel):
        raise TypeError(
            f"model must be one of lrml's estimators or a TextTagger, got {shown(model)}. "
            "Pass the last step of a pipeline, and export the steps before it on their own."
        )
    check_is_fitted(model)
    if getattr(model, "flat_output_", None):
        raise ValueError(
            "an exported model must be fitted to a label matrix, got one fitted to a 1-D y. Fit it to "
            "y.reshape(-1, 1)."
        )
    if getattr(model, "kernel_", None) is not None:
        raise ValueError(
            f"an exported model must have kernel='linear', got kernel={shown(model.kernel)}. Fit a linear "
            "model, for example on features of sklearn.kernel_approximation.Nystroem."
        )


def _weights(model: Any) -> list[Any]:
    """Return what X is multiplied by, one matrix or two, after a look at their size."""
    U, s, V = model.factors_
    d, n_labels, rank = len(U), len(V), len(s)
    by_factors = rank * (d + n_labels) < d * n_labels
    numbers = (rank * (d + n_labels) if by_factors else d * n_labels) + n_labels
    size = numbers * U.dtype.itemsize
    if size > _MOST_BYTES:
        smaller = "a model of lower rank" if U.dtype == np.float32 else "it to X of dtype float32"
        raise ValueError(
            f"an ONNX file must be smaller than 2 GB, got a model of {size / 1e9:.1f} GB ({d} features, "
            f"{n_labels} labels, rank {rank}). Fit {smaller}, or keep it with lrml.save."
        )
    return [U * s, V.T] if by_factors else [model.coef_.T]


def _feature_names(model: Any, tagger: Any) -> list[str] | None:
    if tagger is not None:
        return None  # as many as words: the graph has them, or the vectorizer
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _numbers_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


@dataclass
class _Graph:
    """Nodes, constants, inputs and outputs of a graph that is being built."""

    dtype: np.dtype[Any]
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - an optional package
        except ImportError as error:
            raise ImportError(
                'Export needs the package onnx, which is not installed. Get it with: pip install "lrml[onnx]"'
            ) from error
        self.helper, self.numpy_helper, self.types = helper, numpy_helper, TensorProto
        self.number = helper.np_dtype_to_tensor_dtype(self.dtype)

    def node(self, kind: str, *given: str, name: str, **attributes: Any) -> str:
        """Add a node with one output and return the name of that."""
        self.nodes.append(self.helper.make_node(kind, list(given), [name], name=name, **attributes))
        return name

    def constant(self, name: str, value: Any) -> str:
        """Add numbers, in the graph's precision, or text, or whole numbers."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        elif array.dtype.kind in "OUT":
            array = array.astype(object)
        self.constants[name] = self.numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def input(self, name: str, kind: int, shape: list[Any]) -> str:
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, shape))
        return name

    def input_features(self, n_features: int) -> str:
        return self.input("features", self.number, ["n", n_features])

    def output(self, name: str, kind: int, width: int) -> None:
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, ["n", width]))

    def finished(self, metadata: dict[str, str]) -> onnx.ModelProto:
        graph = self.helper.make_graph(
            self.nodes, "lrml", self.inputs, self.outputs, list(self.constants.values())
        )
        versions = [self.helper.make_opsetid("", _OPSET)]
        if any(node.domain == _MICROSOFT for node in self.nodes):
            versions.append(self.helper.make_opsetid(_MICROSOFT, 1))
        model: onnx.ModelProto = self.helper.make_model(
            graph,
            opset_imports=versions,
            ir_version=_IR_VERSION,
            producer_name="lrml",
            producer_version=__version__,
        )
        self.helper.set_model_props(model, metadata)
        return model


def _add_scores(graph: _Graph, features: str, weights: list[Any], model: Any) -> None:
    n_labels, product = len(model.intercept_), features
    for place, matrix in enumerate(weights):
        product = graph.node(
            "MatMul", product, graph.constant(f"weights_{place}", matrix), name=f"product_{place}"
        )
    graph.node("Add", product, graph.constant("intercept", model.intercept_), name="scores")
    graph.output("scores", graph.number, n_labels)
    if model.loss_ == "logistic":
        graph.node("Sigmoid", "scores", name="probabilities")
        graph.output("probabilities", graph.number, n_labels)


def _add_top(graph: _Graph, k: int, unseen: Any, classes: Any) -> None:
    """Add the k best labels; TopK itself prefers the first of equal ones."""
    ranked = "scores"
    if unseen.any():  # nothing is known about them: they come last, whatever their score
        least = graph.constant("least", -np.inf)
        ranked = graph.node("Where", graph.constant("unseen", unseen), least, "scores", name="ranked")
    graph.nodes.append(
        graph.helper.make_node(
            "TopK", [ranked, graph.constant("k", np.array([k]))], ["top_ranked", "top_indices"], name="top"
        )
    )
    graph.node("GatherElements", "scores", "top_indices", name="top_scores", axis=1)
    named = classes.dtype.kind not in "iu"
    names = graph.constant("label_names", classes.astype(str) if named else classes.astype(np.int64))
    graph.node("Gather", names, "top_indices", name="top_labels")
    graph.output("top_indices", graph.types.INT64, k)
    graph.output("top_scores", graph.number, k)
    graph.output("top_labels", graph.types.STRING if named else graph.types.INT64, k)


class _TextFront:
    """scikit-learn's bag of words, as far as ONNX operators repeat it."""

    def __init__(self, vectorizer: Any) -> None:
        """Check a fitted vectorizer, and say what stands in the way."""

        def refuse(rule: str, got: str) -> ValueError:
            return ValueError(
                f"a graph that takes texts needs {rule}, got {got}. Pass text=False (--no-text) for a graph "
                "that takes features, or fit with another vectorizer."
            )

        if type(vectorizer) not in (CountVectorizer, TfidfVectorizer):
            raise refuse("a TfidfVectorizer or CountVectorizer of scikit-learn", shown(vectorizer))
        wanted = {"analyzer": "word", "strip_accents": None, "preprocessor": None, "tokenizer": None}
        for name, value in wanted.items():
            if (got := getattr(vectorizer, name)) != value:
                raise refuse(f"{name}={value!r}", f"{name}={shown(got)}")
        if vectorizer.token_pattern not in _LEAST_LETTERS:
            known = " or ".join(repr(pattern) for pattern in list(_LEAST_LETTERS)[::2])
            raise refuse(f"token_pattern {known}", shown(vectorizer.token_pattern))
        self.vectorizer = vectorizer

    def _gap(self) -> str:
        """Return what stands between words, for RE2: no letters, and stop words among them."""
        gap = f"[^{_LETTERS}]+"
        stop_words = [word for word in self.vectorizer.get_stop_words() or () if re.fullmatch(r"\w+", word)]
        if not stop_words:
            return gap
        stops = f"(?:(?:{'|'.join(sorted(stop_words))})(?:{gap}|$))"
        return f"{gap}{stops}*|^{stops}+"

    def add_to(self, graph: _Graph) -> str:
        """Add the way from texts to features; return the name of the features."""
        found = graph.input("text", graph.types.STRING, ["n"])
        if self.vectorizer.lowercase:
            # Where no word needs it, no locale has to be installed beside "C", which every system has.
            words = chain(self.vectorizer.vocabulary_, self.vectorizer.get_stop_words() or ())
            locale = "C" if all(map(str.isascii, words)) else "C.UTF-8"
            found = graph.node(
                "StringNormalizer", found, name="lower", case_change_action="LOWER", locale=locale
            )
        found = graph.node(
            "Tokenizer",
            found,
            name="tokens",
            domain=_MICROSOFT,
            mark=0,
            mincharnum=_LEAST_LETTERS[self.vectorizer.token_pattern],
            pad_value=_PAD,
            separators=[self._gap()],
        )
        counts = self._counts(graph, found)
        if graph.dtype != np.float32:
            counts = graph.node("Cast", counts, name="numbers", to=graph.number)
        return self._weighted(graph, counts)

    def _counts(self, graph: _Graph, tokens: str) -> str:
        """Add the n-grams' counts; the pool lists single words, then pairs, and so on."""
        low, high = self.vectorizer.ngram_range
        pools: list[list[str]] = [[] for _ in range(high)]
        columns: list[list[int]] = [[] for _ in range(high)]
        for ngram, column in self.vectorizer.vocabulary_.items():
            words = ngram.split(" ")
            pools[len(words) - 1] += words
            columns[len(words) - 1].append(column)
        starts = np.cumsum([0, *map(len, pools[:-1])]).tolist()
        return graph.node(
            "TfIdfVectorizer",
            tokens,
            name="counts",
            mode="TF",
            min_gram_length=low,
            max_gram_length=high,
            max_skip_count=0,
            ngram_counts=starts,
            ngram_indexes=list(chain.from_iterable(columns)),
            pool_strings=list(chain.from_iterable(pools)),
        )

    def _weighted(self, graph: _Graph, counts: str) -> str:
        """Add what a TfidfVectorizer makes of counts: 1 + log, inverse document frequency, unit length."""
        vectorizer = self.vectorizer
        if vectorizer.binary:
            counts = graph.node("Min", counts, graph.constant("one", 1.0), name="occurs")
        if not isinstance(vectorizer, TfidfVectorizer):
            return counts
        if vectorizer.sublinear_tf:  # 0 for 0, and 1 + log n for n
            one = graph.constant("one", 1.0)
            logs = graph.node("Log", graph.node("Max", counts, one, name="at_least_1"), name="logs")
            counts = graph.node(
                "Add", graph.node("Min", counts, one, name="at_most_1"), logs, name="sublinear"
            )
        if vectorizer.use_idf:
            counts = graph.node("Mul", counts, graph.constant("idf", vectorizer.idf_), name="tfidf")
        if vectorizer.norm is None:
            return counts
        length = graph.node(f"Reduce{vectorizer.norm.upper()}", counts, name="length", axes=[1])
        empty = graph.node("Equal", length, graph.constant("zero", 0.0), name="is_empty")
        divisor = graph.node("Where", empty, graph.constant("one", 1.0), length, name="divisor")
        return graph.node("Div", counts, divisor, name="normalized")
