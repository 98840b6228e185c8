"""What a strict type checker says of a program that uses the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lrml

pytest.importorskip("mypy")

CLIENT = """
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import lrml
from lrml import LRML, LRMLCV, SpectralRegressor, TextTagger, lrml_path, predict_top_k
from lrml.datasets import Dataset, load_yeast, make_tagged_texts, open_source
from lrml.estimators import TopK
from lrml.metrics import evaluate, f1_micro
from lrml.model_selection import MultilabelStratifiedKFold
from lrml.penalties import TailSum
from lrml.thresholds import Cut


def labels() -> float:
    yeast: Dataset = load_yeast()
    X, Y = yeast.train
    model: LRML = LRML(theta=3, alpha=20.0, threshold=Cut("f1_micro")).fit(X, Y)
    best: TopK = predict_top_k(model, X, k=3)
    search: LRMLCV = LRMLCV(LRML(loss="logistic"), cv=MultilabelStratifiedKFold(3), random_state=0)
    assert_type(search.fit(X, Y).score(X, Y), float)
    lrml.save(model, "model.lrml")
    micro = float(f1_micro(Y, model.predict(X)))
    return micro + float(best.scores[0, 0]) + evaluate(model, X, Y)["f1_micro"]


def targets(X: NDArray[np.float64], Y: NDArray[np.float64]) -> int:
    model = SpectralRegressor(penalty=TailSum(2, 5.0)).fit(X, Y)
    return int(model.rank_) + len(lrml_path(X, Y, thetas=[0, 2]))


def texts(path: str) -> list[list[str]]:
    source = open_source(path)
    for block in source.blocks(rows=100):
        print(block.X.shape)
    articles = make_tagged_texts(100)
    return TextTagger().fit(articles.texts, articles.tags).predict(["a telescope"])
"""
# Each line is refused by the checker, which it would not be if names were Any.
MISTAKES = """
from lrml import LRML, save
from lrml.metrics import f1_micro
from lrml.datasets import load_yeast

LRML(max_iter="many")
save(LRML())
load_yeast().trian
"""


def checked(tmp_path: Path, code: str) -> tuple[int, str]:
    (tmp_path / "client.py").write_text(code, "utf-8")
    cache = Path(__file__).parents[1] / ".mypy_cache" / "client"
    # Not what another clone has installed here, and of ours only what a user would hear of.
    source = Path(lrml.__file__).parents[1]
    paths = {} if source.name == "site-packages" else {"MYPYPATH": str(source)}
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--cache-dir", str(cache), "client.py"]
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout


def test_a_program_is_typed_strictly(tmp_path: Path) -> None:
    code, told = checked(tmp_path, CLIENT)
    assert code == 0, told


def test_mistakes_are_seen(tmp_path: Path) -> None:
    _, told = checked(tmp_path, MISTAKES)
    assert [line.split(":")[1] for line in told.splitlines() if ": error:" in line] == ["6", "7", "8"]
