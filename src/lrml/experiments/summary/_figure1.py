"""Figure 1 as plain data: trace norm and tail sum of all completions of a small matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.completion import complete
from lrml.experiments._spec import Experiment
from lrml.experiments.summary._columns import all_rounded
from lrml.penalties import TailSum, TraceNorm

_Array: TypeAlias = npt.NDArray[np.float64]

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# A smooth minimum is known to the square root of the machine's precision only; more digits would be noise.
_MINIMISER_DECIMALS = 6
_SURFACE_DECIMALS = 9
_TOL = 1e-10


class Minimum(NamedTuple):
    """Where a norm of the completed matrix is smallest."""

    entries: tuple[float, ...]
    singular_values: tuple[float, ...]
    value: float


def figure1(experiment: Experiment) -> dict[str, Any]:
    """Return Figure 1: Σ_j σ_j and Σ_{j>theta} σ_j over the two unknown entries of a matrix.

    Parameters
    ----------
    experiment : Experiment
        Its options are the ``matrix`` with two nan entries, ``theta``, the range (``lowest``, ``highest``),
        the number of ``points`` per axis of the grid, and what the paper ``printed``.

    Returns
    -------
    dict
        A figure of a summary, with a surface and a contour panel for both norms.
    """
    options = experiment.options
    matrix, theta = np.asarray(options["matrix"], dtype=np.float64), options["theta"]
    axis = np.linspace(options["lowest"], options["highest"], options["points"])
    norms = {"trace norm": TraceNorm(1.0), f"tail sum, theta = {theta}": TailSum(theta, 1.0)}
    minima: list[Minimum] = []
    panels: list[dict[str, Any]] = []
    sigma = singular_values(matrix, *np.meshgrid(axis, axis))
    for label, penalty in norms.items():
        heights = sigma[..., penalty.theta :].sum(-1)
        minima.append(minimum(matrix, penalty))
        panels += _panels(matrix, axis, heights, label, minima[-1], first_letter=len(panels))
    entries = _names(matrix)
    figure: dict[str, Any] = all_rounded(
        {
            "id": "figure1",
            "title": experiment.title,
            "caption": _caption(matrix, options, minima, entries),
            "finding": _finding(minima, options["printed"]),
            "alt": _alt(axis, minima, entries),
            "columns": 2,
            "panels": panels,
        }
    )
    return figure


def singular_values(matrix: _Array, first: npt.ArrayLike, second: npt.ArrayLike) -> _Array:
    """Singular values, descending, of a matrix whose two nan entries are replaced by all pairs given."""
    pairs = np.stack(np.broadcast_arrays(first, second), axis=-1)
    stack = np.broadcast_to(matrix, pairs.shape[:-1] + matrix.shape).copy()
    stack[..., np.isnan(matrix)] = pairs
    values: _Array = np.linalg.svd(stack, compute_uv=False).astype(np.float64, copy=False)
    return values


def minimum(matrix: _Array, penalty: TailSum) -> Minimum:
    """Complete the matrix exactly under a penalty of strength 1."""
    found = complete(matrix, penalty, exact=True, tol=_TOL)
    entries = found.values(*np.nonzero(np.isnan(matrix)))
    values = singular_values(matrix, *entries)
    return Minimum(_decimals(entries), _decimals(values), round(found.objective, _MINIMISER_DECIMALS))


def _decimals(numbers: _Array) -> tuple[float, ...]:
    return tuple(np.round(numbers, _MINIMISER_DECIMALS).tolist())


def _names(matrix: _Array) -> list[str]:
    """Name the unknown entries, such as M₂₃."""
    return [f"M{row + 1}{column + 1}".translate(_SUBSCRIPTS) for row, column in np.argwhere(np.isnan(matrix))]


def _panels(
    matrix: _Array, axis: _Array, heights: _Array, label: str, lowest: Minimum, first_letter: int
) -> list[dict[str, Any]]:
    x_name, y_name = _names(matrix)
    x, y = lowest.entries
    common = {
        "x": {"label": x_name, "values": axis.tolist()},
        "y": {"label": y_name, "values": axis.tolist()},
        "z": {"label": label, "values": np.round(heights, _SURFACE_DECIMALS).tolist()},
        "marks": [{"name": "minimum", "x": x, "y": y, "z": lowest.value}],
    }
    letters = "abcd"[first_letter:]
    return [
        {"kind": kind, "title": f"({letter}) {label}"} | common
        for letter, kind in zip(letters, ("surface", "contour"), strict=False)
    ]


def _caption(
    matrix: _Array, options: Mapping[str, Any], minima: Sequence[Minimum], entries: Sequence[str]
) -> str:
    trace, tail = minima
    printed = options["printed"]["trace_norm"]
    ours, theirs = (singular_values(matrix, *pair).sum() for pair in (trace.entries, printed["entries"]))
    return (
        f"Two norms of the matrix {_written(matrix, entries)} for all values of {entries[0]} and "
        f"{entries[1]} from {options['lowest']:g} to {options['highest']:g}: the trace norm, which is the "
        "sum of all singular values, in (a) and (b); the sum of those beyond the first theta = "
        f"{options['theta']} in (c) and (d). The trace norm is smallest at {_at(trace.entries)}, where the "
        f"singular values are {_list(trace.singular_values)} and their sum is {trace.value:.4f}: the rank is "
        f"still {_rank(trace)}. The paper prints {_at(printed['entries'])} and "
        f"{_list(printed['singular_values'])}; the trace norm there is larger by {theirs - ours:.1g}, so "
        f"flat is it around its minimum. {_tail_sentence(tail, options['printed']['tail_sum'])}"
    )


def _finding(minima: Sequence[Minimum], printed: Mapping[str, Any]) -> str:
    trace, tail = minima
    return (
        f"Figure 1: the trace norm is smallest at {_at(trace.entries)} with rank {_rank(trace)} (the paper "
        f"prints {_at(printed['trace_norm']['entries'])}), the tail sum at {_at(tail.entries, 0)} with rank "
        f"{_rank(tail)} (printed: {_at(printed['tail_sum']['entries'], 0)})."
    )


def _tail_sentence(tail: Minimum, printed: Mapping[str, Any]) -> str:
    agrees = np.allclose(
        [*tail.entries, *tail.singular_values],
        [*printed["entries"], *printed["singular_values"]],
        atol=5.1e-5,
    )
    said = "as the paper prints" if agrees else f"where the paper prints {_at(printed['entries'])}"
    return (
        f"The tail sum is smallest at {_at(tail.entries, 0)}, {said}, where the singular values are "
        f"{_list(tail.singular_values)}: the rank is {_rank(tail)}, the lowest that a completion can have."
    )


def _alt(axis: _Array, minima: Sequence[Minimum], entries: Sequence[str]) -> str:
    trace, tail = minima
    return (
        f"Four panels, two surfaces and two contour maps, over {entries[0]} and {entries[1]} from "
        f"{axis[0]:g} to {axis[-1]:g}. The trace norm is a flat bowl with its minimum {trace.value:.4f} at "
        f"{_at(trace.entries)}. The tail sum is a curved valley with a sharp tip that touches {tail.value:g} "
        f"at {_at(tail.entries, 0)} only."
    )


def _rank(found: Minimum) -> int:
    return int(np.sum(np.array(found.singular_values) > 10.0**-_MINIMISER_DECIMALS))


def _written(matrix: _Array, entries: Sequence[str]) -> str:
    names = iter(entries)
    rows = (" ".join(next(names) if np.isnan(v) else f"{v:g}" for v in row) for row in matrix)
    return f"[{'; '.join(rows)}]"


def _at(pair: Sequence[float], digits: int = 4) -> str:
    return f"({', '.join(f'{value:.{digits}f}' for value in pair)})"


def _list(values: Sequence[float]) -> str:
    return ", ".join("0" if value == 0 else f"{value:.4f}" for value in values)
