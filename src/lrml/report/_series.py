"""Rules shared by static figures and the page: which series look alike, which points have markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito's colours, safe for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")

# Up to so many points, each has its marker and its error bar; beyond, a curve has some markers and a band.
FEW = 12
_CROWDED = 0.03  # of an axis: closer neighbours do not both have a marker
_PUBLISHED = ", paper"


def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Return values as an array; a missing one is not a number."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def base_name(name: str) -> str:
    """Return the name whose colour and marker a series has: published values look like our own.

    Examples
    --------
    >>> [base_name(name) for name in ("LEML, paper", "LEML", "paper", "a, paper, paper")]
    ['LEML', 'LEML', 'paper', 'a, paper']
    """
    return name.removesuffix(_PUBLISHED)


def is_published(name: str) -> bool:
    """Tell whether a series has published values, which are drawn dotted and with hollow markers."""
    return name.endswith(_PUBLISHED)


def series_of(figure: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all series of a figure, panel by panel."""
    for panel in figure["panels"]:
        yield from panel.get("series", ())


def assigned(figures: Sequence[Mapping[str, Any]], n_choices: int) -> dict[str, int]:
    """Choose one of a few colours, or markers, for every base name, in order of first appearance.

    The k-th name has the choice k modulo ``n_choices``, or the next one that no earlier name in any of its
    figures has. Two names of a figure therefore differ as long as there are choices enough.
    """
    groups = [dict.fromkeys(base_name(series["name"]) for series in series_of(figure)) for figure in figures]
    chosen: dict[str, int] = {}
    for order, name in enumerate(dict.fromkeys(name for group in groups for name in group)):
        beside = {other for group in groups if name in group for other in group}
        taken = {chosen[other] for other in beside if other in chosen}
        turns = [(order + step) % n_choices for step in range(n_choices)]
        chosen[name] = next((choice for choice in turns if choice not in taken), turns[0])
    return chosen


def marked(places: NDArray[np.float64], position: int) -> list[int] | None:
    """Choose the points of a curve that have markers: both ends, and some between, evenly along the axis.

    ``places`` are along an axis that reaches from about 0 to 1, not a number if not shown. By their
    ``position`` in the panel, neighbouring curves have other distances between markers, so that these do not
    all lie on top of each other where curves do. Return indices, or None if every point has room for one.
    """
    shown = np.flatnonzero(np.isfinite(places))
    along = places[shown]
    if len(shown) < 3 or (len(places) <= FEW and np.abs(np.diff(along)).min() >= _CROWDED):
        return None
    n_gaps = max(1, round(float(np.ptp(along)) * (5 + position % 3)))
    wanted = np.linspace(along[0], along[-1], n_gaps + 1)
    nearest = np.abs(along[:, None] - wanted).argmin(axis=0)
    return sorted({int(shown[index]) for index in (0, *nearest, -1)})


def chosen_markers(series: Mapping[str, Any], places: NDArray[np.float64], position: int) -> list[int] | None:
    """Return the points of a series that have markers, as `marked` does, unless the series says which."""
    wish = series.get("markers")
    return marked(places, position) if wish is None else None if wish == "all" else []
