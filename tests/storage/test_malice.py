"""Files that are damaged, or made to do harm, are refused with a message, and nothing else happens."""

import copy
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import joblib
import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

import lrml
from lrml import LRML, LRMLCV, MLFro, TextTagger
from lrml.cli import main
from lrml.estimators import LowRankModel
from lrml.storage import ModelFileError, read_header
from storage.forgery import Forgery
from storage.model_makers import MEMBERS, X, Y, assert_equal


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of sound files of several kinds."""
    folder = tmp_path_factory.mktemp("models")
    texts, tags = (
        ["red apple", "green apple", "blue sky", "red sky"] * 2,
        [["a"], ["a"], ["s"], ["s", "r"]] * 2,
    )
    models = {
        "member": LRML(1, 2.0, threshold=np.full(4, 0.5)).fit(X, Y),
        "search": LRMLCV([0, 1], [0.1, 1.0], [0.1], cv=2, random_state=0).fit(X, Y),
        "kernel": MLFro(1.0, kernel="rbf").fit(sp.csr_array(X), Y),
        "tagger": TextTagger(MLFro(0.1), vectorizer=TfidfVectorizer()).fit(texts, tags),
    }
    found = {}
    for name, model in models.items():
        lrml.save(model, folder / name)
        found[name] = (folder / name).read_bytes()
    return found


@pytest.fixture
def load(tmp_path):
    def read(content):
        path = tmp_path / "file.lrml"
        path.write_bytes(content)
        return lrml.load(path)

    return read


class _Harm:
    """What a pickle does when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def _zipped(content, name="model.npy"):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["pickle", "joblib", "npz", "skops", "bomb", "traversal", "gzip", "npy"])
def test_other_formats(kind, load, tmp_path):
    harmed, stream = tmp_path / "harmed", io.BytesIO()
    model = MLFro(1.0).fit(X, Y)
    content = {
        "pickle": lambda: pickle.dumps(_Harm(harmed)),
        "joblib": lambda: (joblib.dump(_Harm(harmed), stream), stream.getvalue())[1],
        "npz": lambda: (np.savez(stream, U=X), stream.getvalue())[1],
        "skops": lambda: skops.io.dumps(model),
        "bomb": lambda: _zipped(bytes(50_000_000)),
        "traversal": lambda: _zipped(b"x", "../../etc/passwd"),
        "gzip": lambda: gzip.compress(bytes(1000)),
        "npy": lambda: (np.save(stream, X), stream.getvalue())[1],
    }[kind]()
    with pytest.raises(
        ModelFileError, match=r"no model file of lrml.* must begin with the length of its header.*lrml.save"
    ):
        load(content)
    assert not harmed.exists()
    assert [one.name for one in tmp_path.iterdir()] == ["file.lrml"]


@pytest.mark.parametrize("kind", [b"", b"{}", b"\0" * 8, b"\0" * 100, b"\xff" * 100, b"lrml" * 10])
def test_rubbish(kind, load):
    with pytest.raises(ModelFileError):
        load(kind)


def test_safetensors_of_others(load):
    with pytest.raises(ModelFileError, match="must name its lrml_format, got a safetensors file without one"):
        load(safetensors.numpy.save({"U": X}))


def test_not_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="must be a regular file"):
            lrml.load(path)
    with pytest.raises(FileNotFoundError):
        lrml.load(tmp_path / "absent.lrml")


@pytest.mark.parametrize("kind", ["member", "search", "kernel", "tagger"])
def test_truncated_anywhere(kind, contents, load):
    content = contents[kind]
    header = 8 + int.from_bytes(content[:8], "little")
    random = np.random.default_rng(0)
    places = {
        0,
        1,
        7,
        8,
        9,
        header - 1,
        header,
        header + 1,
        len(content) - 1,
        *random.integers(0, len(content), 40),
    }
    for place in places:
        with pytest.raises(ModelFileError):
            load(content[:place])
    with pytest.raises(ModelFileError, match="too long"):
        load(content + b"\0")


@pytest.mark.parametrize("kind", ["member", "tagger"])
def test_every_flipped_bit_is_noticed(kind, contents, load):
    content = contents[kind]
    random = np.random.default_rng(0)
    header = 8 + int.from_bytes(content[:8], "little")
    bits = [
        *range(8 * 16),
        *random.integers(128, 8 * header, 250),
        *random.integers(8 * header, 8 * len(content), 150),
    ]
    for bit in bits:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ModelFileError):
            load(bytes(changed))


