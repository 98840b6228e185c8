"""Files that are damaged, or made to do harm, are refused with a message, and nothing else happens."""

import copy
import io
import os
import pickle

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lrml
from forking import CAN_FORK, Program
from lrml import LRML, LRMLCV, MLFro, TextTagger
from lrml.estimators import LowRankModel
from lrml.storage import ModelFileError, read_header
from storage.forgery import Forgery
from storage.model_makers import MEMBERS, X, Y

KINDS = ["member", "search", "kernel", "pruned", "tagger", "pipeline"]


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
        "pruned": MLFro(1.0, prune=10).fit(X, Y),
        "tagger": TextTagger(MLFro(0.1), vectorizer=TfidfVectorizer()).fit(texts, tags),
        "pipeline": make_pipeline(StandardScaler(), MLFro(1.0)).fit(X, Y),
    }
    assert list(models) == KINDS
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


def test_other_files(load, tmp_path):
    """Neither unpickled nor unpacked: what is no file of ours is refused by its first bytes."""
    harmed, stream = tmp_path / "harmed", io.BytesIO()
    np.savez_compressed(stream, U=np.zeros(50_000_000, bool))  # a bomb
    others = [pickle.dumps(_Harm(harmed)), stream.getvalue(), skops.io.dumps(MLFro(1.0).fit(X, Y))]
    others += [safetensors.numpy.save({"U": X}), b"", b"{}", b"\0" * 8, b"\0" * 100, b"\xff" * 100]
    for content in others:
        with pytest.raises(ModelFileError):
            load(content)
    assert not harmed.exists()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="regular file"):
            lrml.load(path)
    with pytest.raises(FileNotFoundError):
        lrml.load(tmp_path / "absent.lrml")


@given(data=st.data())
def test_damage_is_noticed(data, contents, tmp_path_factory):
    """A file cut off anywhere, made longer, with a flipped bit, or with other bytes."""
    content = bytearray(contents[data.draw(st.sampled_from(KINDS))])
    header = 8 + int.from_bytes(content[:8], "little")
    place = data.draw(st.one_of(st.integers(0, header), st.integers(header, len(content) - 1)))
    match data.draw(st.sampled_from(["cut", "longer", "bit", "bytes"])):
        case "cut":
            changed = content[:place]
        case "longer":
            changed = content + bytes(place % 8 + 1)
        case "bit":
            changed = content[:]
            changed[place] ^= 1 << data.draw(st.integers(0, 7))
        case "bytes":
            new = data.draw(
                st.binary(min_size=1, max_size=4).filter(lambda new: content[place:][: len(new)] != new)
            )
            changed = content[:place] + new + content[place + len(new) :]
    path = tmp_path_factory.mktemp("damaged") / "file.lrml"
    path.write_bytes(changed)
    with pytest.raises(ModelFileError):
        lrml.load(path)


def _set(path, value):
    """Return a change that sets an entry of the document: "model.params.alpha"."""

    def change(forgery):
        *way, last = path.split(".")
        place = forgery.document
        for key in way:
            place = place[key]
        place[last] = value

    return change


def _tensor(name, make):
    """Return a change that puts another array in the place of a tensor."""

    def change(forgery):
        kinds = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}
        entry = forgery.header[name]
        old = np.frombuffer(
            forgery.data[slice(*entry["data_offsets"])],
            {"F64": "<f8", "I64": "<i8", "I32": "<i4"}.get(entry["dtype"], "u1"),
        )
        array = make(old.copy()) if callable(make) else make
        forgery.replace(name, array.tobytes(), kinds[array.dtype.str], list(array.shape))

    return change


def _declare(name, **entries):
    return lambda forgery: forgery.header[name].update(entries)


def _raw(text):
    return lambda forgery: setattr(forgery, "raw_document", text)


def _all(*changes):
    return lambda forgery: [change(forgery) for change in changes]


def _at(places, value):
    def change(array):
        array[places] = value
        return array

    return change


