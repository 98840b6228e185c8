"""Data files that are damaged: a reader gives a data set, or says what is wrong, and nothing else happens.

Data files are the user's own, so this is no defence; but files are cut off, and edited by hand.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrml.datasets import Dataset, make_tagged_texts, read_dataset, write_dataset

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

RNG = np.random.default_rng(0)
NUMBERS = Dataset(
    "toy",
    np.round(RNG.standard_normal((12, 3)), 2) * (RNG.random((12, 3)) < 0.7),
    (RNG.random((12, 2)) < 0.5).astype(np.int8),
    feature_names=["a", "b c", "d"],
    label_names=["red", "round"],
)
TEXTS = make_tagged_texts(12, random_state=0)
READ = {
    "toy.arff": {"labels": ["red", "round"]},
    "toy.xmc": {},
    "toy.svm": {},
    "toy.npz": {},
    "toy.csv": {"labels": ["red", "round"]},
    "texts.csv": {},
    "texts.jsonl": {},
}
# What is put into a place of a file: marks of the formats, odd numbers and letters, and ends.
MARKS = rb"\0 \n \r\n \" ' , ; \t : { } [ % @ ? nan inf -1 1e999 0x1 \xff\xfe \xef\xbb\xbf @data"
ODD = st.sampled_from([b"", b" ", b"9" * 25, *MARKS.decode("unicode_escape").encode("latin1").split(b" ")])
ODD |= st.binary(max_size=4)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("sound")
    for name, options in READ.items():
        if name == "toy.csv":
            rows = np.hstack([NUMBERS.X, NUMBERS.Y]).tolist()
            lines = ["a,b c,d,red,round", *(",".join(f"{one:g}" for one in row) for row in rows)]
            (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
        else:
            write_dataset(TEXTS if name.startswith("texts") else NUMBERS, folder / name)
        assert read_dataset(folder / name, **options)
    return {name: (folder / name).read_bytes() for name in READ}


def read_or_refusal(path: Path, **options: Any) -> Any:
    try:
        return read_dataset(path, **options)
    except ValueError as error:
        return error


@given(data=st.data())
def test_a_data_set_or_what_is_wrong(
    data: st.DataObject, contents: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(list(READ)))
    content = contents[name]
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(content)))
        end = min(len(content), begin + data.draw(st.integers(0, 6)))
        content = content[:begin] + data.draw(ODD) + content[end:]
        if data.draw(st.integers(0, 9)) == 0:
            content = content[:begin]
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a guess that is in doubt
        found = read_or_refusal(path, **READ[name])
    if isinstance(found, ValueError):
        assert name in str(found)
        assert len(str(found)) < 1500
    elif isinstance(found, Dataset):
        assert found.X.shape[0] == found.Y.shape[0]
    else:
        assert found.tags is None or len(found.tags) == len(found.texts)
