"""The yeast dataset, which comes with the package."""

from __future__ import annotations

from importlib import resources

import numpy as np

from lrml.datasets._record import MultiLabelDataset

_N_FEATURES = 103
_N_LABELS = 14
_N_TRAIN = 1500


def load_yeast() -> MultiLabelDataset:
    """Load the yeast dataset: 2417 genes, 103 features, 14 functional classes.

    The features are micro-array expression and phylogenetic profiles; a gene belongs to 4.24 of the
    classes on average [1]_. The split is Mulan's: 1500 training genes, then 917 test genes. All values are
    bit for bit those of Mulan's files. Nothing is downloaded.

    Returns
    -------
    MultiLabelDataset
        Dense features ``Att1`` to ``Att103`` (float64) and dense labels ``Class1`` to ``Class14`` (uint8).

    Notes
    -----
    The file in this package was converted from river 0.26.1 (BSD-3-Clause); ``yeast.LICENSE`` beside it
    has the details. It holds the values as integers, in millionths: the originals have at most six
    decimals, and the quotient of two integers below 2**53 is rounded just as the decimal number is.

    References
    ----------
    .. [1] Elisseeff, Weston (2001). A Kernel Method for Multi-Labelled Classification. NIPS 14.

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> load_yeast()
    <MultiLabelDataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    data = resources.files("lrml.datasets").joinpath("data/yeast.npz")
    with data.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        high, low, packed = arrays["high"], arrays["low"], arrays["labels"]
    # scripts/make_yeast.py adds 2**20 to make the integers positive, then cuts off the low 16 bits:
    # the two parts compress better than the whole.
    millionths = (high.astype(np.int32) << 16) + low - 2**20
    return MultiLabelDataset(
        name="yeast",
        X=millionths / 1e6,
        Y=np.unpackbits(packed, axis=1, count=_N_LABELS),
        feature_names=tuple(f"Att{i}" for i in range(1, _N_FEATURES + 1)),
        label_names=tuple(f"Class{i}" for i in range(1, _N_LABELS + 1)),
        n_train=_N_TRAIN,
        provenance="Elisseeff and Weston (2001); Mulan; river 0.26.1 (BSD-3-Clause)",
    )
