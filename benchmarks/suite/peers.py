"""Peers outside scikit-learn. Each gets the data in the format it asks for, made off the clock."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from systems import RIDGE_ALPHAS, SVC_CS, SVC_CS_MANY, OneVsRest, System, UnitRidge

from lrml.datasets import Dataset, NumberedNames, write_dataset


def as_csr_matrix(A: Any) -> sp.csr_matrix:
    """Return the older kind of sparse matrix, in double precision.

    LibMultiLabel computes 2y − 1 in the type of Y, which overflows for bytes.
    """
    return sp.csr_matrix(A, dtype=np.float64)


def as_single_csr_matrix(A: Any) -> sp.csr_matrix:
    """Return what napkinXC works on."""
    return sp.csr_matrix(A, dtype=np.float32)


def table(pairs: list[Any], n_labels: int) -> np.ndarray:
    """Scores of lists of (label, score); labels that a tree search did not reach get −1."""
    S = np.full((len(pairs), n_labels), -1.0)
    for row, found in enumerate(pairs):
        for label, score in found:
            S[row, label] = score
    return S


class Himalaya(UnitRidge):
    """Cross-validated ridge regression with an alpha for every label."""

    name = "himalaya RidgeCV"
    package = "himalaya"

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        import_module("himalaya.backend").set_backend("numpy")
        alphas = self._short(RIDGE_ALPHAS)
        self.model = import_module("himalaya.ridge").RidgeCV(alphas=alphas, fit_intercept=True, cv=5)

    def _fit(self) -> None:
        self.model.fit(self.X, self.Y)
        self.candidates = 5 * len(self.model.alphas)
        self.chosen = {"median alpha": float(np.median(self.model.best_alphas_))}
        self.settings = {"alpha": list(map(float, self.model.alphas)), "folds": 5}


class LibMultiLabel(OneVsRest):
    """LIBLINEAR's L2-loss support vector machines, labels side by side on all cores."""

    name = "LibMultiLabel one-vs-rest"
    package = "libmultilabel"
    grid, grid_many = SVC_CS, SVC_CS_MANY
    convert = staticmethod(as_csr_matrix)

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self.train = import_module("libmultilabel.linear").train_1vsrest

    def _fit_one(self, X: Any, Y: Any, C: float) -> Any:
        return self.train(Y, X, options=f"-s 1 -c {C} -B 1 -q", verbose=False)

    def _scores(self, X: Any) -> np.ndarray:
        return self.model.predict_values(X)


class NapkinXC(System):
    """Probabilistic label tree with its default settings; writing its model to disk is a part of its fit."""

    name = "napkinXC PLT"
    package = "napkinxc"
    kind = "tree peer"
    convert = staticmethod(as_single_csr_matrix)

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self.folder = tempfile.TemporaryDirectory()
        self.model = import_module("napkinxc.models").PLT(self.folder.name, seed=0)

    def _fit(self) -> None:
        self.model.fit(self.X, self.Y)

    def _scores(self, X: Any) -> np.ndarray:
        return table(self.model.predict_proba(X), self.Y.shape[1])


class Omikuji(System):
    """Parabel with its default settings; reading its file is a part of its fit, the only way in."""

    name = "omikuji Parabel"
    package = "omikuji"
    kind = "tree peer"
    convert = staticmethod(as_csr_matrix)

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self.train = import_module("omikuji").Model.train_on_data
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "train.txt"

    def prepare(self, X: Any, Y: Any) -> None:
        """Write the file."""
        super().prepare(X, Y)
        names = NumberedNames("feature", X.shape[1]), NumberedNames("label", Y.shape[1])
        write_dataset(Dataset("train", sp.csr_array(X), sp.csr_array(Y), *names), self.file)

    def _fit(self) -> None:
        self.model = self.train(str(self.file))

    def _scores(self, X: Any) -> np.ndarray:
        rows = (zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True) for i in range(X.shape[0]))
        n_labels = self.Y.shape[1]
        return table([self.model.predict(list(row), top_k=n_labels) for row in rows], n_labels)
