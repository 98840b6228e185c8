"""Wide sparse text with many labels: descriptions of Debian's packages, and their debtags.

The package lists of apt have both: `Packages` the tags of every package and the checksum of its description,
`Translation-en` the description. Bookworm's have 30,303 tagged packages with some 600 tags.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

LISTS = Path("/var/lib/apt/lists")
HELPER = Path("/usr/lib/apt/apt-helper")
KINDS = {"packages": "*_Packages*", "translations": "*_Translation-en*"}
HOW_TO = (
    "On Debian, without touching the system: mkdir -p DIR/partial && "
    "apt-get -o Acquire::Languages=en -o Dir::State::lists=DIR update, then pass --lists DIR."
)
_OPEN: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}
N_TEST = 5000


class Documents(NamedTuple):
    """Texts and the tags of each, in a shuffled order that is always the same."""

    texts: list[str]
    tags: list[list[str]]


class TextSet(NamedTuple):
    """TF-IDF features and 0/1 labels of training and test rows, all sparse."""

    X: sp.csr_array
    Y: sp.csr_array
    X_test: sp.csr_array
    Y_test: sp.csr_array


def find_lists(folder: Path = LISTS) -> tuple[Path, Path]:
    """Return the largest Packages and Translation-en files of a folder: those of the release itself."""
    found = []
    for kind, pattern in KINDS.items():
        paths = [path for path in folder.glob(pattern) if path.is_file()]
        if not paths:
            raise FileNotFoundError(
                f"{folder} must have a file {pattern} of apt's package lists, got none. {HOW_TO} "
                f"Or pass --{kind} FILE."
            )
        found.append(max(paths, key=lambda path: path.stat().st_size))
    return found[0], found[1]


def read_list(path: Path) -> str:
    """Return the text of a list: plain, .gz, .xz or .bz2, or by apt itself .lz4 and .zst."""
    if path.suffix in _OPEN:
        return _OPEN[path.suffix](path.read_bytes()).decode("utf8")
    if path.suffix not in (".lz4", ".zst"):
        return path.read_text(encoding="utf8")
    if not HELPER.exists():
        raise FileNotFoundError(f"{path} needs {HELPER}, which is not there. Decompress it first.")
    command = [str(HELPER), "cat-file", str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf8")


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph; continued lines are joined by a space."""
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith((" ", "\t")) and name:
                fields[name] += " " + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                fields[name] = value.strip()
        if fields:
            yield fields


def read_documents(packages: Path, translations: Path) -> Documents:
    """Return name and description of every package that has tags."""
    described = {
        fields["Description-md5"]: fields["Description-en"]
        for fields in paragraphs(read_list(translations))
        if "Description-en" in fields and "Description-md5" in fields
    }
    texts, tags = [], []
    for fields in paragraphs(read_list(packages)):
        if fields.get("Tag"):
            words = re.sub(r"[-0-9.]", " ", fields["Package"])
            description = described.get(fields.get("Description-md5", ""), fields.get("Description", ""))
            texts.append(f"{words} {description}")
            tags.append([tag.strip() for tag in fields["Tag"].split(",")])
    if not texts:
        raise ValueError(f"{packages} must have packages with a Tag, got none. {HOW_TO}")
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    return Documents([texts[i] for i in order], [tags[i] for i in order])


def text_set(
    documents: Documents,
    rows: int,
    features: int | None,
    least: int,
    vectorizer: TfidfVectorizer | None = None,
) -> TextSet:
    """Make features of the most frequent words and pairs of words; labels are tags of ``least`` packages.

    The first ``rows`` packages are training rows, the next 5,000 test rows.
    """
    if rows >= len(documents.texts):
        raise ValueError(
            f"the lists must have more than {rows} tagged packages, got {len(documents.texts)}. "
            "Pass lists of Debian 12 or later, or a smaller set."
        )
    counts = Counter(tag for tags in documents.tags for tag in tags)
    kept = [[tag for tag in tags if counts[tag] >= least] for tags in documents.tags]
    # Not bytes: with more than 127 labels of int8, scikit-learn's OneVsRestClassifier mixes up the columns.
    Y = sp.csr_array(MultiLabelBinarizer(sparse_output=True).fit_transform(kept), dtype=np.int64)
    if vectorizer is None:
        vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english", ngram_range=(1, 2))
    vectorizer.set_params(max_features=features)
    end = rows + N_TEST
    X = sp.csr_array(vectorizer.fit_transform(documents.texts[:rows]))
    X_test = sp.csr_array(vectorizer.transform(documents.texts[rows:end]))
    return TextSet(X, Y[:rows], X_test, Y[rows:end])
