"""Quality against time: our models and their peers on Mulan's datasets, in one run.

    python benchmarks/suite.py [--datasets NAME …] [--systems TEXT …] [--limit SECONDS] [--out FILE]

Rows have unit length, an intercept is fitted, the split is the original one. Every cell runs in a fresh
process with one BLAS thread. Times are CPU seconds of all threads over those of scikit-learn's Ridge(alpha=1)
on dense data, measured in the same process before and after (the shortest). Everything is chosen on training
rows, inside the time. "difference" is that of average precision from the best linear peer on the test
rows, paired. Writes JSON after every cell, and at the end the tables as Markdown and a picture beside it.
Peers that are not installed are left out: `make bench` installs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _bench import (
    Split,
    Tuned,
    cpu_seconds,
    dense,
    head,
    in_a_process,
    in_turns,
    line,
    machine,
    mean_and_error,
    mulan,
    parser,
    peak_of,
    scores_of,
    write_results,
)
from _peers import LibMultiLabel, NapkinXC, Omikuji, himalaya_ridge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from lrml import CPLSTCV, LEML, LEMLCV, LRML, LRMLCV, MLFro, MLFroCV, MLTrace, MLTraceCV, metrics

DATASETS = ("yeast", "corel5k", "bibtex", "delicious")
ALPHAS = np.logspace(-3, 3, 12)
SVC_CS, LOGISTIC_CS = (0.03, 0.1, 0.3, 1.0), (0.3, 1.0, 3.0, 10.0)
UNIT = "Ridge"


def as_double(A: Any) -> Any:
    """Keep the storage, change the type.

    ``label_binarize`` of scikit-learn 1.9.1 casts the numbers of the labels to the type of Y. In bytes they
    wrap around after 256 labels, and the columns change places without a word.
    """
    return A.astype(np.float64)


class System(NamedTuple):
    """A line of the tables: its kind, its estimator, the form it wants data in, and its natural cut."""

    kind: str  # "ours", "paper", "linear peer" or "tree peer"
    make: Callable[[], Any]
    convert: Callable[[Any], Any] = as_double
    cut: float = 0.5


def one_vs_rest(make: Callable[[float], Any], strengths: tuple[float, ...]) -> System:
    return System("linear peer", lambda: Tuned(lambda C: OneVsRestClassifier(make(C)), strengths), cut=0.0)


# The unit and ours come first, the slowest last: a run that is cut short still says something.
SYSTEMS = {
    UNIT: System("linear peer", Ridge, dense),
    "LRML": System("ours", LRML),
    "LRML, coefficients": System("ours", lambda: LRML(space="coefficients")),
    "MLTrace": System("ours", MLTrace),
    "MLFro": System("ours", MLFro),
    "LEML": System("ours", LEML),
    "LRMLCV": System("ours", lambda: LRMLCV(random_state=0)),
    "LRMLCV logistic": System("ours", lambda: LRMLCV(LRML(loss="logistic"), random_state=0), cut=0.0),
    "MLTraceCV": System("ours", lambda: MLTraceCV(random_state=0)),
    "MLFroCV": System("ours", lambda: MLFroCV(random_state=0)),
    "CPLSTCV": System("ours", lambda: CPLSTCV(random_state=0)),
    "LEMLCV": System("ours", lambda: LEMLCV(random_state=0)),
    "Algorithm 1 as printed": System(
        "paper",
        lambda: Tuned(lambda alpha: LRML(0.2, alpha, solver="paper", max_iter=300), np.logspace(0, 1.5, 4)),
    ),
    "Ridge, alpha tuned": System("linear peer", lambda: Tuned(Ridge, ALPHAS), dense),
    "RidgeCV, leave-one-out": System("linear peer", lambda: RidgeCV(ALPHAS), dense),
    "LibMultiLabel one-vs-rest": System("linear peer", lambda: Tuned(LibMultiLabel, SVC_CS), cut=0.0),
    "napkinXC PLT": System("tree peer", NapkinXC),
    "omikuji Parabel": System("tree peer", Omikuji),
    "himalaya RidgeCV": System("linear peer", lambda: himalaya_ridge(ALPHAS), dense),
    "one-vs-rest LinearSVC": one_vs_rest(lambda C: LinearSVC(C=C, random_state=0), SVC_CS),
    "one-vs-rest LogisticRegression": one_vs_rest(
        lambda C: LogisticRegression(C=C, max_iter=1000), LOGISTIC_CS
    ),
}
QUALITY = {
    "AP": "label_ranking_average_precision",
    "top 1": "precision_at_1",
    "top 3": "precision_at_3",
    "top 5": "precision_at_5",
    "AUC": "roc_auc_samples",
    "Hamming": "hamming_loss",
}
COLUMNS = (*QUALITY, "difference", "fit ×", "fit s", "predict ×", "MB")


def measure(system: System, data: Split) -> tuple[dict[str, Any], np.ndarray]:
    """Return a record, and the average precision of every test row."""
    warnings.simplefilter("ignore")  # one-vs-rest says for each label that no training row has it
    with threadpool_limits(1):
        X, Y, X_test = (system.convert(part) for part in (data.X, data.Y, data.X_test))
        rows, labels, test = (dense(part) for part in (data.X, data.Y, data.X_test))
        unit = Ridge().fit(rows, labels)  # pays for lazy imports, too
        model, spans = system.make(), []
        memory = peak_of(lambda: spans.append(cpu_seconds(lambda: model.fit(X, Y))))
        calls = {"unit": lambda: Ridge().fit(rows, labels), "unit predicts": lambda: unit.predict(test)}
        if spans[0] < 1.0:  # too short to be measured once
            calls["fit"] = lambda: system.make().fit(X, Y)
        calls["predict"] = lambda: scores_of(model, X_test, data.Y)
        seconds = in_turns(calls)
        fit = min(spans[0], seconds.get("fit", np.inf))
    found = metrics.evaluate(data.Y_test, scores_of(model, X_test, data.Y), threshold=system.cut)
    record: dict[str, Any] = {column: f"{found[name]:.4f}" for column, name in QUALITY.items()}
    record |= {"fit ×": fit / seconds["unit"], "fit s": fit, "MB": memory and round(1000 * memory)}
    record["predict ×"] = seconds["predict"] / seconds["unit predicts"]
    record["chosen"] = getattr(model, "best_params_", {})
    return record, found.per_example["label_ranking_average_precision"]


def compare(records: list[dict[str, Any]], rows: dict[str, np.ndarray]) -> str | None:
    """Add to every record by how much it leads the best linear peer of these rows; return that peer."""
    peers = [name for name in rows if SYSTEMS[name].kind == "linear peer"]
    best = max(peers, key=lambda name: np.nanmean(rows[name]), default=None)
    for record in records:
        if best is not None and record["system"] in rows and record["system"] != best:
            record["difference"] = mean_and_error(rows[record["system"]] - rows[best])
        else:
            record.pop("difference", None)
    return best


def markdown(dataset: str, records: list[dict[str, Any]], best: str | None) -> str:
    """Return the table of one dataset, with the reasons of those that are missing."""
    lines = [f"## {dataset}\n", head(("system", *COLUMNS, "chosen"))]
    for record in records:
        name = f"**{record['system']}**" if record["system"] == best else record["system"]
        told = record.get("chosen") if "left out" not in record else f"left out: {record['left out']}"
        lines.append(line([name, *(record.get(column) for column in COLUMNS), told]))
    return "\n".join([*lines, ""])


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Draw average precision against the time of the whole fit, one panel per dataset; ours are filled."""
    plt = import_module("matplotlib.pyplot")
    records = [record for record in records if "left out" not in record]
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    systems = list(SYSTEMS)
    columns = min(2, len(datasets))
    rows = -(-len(datasets) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.3 * columns + 2.8, 3.4 * rows + 0.2), squeeze=False, layout="constrained"
    )
    for axis, dataset in zip(axes.flat, datasets, strict=False):
        for record in (one for one in records if one["dataset"] == dataset):
            place = systems.index(record["system"])
            colour = plt.get_cmap("tab10")(place % 10)
            ours = SYSTEMS[record["system"]].kind == "ours"
            axis.plot(
                record["fit ×"],
                float(record["AP"]),
                "osD^v<ph>"[place % 9],
                color=colour,
                markerfacecolor=colour if ours else "white",
                markeredgewidth=1.6,
                markersize=8,
                label=record["system"],
            )
        axis.set(xscale="log", title=dataset)
        axis.grid(alpha=0.25, lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(datasets) :]:
        axis.axis("off")
    figure.supxlabel("CPU time of the whole fit with tuning (scikit-learn's Ridge = 1)", fontsize=10)
    figure.supylabel("average precision on the test rows", fontsize=10)
    handles = {mark.get_label(): mark for axis in axes.flat for mark in axis.lines}
    figure.legend(
        handles.values(),
        handles,
        title="filled: this package",
        loc="outside right center",
        frameon=False,
        fontsize=8.5,
    )
    figure.savefig(path, dpi=160, metadata={"Software": None})