def _set(path, value):
    """Return a change that sets an entry of the document: "fitted.rank_"."""

    def change(forgery):
        *way, last = path.split(".")
        place = forgery.document
        for key in way:
            place = place[key]
        place[last] = value

    return change


def _tensor(name, array):
    def change(forgery):
        kinds = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}
        forgery.replace(name, array.tobytes(), kinds[array.dtype.str], list(array.shape))

    return change


def _declare(name, **entries):
    return lambda forgery: forgery.header[name].update(entries)


def _rename(old, new):
    def change(forgery):
        forgery.header[new] = forgery.header.pop(old)

    return change


_NAN = np.array([0.0, np.nan, 0.0, 0.0])
_DEEP = "[" * 100_000 + "]" * 100_000
_EMPTY_LISTS = '{"model":[' + "[]," * 10_000_000 + "[]]}"
FORGERIES = {
    # Sizes.
    "huge shape": (_declare("factors_.U", shape=[1 << 40, 1 << 40]), "at most 2 sides|must take"),
    "huge shape of nothing": (_declare("factors_.U", shape=[1 << 62, 0]), "sides that are counts"),
    "negative side": (_declare("intercept_", shape=[-4]), "sides that are counts"),
    "side that is true": (_declare("intercept_", shape=[True]), "sides that are counts"),
    "three sides": (_declare("intercept_", shape=[1, 1, 4]), "at most 2 sides"),
    "overlap": (_declare("intercept_", data_offsets=[0, 32]), "without gap or overlap"),
    "wrong length": (_declare("intercept_", data_offsets=[0, 8]), "must take 32 bytes"),
    "offsets beyond": (_declare("intercept_", data_offsets=[1 << 50, (1 << 50) + 32]), "must take"),
    "type unknown": (_declare("intercept_", dtype="F16"), "one of the types"),
    "type strange": (_declare("intercept_", dtype=["F64"]), "one of the types"),
    "entry strange": (lambda f: f.header.update(intercept_=[1]), "must have a dtype"),
    "name like a path": (_rename("intercept_", "../../etc/passwd"), "names of tensors must be"),
    "unused tensor": (
        lambda f: f.header.update(more={"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}),
        "must use all its tensors",
    ),
    # JSON.
    "repeated key": (lambda f: setattr(f, "prefix", '"intercept_":{},'), "twice"),
    "repeated key in the document": (lambda f: setattr(f, "raw_document", '{"kind":1,"kind":2}'), "twice"),
    "deep nesting": (lambda f: setattr(f, "raw_document", '{"model":' + _DEEP + "}"), "too deep"),
    "deep value": (
        lambda f: setattr(f, "raw_document", json.dumps(f.document)[:-1] + ', "x": ' + _DEEP + "}"),
        "too deep",
    ),
    "document of NaN": (lambda f: setattr(f, "raw_document", '{"model": NaN}'), "must be finite, got NaN"),
    "long number": (lambda f: setattr(f, "raw_document", '{"model": ' + "9" * 5000 + "}"), "must be JSON"),
    "document is a list": (lambda f: setattr(f, "raw_document", "[]"), "must be a JSON object"),
    "no document": (lambda f: f.metadata.update(lrml_format="x"), "a format such as 1.0"),
    # What is named.
    "class of another library": (_set("model.kind", "os.system"), "must name the kind"),
    "both kinds": (
        lambda f: (_set("model.kind", "os.system")(f), _set("kind", "os.system")(f)),
        "must be one of CPLST",
    ),
    "private kind": (
        lambda f: (_set("model.kind", "__class__")(f), _set("kind", "__class__")(f)),
        "must be one of",
    ),
    "unknown parameter": (_set("model.params.func", "os.system"), "parameters of LRML must be among alpha"),
    "parameter out of range": (_set("model.params.alpha", -1.0), "alpha must be finite and at least 0"),
    "parameter of another type": (_set("model.params.theta", {"dict": {}}), "theta must be an int"),
    "parameter kind unknown": (_set("model.params.callback", {"function": "os.system"}), "of a known kind"),
    "parameter kernel": (_set("model.params.kernel", "os.system"), "kernel must be one of"),
    "type of the system": (_set("model.params.callback", {"type": "object"}), "a type must be one of"),
    "scalar too large": (_set("model.params.alpha", {"scalar": ["int8", 1000]}), "within its range"),
    "unknown attribute": (_set("model.fitted.predict", 1), "predict of a LRML"),
    "dunder attribute": (_set("model.fitted.__class__", "x"), "__class__ of a LRML"),
    "attribute of a search": (_set("model.fitted.best_estimator_", {"kind": "LRML"}), "must be one of , got"),
    "tensor that is not there": (_set("model.fitted.intercept_", {"array": "gone"}), "every tensor"),
    "tensor named by a list": (_set("model.fitted.intercept_", {"transposed": ["gone"]}), "known kind"),
    # What does not fit together.
    "U of other rows": (_tensor("factors_.U", np.ones((7, 2))), "factors|one row per feature"),
    "V of other rank": (_tensor("factors_.V", np.ones((9, 9))), r"U \(d × k\), s \(k\) and V"),
    "s of two sides": (_tensor("factors_.s", np.ones((2, 2))), r"U \(d × k\), s \(k\) and V"),
    "s negative": (lambda f: _tensor("factors_.s", -np.ones(_rank(f)))(f), "at least 0"),
    "intercepts of others": (
        _tensor("intercept_", np.ones(5)),
        "intercept_ of a LRML with 6 features, 4 labels",
    ),
    "intercepts not finite": (_tensor("intercept_", _NAN), "intercept_ of a LRML"),
    "intercepts of whole numbers": (_tensor("intercept_", np.ones(4, np.int64)), "intercept_ of a LRML"),
    "truth of 2": (_tensor("unseen_labels_", np.full(4, 2, np.uint8)), "unseen_labels_"),
    "byte of 2 for truth": (
        lambda f: f.replace("unseen_labels_", bytes([2, 0, 0, 0])),
        "true and false only",
    ),
    "product that is not finite": (
        lambda f: (
            _tensor("factors_.s", np.full(_rank(f), 1e300))(f),
            _tensor("factors_.U", np.full((6, _rank(f)), 1e300))(f),
        ),
        "coefficients must be finite",
    ),
    "features of others": (_set("model.fitted.n_features_in_", 1 << 40), "one row per feature"),
    "features missing": (lambda f: f.fitted.pop("n_features_in_"), "must have n_features_in_"),
    "factors missing": (lambda f: f.fitted.pop("factors_"), "must have factors_"),
    "loss unknown": (_set("model.fitted.loss_", "os.system"), "loss_ of a LRML"),
    "threshold of others": (_tensor("params.threshold", np.ones(3)), "threshold"),
    "threshold not finite": (_tensor("params.threshold", _NAN), "threshold"),
    "sizes in the header": (_set("n_labels", 5), "sizes that its header names"),
    "history of unequal columns": (_tensor("history_.gap", np.ones(1)), "history_ of a LRML"),
    "kernel beside a linear model": (
        _set("model.fitted.kernel_", {"metric": "rbf", "gamma": None, "degree": 3, "coef0": 1}),
        "one row per feature",
    ),
    "kernel unknown": (
        _set("model.fitted.kernel_", {"metric": "os.system", "gamma": None, "degree": 3, "coef0": 1}),
        "must be a known kernel",
    ),
}


def _rank(forgery):
    return forgery.header["factors_.s"]["shape"][0]


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_members(name, contents, load):
    change, message = FORGERIES[name]
    forgery = Forgery.of(contents["member"])
    load(forgery.bytes())  # the forger's checksum is right
    change(forgery)
    with pytest.raises(ModelFileError, match=message):
        load(forgery.bytes())


def _search(place):
    return f"model.fitted.{place}"


OTHER_FORGERIES = {
    "search in a search": (
        "search",
        _set("model.fitted.best_estimator_.kind", "LRMLCV"),
        "must be one of LRML, got",
    ),
    "other member": (
        "search",
        _set("model.fitted.best_estimator_.kind", "MLFro"),
        "must be one of LRML, got",
    ),
    "table of unequal columns": (
        "search",
        _set("model.fitted.cv_results_", {"dict": {"a": [1], "b": []}}),
        "cv_res",
    ),
    "indices beyond": ("kernel", lambda f: _shift(f, "X_fit_.indices", 1000), "sound sparse matrix"),
    "indices below": ("kernel", lambda f: _shift(f, "X_fit_.indices", -1000), "sound sparse matrix"),
    "rows that fall": ("kernel", lambda f: _swap(f, "X_fit_.indptr"), "sound sparse matrix"),
    "rows that wrap": ("kernel", lambda f: _wrap(f, "X_fit_.indptr"), "sound sparse matrix"),
    "rows not finite": ("kernel", lambda f: _fill(f, "X_fit_.data", np.nan), "sound sparse matrix"),
    "sparse shape": (
        "kernel",
        lambda f: f.fitted["X_fit_"]["sparse"].__setitem__(1, [60, 1 << 40]),
        "X_fit_ of a MLFro",
    ),
    "sparse kind": ("kernel", lambda f: f.fitted["X_fit_"]["sparse"].__setitem__(0, "bsr"), "CSR or CSC"),
    "vectorizer of another class": (
        "tagger",
        _set("model.fitted.vectorizer_.kind", "FunctionTransformer"),
        "must be one of CountVectorizer",
    ),
    "vectorizer that reads files": (
        "tagger",
        _set("model.fitted.vectorizer_.params.input", "filename"),
        "must have input='content', got 'filename'",
    ),
    "pattern that is none": (
        "tagger",
        _set("model.fitted.vectorizer_.params.token_pattern", "("),
        "own checks",
    ),
    "tokenizer": ("tagger", _set("model.fitted.vectorizer_.params.tokenizer", "os.system"), "own checks"),
    "lengths of n-grams": (
        "tagger",
        _set("model.fitted.vectorizer_.params.ngram_range", {"tuple": [1, 1.5]}),
        "ngram_range must be two rising counts",
    ),
    "type of the vectorizer": (
        "tagger",
        _set("model.fitted.vectorizer_.params.dtype", "float64"),
        "dtype must be a NumPy type",
    ),
    "a vectorizer that takes no texts": (
        "tagger",
        lambda f: f.fitted.update(vectorizer_=f.fitted["vectorizer_"]["fitted"]["weights"]),
        "must hold a sound model",
    ),
    "vocabulary with gaps": (
        "tagger",
        _set("model.fitted.vectorizer_.fitted.vocabulary_", {"dict": {"a": 0, "b": 5}}),
        "must number its words",
    ),
    "vocabulary of others": (
        "tagger",
        _set("model.fitted.vectorizer_.fitted.vocabulary_", {"dict": {"a": 0, "b": 1}}),
        "one weight per word",
    ),
    "texts that wrap": ("tagger", lambda f: _wrap(f, "model_.classes_.offsets"), "offsets must rise"),
    "texts not UTF-8": ("tagger", lambda f: f.replace("model_.classes_.bytes", b"\xff\xff\xff"), "UTF-8"),
    "texts that need much room": (
        "tagger",
        lambda f: (
            f.replace("model_.classes_.bytes", b"a" * 1_000_000, shape=[1_000_000]),
            _tensor("model_.classes_.offsets", np.r_[0, np.full(1_000_000, 1_000_000)])(f),
            f.fitted["model_"]["fitted"]["classes_"].update({"as": "str"}),
        ),
        "list of texts",
    ),
}


def _numbers(forgery, name):
    entry = forgery.header[name]
    dtype = {"F64": "<f8", "I64": "<i8", "I32": "<i4"}[entry["dtype"]]
    return np.frombuffer(forgery.data[slice(*entry["data_offsets"])], dtype).copy()


def _shift(forgery, name, by):
    _tensor(name, _numbers(forgery, name) + by)(forgery)


def _swap(forgery, name):
    numbers = _numbers(forgery, name)
    numbers[[1, 2]] = numbers[[2, 1]]
    _tensor(name, numbers)(forgery)


def _wrap(forgery, name):
    numbers = _numbers(forgery, name).astype(np.int64)
    numbers[1] = np.iinfo(np.int64).max
    numbers[2] = np.iinfo(np.int64).min
    _tensor(name, numbers)(forgery)


def _fill(forgery, name, value):
    _tensor(name, np.full_like(_numbers(forgery, name), value))(forgery)


@pytest.mark.parametrize("name", OTHER_FORGERIES)
def test_forged_searches_kernels_and_taggers(name, contents, load):
    kind, change, message = OTHER_FORGERIES[name]
    forgery = Forgery.of(contents[kind])
    change(forgery)
    with pytest.raises(ModelFileError, match=message):
        load(forgery.bytes())


def test_a_newer_major_format_names_the_version_to_install(contents, load, tmp_path):
    forgery = Forgery.of(contents["member"])
    forgery.metadata |= {"lrml_format": "2.0", "lrml_version": "9.1.0"}
    message = r"reads model files of format 1, got 2.0, written by lrml '9.1.0'. Install that version"
    with pytest.raises(ModelFileError, match=message):
        load(forgery.bytes())
    with pytest.raises(ModelFileError, match=message):
        read_header(tmp_path / "file.lrml")


def test_a_newer_minor_format_is_read_without_what_is_new(contents, load):
    forgery = Forgery.of(contents["search"])
    expected = load(forgery.bytes())
    forgery.metadata["lrml_format"] = "1.7"
    forgery.document["news"] = {"of": "tomorrow"}
    forgery.model["params"]["brand_new"] = 1
    forgery.fitted["brand_new_"] = {"hologram": [1, 2]}
    forgery.header["brand_new_"] = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}
    assert_equal(load(forgery.bytes()), expected)


def test_a_missing_parameter_has_its_default(contents, load):
    forgery = Forgery.of(contents["member"])
    del forgery.model["params"]["verbose"]
    assert load(forgery.bytes()).verbose == 0


def test_no_coefficients_of_a_declared_size_without_numbers(contents, load):
    """A model of rank 0 has no numbers for its features, so these must cost nothing."""
    forgery = Forgery.of(contents["member"])
    features = 1 << 40
    forgery.replace("factors_.U", b"", shape=[features, 0])
    forgery.replace("factors_.s", b"", shape=[0])
    forgery.replace("factors_.V", b"", shape=[0, 4])  # transposed
    forgery.fitted.update(n_features_in_=features)
    forgery.document |= {"rank": 0, "n_features": features}
    assert load(forgery.bytes()).n_features_in_ == features


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}")])
def test_json_is_as_deep_as_it_may_be_and_no_deeper(opening, closing, contents, tmp_path, capsys):
    path = tmp_path / "model.lrml"
    for depth, message in ((90, None), (400, "may have 100 levels")):
        forgery = Forgery.of(contents["member"])
        nested = "".join([opening * depth, "1", closing * depth])
        forgery.document["summary"] = {"data": json.loads(nested)}
        forgery.model["params"]["callback"] = json.loads(nested)
        path.write_bytes(forgery.bytes())
        if message is None:
            assert read_header(path)["summary"] == forgery.document["summary"]
            continue
        for reading in (read_header, lrml.load):
            with pytest.raises(ModelFileError, match=message):
                reading(path)
        assert main(["inspect", str(path)]) == 2
        assert capsys.readouterr().err.startswith("lrml inspect: error: the document of a model file")


