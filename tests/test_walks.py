"""Nobody can follow a call through more of the library than these limits: they may only fall."""

from __future__ import annotations

import functools

import pytest

import lrml
from lrml.cli import main
from lrml.datasets import load_yeast, make_tagged_texts, write_dataset
from walks import walk

(X, Y), (X_TEST, _) = load_yeast().train, load_yeast().test


def fitting(member, **parameters):
    return lambda: getattr(lrml, member)(**parameters).fit(X, Y)


@functools.cache
def model():
    return fitting("LRML", theta=3, alpha=20.0)()


def ranking():
    return model().predict_top_k(X_TEST)


@pytest.mark.parametrize(
    ("call", "n_files", "n_functions"),
    [
        (fitting("LRML", theta=3, alpha=20.0), 16, 155),
        (fitting("LRML", loss="logistic"), 19, 222),
        (fitting("LRMLCV", random_state=0), 27, 306),
        (ranking, 6, 36),
    ],
    ids=["LRML.fit", "LRML.fit, logistic", "LRMLCV.fit", "predict_top_k"],
)
def test_a_call_crosses_no_more_than_this(call, n_files, n_functions):
    call()  # imports what it imports late
    crossed = walk(call)
    assert len(crossed.files) <= n_files
    assert len(crossed.functions) <= n_functions


def test_a_walk_names_what_was_entered():
    ranking()  # fits the model
    crossed = walk(ranking)
    assert {name for _, name, _ in crossed.functions} >= {"LabelModel.predict_top_k"}
    assert crossed.files == {file for file, *_ in crossed.functions}
    assert not walk(lambda: None).functions


def test_learning_tags_opens_a_file_once_and_crosses_few_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dataset(make_tagged_texts(300), "articles.csv")
    opened, plain = [], open
    monkeypatch.setattr(
        "builtins.open", lambda path, *rest, **more: opened.append(path) or plain(path, *rest, **more)
    )

    def tune():
        opened.clear()
        assert main(["tune", "articles.csv", "-o", "articles.lrml", "--force"]) == 0

    tune()
    assert len(walk(tune).files) <= 47
    assert [str(path) for path in opened if str(path).endswith(".csv")] == ["articles.csv"]
