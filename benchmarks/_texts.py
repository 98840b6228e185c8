"""Texts with many tags, descriptions of Debian's packages and their debtags, and contests of methods on them.

The package lists of apt have both: `Packages` the tags of every package and the checksum of its
description, `Translation-en` the description. Bookworm's have 30,303 tagged packages with some 600 tags.
On Debian, without touching the system: ``mkdir -p DIR/partial && apt-get -o Acquire::Languages=en
-o Dir::State::lists=DIR update``, then pass ``--lists DIR``.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _bench import (
    Split,
    head,
    in_a_process,
    line,
    mean_and_error,
    parser,
    peak_of,
    scores_of,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import MultiLabelBinarizer

from lrml import metrics

LISTS = Path("/var/lib/apt/lists")
HELPER = Path("/usr/lib/apt/apt-helper")
KINDS = ("*_Packages*", "*_Translation-en*")
HOW_TO = __doc__.partition("On Debian")[2]
_OPEN: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}
N_TEST = 5000


class Documents(NamedTuple):
    """Texts and the tags of each, in a shuffled order that is always the same."""

    texts: list[str]
    tags: list[list[str]]


def find_lists(folder: Path = LISTS) -> tuple[Path, Path]:
    """Return the largest Packages and Translation-en files of a folder: those of the release itself."""
    found = []
    for pattern in KINDS:
        paths = [path for path in folder.glob(pattern) if path.is_file()]
        if not paths:
            raise FileNotFoundError(
                f"{folder} has no file {pattern} of apt's package lists. On Debian{HOW_TO}"
            )
        found.append(max(paths, key=lambda path: path.stat().st_size))
    return found[0], found[1]


def read_list(path: Path) -> str:
    """Return the text of a list: plain, .gz, .xz or .bz2, or by apt itself .lz4 and .zst."""
    if path.suffix in _OPEN:
        return _OPEN[path.suffix](path.read_bytes()).decode("utf8")
    if path.suffix not in (".lz4", ".zst"):
        return path.read_text(encoding="utf8")
    if not HELPER.exists():
        raise FileNotFoundError(f"{path} needs {HELPER}, which is not there. Decompress it first.")
    command = [str(HELPER), "cat-file", str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf8")


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph; continued lines are joined by a space."""
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for one in block.splitlines():
            if one.startswith((" ", "\t")) and name:
                fields[name] += " " + one.strip()
            elif ":" in one:
                name, value = one.split(":", 1)
                fields[name] = value.strip()
        if fields:
            yield fields


def read_documents(packages: Path, translations: Path) -> Documents:
    """Return name and description of every package that has tags."""
    described = {
        fields["Description-md5"]: fields["Description-en"]
        for fields in paragraphs(read_list(translations))
        if "Description-en" in fields and "Description-md5" in fields
    }
    texts, tags = [], []
    for fields in paragraphs(read_list(packages)):
        if fields.get("Tag"):
            words = re.sub(r"[-0-9.]", " ", fields["Package"])
            description = described.get(fields.get("Description-md5", ""), fields.get("Description", ""))
            texts.append(f"{words} {description}")
            tags.append([tag.strip() for tag in fields["Tag"].split(",")])
    if not texts:
        raise ValueError(f"{packages} has no packages with a Tag. On Debian{HOW_TO}")
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    return Documents([texts[i] for i in order], [tags[i] for i in order])


def text_set(
    documents: Documents,
    rows: int,
    features: int | None,
    least: int,
    vectorizer: TfidfVectorizer | None = None,
) -> Split:
    """Make features of the most frequent words and pairs of words; labels are tags of ``least`` packages.

    The first ``rows`` packages are training rows, the next 5,000 test rows.
    """
    if rows >= len(documents.texts):
        raise ValueError(
            f"The lists have {len(documents.texts)} tagged packages; more than {rows} are needed. "
            "Pass lists of Debian 12 or later, or ask for a smaller set."
        )
    counts = Counter(tag for tags in documents.tags for tag in tags)
    kept = [[tag for tag in tags if counts[tag] >= least] for tags in documents.tags]
    # Not bytes: with more than 127 labels of int8, scikit-learn's OneVsRestClassifier mixes up the columns.
    Y = sp.csr_array(MultiLabelBinarizer(sparse_output=True).fit_transform(kept), dtype=np.int64)
    if vectorizer is None:
        vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english", ngram_range=(1, 2))
    vectorizer.set_params(max_features=features)
    end = rows + N_TEST
    X = sp.csr_array(vectorizer.fit_transform(documents.texts[:rows]))
    X_test = sp.csr_array(vectorizer.transform(documents.texts[rows:end]))
    return Split(X, Y[:rows], X_test, Y[rows:end])


