"""Anderson acceleration of fixed-point iterations."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lrml._arrays import Array, namespace, to_numpy


class Anderson:
    """Anderson acceleration (type II) of a fixed-point iteration y ↦ g(y).

    From the last images g_k = g(y_k) and residuals r_k = g_k − y_k it returns the affine combination of
    images whose combined residual is smallest,

    ::

        Σ c_j g_j,    c = argmin ‖Σ c_j r_j‖,    Σ c_j = 1,

    with ``memory`` + 1 of them at most, that is, ``memory`` differences.

    Images and residuals are rows of two matrices, in which the newest overwrites the oldest. The inner
    products of a residual with all others, and the combination of the images, are then one product each, and
    an image is copied only once.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.gram = np.zeros((memory + 1, memory + 1))
        self.images: Array = None
        self.residuals: Array = None
        self.count = 0

    def forget(self) -> None:
        """Start over; the memory stays allocated."""
        self.count = 0

    def extrapolate(self, image: Array, residual: Array) -> Array:
        """Add one pair and return the accelerated point (the image itself while there are few pairs)."""
        if self.memory == 0:
            return image
        self._remember(image, residual)
        # A single difference is a poor guide, unless no more are ever kept.
        if self.count <= min(2, self.memory):
            return image
        weights = self._combination()
        if weights is None:
            return image
        xp = namespace(image)
        stored = self.images[: len(weights), :]
        mixed = xp.asarray(weights, dtype=image.dtype, device=image.device) @ stored
        return xp.reshape(mixed, image.shape)

    def _remember(self, image: Array, residual: Array) -> None:
        xp = namespace(image)
        if self.images is None:
            self.images, self.residuals = (
                xp.empty((self.memory + 1, math.prod(part.shape)), dtype=part.dtype, device=part.device)
                for part in (image, residual)
            )
        place = self.count % (self.memory + 1)
        self.images[place, :] = xp.reshape(image, (-1,))
        self.residuals[place, :] = xp.reshape(residual, (-1,))
        self.count += 1
        known = min(self.count, self.memory + 1)
        products = to_numpy(self.residuals[:known, :] @ self.residuals[place, :])
        self.gram[place, :known] = self.gram[:known, place] = products

    def _combination(self) -> npt.NDArray[np.float64] | None:
        """Weights c of the stored images, or None if the residuals do not differ at all."""
        known = min(self.count, self.memory + 1)
        newest = (self.count - 1) % (self.memory + 1)
        order = (
            [(newest + 1 + step) % known for step in range(known)] if known > self.memory else range(known)
        )
        steps = np.diff(np.eye(known)[list(order)], axis=0)  # each row subtracts one residual from the next
        gram = steps @ self.gram[:known, :known] @ steps.T
        trace = np.trace(gram)
        if not trace > 0:
            return None
        # A trace of Tikhonov regularisation keeps nearly parallel differences from blowing up.
        moments = steps @ self.gram[:known, newest]
        gamma = np.linalg.solve(gram + 1e-10 * trace * np.eye(known - 1), moments)
        weights: npt.NDArray[np.float64] = np.eye(known)[newest] - steps.T @ gamma
        return weights
