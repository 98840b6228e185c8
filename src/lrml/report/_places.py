"""Where names can stand beside their points without covering each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Directions in which a name may stand from its point, in order of preference; and Plotly's words for them.
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_WORDS = (
    *("middle right", "middle left", "top center", "bottom center"),
    *("top right", "top left", "bottom right", "bottom left"),
)
# A plot on a phone, in pixels: what has room there has room everywhere.
_PHONE = (260.0, 230.0)
_LETTER, _LINE, _MARKER = 7.2, 13.0, 5.0


def free_places(
    points: NDArray[np.float64], sizes: NDArray[np.float64], frame: tuple[float, float], gap: float
) -> list[int | None]:
    """Choose a direction for each name, or None where every one would cover something.

    Parameters
    ----------
    points : array of shape (n, 2)
        In order of importance: an earlier point gets its name first. Units are such as pixels.
    sizes : array of shape (m, 2)
        Width and height of the names of the first m points.
    frame : pair of float
        Width and height of the plot; names stay inside.
    gap : float
        Distance between a point and its name, and the least distance between a name and any other point.

    Returns
    -------
    list of int or None
        Places in `DIRECTIONS`, one for each name.
    """
    low, high = np.empty((0, 2)), np.empty((0, 2))
    chosen: list[int | None] = []
    for own, (point, size) in enumerate(zip(points[: len(sizes)], sizes, strict=True)):
        others = np.delete(points, own, axis=0)
        chosen.append(None)
        for place, direction in enumerate(DIRECTIONS):
            middle = point + np.array(direction) * (gap + size / 2)
            bottom, top = middle - size / 2, middle + size / 2
            inside = (bottom >= 0).all() and (top <= np.array(frame)).all()
            covers_name = ((bottom < high) & (low < top)).all(axis=1).any()
            covers_point = ((others > bottom - gap / 2) & (others < top + gap / 2)).all(axis=1).any()
            if inside and not covers_name and not covers_point:
                low, high = np.vstack([low, bottom]), np.vstack([high, top])
                chosen[-1] = place
                break
    return chosen


def place_names(
    x: Sequence[float], y: Sequence[float], names: Sequence[str]
) -> tuple[list[str | None], list[str]]:
    """Return what to write beside points on a page, and where in Plotly's words: earlier points first.

    Examples
    --------
    >>> place_names([0.0, 0.9, 1.0], [0.0, 1.0, 1.0], ["a", "bb", "a name that has no room"])
    (['a', 'bb', None], ['middle right', 'middle right', 'middle right'])
    """
    points = np.column_stack([x, y]).astype(np.float64)
    low, length = points.min(axis=0), np.ptp(points, axis=0)
    length[length == 0] = 1.0
    frame = np.array(_PHONE)
    inside = 0.05 * frame + 0.9 * frame * (points - low) / length
    sizes = np.array([[_LETTER * len(name), _LINE] for name in names])
    chosen = free_places(inside, sizes, _PHONE, _MARKER)
    texts = [None if place is None else name for name, place in zip(names, chosen, strict=True)]
    return texts, [_WORDS[place or 0] for place in chosen]