class Outcome(NamedTuple):
    """What a fit took, and the quality of each test row."""

    wall: float
    cpu: float
    gigabytes: float | None
    rows: dict[str, np.ndarray]
    f1: dict[str, float]
    chosen: str


def measure(make: Callable[[], Any], data: Split) -> Outcome:
    """Fit once, in a process that has done nothing but be handed the data."""
    warnings.simplefilter("ignore")  # labels without examples, fits that end early: the table tells
    model, clock, cpu = make(), perf_counter(), process_time()
    growth = peak_of(lambda: model.fit(data.X, data.Y.toarray() if isinstance(model, Ridge) else data.Y))
    wall, cpu = perf_counter() - clock, process_time() - cpu
    S, Y = scores_of(model, data.X_test, data.Y), data.Y_test
    rows = {f"P@{k}": metrics.precision_at_k(Y, S, k, per_example=True) for k in (1, 3, 5)}
    rows["AP"] = metrics.label_ranking_average_precision(Y, S, per_example=True)
    cut = getattr(model, "threshold_", None)
    f1 = {}
    if cut is not None:
        f1 = {"micro F1": metrics.f1_micro(Y, S, cut), "macro F1": metrics.f1_macro(Y, S, cut)}
    return Outcome(wall, cpu, growth, rows, f1, description(model))


def description(model: Any) -> str:
    """Return what was chosen, the rank, and the size of the model."""
    parts = [f"{name} {value:.3g}" for name, value in getattr(model, "best_params_", {}).items()]
    if hasattr(model, "nbytes_"):
        parts.append(f"rank {model.rank_}, {model.nbytes_ / 1e6:.1f} MB")
    return "; ".join(parts)


def contest(
    data: Split, methods: dict[str, Callable[[], Any]], reference: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Fit every method in a process of its own, in turns; print and return medians, and the quality.

    "difference" is that of average precision from the reference, paired over the test rows.
    """
    runs: dict[str, list[Outcome]] = {name: [] for name in methods}
    reasons: dict[str, str] = {}
    for _ in range(options.repeat):
        for name, make in methods.items():
            if name not in reasons:
                outcome = in_a_process(partial(measure, make, data), options.limit)
                if isinstance(outcome, str):
                    reasons[name] = outcome
                else:
                    runs[name].append(outcome)
                print(f"{name}: {reasons.get(name) or f'{outcome.cpu:.1f} s'}", file=sys.stderr, flush=True)
    (n, d), n_labels = data.X.shape, data.Y.shape[1]
    per_row = data.X.nnz / n if sp.issparse(data.X) else d
    print(f"\n{n} × {d}, {per_row:.0f} nonzeros a row, {n_labels} labels\n")
    costs, quality = ("wall s", "CPU s", "GB"), ("P@1", "P@3", "P@5", "AP", "micro F1", "macro F1")
    columns = (*costs, *quality, "difference", "chosen")
    print(head(("method", *columns)))
    records = []
    for name, found in runs.items():
        record: dict[str, Any] = {"method": name}
        if found:
            for column, part in zip(costs, ("wall", "cpu", "gigabytes"), strict=True):
                spans = [getattr(one, part) for one in found]
                record[column] = None if None in spans else median(spans)
            last = found[-1]
            record |= {column: f"{np.nanmean(rows):.4f}" for column, rows in last.rows.items()}
            record |= {column: f"{value:.4f}" for column, value in last.f1.items()}
            if runs.get(reference) and name != reference:
                record["difference"] = mean_and_error(last.rows["AP"] - runs[reference][-1].rows["AP"])
        record["chosen"] = found[-1].chosen if found else f"left out: {reasons[name]}"
        print(line(record.get(column) for column in ("method", *columns)), flush=True)
        records.append(record)
    return records


def arguments(documentation: str, out: str, methods: dict[str, Any]) -> argparse.ArgumentParser:
    """Return the parser of a contest."""
    made = parser(documentation, out)
    made.add_argument("--lists", type=Path, default=LISTS, help="folder with apt's package lists")
    made.add_argument("--methods", nargs="+", choices=methods, default=list(methods))
    made.add_argument("--repeat", type=int, default=1)
    made.add_argument("--limit", type=float, default=3600.0, help="seconds for one fit")
    made.add_argument("--quick", action="store_true", help="few rows, to see that everything runs")
    return made
