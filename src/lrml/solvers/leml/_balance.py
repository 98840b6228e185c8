"""Two factors of one matrix: balanced, and resized to another rank."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Float64: TypeAlias = npt.NDArray[np.float64]


class Balanced(NamedTuple):
    """Factors Z = U√s and H = V√s of a matrix with the thin singular value decomposition U diag(s) Vᵀ.

    Attributes
    ----------
    Z : array of shape (d, k)
    H : array of shape (L, k)
    sigma : array of shape (k,)
        s, descending; what is rounding noise is 0, with zero columns in Z and H.
    left, right : arrays of shape (k, k)
        New factors from the old ones: Z = Z_old @ left, H = H_old @ right.
    """

    Z: Float64
    H: Float64
    sigma: Float64
    left: Float64
    right: Float64


def balance(Z: Float64, H: Float64) -> Balanced:
    """Balance two factors, k ≤ min(d, L), without forming their product: O((d + L) k²).

    Of all factors of ZHᵀ these have the least ‖Z‖² + ‖H‖², namely 2 Σ s.
    """
    Q, R = np.linalg.qr(Z)
    P, S = np.linalg.qr(H)
    U, sigma, Vt = np.linalg.svd(R @ S.T)
    floor = max(len(Z), len(H)) * np.finfo(np.float64).eps * sigma[0]
    sigma = np.where(sigma > floor, sigma, 0.0)
    root = np.sqrt(sigma)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    # R Sᵀ = U s Vᵀ gives R⁻¹U√s = SᵀV/√s, which needs no inverse of R.
    return Balanced(Q @ (U * root), P @ (Vt.T * root), sigma, S.T @ (Vt.T * inverse), R.T @ (U * inverse))


def resize(Z: Float64, H: Float64, rank: int, random: np.random.RandomState) -> tuple[Float64, Float64]:
    """Truncate balanced factors to their first columns, or pad them for a larger rank.

    New columns are random in Z, as long as the shortest one there, and zero in H: the product stays as it is,
    and the next improvement of H finds out what they are good for.
    """
    kept = min(rank, Z.shape[1])
    Z, H = Z[:, :kept], H[:, :kept]
    missing = rank - kept
    if not missing:
        return Z, H
    noise = random.standard_normal((len(Z), missing))
    lengths = np.linalg.norm(Z, axis=0)
    lengths = lengths[lengths > 0]
    noise *= (lengths.min() if lengths.size else 1.0) / np.linalg.norm(noise, axis=0)
    return np.hstack([Z, noise]), np.hstack([H, np.zeros((len(H), missing))])
