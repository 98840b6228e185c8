"""What this package claims beside its peers, each claim computed from the records of one dataset.

Times are multiples of the unit that was measured in the same process, so that cells can be compared. Models
tried are those really fitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ours import LogisticLrmlCV, LrmlCV, Path, SameGridAsPath
from systems import LeaveOneOutRidge, UnitRidge

Record = dict[str, Any]

MOST_RIDGE_FITS = {"bibtex": 10, "delicious": 35}
MOST_DECOMPOSITIONS = 8
MOST_PATHS = 6
TOP_SLACK = 0.003
TOPS = ("precision_at_1", "precision_at_3", "precision_at_5")


class Claim(NamedTuple):
    """A sentence, whether it holds (None: a cell that it is about is missing), and the numbers."""

    text: str
    holds: bool | None
    numbers: str

    def __str__(self) -> str:
        verdict = {True: "holds", False: "does not hold", None: "not measured"}[self.holds]
        return f"- **{verdict}**: {self.text}" + (f": {self.numbers}." if self.numbers else ".")


class Cells(dict[str, Record]):
    """The finished records of one dataset, by system."""

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)
        super().__init__((record["system"], record) for record in records if "left_out" not in record)
        missing = [r["system"] for r in records if "left_out" in r and r["kind"] == "linear peer"]
        # A verdict about every peer must say which of them it is not about.
        self.exceptions = f" (without {', '.join(missing)}, left out)" if missing else ""

    def linear_peers(self) -> list[Record]:
        """Return the unit and the tuned linear models of other packages."""
        return [record for record in self.values() if record["kind"] == "linear peer"]

    def tuned_peers(self) -> list[Record]:
        """Return those that chose among several candidates."""
        return [record for record in self.linear_peers() if record["candidates"] > 1]


def shown(system: str) -> str:
    return f"{system} (untuned)" if system == UnitRidge.name else system


def precision(record: Record) -> float:
    return record["metrics"]["average_precision"]


def path_is_short(cells: Cells, most: int) -> Claim:
    text = f"{Path.name} takes at most {most} Ridge fits"
    if Path.name not in cells:
        return Claim(text, None, "")
    ratio = cells[Path.name]["fit_ratio"]
    return Claim(text, ratio <= most, f"{ratio:.1f}")


def few_decompositions(cells: Cells) -> Claim:
    text = f"{Path.name} takes at most {MOST_DECOMPOSITIONS} decompositions a model, in the mean"
    if Path.name not in cells:
        return Claim(text, None, "")
    mean = cells[Path.name]["mean_decompositions"]
    return Claim(text, mean <= MOST_DECOMPOSITIONS, f"{mean:.1f}")


def choosing_is_cheap(cells: Cells) -> Claim:
    text = f"{SameGridAsPath.name}, takes at most {MOST_PATHS} times as long as {Path.name}"
    if Path.name not in cells or SameGridAsPath.name not in cells:
        return Claim(text, None, "")
    search, path = cells[SameGridAsPath.name], cells[Path.name]
    ratio = search["fit_ratio"] / path["fit_ratio"]
    fitted = f"{search['candidates']} of {search['nominal_candidates']} models fitted"
    numbers = f"{ratio:.1f} ({search['fit_ratio']:.1f} and {path['fit_ratio']:.1f} Ridge fits; {fitted})"
    return Claim(text, ratio <= MOST_PATHS, numbers)


def precise(cells: Cells, system: str, peers: list[Record], text: str) -> Claim:
    """Average precision at or above that of every peer, with paired standard errors."""
    if system not in cells or not peers:
        return Claim(text, None, "")
    versus = cells[system]["ap_versus"]
    differences = ", ".join(
        f"{versus[peer['system']]['difference']:+.4f} ± {versus[peer['system']]['standard_error']:.4f} "
        f"from {shown(peer['system'])}"
        for peer in peers
    )
    holds = all(versus[peer["system"]]["difference"] >= 0 for peer in peers)
    return Claim(text, holds, f"{precision(cells[system]):.4f}; {differences}")


def precise_beside_all(cells: Cells) -> Claim:
    text = f"the AP of {LrmlCV.name} is at or above that of every linear peer{cells.exceptions}"
    return precise(cells, LrmlCV.name, cells.linear_peers(), text)


def precise_beside_ridge(cells: Cells) -> Claim:
    name = LeaveOneOutRidge.name
    text = f"the AP of {LrmlCV.name} (squared loss) is at or above that of {name}"
    return precise(cells, LrmlCV.name, [cells[name]] if name in cells else [], text)


def best_loss_is_precise(cells: Cells) -> Claim:
    ours = [name for name in (LrmlCV.name, LogisticLrmlCV.name) if name in cells]
    text = "the AP of the best of our losses on the test set is at or above that of every linear peer"
    text += cells.exceptions
    if not ours:
        return Claim(text, None, "")
    best = max(ours, key=lambda name: precision(cells[name]))
    claim = precise(cells, best, cells.linear_peers(), text)
    return claim._replace(numbers=f"{best}, {claim.numbers}" if claim.numbers else "")


def top_labels_are_right(cells: Cells) -> Claim:
    text = f"top 1, 3 and 5 of {LrmlCV.name} are not more than {TOP_SLACK} below the best linear peer"
    text += cells.exceptions
    peers = cells.linear_peers()
    if LrmlCV.name not in cells or not peers:
        return Claim(text, None, "")
    holds, numbers = True, []
    for top in TOPS:
        best = max(peers, key=lambda record, top=top: record["metrics"][top])
        difference = cells[LrmlCV.name]["metrics"][top] - best["metrics"][top]
        holds &= difference >= -TOP_SLACK
        numbers.append(f"{top} {difference:+.4f} from {shown(best['system'])}")
    return Claim(text, holds, ", ".join(numbers))


def quick_per_candidate(cells: Cells, system: str) -> Claim:
    text = f"{system} takes less time for each model fitted than every tuned peer{cells.exceptions}"
    peers = cells.tuned_peers()
    if system not in cells or not peers:
        return Claim(text, None, "")
    fastest = min(peers, key=lambda record: record["ratio_per_candidate"])
    numbers = "; ".join(
        f"{record['system']} {record['ratio_per_candidate']:.3g} Ridge fits "
        f"({record['seconds_per_candidate']:.3g} s)"
        for record in (cells[system], fastest)
    )
    holds = cells[system]["ratio_per_candidate"] < fastest["ratio_per_candidate"]
    return Claim(text, holds, f"{numbers} is the fastest of {len(peers)}")


def claims(dataset: str, records: Iterable[Record]) -> list[Claim]:
    """Return the claims about one dataset; those about quality are made for bibtex and delicious only."""
    cells = Cells(records)
    found = [path_is_short(cells, MOST_RIDGE_FITS[dataset])] if dataset in MOST_RIDGE_FITS else []
    found += [few_decompositions(cells), choosing_is_cheap(cells)]
    if dataset == "bibtex":
        found += [precise_beside_all(cells), top_labels_are_right(cells)]
    if dataset == "delicious":
        found += [precise_beside_ridge(cells), best_loss_is_precise(cells)]
    return found + [quick_per_candidate(cells, name) for name in (LrmlCV.name, SameGridAsPath.name)]
