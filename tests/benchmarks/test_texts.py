"""The reader of apt's package lists, on files of their format."""

import gzip
import lzma
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

PACKAGES = """\
Package: 0ad-data
Version: 0.0.26-1
Description: Real-time strategy game of ancient warfare (data)
Description-md5: 1f2c
Tag: game::strategy, role::app-data,
 use::gameplaying
Section: games

Package: untagged
Description: no tags at all
Description-md5: 2222

Package: gcc-12
Description: GNU C compiler
Description-md5: 3333
Tag: devel::compiler, role::program

"""
TRANSLATIONS = """\
Package: 0ad-data
Description-md5: 1f2c
Description-en: Real-time strategy game of ancient warfare (data)
 0 A.D. is a free, open-source game: cross-platform.
 .
 This package has the data.

Package: other
Description-md5: 9999
Description-en: something else
"""


@pytest.fixture
def texts(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("_texts")


@pytest.fixture
def lists(tmp_path):
    (tmp_path / "main_binary-amd64_Packages.xz").write_bytes(lzma.compress(PACKAGES.encode()))
    (tmp_path / "security_binary-amd64_Packages").write_text("Package: a\nTag: b\n", encoding="utf8")
    (tmp_path / "main_i18n_Translation-en.gz").write_bytes(gzip.compress(TRANSLATIONS.encode()))
    return tmp_path


def test_tags_and_descriptions_meet_by_their_checksum(texts, lists):
    documents = texts.read_documents(*texts.find_lists(lists))
    found = dict(zip(documents.texts, documents.tags, strict=True))
    assert found == {
        " ad data Real-time strategy game of ancient warfare (data) 0 A.D. is a free, open-source game: "
        "cross-platform. . This package has the data.": [
            "game::strategy",
            "role::app-data",
            "use::gameplaying",
        ],
        "gcc    GNU C compiler": ["devel::compiler", "role::program"],
    }


def test_sets_have_the_asked_for_shape(texts):
    words = ["apple pear", "apple plum", "pear plum", "fig apple", "plum fig", "pear fig", "apple fig"]
    tags = [["a", "rare"], ["b"], ["a", "b"], ["a"], ["b"], ["a"], ["b"]]
    found = texts.text_set(texts.Documents(words, tags), rows=5, features=3, least=2)
    assert [part.shape for part in found] == [(5, 3), (5, 2), (2, 3), (2, 2)]
    np.testing.assert_array_equal(found.Y.toarray()[:3], [[1, 0], [0, 1], [1, 1]])
    lengths = np.sqrt((found.X.toarray() ** 2).sum(axis=1))
    np.testing.assert_allclose(lengths, 1.0)
    with pytest.raises(ValueError, match="have 7 tagged packages"):
        texts.text_set(texts.Documents(words, tags), rows=7, features=3, least=2)
