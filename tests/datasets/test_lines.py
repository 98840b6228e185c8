"""Files that are not the text that their names promise."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import pytest

from lrml.datasets import DatasetFormatError, read_dataset

TEXT = b"0,1 1:0.5 2:1\n1 3:2\n"


def zipped(content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("toy.svm", content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("compress", "message"),
    [
        (gzip.compress, r"got gzip data\. Rename the file so that it ends with \.gz"),
        (bz2.compress, r"got bzip2 data\. Rename .* \.bz2"),
        (lzma.compress, r"got xz data\. Rename .* \.xz"),
        (zipped, r"got zip data\. Unpack the archive"),
    ],
)
@pytest.mark.parametrize("name", ["toy.svm", "toy.txt", "toy.arff", "toy.csv"])
def test_compressed_data_without_their_suffix_are_recognised(tmp_path, compress, message, name):
    (tmp_path / name).write_bytes(compress(TEXT))
    options = {"labels": 1} if name.endswith("csv") else {}
    with pytest.raises(DatasetFormatError, match=rf"line 1: the file must hold text, {message}"):
        read_dataset(tmp_path / name, **options)


def test_text_that_is_not_compressed_as_its_suffix_says(tmp_path):
    (tmp_path / "toy.svm.gz").write_bytes(TEXT)
    with pytest.raises(DatasetFormatError, match=r"compressed data must be whole.*rename it without"):
        read_dataset(tmp_path / "toy.svm.gz")


def test_messages_have_no_control_characters(tmp_path):
    (tmp_path / "toy.svm").write_bytes(b"\x1b[31m\x00\xff\x8d 1:1\n")
    with pytest.raises(DatasetFormatError) as caught:
        read_dataset(tmp_path / "toy.svm")
    assert str(caught.value).isprintable()
    assert r"got '\x1b[31m\x00\xff\x8d'" in str(caught.value)
