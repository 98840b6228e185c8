"""Records in files that other programs read: whole, or not at all."""

from __future__ import annotations

import json
import os

import pandas as pd
import pytest

from lrml.datasets import RecordWriter

COLUMNS = ["row", "id", "tags", "scores"]
ROWS = [
    {"row": 1, "id": "a", "tags": ["red", "a, b"], "scores": [0.123457, -2.0]},
    {"row": 2, "id": "b", "tags": ["soft", 'q"uote'], "scores": [1e-9, 0.0]},
    {"row": 3, "id": "c", "tags": [], "scores": []},
    {"row": 4, "id": "d", "tags": ["für"], "scores": [1 / 3]},
]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "jsonl", "parquet"])
def test_tags_that_were_written_are_there(tmp_path, suffix):
    path = tmp_path / f"tags.{suffix}"
    with RecordWriter(path, COLUMNS, k=2) as out:
        for start in (0, 2):
            out.write(ROWS[start : start + 2])
    if suffix == "jsonl":
        found = list(map(json.loads, path.read_text("utf-8").splitlines()))
    elif suffix == "parquet":
        found = [
            row | {key: row[key].tolist() for key in COLUMNS[2:]}
            for row in pd.read_parquet(path).to_dict("records")
        ]
    else:
        frame = pd.read_csv(path, sep="\t" if suffix == "tsv" else ",")
        assert frame.columns.tolist() == ["row", "id", "tag_1", "score_1", "tag_2", "score_2"]
        pairs = [[(row[f"tag_{n}"], row[f"score_{n}"]) for n in (1, 2)] for _, row in frame.iterrows()]
        known = [[pair for pair in row if isinstance(pair[0], str)] for row in pairs]
        found = [
            {"row": row, "id": name, "tags": [tag for tag, _ in some], "scores": [score for _, score in some]}
            for row, name, some in zip(frame["row"], frame["id"], known, strict=True)
        ]
    assert found == ROWS


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"tags.{suffix}"
    path.write_text("older")
    with pytest.raises(FileNotFoundError, match="of the input"), RecordWriter(path, COLUMNS, k=2) as out:  # noqa: PT012
        out.write(ROWS)
        raise FileNotFoundError("of the input")  # not to be taken for a fault of the output
    assert path.read_text() == "older"
    real = os.open
    full = lambda name, *rest: real("/dev/full" if ".part" in str(name) else name, *rest)  # noqa: E731
    if os.path.exists("/dev/full"):
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", lambda name, flags, *mode: full(name, flags & ~os.O_EXCL, *mode))
            with (
                pytest.raises(OSError, match="No space left on device"),
                RecordWriter(path, COLUMNS, k=2) as out,
            ):
                out.write(ROWS)
    with RecordWriter(path, COLUMNS, k=2):
        pass
    assert path.read_text(errors="replace") != "older"
    assert os.listdir(tmp_path) == [path.name]


def test_wrong_use(tmp_path):
    for name in ("a.txt", "a.svm"):
        with pytest.raises(ValueError, match=name):
            RecordWriter(tmp_path / name, COLUMNS, k=2)
    for path, row, error, message in (
        ("a.csv", ROWS[0], ValueError, "k=1"),
        ("a.csv", ROWS[3] | {"scores": []}, ValueError, "zip"),
        ("none/a.csv", ROWS[3], OSError, "none"),
    ):
        with pytest.raises(error, match=message), RecordWriter(tmp_path / path, COLUMNS, k=1) as out:
            out.write([row])
    assert not list(tmp_path.iterdir())
