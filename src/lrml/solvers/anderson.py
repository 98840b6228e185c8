"""Anderson acceleration of fixed-point iterations."""

from __future__ import annotations

import numpy as np

from lrml._arrays import Array, inner


class Anderson:
    """Anderson acceleration (type II) of a fixed-point iteration y ↦ g(y).

    From the last ``memory`` differences of images g_k = g(y_k) and of residuals r_k = g_k − y_k it returns
    the combination of images whose combined residual is smallest: g_k − ΔG (ΔRᵀΔR)⁻¹ ΔRᵀ r_k.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.images: list[Array] = []
        self.residuals: list[Array] = []
        self.gram: list[list[float]] = []
        self.previous: tuple[Array, Array] | None = None

    def extrapolate(self, image: Array, residual: Array) -> Array:
        """Take in one pair and return the accelerated point (the image itself while there is no past)."""
        if self.memory == 0:
            return image
        if self.previous is not None:
            self._remember(image - self.previous[0], residual - self.previous[1])
        self.previous = (image, residual)
        if len(self.images) < 2:
            return image
        gram = np.array(self.gram)
        # A trace of Tikhonov regularisation keeps nearly parallel differences from blowing up.
        gram += 1e-10 * np.trace(gram) * np.eye(len(gram))
        moments = np.array([inner(difference, residual) for difference in self.residuals])
        if not np.trace(gram) > 0:
            return image
        for weight, difference in zip(np.linalg.solve(gram, moments), self.images, strict=True):
            image = image - float(weight) * difference
        return image

    def _remember(self, image: Array, residual: Array) -> None:
        """Keep the newest differences, and the inner products of the residuals' among them."""
        if len(self.images) == self.memory:
            del self.images[0], self.residuals[0], self.gram[0]
            for row in self.gram:
                del row[0]
        self.images.append(image)
        self.residuals.append(residual)
        products = [inner(residual, other) for other in self.residuals]
        for row, product in zip(self.gram, products, strict=False):
            row.append(product)
        self.gram.append(products)