@pytest.mark.parametrize(
    "summary", [{"numbers": list(range(600_000))}, {"nested": json.loads("[" * 200 + "]" * 200)}]
)
def test_what_could_not_be_read_again_is_not_written(summary, tmp_path):
    with pytest.raises(ValueError, match=r"500,000 values and 100 levels.*Pass a shorter or flatter summary"):
        lrml.save(MLFro(1.0).fit(X, Y), tmp_path / "model.lrml", summary=summary)
    assert not list(tmp_path.iterdir())


def test_json_that_hides_its_brackets_is_counted_too(contents, load):
    forgery = Forgery.of(contents["member"])
    forgery.raw_document = '{"model":[' + "[]," * 600_000 + "[]]}"
    assert forgery.bytes().count(b"[") > 600_000
    hidden = json.dumps(forgery.raw_document).replace("[", "\\u005b").replace(",", "\\u002c")
    header = {"__metadata__": forgery.metadata | {"document": "HERE", "sha256": "0" * 64}} | forgery.header
    text = json.dumps(header).replace('"HERE"', hidden).encode()
    with pytest.raises(
        ModelFileError, match="the document of a model file may have 500,000 brackets and commas"
    ):
        load(len(text).to_bytes(8, "little") + text + forgery.data)


def test_memory_stays_near_the_size_of_the_file(contents, tmp_path):
    """Bombs of every sort, loaded by a process that may not take more than a few hundred megabytes."""
    bombs = []
    for change in (
        _declare("factors_.U", shape=[1 << 24, 1 << 20]),
        _declare("factors_.U", shape=[1 << 47, 0]),
        lambda f: setattr(f, "raw_document", '{"model":' + _DEEP + "}"),
        lambda f: setattr(f, "raw_document", _EMPTY_LISTS),
    ):
        forgery = Forgery.of(contents["member"])
        change(forgery)
        bombs.append(forgery.bytes())
    forgery = Forgery.of(contents["tagger"])
    OTHER_FORGERIES["texts that need much room"][1](forgery)
    bombs += [
        forgery.bytes(),
        (1 << 62).to_bytes(8, "little") + b"{}",
        (31 << 20).to_bytes(8, "little") + b"{}",
    ]
    for place, bomb in enumerate(bombs):
        (tmp_path / f"{place}.lrml").write_bytes(bomb)
    program = """
import resource, sys, lrml, lrml.storage
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (200 << 20),) * 2)
for path in sys.argv[1:]:
    try:
        lrml.load(path)
    except lrml.storage.ModelFileError:
        print("refused")
"""
    paths = [str(tmp_path / f"{place}.lrml") for place in range(len(bombs))]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * len(bombs)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["dict", "array", "texts", "as", "scalar", "x", "sparse", "type"]), inner
        )
    ),
    max_leaves=5,
)


