"""Files that are damaged, or made to do harm, are refused with a message, and nothing else happens."""

import copy
import gzip
import io
import json
import os
import pickle
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
from forking import CAN_FORK, Program
from lrml import LRML, LRMLCV, MLFro, TextTagger
from lrml.cli import main
from lrml.estimators import LowRankModel
from lrml.storage import ModelFileError, read_header
from storage.forgery import Forgery
from storage.model_makers import MEMBERS, X, Y


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
        "search": LRMLCV(thetas=[0, 1], alphas=[0.1, 1.0], ridges=[0.1], cv=2, random_state=0).fit(X, Y),
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
    with pytest.raises(ModelFileError, match="no model file"):
        load(content)
    assert not harmed.exists()
    assert [one.name for one in tmp_path.iterdir()] == ["file.lrml"]


@pytest.mark.parametrize("kind", [b"", b"{}", b"\0" * 8, b"\0" * 100, b"\xff" * 100, b"lrml" * 10])
def test_rubbish(kind, load):
    with pytest.raises(ModelFileError):
        load(kind)


def test_safetensors_of_others(load):
    with pytest.raises(ModelFileError, match="no model of lrml"):
        load(safetensors.numpy.save({"U": X}))


def test_not_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="regular file"):
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
    with pytest.raises(ModelFileError):
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


