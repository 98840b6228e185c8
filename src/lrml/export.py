"""Fitted models as ONNX graphs, which run without Python.

The graph of a linear model is short: with W = U diag(s) Vᵀ, scores are (X · U diag(s)) · Vᵀ + 1bᵀ. In front
of it there may be transformers of scikit-learn, where ONNX operators do the same.
"""

from __future__ import annotations

import json
import math
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler

from lrml._inner import inner_model, threshold_of, transformers_in
from lrml._shown import how_to_install, shown
from lrml._version import __version__
from lrml.core.arrays import is_sparse
from lrml.core.checks import check_flag, check_integer
from lrml.text import TextTagger

if TYPE_CHECKING:
    import onnx

__all__ = ["to_onnx"]


# onnxruntime 1.12 and later run these versions of the format and of its operators.
_IR_VERSION, _OPSET = 8, 17
_MICROSOFT = "com.microsoft"  # onnxruntime's own operators: the Tokenizer is one
_MOST_BYTES = 2**31 - 2**20  # Protocol Buffers end at 2 GiB; the rest of the graph is small
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
        A fitted member of the family or one of its searches, with ``kernel="linear"``, a `TextTagger`, or a
        pipeline that ends in one of them. Before it may stand TfidfVectorizer, CountVectorizer,
        TfidfTransformer, StandardScaler, MaxAbsScaler, Normalizer, TruncatedSVD, PCA and unions of these.
    top_k : int, optional
        Add the k best labels of every row to the outputs, in the order of ``predict_top_k``: among equal
        scores, the label that comes first. Runtimes round differently from NumPy, so labels whose scores
        differ in the last digit only, or would be equal in exact arithmetic, may change places.
    text : bool, default=True
        Whether the graph of a model for texts takes texts; it then needs onnxruntime, whose tokenizer it
        uses. False leaves the vectorizer out: the graph takes what its ``transform`` returns, as a dense
        array.

    Returns
    -------
    onnx.ModelProto
        Input: ``features`` (n × d), or ``text`` (n strings, at least one). Outputs: ``scores`` (n × L); for
        labels ``assigned`` (n × L), whether scores reach the threshold; ``probabilities`` (n × L) with the
        logistic loss or ``calibrate="sigmoid"``; with ``top_k``, ``top_labels`` (names, or column numbers of
        labels without a name), ``top_indices`` and ``top_scores`` (n × k). The metadata holds ``labels`` (a
        JSON list), ``threshold`` (a number, or a list), ``features`` if they have names, ``model``,
        ``lrml_version``, and ``calibration`` if there is one: log odds are slopes · u + offsets, u the score
        or, where there are knots, the heights interpolated there, which no operator of ONNX does.

    Raises
    ------
    ValueError
        If the model has a kernel, takes more than 2 GB, or makes features in a way that ONNX operators do
        not repeat.
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
    ['scores', 'assigned', 'top_indices', 'top_scores', 'top_labels']
    """
    text = check_flag("text", text)
    inner = inner_model(model, "to_onnx")
    fitted, steps = inner.model, list(inner.steps)
    if fitted.flat_output_:
        raise ValueError("The model was fitted to a 1-D y. Fit it to y.reshape(-1, 1).")
    if getattr(fitted, "kernel_", None) is not None:
        raise ValueError(
            f"The model has kernel={shown(fitted.kernel)}. Fit a linear model, for example on features of "
            "sklearn.kernel_approximation.Nystroem."
        )
    if top_k is not None:
        top_k = check_integer("top_k", top_k, 1, len(fitted.intercept_))
    graph = _Graph(fitted.intercept_.dtype)
    reads_texts, first = inner.reads_texts and text, (*steps, fitted)[0]
    if inner.reads_texts and not text:
        made = transformers_in(model.vectorizer_) if isinstance(model, TextTagger) else steps[:1]
        steps = steps[len(made) :]
        first = (*steps, fitted)[0]
    if reads_texts:
        features = _texts(graph, steps.pop(0))
    else:
        features = graph.input("features", graph.number, ["n", first.n_features_in_])
    features = _all_transformed(graph, steps, features)
    _add_scores(graph, features, fitted)
    classes, cut = np.asarray(fitted.classes_), {}
    if hasattr(fitted, "predict_top_k"):
        threshold = np.asarray(threshold_of(fitted), np.float64)
        graph.node("GreaterOrEqual", "scores", graph.constant(threshold), named=("assigned",))
        graph.output("assigned", graph.types.BOOL, len(classes))
        cut = {"threshold": json.dumps(threshold.tolist())}
        if (found := fitted.fitted_.calibration) is not None:
            parts = {name: part.tolist() for name, part in vars(found).items() if part is not None}
            cut["calibration"] = json.dumps(parts)
    if top_k is not None:
        _add_top(graph, top_k, fitted.unseen_labels_, classes)
    names = None if inner.reads_texts else getattr(first, "feature_names_in_", None)
    described = {"labels": classes, "features": () if names is None else names}
    kind = type(fitted).__name__ if not inner.steps else f"{type(model).__name__}({type(fitted).__name__})"
    return graph.finished(
        {name: json.dumps([*map(str, of)], ensure_ascii=False) for name, of in described.items() if len(of)}
        | cut
        | {"model": kind, "lrml_version": __version__}
    )


class _Graph:
    """Nodes, constants, inputs and outputs of a graph that is being built; all numbers of one precision."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        try:
            from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - an optional package
        except ImportError as error:
            raise ImportError(
                f"Export needs the package onnx, which is not installed. {how_to_install('onnx')}"
            ) from error
        self.helper, self.numpy_helper, self.types = helper, numpy_helper, TensorProto
        self.dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self.number = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.n_bytes = 0

    def node(self, kind: str, *given: str, named: tuple[str, ...] = (), **attributes: Any) -> str:
        """Add a node, and return the name of its first output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, given, named or (name,), name=name, **attributes))
        return named[0] if named else name

    def constant(self, value: Any) -> str:
        """Add numbers, in the graph's precision, or text, or whole numbers."""
        array, name = np.asarray(value), f"constant_{len(self.constants)}"
        kinds: dict[str, Any] = {"f": self.dtype, "O": object, "U": object}
        array = array.astype(kinds.get(array.dtype.kind, array.dtype), order="C")
        self.constants.append(self.numpy_helper.from_array(array, name))
        return name

    def sparse_constant(self, matrix: Any) -> str:
        """Add a matrix of which only a few numbers are stored."""
        entries = matrix.tocoo()
        places = entries.coords[0].astype(np.int64) * matrix.shape[1] + entries.coords[1]
        order = np.argsort(places)
        values = self.numpy_helper.from_array(entries.data[order].astype(self.dtype), "values")
        indices = self.numpy_helper.from_array(places[order], "indices")
        sparse = self.helper.make_sparse_tensor(values, indices, [*map(int, matrix.shape)])
        return self.node("Constant", sparse_value=sparse)

    def reserve(self, n_numbers: int) -> None:
        """Refuse numbers, before they are made, for which a file of ONNX has no room."""
        self.n_bytes += n_numbers * self.dtype.itemsize
        if self.n_bytes > _MOST_BYTES:
            smaller = "a model of lower rank" if self.dtype == np.float32 else "it to X of dtype float32"
            raise ValueError(
                f"The model has {self.n_bytes / 1e9:.1f} GB, and an ONNX file ends at 2 GB. Fit {smaller}, "
                "or keep it with lrml.save."
            )

    def input(self, name: str, kind: int, shape: list[Any]) -> str:
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, kind: int, width: int) -> None:
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, ["n", width]))

    def finished(self, metadata: dict[str, str]) -> onnx.ModelProto:
        graph = self.helper.make_graph(self.nodes, "lrml", self.inputs, self.outputs, self.constants)
        versions = [self.helper.make_opsetid("", _OPSET)]
        if any(node.domain == _MICROSOFT for node in self.nodes):
            versions.append(self.helper.make_opsetid(_MICROSOFT, 1))
        made_by = {"producer_name": "lrml", "producer_version": __version__}
        model: onnx.ModelProto = self.helper.make_model(
            graph, opset_imports=versions, ir_version=_IR_VERSION, **made_by
        )
        self.helper.set_model_props(model, metadata)
        return model


