"""The README.md beside a model file: what was fitted and how to use it, headed by what hubs read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lrml._inner import facts_of, in_words, inner_model
from lrml._shown import counted, printable, shown

_MARK = "library_name: lrml"
_MOST_NAMES = 20  # of labels and features
_CARD = """\
---
{mark}
pipeline_tag: {task}
tags: {tags}
metrics: {metrics}
---

# {name}

A model of lrml with {labels}.

## What was fitted

{fitted}

## How to use it

```python
import lrml

model = lrml.load({file})  # numbers and names only: loading it runs nothing
X = {rows}
model.predict(X){best}
```
"""
_BEST = """
lrml.predict_top_k(model, X, k={k})  # the best {k} labels of each row, with scores"""


def card_of(model: Any, file: str, summary: Mapping[str, Any]) -> str:
    """Return the card of a fitted model; ``metrics`` of the summary, a dictionary, are named in its head."""
    facts, inner = facts_of(model), inner_model(model, "save")
    first = (*inner.steps, inner.model)[0]
    texts, tags = inner.reads_texts, hasattr(inner.model, "predict_top_k")
    measured = summary.get("metrics")
    metrics = [str(name) for name in measured] if isinstance(measured, Mapping) else []
    metrics += [facts["scoring"].replace(" ", "_")] if "scoring" in facts else []
    fitted = [f"- {line}" for line in in_words(facts)]
    if summary:
        fitted += ["", "| training | |", "| --- | --- |"]
        fitted += [f"| {_cell(key)} | {_cell(value)} |" for key, value in summary.items()]
    rows = '["a text", "another"]'
    if not texts:
        names = getattr(first, "feature_names_in_", ())
        rows = f"...  # {_counted(first.n_features_in_, 'feature', names)}"
    return _CARD.format(
        mark=_MARK,
        task=f"{'text' if texts else 'tabular'}-{'classification' if tags else 'regression'}",
        tags=json.dumps(["multi-label" if tags else "multi-output", "low-rank", "scikit-learn"]),
        metrics=json.dumps(list(dict.fromkeys(metrics))),
        name=printable(Path(file).stem),
        labels=_counted(facts["labels"], "label", inner.model.classes_ if tags else ()),
        fitted="\n".join(fitted),
        file=json.dumps(file),
        rows=rows,
        best=_BEST.format(k=min(5, facts["labels"])) if tags else "",
    )


def place_of_card(path: str | os.PathLike[str]) -> Path:
    """Return where the card of a model file goes; a README.md that is no card of ours is not replaced."""
    place = Path(path).parent / "README.md"
    if place.exists() and _MARK not in place.read_text("utf-8", "replace"):
        raise FileExistsError(
            f"{shown(str(place))} is there already, and no model card of lrml. Save the model in a folder of "
            "its own, or leave card out."
        )
    return place


def _counted(number: int, unit: str, names: Iterable[Any]) -> str:
    """Return a number of things, and their names, if they are no numbers; of very many only the first."""
    names = [_cell(name) for name in names if isinstance(name, str)]
    more = ", …" if len(names) > _MOST_NAMES else ""
    return counted(number, unit) + (f": {', '.join(names[:_MOST_NAMES])}{more}" if names else "")


def _cell(value: Any) -> str:
    """Return a value on one line of a table."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return printable(text).replace("\n", " ").replace("|", "\\|")