def _places(document, way=()):
    """Every way to a value in a document."""
    yield way
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in children if isinstance(document, dict | list) else ():
        yield from _places(value, (*way, key)) if isinstance(value, dict | list) else [(*way, key)]


@given(data=st.data())
def test_random_changes_are_refused_or_harmless(data, contents, tmp_path_factory):
    """Whatever is put into the document or the numbers, a load refuses it or returns a model that works."""
    kind = data.draw(st.sampled_from(["member", "search", "kernel", "tagger"]))
    forgery = Forgery.of(contents[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        what = data.draw(st.sampled_from(["document", "header", "numbers"]))
        if what == "numbers":
            place = data.draw(st.integers(0, len(forgery.data) - 1))
            new = data.draw(st.binary(min_size=1, max_size=8))
            forgery.data = (forgery.data[:place] + new + forgery.data[place + len(new) :])[
                : len(forgery.data)
            ]
            continue
        root = forgery.document if what == "document" else forgery.header
        way = data.draw(st.sampled_from([one for one in _places(root) if one]))
        holder = root
        for key in way[:-1]:
            holder = holder[key]
        if data.draw(st.booleans()) and isinstance(holder, dict):
            del holder[way[-1]]
        else:
            holder[way[-1]] = copy.deepcopy(data.draw(_JSON))
    path = tmp_path_factory.mktemp("fuzz") / "file.lrml"
    path.write_bytes(forgery.bytes())
    try:
        model = lrml.load(path)
    except ModelFileError:
        return
    assert type(model).__name__ in ("LRML", "LRMLCV", "MLFro", "TextTagger")
    with np.errstate(all="ignore"):
        rows = ["red sky"] if kind == "tagger" else np.zeros((1, model.n_features_in_))
        assert np.shape(model.decision_function(rows)) == (1, len(model.classes_))


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=4)), min_size=1, max_size=3
    )
)
def test_random_bytes_are_refused_or_equal(changes, contents, tmp_path_factory):
    content = bytearray(contents["member"])
    for place, new in changes:
        start = place % (len(content) - len(new))
        content[start : start + len(new)] = new
    path = tmp_path_factory.mktemp("fuzz") / "file.lrml"
    path.write_bytes(content)
    if bytes(content) == contents["member"]:
        return
    with pytest.raises(ModelFileError):
        lrml.load(path)


def test_names_of_the_makers_are_all_covered():
    """Every class that can be saved is among those that the round trip saves."""
    public = [getattr(lrml, name) for name in lrml.__all__]
    known = {one for one in public if isinstance(one, type) and issubclass(one, LowRankModel)}
    assert {type(model) for model in MEMBERS.values()} == known