def _add_scores(graph: _Graph, features: str, model: Any) -> None:
    """Multiply features by W, or by its factors if these have fewer numbers, and add the intercept."""
    matrices = model.fitted_.matrices()
    graph.reserve(sum(math.prod(matrix.shape) for matrix in matrices))  # runtimes unfold a sparse one
    for matrix in matrices:
        constant = graph.sparse_constant(matrix) if is_sparse(matrix) else graph.constant(matrix)
        features = graph.node("MatMul", features, constant)
    graph.node("Add", features, graph.constant(model.intercept_), named=("scores",))
    graph.output("scores", graph.number, len(model.intercept_))
    fitted, odds = model.fitted_, "scores"
    if not fitted.has_probabilities:
        return
    if fitted.calibration is not None:
        if fitted.calibration.knots is not None:  # operators have no such curve; the metadata has its knots
            return
        odds = graph.node("Mul", odds, graph.constant(fitted.calibration.slopes))
        odds = graph.node("Add", odds, graph.constant(fitted.calibration.offsets))
    graph.node("Sigmoid", odds, named=("probabilities",))
    graph.output("probabilities", graph.number, len(model.intercept_))


def _add_top(graph: _Graph, k: int, unseen: Any, classes: Any) -> None:
    """Add the k best labels; TopK itself prefers the first of equal ones."""
    ranked = "scores"
    if unseen.any():  # nothing is known about them: they come last, whatever their score
        ranked = graph.node("Where", graph.constant(unseen), graph.constant(-np.inf), "scores")
    graph.node("TopK", ranked, graph.constant(np.array([k])), named=("top_ranked", "top_indices"))
    graph.node("GatherElements", "scores", "top_indices", named=("top_scores",), axis=1)
    named = classes.dtype.kind not in "iu"
    names = graph.constant(classes.astype(str) if named else classes.astype(np.int64))
    graph.node("Gather", names, "top_indices", named=("top_labels",))
    graph.output("top_indices", graph.types.INT64, k)
    graph.output("top_scores", graph.number, k)
    graph.output("top_labels", graph.types.STRING if named else graph.types.INT64, k)