def main() -> None:
    options = parser(__doc__, "bench.json")
    options.add_argument("--datasets", nargs="+", default=DATASETS, metavar="NAME")
    options.add_argument("--systems", nargs="+", default=[""], help="texts in the names of those wanted")
    options.add_argument("--limit", type=float, default=3600.0, help="longest seconds of one cell")
    given = options.parse_args()
    wanted = [name for name in SYSTEMS if any(text.lower() in name.lower() for text in given.systems)]
    everything: list[dict[str, Any]] = []
    texts = ["# Quality against time\n", line(f"{key} {value}" for key, value in machine().items()), ""]
    for dataset in given.datasets:
        data, rows, records = mulan(dataset), {}, []
        for name in wanted:
            outcome = in_a_process(partial(measure, SYSTEMS[name], data), given.limit)
            record = {"dataset": dataset, "system": name}
            if isinstance(outcome, str):
                record["left out"] = outcome
            else:
                record |= outcome[0]
                rows[name] = outcome[1]
            records.append(record)
            best = compare(records, rows)
            print(line([dataset, name, *(record.get(column) for column in COLUMNS)]), flush=True)
            write_results(given.out, everything + records)
        everything += records
        texts.append(markdown(dataset, records, best))
    given.out.with_suffix(".md").write_text("\n".join(texts), encoding="utf8")
    if any("AP" in record for record in everything):
        draw(everything, given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
