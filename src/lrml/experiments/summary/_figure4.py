"""Figure 4 as plain data: Table 2 as a picture, our values beside those that the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lrml.experiments._cells import WITH_THETA
from lrml.experiments._published import published_table2
from lrml.experiments.summary._columns import LOWER_IS_BETTER, METRICS, all_rounded, listed
from lrml.experiments.summary._entries import PRINTED_DIGITS, Entry, table2_entries
from lrml.experiments.summary._results import Results


def figure4(results: Results, protocol: str) -> dict[str, Any] | None:
    """Return Table 2 as a picture, for the datasets of which the paper prints values.

    Parameters
    ----------
    results : Results
    protocol : str

    Returns
    -------
    dict or None
        A figure of a summary, ``figure4_{protocol}``, with a panel per metric and dataset; None if none of
        these datasets was run under the protocol.
    """
    entries = [
        entry
        for entry in table2_entries(results)
        if entry.protocol == protocol and entry.published is not None
    ]
    if not entries:
        return None
    datasets = list(dict.fromkeys(entry.dataset for entry in entries))
    metrics = [metric for metric in METRICS if any(entry.metric == metric for entry in entries)]
    percents = sorted({entry.percent for entry in entries})
    figure: dict[str, Any] = all_rounded(
        {
            "id": f"figure4_{protocol}",
            "title": f"Figure 4: Table 2 as a picture, protocol {protocol}",
            "caption": _caption(entries, datasets, results.protocols[protocol].summary),
            "alt": _alt(entries, datasets),
            # Side by side in a row: the same metric on two datasets, or the metrics of one.
            "columns": 2 if len(datasets) > 1 else 3,
            "panels": [
                _panel(shown, percents)
                for metric in metrics
                for dataset in datasets
                if (shown := _those(entries, dataset=dataset, metric=metric))
            ],
        }
    )
    return figure


def _those(entries: Iterable[Entry], **wanted: Any) -> list[Entry]:
    return [
        entry for entry in entries if all(getattr(entry, name) == value for name, value in wanted.items())
    ]


def _panel(entries: Sequence[Entry], percents: list[int]) -> dict[str, Any]:
    dataset, metric = entries[0].dataset, entries[0].metric
    ours, published = [], []
    for method in WITH_THETA:
        at = {entry.percent: entry for entry in _those(entries, method=method)}
        means, low, high = (
            [at[share].ours + side * at[share].spread if share in at else None for share in percents]
            for side in (0, -1, 1)
        )
        printed: list[float | None] = [published_table2(dataset, method, share)[metric] for share in percents]
        ours.append(_series(method, percents, means, "line", low, high))
        published.append(_series(f"{method}, paper", percents, printed, "dotted"))
    return {
        "kind": "lines",
        "title": f"{dataset}, {METRICS[metric]}",
        "x": {"label": "theta / L (%)", "scale": "linear"},
        "y": {"label": METRICS[metric], "scale": "linear"},
        "series": ours + published,
    }


def _series(
    name: str,
    x: list[int],
    y: list[float | None],
    style: str,
    low: list[float | None] | None = None,
    high: list[float | None] | None = None,
) -> dict[str, Any]:
    return {"name": name, "x": x, "y": y, "low": low, "high": high, "style": style}


def _caption(entries: Sequence[Entry], datasets: Sequence[str], protocol: str) -> str:
    return " ".join(
        [
            "Our values (markers; bars are one standard deviation over seeds) and those that the paper "
            f"prints (dotted), over theta or the rank as a share of the labels, on {listed(datasets)}. "
            f"Our protocol: {protocol}. Higher is better, but for Hamming loss. The scales differ from panel "
            "to panel. Shares beyond the largest possible rank are one and the same model.",
            *(_distance(entries, method) for method in WITH_THETA if _those(entries, method=method)),
            _wins(entries),
        ]
    )


def _distance(entries: Sequence[Entry], method: str) -> str:
    """Say how far our values of a method are from the printed ones."""
    own = _those(entries, method=method)
    shares = [100 * abs(entry.ours / entry.published - 1) for entry in own if entry.published]
    reached = sum(bool(entry.reached) for entry in own)
    return (
        f"{method}: {reached} of {len(own)} values are at least as good as printed; the median distance is "
        f"{np.median(shares):.1f} % of the printed value, the largest {max(shares):.1f} %."
    )


def _wins(entries: Sequence[Entry]) -> str:
    """Count where LRML is the best of the three, in our values and in the printed ones."""
    places: dict[tuple[str, str, int], dict[str, Entry]] = {}
    for entry in entries:
        places.setdefault((entry.dataset, entry.metric, entry.percent), {})[entry.method] = entry
    complete = [place for place in places.values() if len(place) == len(WITH_THETA)]
    ours, printed = (
        sum(_is_best("LRML", place, name) for place in complete) for name in ("ours", "published")
    )
    return (
        f"In {len(complete)} places there are values of all three methods, with four decimals: LRML has the "
        f"best one, or shares it, in {ours} of ours and in {printed} of the paper's."
    )


def _is_best(method: str, place: Mapping[str, Entry], name: str) -> bool:
    values = {other: round(getattr(entry, name), PRINTED_DIGITS) for other, entry in place.items()}
    best = min if place[method].metric in LOWER_IS_BETTER else max
    return bool(values[method] == best(values.values()))


def _alt(entries: Sequence[Entry], datasets: Sequence[str]) -> str:
    groups: dict[tuple[str, str], dict[str, list[Entry]]] = {}
    for entry in sorted(entries, key=lambda entry: datasets.index(entry.dataset)):
        place = groups.setdefault((entry.dataset, METRICS[entry.metric]), {})
        place.setdefault(entry.method, []).append(entry)
    texts = [
        f"{dataset}, {metric}: {', '.join(map(_means, methods.values()))}."
        for (dataset, metric), methods in groups.items()
    ]
    return (
        "Line plots of the metrics over the share of the labels. Means over the shares, ours and in brackets "
        f"the paper's. {' '.join(texts)}"
    )


def _means(entries: Sequence[Entry]) -> str:
    ours = float(np.mean([entry.ours for entry in entries]))
    printed = float(np.mean([entry.published for entry in entries if entry.published is not None]))
    return f"{entries[0].method} {ours:.4f} ({printed:.4f})"
