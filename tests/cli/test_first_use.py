"""What a first user meets: files as other programs write them, and messages that say what to type."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import lrml
from cli.programs import tagged_texts
from lrml.cli import main
from lrml.datasets import FORMATS
from lrml.theory import bound_report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts with cells between semicolons and tags between blanks, and a model of them."""
    folder = tmp_path_factory.mktemp("first_use")
    texts, tags = tagged_texts()
    with open(folder / "texts.csv", "w", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["body", "tags"])
        rows.writerows((text, " ".join(some)) for text, some in zip(texts, tags, strict=True))
    lines = (json.dumps({"body": text, "tags": some}) + "\n" for text, some in zip(texts, tags, strict=True))
    (folder / "texts.json").write_text("".join(lines))
    (folder / "text.toml").write_text("[text]\nmindf = 2\n")
    (folder / "model.toml").write_text('[model]\nrule = "smallest"\n')
    lrml.save(lrml.TextTagger(lrml.LRML(ridge=1.0)).fit(texts, tags), folder / "model.lrml")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "texts.json", "-o", "x.lrml"), r"'.json' .*\.svm.*\.jsonl.*format=.*--from csv"),
        (("predict", "model.lrml", "texts.csv", "-k", "0"), "-k is 0,.* 1 to 4"),
        (("predict", "texts.csv", "texts.csv"), "no model file"),
        (
            ("fit", "texts.csv", "-o", "x.lrml", "--config", "text.toml"),
            r"TfidfVectorizer in \[text\] .* 'mindf'\. Did you mean min_df",
        ),
        (
            ("fit", "texts.csv", "-o", "x.lrml", "--config", "model.toml"),
            r"LRML .* 'rule'.* lrml tune \(LRMLCV\)",
        ),
        (("theory", "texts.csv"), "'texts.csv' has texts.*--model"),
    ],
)
def test_messages_name_the_remedy(folder, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(folder)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert re.search(message, told), told
    assert not (folder / "x.lrml").exists()


def test_every_format_can_be_named(folder, capsys):
    out = folder / "named.lrml"
    arguments = ["fit", str(folder / "texts.json"), "--from", "jsonl", "-o", str(out), "--quiet"]
    assert main(arguments) == 0
    assert len(lrml.load(out).classes_) == 4
    for command in ("fit", "tune", "predict", "evaluate"):
        main([command, "--help"])
        assert set(FORMATS) <= set(re.findall(r"[a-z]+", capsys.readouterr().out))


def test_the_theory_of_a_model_of_texts(folder, capsys):
    model = folder / "model.lrml"
    assert main(["theory", str(folder / "texts.csv"), "--model", str(model), "--json", "--draws", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    tagger = lrml.load(model)
    X = tagger.transform(tagged_texts()[0])
    expected = bound_report(tagger.model_, X, n_draws=3, random_state=0)
    assert found["facts"] == pytest.approx(expected.facts)
    assert found["dataset"] == "texts"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write into")
@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "rubbish", "-o"),
        ("tune", "rubbish", "-o"),
        ("tune", "rubbish", "-o", "x.lrml", "--plot"),
        ("predict", "rubbish", "rubbish", "-o"),
        ("evaluate", "rubbish", "rubbish", "--html"),
        ("compare", "rubbish", "--html"),
        ("inspect", "rubbish", "--html"),
        ("export", "rubbish"),
        ("datasets", "convert", "rubbish", "--to", "xmc"),
    ],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read(
    arguments, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubbish").write_bytes(b"\0\1\2")  # read first, it would be the error
    assert main([*arguments, "/proc/out.csv"]) == 2
    assert "'/proc/out.csv' cannot be written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rubbish"]


def test_a_name_that_is_too_long_is_told_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "rubbish").write_bytes(b"\0\1\2")
    assert main(["tune", str(tmp_path / "rubbish"), "-o", str(tmp_path / f"{'x' * 300}.lrml")]) == 2
    assert "File name too long" in capsys.readouterr().err
