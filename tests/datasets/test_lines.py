"""Files that are not the text that their names promise."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
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


COMPRESSORS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
FORMATS = {
    "svm": (b"0 1:1\n", {}),
    "txt": (b"1 1 1\n", {}),
    "arff": (b"@attribute a numeric\n", {"labels": 1}),
    "csv": (b"a,b\n", {"labels": 1}),
}
TOO_MUCH = (
    r"beyond \d+ bytes compressed data must not grow over 200-fold, "
    r"got \d+ bytes or more from the first \d+\. If you trust the file, decompress it yourself"
)


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_small_file_that_grows_without_end_is_refused_before_it_is_parsed(tmp_path, limits, kind, suffix):
    allowed = (
        1 << 24 if (kind, suffix) == ("svm", "gz") else 1 << 16
    )  # the true limit, which takes time, once
    first, options = FORMATS[kind]
    # No reader would get beyond the second line, if it saw it.
    content = first + b"\xff nonsense\n" * (allowed // 10)
    path = tmp_path / f"toy.{kind}.{suffix}"
    path.write_bytes(COMPRESSORS[suffix](content))
    with (
        limits(**({} if allowed == 1 << 24 else {"ALWAYS_ALLOWED": allowed})),
        pytest.raises(DatasetFormatError, match=TOO_MUCH),
    ):
        read_dataset(path, **options)
    path.with_suffix("").write_bytes(content)  # the remedy
    with pytest.raises(DatasetFormatError, match=r"line [23]: "):
        read_dataset(path.with_suffix(""), **options)


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_file_may_grow_as_much_as_zeros_and_ones_of_real_data_do(tmp_path, limits, suffix):
    allowed = 1 << 16
    cells = np.random.default_rng(0).random((200, 2000)) < 0.01
    rows = [",".join(map(str, range(1, 2001))), *(",".join(map(str, row)) for row in cells.astype(int))]
    content = "\n".join(rows).encode()
    path = tmp_path / f"toy.csv.{suffix}"
    path.write_bytes(COMPRESSORS[suffix](content))
    assert len(content) > 50 * path.stat().st_size > allowed
    with limits(ALWAYS_ALLOWED=allowed):
        dataset = read_dataset(path, labels=-1)
    np.testing.assert_array_equal(dataset.X, cells[:, :-1])


def test_a_file_that_begins_well_and_then_grows_without_end(tmp_path, limits):
    numbers = np.random.default_rng(0).random(500)
    content = b"".join(b"0 1:%.9f\n" % number for number in numbers) + b"0 1:1\n" * 10_000_000
    (tmp_path / "toy.svm.gz").write_bytes(gzip.compress(content))
    with limits(ALWAYS_ALLOWED=1 << 16), pytest.raises(DatasetFormatError, match=TOO_MUCH):
        read_dataset(tmp_path / "toy.svm.gz")


def test_messages_have_no_control_characters(tmp_path):
    (tmp_path / "toy.svm").write_bytes(b"\x1b[31m\x00\xff\x8d 1:1\n")
    with pytest.raises(DatasetFormatError) as caught:
        read_dataset(tmp_path / "toy.svm")
    assert str(caught.value).isprintable()
    assert r"got '\x1b[31m\x00\xff\x8d'" in str(caught.value)
