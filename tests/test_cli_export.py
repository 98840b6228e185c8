"""`lrml export` as a process, and what onnxruntime makes of its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrml
from forking import run_program
from lrml import MLFro, TextTagger
from lrml.cli import main
from lrml.datasets import load_yeast

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")


def test_a_model_file_becomes_a_graph_with_the_same_answers(tmp_path: Path, capsys: Any) -> None:
    texts, tags = ["a chess engine", "an image viewer"] * 2, [["game"], ["image"]] * 2
    model = TextTagger(MLFro(0.1)).fit(texts, tags)
    source, target = tmp_path / "model.lrml", tmp_path / "model.onnx"
    lrml.save(model, source)
    done = run_program("export", source, target, "--top-k", 1)
    assert done.returncode == 0, done.stderr
    assert "Input text: n, string." in done.stdout
    assert "Output top_labels: n × 1, string." in done.stdout
    running = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    (best,) = running.run(["top_labels"], {"text": np.array(["chess", "images viewer"], dtype=object)})
    assert best.tolist() == [["game"], ["image"]]

    assert main(["export", str(source), str(target)]) == 2
    assert f"OUT.onnx: {str(target)!r}" in capsys.readouterr().err
    assert main(["export", str(source), str(target), "--force", "--no-text", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bytes"] == target.stat().st_size
    assert [one["name"] for one in document["inputs"]] == ["features"]
    assert document["outputs"] == [{"name": "scores", "shape": ["n", 2], "type": "float"}]


def test_what_cannot_be_exported_is_told_and_leaves_no_file(tmp_path: Path, capsys: Any) -> None:
    X, Y = load_yeast().train
    source, target = tmp_path / "model.lrml", tmp_path / "model.onnx"
    lrml.save(MLFro(1.0, kernel="rbf").fit(X[:30], Y[:30]), source)
    assert main(["export", str(source), str(target)]) == 2
    said = capsys.readouterr().err
    assert "must have kernel='linear', got kernel='rbf'" in said
    assert len(said.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.lrml"]
