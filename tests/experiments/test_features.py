"""Features of a protocol, against norms and kernels computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from lrml.datasets import MultiLabelDataset, load_yeast, make_low_rank_multilabel
from lrml.experiments import _features
from lrml.experiments._features import Arena, load_dataset, prepare

N_TRAIN, GAMMA = 30, 0.3
Use = Callable[[MultiLabelDataset], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Let every name be the given dataset."""

    def given(dataset: MultiLabelDataset) -> None:
        prepare.cache_clear()
        monkeypatch.setattr(_features, "load_dataset", lambda name: dataset)

    yield given
    prepare.cache_clear()


def small() -> MultiLabelDataset:
    dataset, _ = make_low_rank_multilabel(50, 6, 5, rank=2, cardinality=1.5, random_state=0)
    return replace(dataset, Y=dataset.Y.toarray(), n_train=N_TRAIN)


def with_other_test_rows(dataset: MultiLabelDataset) -> MultiLabelDataset:
    X = dataset.X.copy()
    X[N_TRAIN:] = np.random.default_rng(1).normal(size=X[N_TRAIN:].shape)
    return replace(dataset, X=X)


def unit_rows(X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.stack([row / np.sqrt((row**2).sum()) for row in X])


def rbf(A: npt.NDArray[np.float64], B: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([[np.exp(-GAMMA * ((a - b) ** 2).sum()) for b in B] for a in A])


def assert_same_train(first: Arena, second: Arena) -> None:
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.Y, second.Y)


def test_raw_features_are_left_alone(use: Use) -> None:
    dataset = small()
    use(dataset)
    arena = prepare("small", False, None, None, None)
    np.testing.assert_array_equal(arena.X, dataset.X[:N_TRAIN])
    np.testing.assert_array_equal(arena.X_test, dataset.X[N_TRAIN:])
    np.testing.assert_array_equal(arena.Y, dataset.Y[:N_TRAIN])
    np.testing.assert_array_equal(arena.Y_test, dataset.Y[N_TRAIN:])


def test_rows_of_unit_length(use: Use) -> None:
    dataset = small()
    use(dataset)
    arena = prepare("small", True, None, None, None)
    np.testing.assert_allclose(arena.X, unit_rows(dataset.X[:N_TRAIN]), rtol=1e-12)
    np.testing.assert_allclose((arena.X_test**2).sum(axis=1), 1.0, rtol=1e-12)


def test_with_all_rows_as_basis_kernel_features_give_the_kernel(use: Use) -> None:
    dataset = small()
    use(dataset)
    arena = prepare("small", True, GAMMA, N_TRAIN, 0)
    train, test = unit_rows(dataset.X[:N_TRAIN]), unit_rows(dataset.X[N_TRAIN:])
    np.testing.assert_allclose(arena.X @ arena.X.T, rbf(train, train), atol=1e-6)
    # Training and test rows are in one space: their products are the kernel between them.
    np.testing.assert_allclose(arena.X_test @ arena.X.T, rbf(test, train), atol=1e-6)


def test_fewer_components_approximate_the_kernel_from_below(use: Use) -> None:
    dataset = small()
    use(dataset)
    arena = prepare("small", True, GAMMA, 10, 0)
    assert arena.X.shape == (N_TRAIN, 10)
    train = unit_rows(dataset.X[:N_TRAIN])
    missing = rbf(train, train) - arena.X @ arena.X.T
    # What a projection leaves over is positive semidefinite; it vanishes on the ten rows of the basis.
    assert np.linalg.eigvalsh(missing).min() > -1e-8
    assert (np.diag(missing) < 1e-8).sum() >= 10
    assert 0 < np.linalg.norm(missing) < 0.1 * np.linalg.norm(rbf(train, train))


def test_the_seed_draws_the_basis(use: Use) -> None:
    use(small())
    first, again, other = (prepare("small", True, GAMMA, 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    assert np.abs(first.X - other.X).max() > 1e-3


@pytest.mark.parametrize(
    "how", [(False, None, None, None), (True, None, None, None), (True, GAMMA, 10, 0), (True, GAMMA, 30, 1)]
)
def test_no_test_row_influences_training_rows(
    how: tuple[bool, float | None, int | None, int | None], use: Use
) -> None:
    use(small())
    honest = prepare("small", *how)
    use(with_other_test_rows(small()))
    corrupted = prepare("small", *how)
    assert_same_train(honest, corrupted)
    assert np.abs(honest.X_test - corrupted.X_test).max() > 1e-3


def test_no_label_influences_features(use: Use) -> None:
    dataset = small()
    use(dataset)
    honest = prepare("small", True, GAMMA, 10, 0)
    use(replace(dataset, Y=1 - dataset.Y))
    np.testing.assert_array_equal(prepare("small", True, GAMMA, 10, 0).X, honest.X)


def test_sparse_features_give_the_same(use: Use) -> None:
    text, _ = make_low_rank_multilabel(50, 20, 5, rank=2, cardinality=1.5, density=0.3, random_state=0)
    text = replace(text, n_train=N_TRAIN)
    for how in ((True, None, None, None), (True, GAMMA, 10, 0)):
        use(text)
        of_sparse = prepare("small", *how)
        use(replace(text, X=text.X.toarray()))
        of_dense = prepare("small", *how)
        for part in ("X", "X_test"):
            found = getattr(of_sparse, part)
            dense = found if isinstance(found, np.ndarray) else found.toarray()
            np.testing.assert_allclose(dense, getattr(of_dense, part), atol=1e-9)


def test_the_last_features_are_kept(use: Use) -> None:
    use(small())
    assert prepare("small", True, GAMMA, 10, 0) is prepare("small", True, GAMMA, 10, 0)


def test_yeast_is_at_hand_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRML_DATA_HOME", raising=False)
    load_dataset.cache_clear()
    np.testing.assert_array_equal(load_dataset("yeast").X, load_yeast().X)


def test_other_data_is_not_downloaded_in_a_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for variable in ("LRML_DATA_HOME", "LRML_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path_factory.mktemp("empty")))
    load_dataset.cache_clear()
    with pytest.raises(FileNotFoundError, match="bibtex"):
        load_dataset("bibtex")
