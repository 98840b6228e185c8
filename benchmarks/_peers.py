"""Peers outside scikit-learn as estimators: fit, decision_function. A peer is imported when it is made."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file


def table(pairs: list[Any], n_labels: int) -> np.ndarray:
    """Scores of lists of (label, score); labels that a tree search did not reach get −1."""
    S = np.full((len(pairs), n_labels), -1.0)
    for row, found in enumerate(pairs):
        for label, score in found:
            S[row, label] = score
    return S


def himalaya_ridge(alphas: Any) -> Any:
    """Cross-validated ridge regression with an alpha for every label."""
    import_module("himalaya.backend").set_backend("numpy")
    return import_module("himalaya.ridge").RidgeCV(alphas=alphas, fit_intercept=True, cv=5)


class LibMultiLabel:
    """LIBLINEAR's L2-loss support vector machines, labels side by side on all cores."""

    def __init__(self, C: float) -> None:
        self.C, self.train = C, import_module("libmultilabel.linear").train_1vsrest

    def fit(self, X: Any, Y: Any) -> LibMultiLabel:
        """Fit all labels; 2y − 1 is computed in the type of Y, which overflows for bytes."""
        X, Y = (sp.csr_matrix(matrix, dtype=np.float64) for matrix in (X, Y))
        self.model = self.train(Y, X, options=f"-s 1 -c {self.C} -B 1 -q", verbose=False)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins, n × L."""
        return np.asarray(self.model.predict_values(sp.csr_matrix(X, dtype=np.float64)))


class NapkinXC:
    """Probabilistic label tree with its default settings; writing its model to disk is a part of its fit."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.model = import_module("napkinxc.models").PLT(self.folder.name, seed=0)

    def fit(self, X: Any, Y: Any) -> NapkinXC:
        """Fit the tree."""
        self.n_labels = Y.shape[1]
        self.model.fit(sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Probabilities, n × L."""
        return table(self.model.predict_proba(sp.csr_matrix(X, dtype=np.float32)), self.n_labels)


class Omikuji:
    """Parabel with its default settings; its file is a part of its fit, the only way in."""

    def __init__(self) -> None:
        self.train = import_module("omikuji").Model.train_on_data

    def fit(self, X: Any, Y: Any) -> Omikuji:
        """Write the file, and fit to it."""
        self.n_labels = Y.shape[1]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "train.txt")
            with file.open("wb") as stream:
                stream.write(f"{X.shape[0]} {X.shape[1]} {self.n_labels}\n".encode())
                dump_svmlight_file(sp.csr_matrix(X), sp.csr_matrix(Y), stream, multilabel=True)
            self.model = self.train(str(file))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, n × L."""
        X = sp.csr_matrix(X)
        rows = (zip(row.indices.tolist(), row.data.tolist(), strict=True) for row in X)
        return table([self.model.predict(list(row), top_k=self.n_labels) for row in rows], self.n_labels)
