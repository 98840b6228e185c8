"""Statistics of a dataset: the columns of the tables that papers print."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from lrml.datasets._record import MultiLabelDataset, check_dataset

# Statistic → its title and format. The last ones are shown only if there is something to show.
STATISTICS = {
    "instances": ("instances", ",d"),
    "attributes": ("attributes", ",d"),
    "labels": ("labels", ",d"),
    "cardinality": ("labels per instance (cardinality)", ".3f"),
    "density": ("cardinality / labels (density)", ".3f"),
    "distinct_label_sets": ("distinct label sets", ",d"),
    "rows_without_label": ("instances without a label", ",d"),
    "labels_without_positive": ("labels without an instance", ",d"),
    "labels_without_positive_in_train": ("  in the training set", ",d"),
    "labels_without_positive_in_test": ("  in the test set", ",d"),
    "nonzeros": ("nonzero entries of X", ",d"),
    "missing_values": ("missing entries of X", ",d"),
    "unknown_labels": ("unknown entries of Y", ",d"),
}
_UNLESS_ZERO = ("missing_values", "unknown_labels")


@dataclass(frozen=True)
class Description:
    """Statistics of a multi-label dataset.

    Parameters
    ----------
    name : str
        Name of the dataset.
    instances, attributes, labels : int
        Number of examples n, of features d and of labels L.
    cardinality : float
        Mean number of labels per example.
    density : float
        Cardinality divided by the number of labels.
    distinct_label_sets : int
        Number of different rows of Y; the empty set counts if it occurs.
    rows_without_label : int
        Number of examples to which no label applies.
    labels_without_positive : int
        Number of labels that apply to no example at all.
    labels_without_positive_in_train, labels_without_positive_in_test : int or None
        The same within the training and within the test set; None if the dataset has no split. A label
        without a positive in training cannot be learned.
    nonzeros : int
        Number of entries of X that are not zero; missing ones count.
    missing_values : int
        Number of entries of X that are missing.
    unknown_labels : int
        Number of unknown entries of Y.
    """

    name: str
    instances: int
    attributes: int
    labels: int
    cardinality: float
    density: float
    distinct_label_sets: int
    rows_without_label: int
    labels_without_positive: int
    labels_without_positive_in_train: int | None
    labels_without_positive_in_test: int | None
    nonzeros: int
    missing_values: int
    unknown_labels: int

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Return the statistics as a plain dictionary, in the order above."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str, str]]:
        """Return key, title and formatted value of what there is to show."""
        values = asdict(self)
        return [
            (key, title, format(values[key], spec))
            for key, (title, spec) in STATISTICS.items()
            if values[key] is not None and (values[key] or key not in _UNLESS_ZERO)
        ]

    def __str__(self) -> str:
        lines = self.lines()
        left, right = (max(len(line[place]) for line in lines) for place in (1, 2))
        table = (f"  {title:<{left}}  {value:>{right}}" for _, title, value in lines)
        return "\n".join([self.name, *table])


def describe(dataset: MultiLabelDataset) -> Description:
    """Compute the statistics of a dataset.

    Parameters
    ----------
    dataset : MultiLabelDataset
        The dataset; a split does not change the statistics of the whole.

    Returns
    -------
    Description
        The statistics, not rounded.

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
    check_dataset(dataset)
    n, d, n_labels = dataset.shape
    stored = dataset.X.data if isinstance(dataset.X, sparse.csr_array) else dataset.X
    Y = sparse.csr_array(dataset.Y, copy=True)
    Y.eliminate_zeros()
    per_row = np.diff(Y.indptr)
    cardinality = float(per_row.mean())
    split = dataset.n_train is not None
    return Description(
        name=dataset.name,
        instances=n,
        attributes=d,
        labels=n_labels,
        cardinality=cardinality,
        density=cardinality / n_labels,
        distinct_label_sets=len({Y.indices[a:b].tobytes() for a, b in pairwise(Y.indptr)}),
        rows_without_label=int(np.count_nonzero(per_row == 0)),
        labels_without_positive=_unused_columns(Y),
        labels_without_positive_in_train=_unused_columns(Y[: dataset.n_train]) if split else None,
        labels_without_positive_in_test=_unused_columns(Y[dataset.n_train :]) if split else None,
        nonzeros=int(np.count_nonzero(stored)),
        missing_values=int(np.count_nonzero(np.isnan(stored))),
        unknown_labels=0 if dataset.unknown is None else int(dataset.unknown.count_nonzero()),
    )


def _unused_columns(Y: sparse.csr_array) -> int:
    # By the columns that occur: a sum over rows would need an array as long as the number of labels.
    return int(Y.shape[1] - np.unique(Y.indices).size)
