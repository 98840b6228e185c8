"""What single cells tell: whether probabilities hold, precision against recall, and the worst errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._ranking import Block, Counts, LabelledScores, ratio

Floats: TypeAlias = npt.NDArray[np.float64]

_N_BINS, _N_CUTS = 10, 201


def records(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return rows of plain data."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


class Reliability(NamedTuple):
    """Whether labels are relevant as often as their probabilities say.

    Attributes
    ----------
    bins : list of dict
        Of ten bins of equal width those that are not empty, ascending: ``low``, ``high`` (edges), ``score``
        (mean probability), ``count`` (cells) and ``frequency`` (share of relevant ones).
    error : float
        Expected calibration error: the mean distance of score and frequency, weighted by the counts.
    brier : float
        Brier score: the mean of (p − y)² over all cells.
    """

    bins: list[dict[str, Any]]
    error: float
    brier: float

    @classmethod
    def of(cls, data: LabelledScores) -> Reliability:
        """Compare labels with scores that are probabilities."""
        edges, sums, squares = np.linspace(0, 1, _N_BINS + 1), np.zeros((3, _N_BINS)), 0.0
        for p, relevant in _known(data, lambda block: block.scores):
            bins = np.minimum(_N_BINS * p, _N_BINS - 1).astype(np.intp)
            sums += [np.bincount(bins, weights, _N_BINS) for weights in (np.ones(len(p)), relevant, p)]
            squares += float(np.sum((p - relevant) ** 2))
        filled = sums[0] > 0
        count, hits, total = sums[:, filled]
        score, frequency = total / count, hits / count
        columns = {"low": edges[:-1][filled], "high": edges[1:][filled], "score": score}
        columns |= {"count": count.astype(np.intp), "frequency": frequency}
        error = np.average(np.abs(score - frequency), weights=count)
        return cls(records(columns), float(error), squares / float(count.sum()))


def _known(data: LabelledScores, values: Callable[[Block], Any]) -> Iterator[tuple[Floats, Any]]:
    """Yield what blocks have in their known cells, and which of these are relevant."""
    for block in data.blocks():
        known = ... if block.known is None else block.known
        yield values(block)[known].ravel().astype(np.float64), block.relevant[known].ravel()


def _margin(block: Block) -> Any:
    return block.scores - block.cut


def curve_of(data: LabelledScores, together: Counts) -> dict[str, list[float]]:
    """Precision and recall of all cells together, with the cuts of all labels moved by the same amounts."""
    cells = list(_known(data, _margin))
    relevant = np.concatenate([margins[hit] for margins, hit in cells])
    cuts = np.unique(np.quantile(relevant, np.linspace(0, 1, _N_CUTS))) if relevant.size else relevant

    def reached(weighed: bool) -> Floats:  # from each cut on
        places = (np.searchsorted(cuts, own[hit] if weighed else own, side="right") for own, hit in cells)
        counts = sum(np.bincount(place, minlength=len(cuts) + 1) for place in places)
        return np.asarray(counts)[:0:-1].cumsum().astype(np.float64)

    hits = reached(True)
    return {
        "precision": ratio(hits, reached(False)).tolist(),
        "recall": (hits / relevant.size).tolist(),
        "threshold": [float(together.precision), float(together.recall)],
    }


def by_support(counts: Counts) -> list[dict[str, Any]]:
    """Return the labels in bands by their numbers of relevant rows, each ten times the one before."""
    bands = np.floor(np.log10(np.maximum(counts.relevant, 0.1))).astype(np.intp)
    rows = []
    for band in np.unique(bands[bands >= 0]).tolist():
        own = Counts(*(part[bands == band] for part in counts))
        told = {"least": 10**band, "most": 10 ** (band + 1) - 1, "labels": len(own.relevant)}
        told |= {"never": int(np.count_nonzero(own.predicted == 0)), "f1_macro": float(own.f1.mean())}
        rows.append(told | {key: float(getattr(own.together, key)) for key in ("precision", "recall", "f1")})
    return rows


def errors_of(data: LabelledScores, names: Sequence[str], n: int = 10) -> dict[str, list[dict[str, Any]]]:
    """Return the rows with the worst misses and false alarms, each with the label that is worst in it."""
    found: dict[str, list[dict[str, Any]]] = {"misses": [], "false_alarms": []}
    start = 0
    for block in data.blocks():
        margins = _margin(block)
        wrong = block.relevant & ~block.predicted, block.predicted & ~block.relevant
        for (kind, worst), cells in zip(found.items(), wrong, strict=True):
            size = np.where(cells, np.abs(margins), -1.0)
            labels = size.argmax(axis=1)
            for row in np.argsort(-size.max(axis=1), kind="stable")[:n].tolist():
                cell = row, labels[row]
                if cells[cell]:
                    own = {"score": float(block.scores[cell]), "margin": float(margins[cell])}
                    column = int(labels[row])
                    worst.append({"row": start + row, "column": column, "label": names[column], **own})
            found[kind] = sorted(worst, key=lambda one: -abs(one["margin"]))[:n]
        start += len(margins)
    return found
