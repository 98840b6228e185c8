"""Annif asks `lrml serve` for subjects through its own `http` backend, and evaluates what it hears.

    python -m venv annif-env && annif-env/bin/pip install annif
    python benchmarks/annif.py annif-env/bin/annif [--train texts.csv --test more.csv]

Annif has an environment of its own, a vocabulary of the tags, and a project whose `http` backend calls a
model of lrml. Printed are Annif's measures on the test texts, and the precision that lrml measures itself.
Ends with status 1 if the two differ by more than the order of suggestions of one probability, which Annif
chooses as it likes. Without files, the texts are those of `lrml datasets example`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lrml
from lrml.datasets import TextDataset, make_tagged_texts, read_dataset

PROJECT = """
[lrml]
name=lrml
language=en
backend=http
vocab=tags
endpoint={address}/v1/projects/model/suggest
"""
TIES = 0.005
MEASURES = ("Precision@1", "Precision@3", "Precision@5", "NDCG@5", "NDCG@10", "F1@5")


def uri(tag: str) -> str:
    """Return an address for a tag, which Annif's vocabularies need."""
    return "http://example.org/" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in tag)


def write_corpus(data: TextDataset, path: Path) -> None:
    """Write texts as Annif reads them: no header, a tabulator, addresses in angle brackets."""
    rows = zip(data.texts, data.tags, strict=True)
    lines = (f"{' '.join(text.split())}\t{' '.join(f'<{uri(tag)}>' for tag in tags)}" for text, tags in rows)
    path.write_text("\n".join(lines) + "\n")


def best_tags(tagger: Any, texts: list[str]) -> Any:
    """Return the five tags that the server puts first: of the ten best scores, those likeliest."""
    chances, scores = tagger.predict_proba(texts), tagger.decision_function(texts)
    chances[scores < np.sort(scores, axis=1)[:, [-10]]] = 0.0
    return tagger.classes_[np.lexsort((-scores, -chances))[:, :5]]


def measured(annif: Path, folder: Path, address: str) -> dict[str, float]:
    """Return what Annif measures of a server."""
    (folder / "projects.cfg").write_text(PROJECT.format(address=address))
    surroundings: dict[str, Any] = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": ""}}
    for words in ("load-vocab tags tags.csv", "eval lrml test.tsv --metrics-file found.json"):
        subprocess.run([annif, *words.split()], check=True, stdout=subprocess.DEVNULL, **surroundings)
    found: dict[str, float] = json.loads((folder / "found.json").read_text())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("annif", type=Path)
    parser.add_argument("--train")
    parser.add_argument("--test")
    options = parser.parse_args()
    if options.train is None:
        train, test = make_tagged_texts(1000, random_state=0), make_tagged_texts(300, random_state=1)
    else:
        train, test = (read_dataset(path) for path in (options.train, options.test))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(train, folder / "train.tsv")
        write_corpus(test, folder / "test.tsv")
        names = (f'{uri(tag)},"{tag}"\n' for tag in sorted({*train.label_names, *test.label_names}))
        (folder / "tags.csv").write_text("uri,label_en\n" + "".join(names))
        model, command = folder / "model.lrml", [sys.executable, "-m", "lrml"]
        subprocess.run([*command, "tune", folder / "train.tsv", "-o", model, "--quiet"], check=True)
        serve = [*command, "serve", model, "--port", "0"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
                found = measured(options.annif.absolute(), folder, address)
            finally:
                server.terminate()
        rows = read_dataset(folder / "test.tsv")
        best = best_tags(lrml.load(model), rows.texts)
    print("  ".join(f"{measure} {found[measure]:.4f}" for measure in MEASURES))
    differ = False
    for k in (1, 3, 5):
        hits = [len({*row[:k]} & {*tags}) / k for row, tags in zip(best.tolist(), rows.tags, strict=True)]
        ours = sum(hits) / len(hits)
        print(f"precision@{k} by lrml: {ours:.4f}")
        differ |= abs(ours - found[f"Precision@{k}"]) > TIES
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
