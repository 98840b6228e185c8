"""Algorithm 1 of the paper, and the path and the cross-validated models of this package."""

from __future__ import annotations

from inspect import signature
from typing import Any, ClassVar

import numpy as np
from systems import System, as_dense

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
        self.settings |= {"theta": 0.2, "steps": steps}


class Path(System):
    """Time only: 5 thetas × 20 alphas on all training rows, with no choice among the models."""

    name = "lrml_path 5×20"
    package = "lrml"
    kind = "ours"
    convert = staticmethod(as_dense)

    def _fit(self) -> None:
        options = {"n_alphas": 4} if self.quick else {}
        models = lrml.lrml_path(self.X, self.Y, **options)
        self.candidates, self.settings = len(models), {"ridges": 0.0} | options
        self.mean_decompositions = float(models.as_dict()["n_iter"].mean())

    def _scores(self, X: Any) -> None:
        """Return nothing: no model is chosen."""


class CrossValidated(System):
    """A class of this package that tunes itself, over its default grids unless ``options`` has others."""

    package = "lrml"
    kind = "ours"
    class_name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    quick_options: ClassVar[dict[str, Any]] = {}

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self.settings = self.options | (self.quick_options if quick else {})
        search = getattr(lrml, self.class_name)
        own = signature(search).parameters
        inner = {name: value for name, value in self.settings.items() if name not in own}
        member = getattr(lrml, self.class_name.removesuffix("CV"))(**inner)
        given = {name: value for name, value in self.settings.items() if name in own}
        self.model = search(member, **given, random_state=0)

    def _fit(self) -> None:
        self.model.fit(self.X, self.Y)
        found = self.model.cv_results_
        self.candidates = self.nominal_candidates = len(found["params"]) * self.model.n_splits_
        self.chosen = dict(self.model.best_params_)


class LrmlCV(CrossValidated):
    """Tail of the singular values and squared Frobenius norm, the default."""

    name = "LRMLCV"
    class_name = "LRMLCV"
    quick_options: ClassVar = {"thetas": (0.05, 0.2)}


class SameGridAsPath(CrossValidated):
    """The grid of the path on five folds: what choosing costs beside fitting."""

    name = "LRMLCV 5×20, 5 folds"
    class_name = "LRMLCV"
    convert = staticmethod(as_dense)
    options: ClassVar = {"ridges": 0.0, "alphas": np.geomspace(100.0, 0.1, 20), "cv": 5}
    quick_options: ClassVar = {"alphas": np.geomspace(100.0, 0.1, 4)}


class LogisticLrmlCV(CrossValidated):
    """Every candidate is a fit over the rows here: a small grid, one split, and a loose tolerance.

    The tolerance is that of the final model too.
    """

    name = "LRMLCV logistic"
    class_name = "LRMLCV"
    threshold = 0.0
    options: ClassVar = {"loss": "logistic", "thetas": (0.02, 0.1), "cv": 0.2, "tol": 0.01}
    quick_options: ClassVar = {"thetas": (0.1,)}


class TraceCV(CrossValidated):
    """Trace norm."""

    name = "MLTraceCV"
    class_name = "MLTraceCV"


class FroCV(CrossValidated):
    """Squared Frobenius norm."""

    name = "MLFroCV"
    class_name = "MLFroCV"


class CplstCV(CrossValidated):
    """Reduced-rank regression."""

    name = "CPLSTCV"
    class_name = "CPLSTCV"


class LemlCV(CrossValidated):
    """Two factors."""

    name = "LEMLCV"
    class_name = "LEMLCV"
    quick_options: ClassVar = {"ranks": (0.2,), "cv": 0.2}
