"""Algorithm 1 of the paper, and the cross-validated models of this package. They read the data as it is."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from systems import System

import lrml
from lrml import LRML


class Algorithm1(System):
    """The paper's algorithm to the letter, but in our spectral coordinates, where its steps are cheaper.

    A fifth of the labels is theta; alpha is tuned. There is no stopping test: 300 steps are 300 steps.
    """

    name = "Algorithm 1 as printed"
    package = "lrml"
    kind = "paper"

    def _fit(self) -> None:
        steps = 50 if self.quick else 300

        def fit_one(X: Any, Y: Any, alpha: float) -> LRML:
            return LRML(0.2, alpha, solver="paper", max_iter=steps).fit(X, Y)

        self._tune("alpha", self._short(np.logspace(0, 1.5, 4)), fit_one)
        self.chosen |= {"theta": 0.2, "steps": steps}


class CrossValidated(System):
    """A class of this package that tunes itself, over its default grids unless ``options`` has others."""

    package = "lrml"
    kind = "ours"
    class_name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    quick_options: ClassVar[dict[str, Any]] = {}

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        options = self.options | (self.quick_options if quick else {})
        self.model = getattr(lrml, self.class_name)(**options)

    def _fit(self) -> None:
        self.model.fit(self.X, self.Y)
        self.candidates = len(self.model.cv_results_["params"]) * self.model.n_splits_
        self.chosen = dict(self.model.best_params_)


class FroCV(CrossValidated):
    """Squared Frobenius norm."""

    name = "MLFroCV"
    class_name = "MLFroCV"


class TraceCV(CrossValidated):
    """Trace norm."""

    name = "MLTraceCV"
    class_name = "MLTraceCV"


class CplstCV(CrossValidated):
    """Reduced-rank regression."""

    name = "CPLSTCV"
    class_name = "CPLSTCV"


class LemlCV(CrossValidated):
    """Two factors."""

    name = "LEMLCV"
    class_name = "LEMLCV"


class LrmlCV(CrossValidated):
    """Tail of the singular values."""

    name = "LRMLCV"
    class_name = "LRMLCV"
    quick_options: ClassVar = {"thetas": (0.05, 0.2), "alphas": (1.0, 10.0)}


class RidgedLrmlCV(LrmlCV):
    """Tail of the singular values and squared Frobenius norm."""

    name = "LRMLCV, ridges"
    options: ClassVar = {"ridges": (0.1, 0.3, 1.0, 3.0)}


class LogisticLrmlCV(LrmlCV):
    """Every iteration reads the rows here, so the grid is small."""

    name = "LRMLCV, logistic"
    threshold = 0.0
    options: ClassVar = {
        "loss": "logistic",
        "thetas": (0.05, 0.2),
        "alphas": (4.0, 16.0, 64.0),
        "ridges": (0.1,),
        "cv": 3,
    }
    quick_options: ClassVar = {"thetas": (0.2,), "alphas": (16.0,)}


class Path(System):
    """Time only: the models of a path on all training rows, with no choice among them."""

    name = "lrml_path"
    package = "lrml"
    kind = "ours"
    theta: ClassVar[float] = 0.2
    alphas: ClassVar[np.ndarray] = np.logspace(2, -1, 20)

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self.path = lrml.lrml_path

    def _fit(self) -> None:
        self.path(self.X, self.Y, theta=self.theta, alphas=self.alphas)
        self.candidates = len(self.alphas)

    def _scores(self, X: Any) -> None:
        """Return nothing: no model is chosen."""
