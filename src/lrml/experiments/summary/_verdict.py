"""What a run says about the paper, in about ten sentences: what reproduced, what did not, what is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lrml.experiments.summary._columns import METHODS, METRICS, listed
from lrml.experiments.summary._entries import (
    Entry,
    datasets_of,
    equal_rank_entries,
    protocols_of,
    table2_entries,
)
from lrml.experiments.summary._results import Results
from lrml.experiments.summary._significance import BETTER, WORSE

_RIVALS = ("LEML", "CPLST")


def verdict(
    results: Results, tables: Sequence[dict[str, Any]], figures: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the sentences; what was not asked for is not spoken of."""
    by_id = {part["id"]: part for part in (*tables, *figures)}
    sentences: list[str] = []
    parts: list[Callable[[], Iterator[str]]] = [
        lambda: _failures(results),
        lambda: _table1(by_id),
        lambda: _findings(by_id, "figure1"),
        lambda: _table2(results),
        lambda: _equal_rank(results),
        lambda: _findings(by_id, "figure2", "figure2_tuned"),
        lambda: _findings(by_id, "figure3", "figure3_strong"),
    ]
    for part in parts:
        sentences += part()
    return sentences


def _failures(results: Results) -> Iterator[str]:
    failed = len(results.failures)
    if failed:
        yield f"{failed} of {len(results.records)} cells failed; their errors are listed at the end."


def _table1(by_id: dict[str, dict[str, Any]]) -> Iterator[str]:
    if "table1" not in by_id:
        return
    rows = by_id["table1"]["rows"]
    agree = [row["dataset"] for row in rows if row["agrees"] == "yes"]
    others = [row["dataset"] for row in rows if row["agrees"] != "yes"]
    if not agree:
        yield f"Table 1: our statistics do not agree with every printed number of {listed(others)}."
        return
    text = f"Table 1: our statistics agree with every printed number of {listed(agree)}"
    yield text + (f"; not of {listed(others)}." if others else ".")


def _findings(by_id: dict[str, dict[str, Any]], *names: str) -> Iterator[str]:
    """Repeat what a figure found."""
    for name in names:
        if name in by_id:
            yield by_id[name]["finding"]


def _table2(results: Results) -> Iterator[str]:
    """Say how many published values are reached, and how LRML stands beside its rivals as we measure them."""
    entries = table2_entries(results)
    for protocol in protocols_of(entries):
        own = [entry for entry in entries if entry.protocol == protocol]
        summary = results.protocols[protocol].summary
        clauses = [*_reached(own), *_significant(own)]
        if clauses:
            yield f"Table 2, protocol {protocol} ({summary}): {'; '.join(clauses)}."


def _reached(entries: Sequence[Entry]) -> Iterator[str]:
    printed = [entry for entry in entries if entry.published is not None]
    counts = []
    for method in ("LRML", *_RIVALS):
        values = [entry for entry in printed if entry.method == method]
        if values:
            counts.append(f"{sum(bool(e.reached) for e in values)} of {len(values)} ({METHODS[method]})")
    if counts:
        yield f"the published values are reached or surpassed in {listed(counts)} cells"
    own = [entry for entry in printed if entry.method == "LRML"]
    if own:
        yield _missed([entry for entry in own if not entry.reached])


def _significant(entries: Sequence[Entry]) -> Iterator[str]:
    tallies = _tallies(entries)
    if tallies:
        yield f"after Holm's correction our LRML is {listed(tallies.values())}{_caveat(entries, tallies)}"


def _caveat(entries: Sequence[Entry], tallies: Mapping[str, str]) -> str:
    """CPLST centres by definition, so that only it has something like an intercept under this protocol."""
    unequal = entries[0].protocol == "paper" and "CPLST" in tallies
    return ", which alone has an intercept here, by its definition" if unequal else ""


def _missed(entries: Sequence[Entry]) -> str:
    if not entries:
        return "LRML misses none"
    places: dict[tuple[str, str], int] = {}
    for entry in entries:
        place = (METRICS[entry.metric], entry.dataset)
        places[place] = places.get(place, 0) + 1
    if len(places) > 6:
        return f"LRML misses {len(entries)}, which the table of missed cells lists"
    return "LRML misses " + listed(f"{n} of {metric} on {data}" for (metric, data), n in places.items())


def _tallies(entries: Sequence[Entry]) -> dict[str, str]:
    """Count, for every rival that LRML can be compared with, where it is better and where worse."""
    found = {}
    for rival in _RIVALS:
        own = [entry for entry in entries if entry.method == rival and entry.against is not None]
        better = sum(entry.corrected_mark == BETTER for entry in own)
        worse = sum(entry.corrected_mark == WORSE for entry in own)
        if own:
            counts = f"better in {better} and worse in {worse} of {len(own)} cells"
            found[rival] = f"{counts} than {METHODS[rival]}"
    return found


def _equal_rank(results: Results) -> Iterator[str]:
    entries = [entry for entry in equal_rank_entries(results) if entry.against is not None]
    if entries:
        yield (
            f"At equal rank, on {listed(datasets_of(entries))}, after Holm's correction LRML is "
            f"{listed(_tallies(entries).values())}."
        )