def _transformed(graph: _Graph, step: Any, X: str) -> str:  # noqa: C901, PLR0912 - a case for each kind
    """Add what a transformer of scikit-learn does with numbers; return the name of its result."""

    def then(kind: str, value: Any) -> None:
        nonlocal X
        X = graph.node(kind, X, graph.constant(value))

    match step:
        case StandardScaler():
            if step.with_mean:
                then("Sub", step.mean_)
            if step.with_std:
                then("Div", step.scale_)
        case MaxAbsScaler() if not getattr(step, "clip", False):
            then("Div", step.scale_)
        case Normalizer():
            X = _of_length_one(graph, X, step.norm)
        case TfidfTransformer():
            if step.sublinear_tf:  # 0 for 0, and 1 + log x for x
                none = graph.node("Equal", X, graph.constant(0.0))
                logs = graph.node("Log", graph.node("Where", none, graph.constant(1.0), X))
                more = graph.node("Add", logs, graph.constant(1.0))
                X = graph.node("Where", none, graph.constant(0.0), more)
            if step.use_idf:
                then("Mul", step.idf_)
            X = X if step.norm is None else _of_length_one(graph, X, step.norm)
        case TruncatedSVD() | PCA():
            graph.reserve(step.components_.size)
            if isinstance(step, PCA):
                then("Sub", step.mean_)
            then("MatMul", step.components_.T)
            if getattr(step, "whiten", False):
                scale = np.sqrt(step.explained_variance_)
                then("Div", np.maximum(scale, np.finfo(scale.dtype).eps))
        case FeatureUnion() if not step.transformer_weights:
            kept = [transformers_in(one) for _, one in step.transformer_list if one != "drop"]
            X = graph.node("Concat", *(_all_transformed(graph, part, X) for part in kept), axis=1)
        case _:
            raise ValueError(
                f"ONNX cannot repeat {shown(step)}. Use a transformer that lrml.to_onnx names, or export the "
                "last step alone, and transform what it is given."
            )
    return X