_FIT, _WORDS, _LABELS = (
    "model.fitted.fitted_.fields",
    "model.fitted.vectorizer_",
    "model_.fitted_.schema.label_names",
)
_X_FIT, _INT = "fitted_.X_fit", np.iinfo(np.int64)
_NAN, _SYSTEM = np.array([0.0, np.nan, 0.0, 0.0]), "os.system"
_DEEP = "[" * 100_000 + "]" * 100_000
_EMPTY_LISTS = '{"model":[' + "[]," * 10_000_000 + "[]]}"
_WIDE = _all(
    _tensor(_LABELS, np.frombuffer(b"a" * 100_000 + b"\xff" * 1_000_000, np.uint8)),
    lambda f: f.model["fitted"]["model_"]["fitted"]["fitted_"]["fields"]["schema"]["fields"][
        "label_names"
    ].update({"as": "str"}),
)
_OTHER = np.ones((7, 2))
FORGERIES = {
    "member": {
        # Sizes, which the library of the format checks.
        "huge shape": _declare("fitted_.factors.U", shape=[1 << 40, 1 << 40]),
        "huge shape of nothing": _declare("fitted_.factors.U", shape=[1 << 62, 0]),
        "negative side": _declare("fitted_.intercept", shape=[-4]),
        "three sides": _declare("fitted_.intercept", shape=[1, 1, 4]),
        "overlap": _declare("fitted_.intercept", data_offsets=[0, 32]),
        "offsets beyond": _declare("fitted_.intercept", data_offsets=[1 << 50, (1 << 50) + 32]),
        "type strange": _declare("fitted_.intercept", dtype=["F64"]),
        # JSON.
        "repeated key": _raw('{"kind":1,"kind":2}'),
        "deep nesting": _raw('{"model":' + _DEEP + "}"),
        "NaN": _raw('{"model": NaN}'),
        "long number": _raw('{"model": ' + "9" * 5000 + "}"),
        "document is a list": _raw("[]"),
        "no format": lambda f: f.document.pop("format"),
        # What is named.
        "class": _set("model.kind", _SYSTEM),
        "record": _set("model.fitted.fitted_.record", _SYSTEM),
        "unknown parameter": _set("model.params.func", _SYSTEM),
        "parameter out of range": _set("model.params.alpha", -1.0),
        "parameter of another type": _set("model.params.theta", {"dict": {}}),
        "parameter kind": _set("model.params.callback", {"function": _SYSTEM}),
        "parameter kernel": _set("model.params.kernel", _SYSTEM),
        "type of the system": _set("model.params.callback", {"type": "object"}),
        "method": _set("model.fitted.predict", 1),
        "property": _set("model.fitted.coef_", 1),
        "dunder": _set("model.fitted.__class__", "x"),
        "fit that is none": _set("model.fitted.fitted_", 1),
        "part of a fit": _set(f"{_FIT}.predict", 1),
        "tensor that is gone": _set(f"{_FIT}.intercept", {"array": "gone"}),
        "tensor named by a list": _set(f"{_FIT}.intercept", {"transposed": ["gone"]}),
        # What does not fit together.
        "U of other rows": _tensor("fitted_.factors.U", _OTHER),
        "V of other rank": _tensor("fitted_.factors.V", np.ones((9, 9))),
        "s of two sides": _tensor("fitted_.factors.s", np.ones((2, 2))),
        "s negative": _tensor("fitted_.factors.s", np.negative),
        "intercepts of others": _tensor("fitted_.intercept", np.ones(5)),
        "intercepts not finite": _tensor("fitted_.intercept", _NAN),
        "intercepts of whole numbers": _tensor("fitted_.intercept", np.ones(4, np.int64)),
        "truth of numbers": _tensor("fitted_.unseen", np.full(4, 2, np.uint8)),
        "byte of 2 for truth": lambda f: f.replace("fitted_.unseen", bytes([2, 0, 0, 0])),
        "product that is not finite": _all(
            _tensor("fitted_.factors.s", lambda s: np.full_like(s, 1e300)),
            _tensor("fitted_.factors.U", lambda U: np.full((6, len(U) // 6), 1e300)),
        ),
        "features of others": _set(f"{_FIT}.schema.fields.n_features", 1 << 40),
        "labels of others": _set(f"{_FIT}.schema.fields.n_labels", 5),
        "a matrix that passes for one label": _set(f"{_FIT}.schema.fields.flat", True),
        "features missing": lambda f: f.fields["schema"]["fields"].pop("n_features"),
        "factors missing": lambda f: f.fields.pop("factors"),
        "a number that is text": _set(f"{_FIT}.objective", "1.0"),
        "loss": _set(f"{_FIT}.loss_name", _SYSTEM),
        "threshold of others": _tensor("params.threshold", np.ones(3)),
        "threshold not finite": _tensor("params.threshold", _NAN),
        "sizes in the header": _set("n_labels", 5),
        "kernel": _set(f"{_FIT}.kernel", {"record": "Kernel", "fields": {"metric": "rbf"}}),
        "kernel unknown": _set(f"{_FIT}.kernel", {"record": "Kernel", "fields": {"metric": _SYSTEM}}),
    },
    "search": {
        "no member": _set("model.fitted.best_estimator_.kind", "PCA"),
        "fits of other sizes": _set("model.fitted.best_estimators_", {"dict": {"a": 1}}),
    },
    "kernel": {
        "indices beyond": _tensor(f"{_X_FIT}.indices", lambda old: old.astype(np.int64) + 1000),
        "indices below": _tensor(f"{_X_FIT}.indices", lambda old: old.astype(np.int64) - 1000),
        "rows that fall": _tensor(f"{_X_FIT}.indptr", _at([1, 2], [12, 6])),
        "rows that wrap": _tensor(
            f"{_X_FIT}.indptr", lambda old: _at([1, 2, 3], [_INT.max, _INT.min, -1])(old.astype(np.int64))
        ),
        "rows not finite": _tensor(f"{_X_FIT}.data", lambda old: np.full_like(old, np.nan)),
        "shape": lambda f: f.fields["X_fit"].update(sparse=[60, 1 << 40]),
        "sides": lambda f: f.fields["X_fit"].update(sparse=[60]),
    },
    "pruned": {
        "indices beyond": _tensor("fitted_.weights.indices", lambda old: old + 4),
        "coefficients not finite": _tensor("fitted_.weights.data", lambda old: np.full_like(old, np.inf)),
        "features of others": _set(f"{_FIT}.weights.sparse", [6, 5]),
        "no coefficients": lambda f: f.fields.pop("weights"),
        "dense coefficients": _set(f"{_FIT}.weights", {"array": "fitted_.weights.data"}),
        "of a kernel": _set(f"{_FIT}.kernel", {"record": "Kernel", "fields": {"metric": "precomputed"}}),
        "two forms": _set(
            f"{_FIT}.factors",
            {"record": "Factors", "fields": {part: {"array": "fitted_.intercept"} for part in "UsV"}},
        ),
    },
    "tagger": {
        "vectorizer": _set(f"{_WORDS}.kind", "FunctionTransformer"),
        "vectorizer that reads files": _set(f"{_WORDS}.params.input", "filename"),
        "pattern that is none": _set(f"{_WORDS}.params.token_pattern", "("),
        "tokenizer": _set(f"{_WORDS}.params.tokenizer", _SYSTEM),
        "lengths of n-grams": _set(f"{_WORDS}.params.ngram_range", {"tuple": [1, 1.5]}),
        "type of the vectorizer": _set(f"{_WORDS}.params.dtype", "float64"),
        "a vectorizer that takes no texts": lambda f: f.model["fitted"].update(
            vectorizer_=f.model["fitted"]["vectorizer_"]["fitted"]["_tfidf"]
        ),
        "vocabulary with gaps": _set(f"{_WORDS}.fitted.vocabulary_", {"dict": {"a": 0, "b": 5}}),
        "vocabulary of others": _set(f"{_WORDS}.fitted.vocabulary_", {"dict": {"a": 0, "b": 1}}),
        "texts not UTF-8": _tensor(_LABELS, np.array([254, 255] * 3, np.uint8)),
        "texts without an end": _tensor(_LABELS, lambda old: old[:-1]),
        "texts that need much room": _WIDE,
    },
    "pipeline": {
        "no columns": lambda f: f.model["params"]["steps"][0]["tuple"][1]["fitted"].update(
            n_features_in_=1 << 40
        ),
        "other columns": lambda f: f.model["params"]["steps"][0]["tuple"][1]["fitted"].update(
            n_features_in_=5
        ),
    },
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in FORGERIES for name in FORGERIES[kind]])
def test_forged(kind, name, contents, load):
    forgery = Forgery.of(contents[kind])
    load(forgery.bytes())  # the forger's checksum is right
    FORGERIES[kind][name](forgery)
    with pytest.raises(ModelFileError):
        load(forgery.bytes())


def test_another_version(contents, load, tmp_path):
    """Another format names the version to install, and a missing parameter has its default."""
    forgery = Forgery.of(contents["member"])
    del forgery.model["params"]["verbose"]
    assert load(forgery.bytes()).verbose == 0
    forgery.document |= {"format": "2", "lrml_version": "9.1.0"}
    for reading in (load, lambda _: read_header(tmp_path / "file.lrml")):
        with pytest.raises(ModelFileError, match=r"9\.1\.0"):
            reading(forgery.bytes())


def test_no_coefficients_of_a_declared_size_without_numbers(contents, load):
    """A model of rank 0 has no numbers for its features, so these must cost nothing."""
    forgery, features = Forgery.of(contents["member"]), 1 << 40
    forgery.replace("fitted_.factors.U", b"", shape=[features, 0])
    forgery.replace("fitted_.factors.s", b"", shape=[0])
    forgery.replace("fitted_.factors.V", b"", shape=[0, 4])  # transposed
    forgery.fields["schema"]["fields"]["n_features"] = features
    forgery.document |= {"rank": 0, "n_features": features}
    assert load(forgery.bytes()).n_features_in_ == features


@pytest.mark.parametrize("summary", [{"numbers": list(range(600_000))}, {"text": "x" * (33 << 20)}])
def test_what_could_not_be_read_again_is_not_written(summary, tmp_path):
    with pytest.raises(ValueError, match="summary"):
        lrml.save(MLFro(1.0).fit(X, Y), tmp_path / "model.lrml", summary=summary)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_memory_stays_near_the_size_of_the_file(contents, tmp_path):
    """Bombs of every sort, loaded by a process that may not take more than a few hundred megabytes."""
    bombs = []
    for change in (
        _declare("fitted_.factors.U", shape=[1 << 24, 1 << 20]),
        _declare("fitted_.factors.U", shape=[1 << 47, 0]),
        _raw('{"model":' + _DEEP + "}"),
        _raw(_EMPTY_LISTS),
    ):
        forgery = Forgery.of(contents["member"])
        change(forgery)
        bombs.append(forgery.bytes())
    forgery = Forgery.of(contents["tagger"])
    _WIDE(forgery)
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
            st.sampled_from(["dict", "array", "texts", "as", "tuple", "kind", "record", "sparse", "type"]),
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
    kind = data.draw(st.sampled_from(KINDS))
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
    assert type(model).__name__ in ("LRML", "LRMLCV", "MLFro", "TextTagger", "Pipeline")
    with np.errstate(all="ignore"):
        rows = ["red sky"] if kind == "tagger" else np.zeros((1, model.n_features_in_))
        assert np.shape(model.decision_function(rows)) == (1, len(model.classes_))


def test_names_of_the_makers_are_all_covered():
    """Every class that can be saved is among those that the round trip saves."""
    public = [getattr(lrml, name) for name in lrml.__all__]
    known = {one for one in public if isinstance(one, type) and issubclass(one, LowRankModel)}
    assert {type(model) for model in MEMBERS.values()} == known
