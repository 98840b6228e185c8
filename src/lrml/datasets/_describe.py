"""Statistics of a dataset: the columns of the tables that papers print."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from lrml.datasets._dataset import Dataset, TextDataset

# Key, title and format.
_LINES = (
    ("instances", "instances", ",d"),
    ("attributes", "attributes", ",d"),
    ("labels", "labels", ",d"),
    ("cardinality", "labels per instance (cardinality)", ".3f"),
    ("density", "cardinality / labels (density)", ".3f"),
    ("distinct_label_sets", "distinct label sets", ",d"),
    ("rows_without_label", "instances without a label", ",d"),
    ("labels_without_positive", "labels without an instance", ",d"),
    ("labels_without_positive_in_train", "  in the training set", ",d"),
    ("labels_without_positive_in_test", "  in the test set", ",d"),
    ("nonzeros", "nonzero entries of X", ",d"),
    ("missing_values", "missing entries of X", ",d"),
    ("unknown_labels", "unknown entries of Y", ",d"),
    ("words", "words", ",d"),
    ("empty_texts", "empty texts", ",d"),
)
_FAULTS = ("missing_values", "unknown_labels", "empty_texts")  # shown only if there are any


class Description(dict[str, Any]):
    """Statistics of a multi-label dataset by name; what a dataset does not have is not there.

    A label without a positive in training cannot be learned. ``nonzeros`` of X include missing values.
    """

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, title and formatted value of what there is to show."""
        for key, title, spec in _LINES:
            if key in self and (self[key] or key not in _FAULTS):
                yield key, title, format(self[key], spec)

    def __str__(self) -> str:
        lines = list(self.lines())
        left, right = (max(len(line[place]) for line in lines) for place in (1, 2))
        return "\n".join([self["name"], *(f"  {title:<{left}}  {one:>{right}}" for _, title, one in lines)])


def describe(dataset: Dataset | TextDataset) -> Description:
    """Compute the statistics of a dataset, which are not rounded.

    Examples
    --------
    >>> from lrml.datasets import describe, load_yeast
    >>> print(describe(load_yeast()))
    yeast
      instances                           2,417
      attributes                            103
      labels                                 14
      labels per instance (cardinality)   4.237
      cardinality / labels (density)      0.303
      ...
    >>> describe(load_yeast())["distinct_label_sets"]
    198
    """
    found = Description(name=dataset.name, instances=len(dataset))
    if isinstance(dataset, TextDataset):
        found["words"] = sum(len(text.split()) for text in dataset.texts)
        found["empty_texts"] = dataset.n_empty
    else:
        stored = dataset.X if isinstance(dataset.X, np.ndarray) else dataset.X.data
        found["attributes"] = dataset.shape[1]
        found["nonzeros"] = int(np.count_nonzero(stored))
        found["missing_values"] = int(np.isnan(stored).sum())
        found["unknown_labels"] = 0 if dataset.unknown is None else int(dataset.unknown.count_nonzero())
    if dataset.Y is None:
        return found
    Y = sparse.csr_array(dataset.Y, copy=True)
    Y.eliminate_zeros()
    per_row, n_labels = np.diff(Y.indptr), Y.shape[1]
    found["labels"], found["cardinality"] = n_labels, float(per_row.mean())
    found["density"] = found["cardinality"] / max(n_labels, 1)
    found["distinct_label_sets"] = len({Y.indices[a:b].tobytes() for a, b in pairwise(Y.indptr)})
    found["rows_without_label"] = int(np.count_nonzero(per_row == 0))
    parts = {"": slice(None)}
    if (cut := dataset.n_train) is not None:
        parts |= {"_in_train": slice(0, cut), "_in_test": slice(cut, None)}
    for part, rows in parts.items():
        found[f"labels_without_positive{part}"] = int(n_labels - np.unique(Y[rows].indices).size)
    return found
