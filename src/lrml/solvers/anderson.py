"""Anderson acceleration of fixed-point iterations."""

from __future__ import annotations

import numpy as np

from lrml._arrays import Array, namespace, to_numpy


class Anderson:
    """Anderson acceleration (type II) of a fixed-point iteration y ↦ g(y).

    From the last ``memory`` differences of images g_k = g(y_k) and of residuals r_k = g_k − y_k it returns
    the combination of images whose combined residual is smallest: g_k − ΔG (ΔRᵀΔR)⁻¹ ΔRᵀ r_k.

    The differences are rows of two matrices, the oldest of which is overwritten: all their inner products
    with a residual, and their combination, are then one product each, that reads them once.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.gram = np.zeros((memory, memory))
        self.images: Array = None
        self.residuals: Array = None
        self.forget()

    def forget(self) -> None:
        """Begin again; the room stays."""
        self.count = 0
        self.previous: tuple[Array, Array] | None = None

    def extrapolate(self, image: Array, residual: Array) -> Array:
        """Take in one pair and return the accelerated point (the image while there is little past)."""
        if self.memory == 0:
            return image
        self._remember(image, residual)
        known = min(self.count, self.memory)
        gram = self.gram[:known, :known]
        trace = np.trace(gram)
        # A single difference is a poor guide, unless no more are ever kept.
        if known < min(2, self.memory) or not trace > 0:
            return image
        xp = namespace(image)
        moments = to_numpy(self.residuals[:known, :] @ xp.reshape(residual, (-1,)))
        # A trace of Tikhonov regularisation keeps nearly parallel differences from blowing up.
        weights = np.linalg.solve(gram + 1e-10 * trace * np.eye(known), -moments.astype(np.float64))
        weights = xp.asarray(weights.astype(moments.dtype), device=image.device)
        accelerated = xp.reshape(weights @ self.images[:known, :], image.shape)
        accelerated += image
        return accelerated

    def _remember(self, image: Array, residual: Array) -> None:
        """Keep the newest differences, and the inner products of the residuals' among them."""
        xp = namespace(image)
        flat = xp.reshape(image, (-1,)), xp.reshape(residual, (-1,))
        previous, self.previous = self.previous, flat
        if previous is None:
            return
        if self.images is None:
            self.images = xp.empty((self.memory, image.size), dtype=image.dtype, device=image.device)
            self.residuals = xp.empty_like(self.images)
        place = self.count % self.memory
        for rows, new, old in zip((self.images, self.residuals), flat, previous, strict=True):
            rows[place, :] = new
            rows[place, :] -= old
        self.count += 1
        known = min(self.count, self.memory)
        products = to_numpy(self.residuals[:known, :] @ self.residuals[place, :])
        self.gram[place, :known] = self.gram[:known, place] = products
