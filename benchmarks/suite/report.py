"""From records to text: the paired comparison, one line per cell, JSON and Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from claims import claims

from lrml._files import atomic_file

Record = dict[str, Any]

COLUMNS = (
    "system",
    "AP",
    "difference",
    "top 1",
    "top 3",
    "top 5",
    "AUC",
    "Hamming",
    "fit ×",
    "fit s",
    "models",
    "per model ×",
    "predict ×",
    "MiB",
    "chosen",
)

INTRODUCTION = """\
# Quality against time

Rows L2-normalised, intercept fitted, original split. Every cell ran in a process of its own.

- `×`: multiples of the time of scikit-learn's Ridge(alpha=1) on dense double-precision data, which is
  measured in the same process right before and after (median).
- `fit`: everything, tuning and the final model included; the median of several where it is short.
- `models`: pairs of a candidate and a split that were really fitted, and grid × folds where those are more.
  `per model` is `fit` over the number really fitted.
- `AP`: average precision. `difference`: from the best linear peer on this test set (bold), with the standard
  error over the test examples, paired.
- `Hamming`: at the natural threshold, 0.5 for least squares and probabilities, 0 for margins.
- `MiB`: peak memory of the fit beyond the data.
"""


def paired_difference(values: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Mean of the differences over the examples, and its standard error s/√n; NaN rows are left out."""
    differences = values.astype(np.float64) - reference.astype(np.float64)
    differences = differences[~np.isnan(differences)]
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def versus(values: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    return dict(zip(("difference", "standard_error"), paired_difference(values, reference), strict=True))


def add_comparison(records: list[Record], per_example: dict[str, np.ndarray]) -> None:
    """Compare every record of one dataset with the linear peer that is best so far on the test set.

    Ours are compared with every linear peer.
    """
    measured = [record for record in records if "metrics" in record]
    peers = [record for record in measured if record["kind"] == "linear peer"]
    if not peers:
        return
    best = max(peers, key=lambda record: record["metrics"]["average_precision"])["system"]
    for record in measured:
        difference, error = paired_difference(per_example[record["system"]], per_example[best])
        record["compared_with"] = best
        record["ap_difference"], record["ap_difference_se"] = difference, error
        if record["kind"] == "ours":
            record["ap_versus"] = {
                peer["system"]: versus(per_example[record["system"]], per_example[peer["system"]])
                for peer in peers
            }


def cell_line(record: Record) -> str:
    """Return what the terminal says about a finished cell."""
    start = f"{record['dataset']:10}{record['system']:32}"
    if "left_out" in record:
        return f"{start}left out: {record['left_out']}"
    quality = record.get("metrics", {}).get("average_precision")
    return (
        f"{start}{'AP ' + format(quality, '.4f') if quality is not None else 'time only':10}"
        f"{record['fit_ratio']:10.3g} × Ridge ({record['fit_seconds']:.3g} s)"
        f"{record['ratio_per_candidate']:10.3g} × for each of {record['candidates']}"
    )


def write_json(content: dict[str, Any], folder: Path) -> None:
    def plain(value: Any) -> Any:  # chosen parameters may be NumPy's numbers, or anything
        return value.item() if isinstance(value, np.generic) else str(value)

    with atomic_file(folder / "bench.json") as stream:
        stream.write((json.dumps(content, indent=1, default=plain) + "\n").encode())


def number(value: float | None, digits: int = 3) -> str:
    """Return a few significant digits without exponent, or nothing for None."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def signed(record: Record) -> str:
    if record.get("compared_with") in (None, record["system"]):
        return ""
    return f"{record['ap_difference']:+.4f} ± {record['ap_difference_se']:.4f}"


def listed(parameters: dict[str, Any]) -> str:
    """Return names and values, the numbers short."""

    def short(value: Any) -> str:
        if isinstance(value, (list, tuple)):
            return "(" + " ".join(map(short, value)) + ")"
        return number(value) if isinstance(value, float) else str(value)

    return ", ".join(f"{name} {short(value)}" for name, value in parameters.items())


def cells(record: Record) -> list[str]:
    """Return one row of the table, in the order of ``COLUMNS``."""
    metrics = record.get("metrics", {})
    shown = [
        f"{metrics[key]:.4f}" if key in metrics else ""
        for key in ("precision_at_1", "precision_at_3", "precision_at_5", "average_auc")
    ]
    quality = f"{metrics['average_precision']:.4f}" if metrics else ""
    hamming = f"{metrics['hamming_loss']:.4f}" if metrics else ""
    memory = record["peak_bytes"]
    fitted, nominal = record["candidates"], record["nominal_candidates"]
    times = (record["fit_ratio"], record["fit_seconds"])
    best = record.get("compared_with") == record["system"]
    return [
        f"**{record['system']}**" if best else record["system"],
        quality,
        signed(record),
        *shown,
        hamming,
        *map(number, times),
        str(fitted) if fitted == nominal else f"{fitted} of {nominal}",
        number(record["ratio_per_candidate"]),
        number(record["predict_ratio"]),
        "" if memory is None else f"{memory / 2**20:.0f}",
        listed(record["chosen"]),
    ]


def line(values: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(values) + " |"


def markdown(content: dict[str, Any]) -> str:
    """Return the report: per dataset a table, the claims, the settings, and what was left out and why."""
    machine = content["machine"]
    versions = ", ".join(f"{name} {found or '(absent)'}" for name, found in machine["versions"].items())
    parts = [INTRODUCTION, f"Python {machine['python']}, {machine['cores']} cores; {versions}.\n"]
    if content["quick"]:
        parts.append("Short grids (`--quick`): these numbers only show that it runs.\n")
    for dataset in dict.fromkeys(record["dataset"] for record in content["records"]):
        records = [record for record in content["records"] if record["dataset"] == dataset]
        rows = [cells(record) for record in records if "left_out" not in record]
        rule = ["---", *["---:"] * (len(COLUMNS) - 2), "---"]
        parts.append("\n".join([f"## {dataset}\n", line(COLUMNS), line(rule), *map(line, rows), ""]))
        told = [record for record in records if record.get("settings")]
        settings = [f"- {record['system']}: {listed(record['settings'])}" for record in told]
        parts.append("\n".join(["Claims:\n", *map(str, claims(dataset, records)), ""]))
        parts.append("\n".join(["Settings that are not defaults, and grids:\n", *settings, ""]))
        parts.extend(
            f"Left out: {record['system']}. {record['left_out']}\n"
            for record in records
            if "left_out" in record
        )
    parts.extend(f"Left out: {name}. {reason}\n" for name, reason in content["datasets_left_out"].items())
    return "\n".join(parts)
