from __future__ import annotations

import gzip
import json
import os

import numpy as np
import pandas as pd
import pytest

from lrml.datasets import PredictionWriter

LABELS = np.array([["red", "a, b"], ["soft", 'q"uote']], dtype=object)
SCORES = np.array([[0.123456789, -2.0], [1e-9, 0.0]])


def test_csv(tmp_path):
    path = tmp_path / "tags.csv.gz"
    with PredictionWriter(path, k=2) as out:
        out.write(LABELS, SCORES)
        out.write([[], ["red"]], [[], [0.5]])
    frame = pd.read_csv(path)
    assert frame.columns.tolist() == ["row", "tag_1", "score_1", "tag_2", "score_2"]
    assert frame["row"].tolist() == [1, 2, 3, 4]
    assert frame["tag_2"].fillna("").tolist() == ["a, b", 'q"uote', "", ""]
    np.testing.assert_allclose(frame["score_1"], [0.123457, 1e-9, np.nan, 0.5], rtol=1e-6)
    assert gzip.decompress(path.read_bytes()).count(b"\n") == 5


def test_json_lines(tmp_path):
    with PredictionWriter(tmp_path / "tags.jsonl") as out:
        out.write(LABELS, SCORES)
        out.write([["für", 3]], [[1 / 3, 2.0]])
    rows = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {"row": 1, "tags": ["red", "a, b"], "scores": [0.123457, -2.0]}
    assert rows[2] == {"row": 3, "tags": ["für", 3], "scores": [0.333333, 2.0]}


def test_parquet(tmp_path):
    with PredictionWriter(tmp_path / "tags.parquet") as out:
        for _ in range(3):
            out.write(np.tile(LABELS, (2500, 1)), np.tile(SCORES, (2500, 1)))
    frame = pd.read_parquet(tmp_path / "tags.parquet")
    assert frame["row"].tolist() == list(range(1, 15_001))
    assert frame["tags"][14_998].tolist() == LABELS[0].tolist()
    assert frame["scores"][14_998].tolist() == SCORES[0].tolist()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_file_appears_whole_or_not_at_all(tmp_path, suffix):
    path = tmp_path / f"tags.{suffix}"
    path.write_text("older")
    with pytest.raises(FileNotFoundError, match="of the input"), PredictionWriter(path) as out:  # noqa: PT012
        out.write(LABELS, SCORES)
        raise FileNotFoundError("of the input")  # not to be taken for a fault of the output
    assert path.read_text() == "older"
    with PredictionWriter(path, k=2):
        pass
    assert path.read_text(errors="replace") != "older"
    assert os.listdir(tmp_path) == [path.name]


def test_wrong_use(tmp_path):
    with pytest.raises(ValueError, match=r"a\.txt"):
        PredictionWriter(tmp_path / "a.txt")
    for path, labels, scores, error, message in (
        ("a.csv", LABELS, SCORES, ValueError, "k=1"),
        ("a.csv", LABELS[:, :1], SCORES, ValueError, "longer"),
        ("none/a.csv", LABELS, SCORES, OSError, "none"),
    ):
        with pytest.raises(error, match=message), PredictionWriter(tmp_path / path, k=1) as out:
            out.write(labels, scores)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_full_disk(tmp_path, monkeypatch, suffix):
    real = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda name, *rest: real("/dev/full", os.O_WRONLY) if ".part" in str(name) else real(name, *rest),
    )
    with (
        pytest.raises(OSError, match="No space left on device"),
        PredictionWriter(tmp_path / f"tags.{suffix}") as out,
    ):
        out.write(LABELS, SCORES)
