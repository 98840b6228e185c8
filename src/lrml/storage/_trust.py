"""The types of this library that skops, and MLflow through it, must be told to trust."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lrml.storage._models import MODELS, RECORDS
from lrml.text import TextTagger

# Training rows of a kernel.
_SPARSE = (sp.csc_array, sp.csc_matrix, sp.csr_array, sp.csr_matrix)

SKOPS_TRUSTED_TYPES: list[str] = sorted(
    {
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in (*MODELS.values(), *RECORDS.values(), TextTagger, np.dtype, *_SPARSE)
    }
)
"""What fitted estimators of this library are made of, beside what skops trusts anyway.

::

    skops.io.load(path, trusted=SKOPS_TRUSTED_TYPES)
    mlflow.sklearn.save_model(model, path, skops_trusted_types=SKOPS_TRUSTED_TYPES)

All of them hold numbers, names and settings, and do nothing when they are made.
"""
