from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from lrml.datasets import Dataset, TextDataset, describe, load_yeast

Y = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]], dtype=np.uint8)
X = np.array([[1.0, 0.0], [0.0, 0.0], [-2.0, 3.0], [0.0, 1.0], [0.5, 0.0]])


def make(X, Y, n_train=3):
    return Dataset("toy", X, Y, ["a", "b"], ["p", "q", "r", "s"], n_train)


def with_explicit_zeros(matrix):
    """Store every entry, zeros too."""
    rows, columns = matrix.shape
    indices, indptr = np.tile(np.arange(columns), rows), np.arange(rows + 1) * columns
    return sparse.csr_array((matrix.ravel(), indices, indptr), shape=matrix.shape)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, with_explicit_zeros])
def test_statistics_counted_by_hand(convert):
    found = describe(make(convert(X), convert(Y)))
    assert found == {
        "name": "toy",
        "instances": 5,
        "attributes": 2,
        "labels": 4,
        "cardinality": pytest.approx(6 / 5),
        "density": pytest.approx(6 / 20),
        "distinct_label_sets": 4,
        "rows_without_label": 1,
        "labels_without_positive": 1,
        "labels_without_positive_in_train": 1,
        "labels_without_positive_in_test": 2,
        "nonzeros": 5,
        "missing_values": 0,
        "unknown_labels": 0,
    }
    json.dumps(found)  # plain numbers only, no NumPy scalars


def test_texts_and_rows_without_labels():
    found = describe(TextDataset("toy", ["a b", "", "c"], [("p",), (), ("p", "q")]))
    assert (found["instances"], found["labels"], found["words"], found["empty_texts"]) == (3, 2, 3, 1)
    assert (found["cardinality"], found["distinct_label_sets"]) == (1, 3)
    assert "attributes" not in found
    assert "labels" not in describe(TextDataset("toy", ["a b"]))
    assert "cardinality" not in describe(Dataset("toy", X, None))


# The paper's Table 1: instances, attributes, labels, cardinality, density, distinct label sets.
TABLE_1 = {
    "bibtex": (7395, 1836, 159, 2.402, 0.015, 2856),
    "delicious": (16105, 500, 983, 19.020, 0.019, 15806),
    "yeast": (2417, 103, 14, 4.237, 0.303, 198),
    "corel5k": (5000, 499, 374, 3.522, 0.009, 3175),
}
# Not in the paper; counted in the files with awk.
OTHERS = {
    "emotions": (593, 72, 6, 1.868, 0.311, 27),
    "enron": (1702, 1001, 53, 3.378, 0.064, 753),
}


def table_columns(dataset):
    found = describe(dataset)
    sizes = (found["instances"], found["attributes"], found["labels"])
    return (*sizes, round(found["cardinality"], 3), round(found["density"], 3), found["distinct_label_sets"])


@pytest.mark.real_data
@pytest.mark.parametrize("name", TABLE_1 | OTHERS)
def test_statistics_equal_the_published_or_counted_ones(mulan, name):
    assert table_columns(mulan(name)) == (TABLE_1 | OTHERS)[name]
    assert name != "yeast" or table_columns(load_yeast()) == TABLE_1[name]
