"""The findings of a run in about ten sentences: what reproduced, what did not, what is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lrml.experiments.summary._records import Records
from lrml.experiments.summary._significance import (
    BETTER,
    WORSE,
    Value,
    datasets_of,
    equal_rank_values,
    protocols_of,
    table2_values,
)
from lrml.experiments.summary._text import METHODS, METRICS, listed

_RIVALS = ("LEML", "CPLST")
_MOST_PLACES = 6  # at most so many missed values are named in a sentence


def verdict(
    records: Records, tables: Sequence[dict[str, Any]], figures: Sequence[dict[str, Any]]
) -> Iterator[str]:
    """Yield the sentences; they do not mention what was not asked for."""
    if records.failures:
        failed, total = len(records.failures), len(records.records)
        yield f"{failed} of {total} cells failed; their errors are listed at the end."
    yield from (_table1(table["rows"]) for table in tables if table["id"] == "table1")
    found = {figure["id"]: figure["finding"] for figure in figures if "finding" in figure}
    yield from (finding for name, finding in found.items() if name == "figure1")
    yield from _table2(records)
    compared = [value for value in equal_rank_values(records) if value.against is not None]
    if compared:
        yield (
            f"At equal rank, on {listed(datasets_of(compared))}, after Holm's correction LRML is "
            f"{listed(_tallies(compared).values())}."
        )
    yield from (finding for name, finding in found.items() if name != "figure1")


def _table1(rows: Sequence[Mapping[str, Any]]) -> str:
    agree = [row["dataset"] for row in rows if row["agrees"] == "yes"]
    others = [row["dataset"] for row in rows if row["agrees"] != "yes"]
    if not agree:
        return f"Table 1: our statistics do not agree with every printed number of {listed(others)}."
    text = f"Table 1: our statistics agree with every printed number of {listed(agree)}"
    return text + (f"; not of {listed(others)}." if others else ".")


def _table2(records: Records) -> Iterator[str]:
    """Say how many published values are reached, and how our LRML compares with our rivals."""
    values = table2_values(records)
    for protocol in protocols_of(values):
        own = [value for value in values if value.protocol == protocol]
        clauses = [*_reached(own), *_significant(own)]
        if clauses:
            summary = records.protocols[protocol].summary
            yield f"Table 2, protocol {protocol} ({summary}): {'; '.join(clauses)}."


def _reached(values: Sequence[Value]) -> Iterator[str]:
    printed = [value for value in values if value.published is not None]
    reached: dict[str, list[bool]] = {}
    for value in sorted(printed, key=lambda value: list(METHODS).index(value.method)):
        reached.setdefault(value.method, []).append(bool(value.reached))
    if reached:
        counts = listed(f"{sum(r)} of {len(r)} ({METHODS[method]})" for method, r in reached.items())
        yield f"the published values are reached or surpassed in {counts} cells"
    if "LRML" in reached:
        yield _missed([value for value in printed if value.method == "LRML" and not value.reached])


def _missed(values: Sequence[Value]) -> str:
    if not values:
        return "LRML misses none"
    places: dict[tuple[str, str], int] = {}
    for value in values:
        place = (METRICS[value.metric], value.dataset)
        places[place] = places.get(place, 0) + 1
    if len(places) > _MOST_PLACES:
        return f"LRML misses {len(values)}, which the table of missed cells lists"
    return "LRML misses " + listed(f"{n} of {metric} on {data}" for (metric, data), n in places.items())


def _significant(values: Sequence[Value]) -> Iterator[str]:
    tallies = _tallies(values)
    # CPLST centres by definition, so that only it has something like an intercept under this protocol.
    unequal = values[0].protocol == "paper" and "CPLST" in tallies
    caveat = ", which alone has an intercept here, by its definition" if unequal else ""
    if tallies:
        yield f"after Holm's correction our LRML is {listed(tallies.values())}{caveat}"


def _tallies(values: Sequence[Value]) -> dict[str, str]:
    """Count, for every rival that LRML can be compared with, where it is better and where worse."""
    found = {}
    for rival in _RIVALS:
        own = [value for value in values if value.method == rival and value.against is not None]
        better = sum(value.corrected_mark == BETTER for value in own)
        worse = sum(value.corrected_mark == WORSE for value in own)
        if own:
            counts = f"better in {better} and worse in {worse} of {len(own)} cells"
            found[rival] = f"{counts} than {METHODS[rival]}"
    return found
