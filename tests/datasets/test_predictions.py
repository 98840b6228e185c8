from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

from lrml.datasets import PredictionWriter

LABELS = np.array([["red", "a, b"], ["soft", 'q"uote']], dtype=object)
SCORES = np.array([[0.123456789, -2.0], [1e-9, 0.0]])


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "parquet"])
def test_what_was_written_is_there(tmp_path, suffix):
    path = tmp_path / f"tags.{suffix}"
    with PredictionWriter(path, k=2) as out:
        for _ in range(3):
            out.write(np.tile(LABELS, (2500, 1)), np.tile(SCORES, (2500, 1)))
        out.write([[], ["für"]], [[], [1 / 3]])
    if suffix == "jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        frame = pd.DataFrame(json.loads(line) for line in lines)
    else:
        frame = pd.read_parquet(path) if suffix == "parquet" else pd.read_csv(path)
    if suffix.startswith("csv"):
        columns = [f"{part}_{place}" for place in (1, 2) for part in ("tag", "score")]
        assert frame.columns.tolist() == ["row", *columns]
        for part in ("tag", "score"):
            pairs = frame[[f"{part}_1", f"{part}_2"]].to_numpy()
            frame[f"{part}s"] = [[value for value in row if value == value] for row in pairs]  # noqa: PLR0124
    assert frame["row"].tolist() == list(range(1, 15_003))
    for row, tags, scores in ((14_998, LABELS[0], SCORES[0]), (15_000, [], []), (15_001, ["für"], [1 / 3])):
        assert list(frame["tags"][row]) == list(tags)
        np.testing.assert_allclose(list(frame["scores"][row]), scores, rtol=1e-5)
    assert frame["tags"][1][1] == 'q"uote'
    if suffix in ("csv", "jsonl"):
        assert "0.123457" in path.read_text(encoding="utf-8")[:100]


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
