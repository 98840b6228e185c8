"""Statistics of a dataset: the columns of the tables that papers print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from lrml.datasets._dataset import Dataset, TextDataset


def _shown(title: str, spec: str = ",d", *, always: bool = True) -> Any:
    """Return a field with how it is shown."""
    return field(default=None, metadata={"title": title, "spec": spec, "always": always})


@dataclass(frozen=True)
class Description:
    """Statistics of a multi-label dataset; None where there is nothing to count.

    A label without a positive in training cannot be learned. ``nonzeros`` of X include missing values.
    """

    name: str
    instances: int | None = _shown("instances")
    attributes: int | None = _shown("attributes")
    labels: int | None = _shown("labels")
    cardinality: float | None = _shown("labels per instance (cardinality)", ".3f")
    density: float | None = _shown("cardinality / labels (density)", ".3f")
    distinct_label_sets: int | None = _shown("distinct label sets")
    rows_without_label: int | None = _shown("instances without a label")
    labels_without_positive: int | None = _shown("labels without an instance")
    labels_without_positive_in_train: int | None = _shown("  in the training set")
    labels_without_positive_in_test: int | None = _shown("  in the test set")
    nonzeros: int | None = _shown("nonzero entries of X")
    missing_values: int | None = _shown("missing entries of X", always=False)
    unknown_labels: int | None = _shown("unknown entries of Y", always=False)
    words: int | None = _shown("words")
    empty_texts: int | None = _shown("empty texts", always=False)

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Return the statistics as a plain dictionary."""
        return asdict(self)

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, title and formatted value of what there is to show."""
        for key, one in self.__dataclass_fields__.items():
            value = getattr(self, key)
            if one.metadata and value is not None and (value or one.metadata["always"]):
                yield key, one.metadata["title"], format(value, one.metadata["spec"])

    def __str__(self) -> str:
        lines = list(self.lines())
        left, right = (max(len(line[place]) for line in lines) for place in (1, 2))
        return "\n".join([self.name, *(f"  {title:<{left}}  {value:>{right}}" for _, title, value in lines)])


def describe(dataset: Dataset | TextDataset) -> Description:
    """Compute the statistics of a dataset, which are not rounded.

    Examples
    --------
    >>> from lrml.datasets import describe, load_yeast
    >>> yeast = describe(load_yeast())
    >>> yeast.instances, yeast.attributes, yeast.labels, yeast.distinct_label_sets
    (2417, 103, 14, 198)
    >>> print(yeast)
    yeast
      instances                           2,417
      attributes                            103
      labels                                 14
      labels per instance (cardinality)   4.237
      cardinality / labels (density)      0.303
      ...
    """
    if isinstance(dataset, TextDataset):
        words = sum(len(text.split()) for text in dataset.texts)
        found: dict[str, Any] = {"words": words, "empty_texts": dataset.n_empty}
    else:
        stored = dataset.X if isinstance(dataset.X, np.ndarray) else dataset.X.data
        found = {
            "attributes": dataset.shape[1],
            "nonzeros": int(np.count_nonzero(stored)),
            "missing_values": int(np.isnan(stored).sum()),
            "unknown_labels": 0 if dataset.unknown is None else int(dataset.unknown.count_nonzero()),
        }
    if dataset.Y is not None:
        Y = sparse.csr_array(dataset.Y, copy=True)
        Y.eliminate_zeros()
        per_row = np.diff(Y.indptr)
        cardinality = float(per_row.mean())
        found |= {
            "labels": Y.shape[1],
            "cardinality": cardinality,
            "density": cardinality / max(Y.shape[1], 1),
            "distinct_label_sets": len({Y.indices[a:b].tobytes() for a, b in pairwise(Y.indptr)}),
            "rows_without_label": int(np.count_nonzero(per_row == 0)),
            "labels_without_positive": _unused_columns(Y),
        }
        if (n_train := dataset.n_train) is not None:
            found["labels_without_positive_in_train"] = _unused_columns(Y[:n_train])
            found["labels_without_positive_in_test"] = _unused_columns(Y[n_train:])
    return Description(dataset.name, len(dataset), **found)


def _unused_columns(Y: sparse.csr_array) -> int:
    return int(Y.shape[1] - np.unique(Y.indices).size)