def _all_transformed(graph: _Graph, steps: list[Any], X: str) -> str:
    """Add transformers one after the other."""
    for step in steps:
        X = _transformed(graph, step, X)
    return X


def _of_length_one(graph: _Graph, X: str, norm: str) -> str:
    """Divide rows by their norm; those without one stay."""
    kind, of = ("ReduceMax", graph.node("Abs", X)) if norm == "max" else (f"Reduce{norm.upper()}", X)
    length = graph.node(kind, of, axes=[1])
    least = 10 * float(np.finfo(str(graph.dtype)).eps)  # as in scikit-learn
    empty = graph.node("Less", length, graph.constant(least))
    return graph.node("Div", X, graph.node("Where", empty, graph.constant(1.0), length))


def _texts(graph: _Graph, vectorizer: Any) -> str:
    """Add scikit-learn's bag of words, as far as ONNX operators repeat it; return its name."""
    wanted = {"analyzer": "word", "strip_accents": None, "preprocessor": None, "tokenizer": None}
    wrong = [name for name, value in wanted.items() if getattr(vectorizer, name, value) != value]
    if getattr(vectorizer, "token_pattern", None) not in _LEAST_LETTERS:
        wrong.append("token_pattern")
    if type(vectorizer) not in (CountVectorizer, TfidfVectorizer) or wrong:
        values = "".join(f" with {name}={shown(getattr(vectorizer, name, None))}" for name in wrong)
        raise ValueError(
            f"ONNX cannot cut texts into words as {shown(vectorizer)}{values} does. Pass text=False "
            "(--no-text) for a graph that takes features, or fit with a TfidfVectorizer of words."
        )
    found = graph.input("text", graph.types.STRING, ["n"])
    stop_words = vectorizer.get_stop_words() or ()
    if vectorizer.lowercase:
        # Where no word needs it, no locale has to be installed beside "C", which every system has.
        locale = "C" if all(map(str.isascii, chain(vectorizer.vocabulary_, stop_words))) else "C.UTF-8"
        found = graph.node("StringNormalizer", found, case_change_action="LOWER", locale=locale)
    # What stands between words, for RE2: no letters, and stop words among them.
    gap = f"[^{_LETTERS}]+"
    if stops := "|".join(sorted(word for word in stop_words if re.fullmatch(r"\w+", word))):
        gap = f"{gap}(?:(?:{stops})(?:{gap}|$))*|^(?:(?:{stops})(?:{gap}|$))+"
    cut: dict[str, Any] = {
        "mark": 0,
        "mincharnum": _LEAST_LETTERS[vectorizer.token_pattern],
        "separators": [gap],
    }
    # The pad fills short rows of tokens; no token contains it.
    found = graph.node("Tokenizer", found, domain=_MICROSOFT, pad_value=" ", **cut)
    low, high = vectorizer.ngram_range
    pools: list[list[str]] = [[] for _ in range(high)]  # single words, then pairs, and so on
    columns: list[list[int]] = [[] for _ in range(high)]
    for ngram, column in vectorizer.vocabulary_.items():
        words = ngram.split(" ")
        pools[len(words) - 1] += words
        columns[len(words) - 1].append(column)
    counted: dict[str, Any] = {
        "min_gram_length": low,
        "max_gram_length": high,
        "max_skip_count": 0,
        "mode": "TF",
    }
    counted["ngram_counts"] = np.cumsum([0, *map(len, pools[:-1])]).tolist()
    counted |= {"ngram_indexes": [*chain(*columns)], "pool_strings": [*chain(*pools)]}
    counts = graph.node("TfIdfVectorizer", found, **counted)
    if graph.dtype != np.float32:
        counts = graph.node("Cast", counts, to=graph.number)
    if vectorizer.binary:
        counts = graph.node("Min", counts, graph.constant(1.0))
    return _transformed(graph, vectorizer._tfidf, counts) if hasattr(vectorizer, "_tfidf") else counts
