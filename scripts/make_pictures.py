"""Draw the pictures of docs/pictures.md: python scripts/make_pictures.py [FOLDER]."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

from lrml import LRML, LRMLCV, ConvergenceDisplay, LowRankDisplay, PathDisplay, SpectrumDisplay
from lrml.datasets import load_yeast
from lrml.inspection import low_rank_gain


def main(folder: Path) -> None:
    """Fit two models and a search to yeast, look for low rank in made-up targets, and save the pictures."""
    matplotlib.use("agg")
    random = np.random.default_rng(0)
    inputs = random.standard_normal((200, 100))
    weights = random.standard_normal((100, 5)) @ random.standard_normal((5, 100)) / 32
    targets = inputs @ weights + random.standard_normal((200, 100))
    yeast = load_yeast()
    X, Y = yeast.train
    named = pd.DataFrame(Y.toarray() if hasattr(Y, "toarray") else Y, columns=list(yeast.label_names))
    model = LRML(3, 10.0, ridge=3.0).fit(X, named)
    search = LRMLCV(thetas=[0, 1, 2, 3, 5, 8], alphas=[0.3, 1, 3, 10, 30, 100], ridges=[0.3, 3.0])
    pictures = {
        "spectrum": SpectrumDisplay.from_estimator(model),
        "path": PathDisplay.from_estimator(search.fit(X, Y)),
        "low_rank": LowRankDisplay(low_rank_gain(inputs, targets), name="planted rank 5").plot(),
        "convergence": ConvergenceDisplay.from_estimator(LRML(3, 10.0).fit(X, Y)),
    }
    for name, display in pictures.items():
        display.figure_.savefig(folder / f"display_{name}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
