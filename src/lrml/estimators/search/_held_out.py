"""Held-out rows of a split, and what a criterion says about scores of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml._arrays import is_sparse
from lrml.estimators._path_models import Space
from lrml.estimators.search._criterion import Criterion
from lrml.losses import SquaredLoss

_Scores = npt.NDArray[np.floating[Any]]

# Scores of one block of rows, and rows in spectral coordinates that are kept, as numbers in single precision.
_BLOCK_SCORES, _KEPT_NUMBERS = 1 << 23, 1 << 27


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Features and labels that candidates are compared on.

    Attributes
    ----------
    X : array or CSR array of shape (h, d)
    Y : array or CSR array of shape (h, L)
        0 where a label is not known.
    known : bool array of shape (h, L) or None
    """

    X: Any
    Y: Any
    known: npt.NDArray[np.bool_] | None

    def judge(self, criteria: Sequence[Criterion], cut: Any, scores: Callable[[slice], _Scores]) -> list[Any]:
        """Values of all criteria: by row in blocks, or, if one of them needs that, for all rows at once."""
        blocks = list(self._blocks()) if all(criterion.by_row for criterion in criteria) else [slice(None)]
        parts: list[list[Any]] = [[] for _ in criteria]
        for rows in blocks:
            seen = self._hide_unknown(scores(rows), rows, cut)
            for criterion, values in zip(criteria, parts, strict=True):
                values.append(criterion.measure(self.Y[rows], seen, cut))
        return [values[0] if np.ndim(values[0]) == 0 else np.concatenate(values) for values in parts]

    def _hide_unknown(self, scores: _Scores, rows: slice, cut: Any) -> _Scores:
        """Put labels that are not known below all others, and the cut: they neither count nor disturb."""
        if self.known is None:
            return scores
        return np.where(self.known[rows], scores, min(scores.min(), np.min(cut)) - 1.0)

    def _blocks(self) -> Iterator[slice]:
        n_rows, n_labels = self.Y.shape
        step = max(1, _BLOCK_SCORES // n_labels)
        return (slice(start, start + step) for start in range(0, n_rows, step))


class SpectralScores:
    """Scores of held-out rows from factors in spectral coordinates.

    The rows are rotated once for all candidates (unless that takes too much memory): with X̃ = (X − 1x̄ᵀ) Q
    the scores are 1ȳᵀ + X̃ left rightᵀ. Single precision is enough to rank labels.
    """

    def __init__(self, space: Space, X: Any) -> None:
        problem = space.problem
        self.labels = None if problem.labels is None else problem.labels.astype(np.float32)
        self.y_mean = space.y_mean.astype(np.float32)
        self.unseen = space.unseen
        self.features = problem.features
        self.X, self.x_mean = X, space.x_mean
        self.rows, self.unit = None, 1.0
        if X.shape[0] * problem.shape[0] <= _KEPT_NUMBERS:
            projected = self._project(X, problem.features)
            # Single precision has no room for the squares of very large or small features.
            self.unit = float(np.abs(projected).max(initial=0.0)) or 1.0
            self.rows = (projected / self.unit).astype(np.float32)

    def _project(self, X: Any, basis: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        projected = np.asarray(X @ basis)
        projected -= self.x_mean @ basis
        return projected

    def of(self, left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> Callable[[slice], _Scores]:
        """Return the function that scores some of the rows with W = left rightᵀ."""
        V = right.astype(np.float32)
        V = V if self.labels is None else self.labels @ V
        left32 = (self.unit * left).astype(np.float32)
        first = self.features @ left if self.rows is None else left

        def scores(rows: slice) -> _Scores:
            if self.rows is not None:
                through = self.rows[rows] @ left32
            else:
                block = self.X[rows] if not is_sparse(self.X) else self.X.tocsr()[rows]
                through = self._project(block, first).astype(np.float32)
            found: _Scores = through @ V.T
            found += self.y_mean
            found[:, self.unseen] = SquaredLoss().unseen_score
            return found

        return scores
