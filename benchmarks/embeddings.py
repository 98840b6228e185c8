"""Tags for dense embeddings: quality and time of searches of lrml beside those of scikit-learn.

    python benchmarks/embeddings.py [--lists DIR] [--methods …] [--repeat 3] [--quick]

The embeddings are 300 directions of the texts' TF-IDF (`TruncatedSVD`), with rows of unit length, as those
of a language model have: 12,000 training rows, 5,000 test rows, and the tags of at least 12 packages. All
methods choose their strengths on the training rows; those of lrml choose the cut of the scores as well. Every
fit has a process of its own, in turns. `_texts.py` says where the texts come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _bench import Split, Tuned, dense, write_results
from _texts import arguments, contest, find_lists, read_documents, text_set
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import RidgeCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from lrml import LRML, LRMLCV, MLFroCV

SHAPE, QUICK_SHAPE = (12_000, None, 12), (600, None, 100)
DIRECTIONS = 300
RIDGES = np.geomspace(0.01, 100.0, 13)
PEER = "RidgeCV"
METHODS: dict[str, Callable[[], Any]] = {
    PEER: lambda: RidgeCV(RIDGES),
    "LRMLCV": lambda: LRMLCV(LRML(threshold="auto"), random_state=0),
    "LRMLCV, smallest": lambda: LRMLCV(LRML(threshold="auto"), rule="smallest", random_state=0),
    "MLFroCV": MLFroCV,
    "LRMLCV logistic": lambda: LRMLCV(LRML(loss="logistic", threshold="auto"), random_state=0),
    "LinearSVC, tuned": lambda: Tuned(lambda C: OneVsRestClassifier(LinearSVC(C=C)), (0.3, 1.0, 3.0, 10.0)),
}


def embedded(data: Split) -> Split:
    """Return the same rows with dense features, and dense labels, which RidgeCV needs."""
    svd = TruncatedSVD(DIRECTIONS, random_state=0).fit(data.X)
    X, X_test = (normalize(svd.transform(rows)) for rows in (data.X, data.X_test))
    return Split(X, dense(data.Y), X_test, dense(data.Y_test))


def main() -> None:
    options = arguments(__doc__, "embeddings.json", METHODS).parse_args()
    documents = read_documents(*find_lists(options.lists))
    data = embedded(text_set(documents, *(QUICK_SHAPE if options.quick else SHAPE)))
    found = contest(data, {name: METHODS[name] for name in options.methods}, PEER, options)
    write_results(options.out, found)


if __name__ == "__main__":
    main()
