"""Portable modules stay portable: by their source, and by what a fit on a device copies to the host."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import lrml
import lrml.solvers.alternating
from lrml import LEML, LRML, LRMLCV, MLFro, MLTrace
from lrml.core import arrays as _arrays
from namespaces import assert_same, dispatching, place_named, places, put
from portability import findings, function_names

ROOT = Path(lrml.__file__).parent
# Modules whose arrays may live on a device, with their functions that see NumPy arrays only.
PORTABLE = {
    "core/kernels.py": ("leading_coordinates", "_ritz_pairs"),  # a device decomposes the whole kernel
    "core/losses.py": ("_signs",),
    "metrics.py": ("propensity_scored_precision_at_k",),
    "core/penalties.py": ("noise_of",),  # the median of a vector
    "core/spectra.py": (),
    # Subspaces are the host's.
    "core/coordinates.py": (
        *("_by_columns", "missed", "without_subspace", "_weighing", "road_of", "_estimated"),
    ),
    # Products with large matrices are the host's.
    "core/linalg.py": (
        *("NormalOperator", "ConjugateGradients", "_Shifted", "powered", "leading_directions"),
        *("solve_shifted", "tall_svd", "column_sums", "ratio", "taken", "zero"),
    ),
    "core/quadratic.py": (),
    "core/loss_problem.py": ("rounding", "_pass", "scores_of", "_loss_sums"),  # rows have a method "sum"
    "core/rows.py": ("added", "some", "absorb", "of"),
    "core/moments.py": ("from_arrays", "without_means", "to_arrays"),  # sparse matrices, and files
    "estimators/_kernels.py": ("__call__",),
    "estimators/_loo.py": (),
    "estimators/_defaults.py": ("_by_gcv", "noise_along", "loss_scale", "elbow"),
    "estimators/_fit.py": (),
    "estimators/label_space.py": (),
    "estimators/leml.py": (),
    "estimators/lrml.py": (),
    "estimators/path.py": ("as_dict", "alpha_max"),
    "solvers/_gaps.py": (),
    "solvers/_loop.py": ("as_dict",),
    "solvers/_solve.py": (),
    "solvers/alternating.py": ("__init__", "_combination"),  # the small Gram matrix
    "solvers/first_order.py": (),
    "solvers/proximal_newton.py": ("start",),
}


@pytest.mark.parametrize("module", PORTABLE)
def test_portable_modules_use_the_standard(module):
    source = (ROOT / module).read_text(encoding="utf8")
    host_functions = PORTABLE[module]
    assert findings(source, host_functions) == []
    assert set(host_functions) <= function_names(source), "a name in the list is not in the module"


@pytest.mark.parametrize(
    ("snippet", "rule"),
    [
        ("n = image.size", "size"),
        ("a = xp.zeros((3, 2), dtype=x.dtype)", "device"),
        ("a = xp.asarray(weights)", "device"),
        ("a = namespace(x).eye(3)", "device"),
        ("a = place.xp.arange(3)", "device"),
        ("a = xp.linspace(0, 1, 5, dtype=x.dtype)", "device"),
        ("a = xp.sqrt(x, out=x)", "out"),
        ("a = xp.linalg.matmul(x, y, out=z)", "out"),
        ("a = np.sum(x)", "numpy"),
        ("a = np.linalg.norm(x)", "numpy"),
        ("a = scipy.linalg.eigh(x)", "numpy"),
        ("a = x.sum(axis=0)", "method"),
        ("a = (x * y).max()", "method"),
        ("a = x[0].astype(dtype)", "method"),
        ("a = f(x).reshape(-1)", "method"),
        ("a = np.sum(x) if is_device(x) else xp.sum(x)", "numpy"),
        ("a = xp.sum(x) if is_host(x) else np.sum(x)", "numpy"),
        ("if not is_host(x):\n    a = x.mean()", "method"),
        ("if is_host(x) or small:\n    a = np.mean(x)", "numpy"),
        ("def f(x):\n    if is_sparse(x):\n        return x.sum()\n    return np.sum(x)", "numpy"),
    ],
)
def test_planted_mistakes_are_found(snippet, rule):
    assert [found.rule for found in findings(snippet)] == [rule]


@pytest.mark.parametrize(
    "snippet",
    [
        "n = math.prod(x.shape)",
        "a = xp.zeros(3, dtype=x.dtype, device=x.device)",
        "a = xp.zeros_like(x)",
        "a = xp.asarray(x, copy=True)",
        "a = place.zeros(3)",
        "a = xp.sum(x, axis=0)",
        "a = place.xp.max(x)",
        "a = namespace(x).any(x > 0)",
        "a = xp.linalg.vector_norm(x)",
        "def f(x: npt.NDArray[np.float64]) -> None: ...",
        "with np.errstate(over='ignore'):\n    y = x * x",
        "a = np.sum(x) if is_host(x) else xp.sum(x)",
        "if is_sparse(x):\n    x = x.astype(float)",
        "if not isinstance(x, np.ndarray):\n    x = xp.abs(x)\nelse:\n    x = np.abs(x)",
        "total = self.rows.sum(function)",
        "few = to_numpy(x).tolist()",
        "if is_host(x) and large:\n    x.sum(axis=0)",
        "if not place.is_host:\n    a = xp.sum(x)\nelse:\n    a = x.sum()",
        "def f(x):\n    if not is_host(x):\n        return xp.sum(x)\n    return x.sum()",
        "def f(x):\n    if not is_host(x):\n        with g():\n            return h(x)\n    return x.sum()",
        "a = 'x'.join(names)",
    ],
)
def test_portable_code_passes(snippet):
    assert findings(snippet) == []


def test_host_functions_are_left_out():
    source = "class A:\n    def f(self, x):\n        np.sum(x)\n    def g(self, x):\n        np.max(x)\n"
    assert [found.text for found in findings(source, ["f"])] == ["np.max"]
    assert function_names(source) == {"A", "f", "g"}


@pytest.fixture
def copied(monkeypatch):
    """Copies from a device to the host, as (name of the calling module, shape)."""
    seen = []
    original = _arrays.to_numpy

    def counting(array):
        found = original(array)
        if found is not array:
            seen.append((sys._getframe(1).f_globals["__name__"], found.shape))
        return found

    for name, module in list(sys.modules.items()):
        if name.startswith("lrml") and getattr(module, "to_numpy", None) is original:
            monkeypatch.setattr(module, "to_numpy", counting)
    return seen


# No feature and no label has so few numbers as one row of Anderson's Gram matrix.
ROWS, FEATURES, LABELS = 150, 40, 30


@pytest.mark.parametrize("place", places("strict-device1", "torch-cpu"), indirect=True)
@pytest.mark.parametrize(
    "model", [LRML(alpha=1.0), LRML(3, 5.0, ridge=0.1), MLTrace(5.0), MLFro(1.0)], ids=str
)
def test_a_fit_copies_numbers_and_rows_of_andersons_gram_matrix_only(place, copied, model):
    """`float(x)` of a single number is not counted here; on "device1" nothing else gets to the host."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    Y = (X[:, :5] @ rng.normal(size=(5, LABELS)) + rng.normal(size=(ROWS, LABELS)) > 1).astype(float)
    with dispatching():
        model = clone(model).fit(put(place, X), put(place, Y))
    assert {module for module, _ in copied} <= {"lrml.solvers.alternating"}
    assert all(len(shape) == 1 and shape[0] < LABELS for _, shape in copied)
    assert len(copied) <= 2 * model.n_iter_
    expected = clone(model).fit(X, Y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert_same(model.coef_, expected.coef_, place, rtol=1e-5)


@pytest.mark.parametrize("place", places("strict-device1"), indirect=True)
@pytest.mark.parametrize(
    "model",
    [
        LRML(loss="logistic"),
        MLFro(loss="squared_hinge"),
        LEML(5),
        LEML(5, loss="logistic"),
        LRMLCV(thetas=[3], random_state=0),
        LRML(3, 1.0, ridge=0.1, kernel="rbf"),
    ],
    ids=str,
)
def test_other_fits_and_searches_copy_vectors_but_never_a_matrix(place, copied, model):
    """Strengths that follow the data, and what a search compares, are found from a few vectors."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 12))
    Y = (X[:, :5] @ rng.normal(size=(5, 6)) + rng.normal(size=(80, 6)) > 1).astype(float)
    with dispatching():
        found = clone(model).fit(put(place, X), put(place, Y))
    assert all(len(shape) <= 1 for _, shape in copied)
    assert found.objective_ == pytest.approx(clone(model).fit(X, Y).objective_, rel=1e-4)


def test_the_count_sees_copies(copied):
    """Guards the test above: a copy in the midst of a fit would be seen."""
    there = put(place_named("strict-device1"), np.zeros((LABELS, 2)))
    lrml.solvers.alternating.to_numpy(there)
    _arrays.HOST.asarray(there)
    _arrays.HOST.asarray(np.zeros(3))
    assert [shape for _, shape in copied] == [(LABELS, 2)] * 2
