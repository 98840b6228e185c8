"""skops and MLflow keep our models, given the list of types that we publish."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml import MLFro, TextTagger
from lrml.storage import SKOPS_TRUSTED_TYPES
from storage.model_makers import MEMBERS, X, Y, scores


@pytest.mark.parametrize("name", MEMBERS)
def test_skops_trusts_every_member(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = clone(MEMBERS[name]).fit(X, Y)
    loaded = skops.io.loads(skops.io.dumps(model), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(scores(loaded), scores(model))


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_skops_trusts_training_rows(form):
    model = MLFro(1.0, kernel="rbf").fit(form(X), Y)
    loaded = skops.io.loads(skops.io.dumps(model), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(scores(loaded), scores(model))


def test_skops_trusts_the_tagger():
    tagger = TextTagger(MLFro(0.1)).fit(["red apple", "blue sky"] * 3, [["fruit"], ["air"]] * 3)
    loaded = skops.io.loads(skops.io.dumps(tagger), trusted=SKOPS_TRUSTED_TYPES)
    assert loaded.predict(["red apple"]) == [["fruit"]]


def test_nothing_in_the_list_is_superfluous_or_general():
    assert len(set(SKOPS_TRUSTED_TYPES)) == len(SKOPS_TRUSTED_TYPES)
    kinds = ("lrml.", "scipy.sparse.", "numpy.dtype")
    assert all(name.startswith(kinds) for name in SKOPS_TRUSTED_TYPES)
