"""The model card beside a file: front matter that hubs can read, and code that runs as printed."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lrml
from lrml import LRML, LRMLCV, MLFro, SpectralRegressor, TextTagger

TEXTS, TAGS = ["a fast chess engine", "a photo viewer"] * 3, [["game | fun"], ["image\n"]] * 3
X = pd.DataFrame(np.random.default_rng(0).standard_normal((30, 3)), columns=["a", "b", "c|d"])
Y = pd.DataFrame((X.to_numpy()[:, :2] > 0).astype(int), columns=["p", "q"])
MODELS = {
    "tagger": lambda: TextTagger(MLFro(1.0)).fit(TEXTS, TAGS),
    # One text more often than the other: else both singular values are equal, and any rotation would do.
    "pipeline of texts": lambda: make_pipeline(
        TfidfVectorizer(), TruncatedSVD(2, random_state=0), MLFro(1.0)
    ).fit([*TEXTS, TEXTS[0]], np.eye(2, dtype=int)[[0, 1, 0, 1, 0, 1, 0]]),
    "search": lambda: LRMLCV(LRML(threshold="auto"), random_state=0).fit(X, Y),
    "pipeline of rows": lambda: make_pipeline(StandardScaler(), LRML(loss="logistic")).fit(X, Y),
    "kernel": lambda: MLFro(1.0, kernel="rbf").fit(X.to_numpy(), Y),
    "regressor": lambda: SpectralRegressor().fit(X, X @ np.ones((3, 2))),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_card_says_what_it_is_and_how_to_use_it(name, tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    model, summary = MODELS[name](), {"metrics": {"f1_micro": 0.5}, "data": "a | b\nc"}
    lrml.save(model, tmp_path / "my model.lrml", summary=summary, card=True)
    card = (tmp_path / "README.md").read_text("utf-8")
    _, head, body = card.split("---\n", 2)
    facts = yaml.safe_load(head)
    kind = "text" if "text" in name or name == "tagger" else "tabular"
    assert facts["library_name"] == "lrml"
    assert facts["pipeline_tag"] == f"{kind}-{'regression' if name == 'regressor' else 'classification'}"
    assert facts["metrics"][0] == "f1_micro"
    assert ("label_ranking_average_precision" in facts["metrics"]) == (name == "search")
    assert "2 labels" in body
    assert r"| data | a \| b c |" in body
    assert ("p, q" in body) == (name in ("search", "pipeline of rows", "kernel"))
    (code,) = re.findall(r"```python\n(.*?)```", body, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    values = X.to_numpy() if name == "kernel" else X
    found = {"given": values}
    exec(code if kind == "text" else code.replace("X = ...", "X = given"), found)
    assert type(found["model"]) is type(model)


def test_a_readme_of_somebody_else_stays_and_nothing_is_written(tmp_path):
    other = tmp_path / "README.md"
    other.write_text("mine")
    with pytest.raises(FileExistsError):
        lrml.save(MODELS["tagger"](), tmp_path / "model.lrml", card=True)
    assert (other.read_text(), [*tmp_path.iterdir()]) == ("mine", [other])
    other.unlink()
    for _ in range(2):  # a card of ours is replaced
        lrml.save(MODELS["tagger"](), tmp_path / "model.lrml", card=True)
    with pytest.raises(TypeError):
        lrml.save(MODELS["tagger"](), tmp_path / "model.lrml", card="yes")