_FIT = "model.fitted.fitted_.fields"
_NAN = np.array([0.0, np.nan, 0.0, 0.0])
_DEEP = "[" * 100_000 + "]" * 100_000
_EMPTY_LISTS = '{"model":[' + "[]," * 10_000_000 + "[]]}"
FORGERIES = {
    # Sizes, which the library of the format checks.
    "huge shape": (_declare("fitted_.factors.U", shape=[1 << 40, 1 << 40]), "no model file"),
    "huge shape of nothing": (_declare("fitted_.factors.U", shape=[1 << 62, 0]), "no model file"),
    "negative side": (_declare("fitted_.intercept", shape=[-4]), "no model file"),
    "three sides": (_declare("fitted_.intercept", shape=[1, 1, 4]), "fitted_.intercept"),
    "overlap": (_declare("fitted_.intercept", data_offsets=[0, 32]), "no model file"),
    "wrong length": (_declare("fitted_.intercept", data_offsets=[0, 8]), "no model file"),
    "offsets beyond": (
        _declare("fitted_.intercept", data_offsets=[1 << 50, (1 << 50) + 32]),
        "no model file",
    ),
    "type unknown": (_declare("fitted_.unseen", dtype="I8"), "of type I8"),
    "type strange": (_declare("fitted_.intercept", dtype=["F64"]), "no model file"),
    "entry strange": (lambda f: f.header.update({"fitted_.intercept": [1]}), "no model file"),
    "name like a path": (_rename("fitted_.intercept", "../../etc/passwd"), "fitted_.intercept"),
    "unused tensor": (
        lambda f: f.header.update(more={"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}),
        "'more' is not used",
    ),
    # JSON.
    "repeated key in the document": (lambda f: setattr(f, "raw_document", '{"kind":1,"kind":2}'), "twice"),
    "deep nesting": (lambda f: setattr(f, "raw_document", '{"model":' + _DEEP + "}"), "too deep"),
    "document of NaN": (lambda f: setattr(f, "raw_document", '{"model": NaN}'), "number NaN"),
    "long number": (lambda f: setattr(f, "raw_document", '{"model": ' + "9" * 5000 + "}"), "not JSON"),
    "document is a list": (lambda f: setattr(f, "raw_document", "[]"), "no document"),
    "no format": (lambda f: f.metadata.pop("format"), "no document"),
    # What is named.
    "class of another library": (_set("model.kind", "os.system"), "os.system"),
    "private kind": (_set("model.kind", "__class__"), "__class__"),
    "record of another library": (_set("model.fitted.fitted_.record", "os.system"), "os.system"),
    "unknown parameter": (_set("model.params.func", "os.system"), "func"),
    "parameter out of range": (_set("model.params.alpha", -1.0), "alpha"),
    "parameter of another type": (_set("model.params.theta", {"dict": {}}), "theta"),
    "parameter kind unknown": (_set("model.params.callback", {"function": "os.system"}), "no known kind"),
    "parameter kernel": (_set("model.params.kernel", "os.system"), "kernel"),
    "type of the system": (_set("model.params.callback", {"type": "object"}), "'object'"),
    "scalar too large": (_set("model.params.alpha", {"scalar": ["int8", 1000]}), "1000"),
    "unknown attribute": (_set("model.fitted.predict", 1), "'predict'"),
    "attribute beside the fit": (_set("model.fitted.predict_", 1), "predict_"),
    "attribute that is read from the fit": (_set("model.fitted.coef_", 1), "'coef_'"),
    "dunder attribute": (_set("model.fitted.__class__", "x"), "'__class__'"),
    "fit that is none": (_set("model.fitted.fitted_", 1), "fitted_"),
    "unknown part of a fit": (_set(f"{_FIT}.predict", 1), "predict"),
    "tensor that is not there": (_set(f"{_FIT}.intercept", {"array": "gone"}), "'gone'"),
    "tensor named by a list": (_set(f"{_FIT}.intercept", {"transposed": ["gone"]}), "not sound"),
    # What does not fit together.
    "U of other rows": (_tensor("fitted_.factors.U", np.ones((7, 2))), "factors"),
    "V of other rank": (_tensor("fitted_.factors.V", np.ones((9, 9))), "factors"),
    "s of two sides": (_tensor("fitted_.factors.s", np.ones((2, 2))), "factors"),
    "s negative": (lambda f: _tensor("fitted_.factors.s", -np.ones(_rank(f)))(f), "factors"),
    "intercepts of others": (_tensor("fitted_.intercept", np.ones(5)), "intercept"),
    "intercepts not finite": (_tensor("fitted_.intercept", _NAN), "intercept"),
    "intercepts of whole numbers": (_tensor("fitted_.intercept", np.ones(4, np.int64)), "intercept"),
    "truth of 2": (_tensor("fitted_.unseen", np.full(4, 2, np.uint8)), "unseen"),
    "byte of 2 for truth": (lambda f: f.replace("fitted_.unseen", bytes([2, 0, 0, 0])), "unseen"),
    "product that is not finite": (
        lambda f: (
            _tensor("fitted_.factors.s", np.full(_rank(f), 1e300))(f),
            _tensor("fitted_.factors.U", np.full((6, _rank(f)), 1e300))(f),
        ),
        "factors",
    ),
    "features of others": (_set(f"{_FIT}.schema.fields.n_features", 1 << 40), "schema"),
    "labels of others": (_set(f"{_FIT}.schema.fields.n_labels", 5), "schema"),
    "features missing": (lambda f: f.fields["schema"]["fields"].pop("n_features"), "n_features"),
    "factors missing": (lambda f: f.fields.pop("factors"), "factors"),
    "loss unknown": (_set(f"{_FIT}.loss_name", "os.system"), "loss_name"),
    "threshold of others": (_tensor("params.threshold", np.ones(3)), "threshold"),
    "threshold not finite": (_tensor("params.threshold", _NAN), "threshold"),
    "sizes in the header": (_set("n_labels", 5), "header"),
    "history of unequal columns": (_tensor("fitted_.history.gap", np.ones(1)), "history"),
    "kernel beside a linear model": (
        _set(f"{_FIT}.kernel", {"record": "Kernel", "fields": {"metric": "rbf"}}),
        "X_fit",
    ),
    "kernel unknown": (
        _set(f"{_FIT}.kernel", {"record": "Kernel", "fields": {"metric": "os.system"}}),
        "kernel",
    ),
}


def _rank(forgery):
    return forgery.header["fitted_.factors.s"]["shape"][0]


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_members(name, contents, load):
    change, message = FORGERIES[name]
    forgery = Forgery.of(contents["member"])
    load(forgery.bytes())  # the forger's checksum is right
    change(forgery)
    with pytest.raises(ModelFileError, match=message):
        load(forgery.bytes())


_WORDS, _NAMES = "model.fitted.vectorizer_", "model_.fitted_.schema.label_names"
OTHER_FORGERIES = {
    "search in a search": (
        "search",
        lambda f: f.model["fitted"].update(best_estimator_=copy.deepcopy(f.model)),
        "no model",
    ),
    "no member": ("search", _set("model.fitted.best_estimator_.kind", "PCA"), "PCA|not sound"),
    "table of unequal columns": (
        "search",
        _set("model.fitted.cv_results_", {"dict": {"a": [1], "b": []}}),
        "cv_results_",
    ),
    "indices beyond": ("kernel", lambda f: _shift(f, "fitted_.X_fit.indices", 1000), "sound sparse matrix"),
    "indices below": ("kernel", lambda f: _shift(f, "fitted_.X_fit.indices", -1000), "sound sparse matrix"),
    "rows that fall": ("kernel", lambda f: _swap(f, "fitted_.X_fit.indptr"), "sound sparse matrix"),
    "rows that wrap": ("kernel", lambda f: _wrap(f, "fitted_.X_fit.indptr"), "sound sparse matrix"),
    "rows not finite": ("kernel", lambda f: _fill(f, "fitted_.X_fit.data", np.nan), "not finite"),
    "sparse shape": ("kernel", lambda f: f.fields["X_fit"]["sparse"].__setitem__(1, [60, 1 << 40]), "X_fit"),
    "sparse kind": ("kernel", lambda f: f.fields["X_fit"]["sparse"].__setitem__(0, "bsr"), "sound"),
    "vectorizer of another class": (
        "tagger",
        _set(f"{_WORDS}.kind", "FunctionTransformer"),
        "FunctionTransf",
    ),
    "vectorizer that reads files": ("tagger", _set(f"{_WORDS}.params.input", "filename"), "input='filename'"),
    "pattern that is none": ("tagger", _set(f"{_WORDS}.params.token_pattern", "("), "parameter of Tfidf"),
    "tokenizer": ("tagger", _set(f"{_WORDS}.params.tokenizer", "os.system"), "parameter of Tfidf"),
    "lengths of n-grams": (
        "tagger",
        _set(f"{_WORDS}.params.ngram_range", {"tuple": [1, 1.5]}),
        "ngram_range",
    ),
    "type of the vectorizer": ("tagger", _set(f"{_WORDS}.params.dtype", "float64"), "dtype"),
    "a vectorizer that takes no texts": (
        "tagger",
        lambda f: f.model["fitted"].update(vectorizer_=f.model["fitted"]["vectorizer_"]["fitted"]["_tfidf"]),
        "not sound",
    ),
    "vocabulary with gaps": (
        "tagger",
        _set(f"{_WORDS}.fitted.vocabulary_", {"dict": {"a": 0, "b": 5}}),
        "vocabulary_",
    ),
    "vocabulary of others": (
        "tagger",
        _set(f"{_WORDS}.fitted.vocabulary_", {"dict": {"a": 0, "b": 1}}),
        "weight per word",
    ),
    "texts that wrap": ("tagger", lambda f: _wrap(f, f"{_NAMES}.offsets"), "offsets"),
    "texts not UTF-8": (
        "tagger",
        lambda f: f.replace(f"{_NAMES}.bytes", b"\xff\xff\xff"),
        "utf-8",
    ),
    "texts that need much room": (
        "tagger",
        lambda f: (
            f.replace(f"{_NAMES}.bytes", b"a" * 1_000_000, shape=[1_000_000]),
            _tensor(f"{_NAMES}.offsets", np.r_[0, np.full(1_000_000, 1_000_000)])(f),
            f.model["fitted"]["model_"]["fitted"]["fitted_"]["fields"]["schema"]["fields"][
                "label_names"
            ].update({"as": "str"}),
        ),
        "'str'",
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


def test_another_format_names_the_version_to_install(contents, load, tmp_path):
    forgery = Forgery.of(contents["member"])
    forgery.metadata |= {"format": "2", "version": "9.1.0"}
    for reading in (load, lambda _: read_header(tmp_path / "file.lrml")):
        with pytest.raises(ModelFileError, match=r"format '2'.*9\.1\.0"):
            reading(forgery.bytes())


def test_a_missing_parameter_has_its_default(contents, load):
    forgery = Forgery.of(contents["member"])
    del forgery.model["params"]["verbose"]
    assert load(forgery.bytes()).verbose == 0


def test_no_coefficients_of_a_declared_size_without_numbers(contents, load):
    """A model of rank 0 has no numbers for its features, so these must cost nothing."""
    forgery = Forgery.of(contents["member"])
    features = 1 << 40
    forgery.replace("fitted_.factors.U", b"", shape=[features, 0])
    forgery.replace("fitted_.factors.s", b"", shape=[0])
    forgery.replace("fitted_.factors.V", b"", shape=[0, 4])  # transposed
    forgery.fields["schema"]["fields"]["n_features"] = features
    forgery.document |= {"rank": 0, "n_features": features}
    assert load(forgery.bytes()).n_features_in_ == features


def test_json_may_be_deep_but_not_deeper_than_it_can_be_read(contents, tmp_path, capsys):
    path = tmp_path / "model.lrml"
    for depth, refused in ((90, False), (100_000, True)):
        forgery = Forgery.of(contents["member"])
        forgery.document["summary"] = "HERE"
        forgery.raw_document = json.dumps(forgery.document).replace('"HERE"', "[" * depth + "]" * depth)
        path.write_bytes(forgery.bytes())
        if not refused:
            assert read_header(path)["summary"] == json.loads("[" * depth + "]" * depth)
            continue
        for reading in (read_header, lrml.load):
            with pytest.raises(ModelFileError, match="too deep"):
                reading(path)
        assert main(["inspect", str(path)]) == 2
        assert capsys.readouterr().err.startswith("lrml inspect: error: ")


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="summary"):
        lrml.save(MLFro(1.0).fit(X, Y), tmp_path / "model.lrml", summary={"numbers": list(range(600_000))})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_memory_stays_near_the_size_of_the_file(contents, tmp_path):
    """Bombs of every sort, loaded by a process that may not take more than a few hundred megabytes."""
    bombs = []
    for change in (
        _declare("fitted_.factors.U", shape=[1 << 24, 1 << 20]),
        _declare("fitted_.factors.U", shape=[1 << 47, 0]),
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
    done = Program(*paths, code=program).result()
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
            st.sampled_from(["dict", "array", "texts", "as", "scalar", "kind", "record", "sparse", "type"]),
            inner,
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
