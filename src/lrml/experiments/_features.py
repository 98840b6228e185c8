"""Features and labels of a dataset under a protocol: as they are, of unit length, or of a kernel."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import normalize

from lrml.datasets import MultiLabelDataset, fetch_mulan, load_yeast
from lrml.experiments._spec import EMBEDDED


class Arena(NamedTuple):
    """Training and test set, features prepared."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


@lru_cache(maxsize=1)
def load_dataset(name: str) -> MultiLabelDataset:
    """Return a dataset; yeast is at hand everywhere."""
    if name == EMBEDDED:
        return load_yeast()
    return fetch_mulan(name, download=False)


@lru_cache(maxsize=1)
def prepare(
    name: str, normalise: bool, gamma: float | None, n_components: int | None, seed: int | None
) -> Arena:
    """Make the features of a protocol; the last ones are kept for the next cell.

    With a gamma they are Nystroem features of the kernel exp(−gamma ‖x − x'‖²). Which rows these are based on
    depends on no label, and on no test row.
    """
    dataset = load_dataset(name)
    (X, Y), (X_test, Y_test) = dataset.train, dataset.test
    if normalise:
        X, X_test = normalize(X), normalize(X_test)
    if gamma is not None:
        features = Nystroem(gamma=gamma, n_components=n_components, random_state=seed).fit(X)
        X, X_test = (np.ascontiguousarray(features.transform(part)) for part in (X, X_test))
    return Arena(X, Y, X_test, Y_test)
