"""Very many labels: nothing of the size d × L or L × L is made, and fits end where exact ones do."""

from __future__ import annotations

import pytest

from lrml import LRML, MLTrace, subspace
from lrml.datasets import make_xmc


@pytest.fixture(scope="module", params=[(200, 300), (300, 200)], ids=["dual", "primal"])
def many_labels(request):
    """Return data with more labels than directions that a first subspace has, and the exact road."""
    dataset, _ = make_xmc(*request.param, 700, rank=8, cardinality=4.0, random_state=0)
    return dataset.X, dataset.Y, "dual" if request.param[0] < request.param[1] else "primal"


@pytest.mark.parametrize(("theta", "alpha", "ridge"), [(8, 5.0, 1.0), (0, 4.0, 0.3)])
def test_fits_end_at_the_exact_objective(many_labels, theta, alpha, ridge):
    X, Y, road = many_labels
    exact = LRML(theta, alpha, ridge=ridge, solver=road, tol=1e-6).fit(X, Y)
    found = LRML(theta, alpha, ridge=ridge, solver="compressed", tol=1e-6).fit(X, Y)
    excess = found.objective_ / exact.objective_ - 1
    assert abs(excess) < 1e-3
    if theta == 0:
        assert excess <= 1.1 * found.compression_gap_ + 1e-5
    assert found.compression_gap_ <= 5e-4


@pytest.mark.parametrize("alpha", [4.0, 2.0])
def test_directions_that_a_first_subspace_lacks_are_found(many_labels, monkeypatch, alpha):
    """A solution of rank 50 to 200, in a subspace that begins with 8 directions."""
    X, Y, road = many_labels
    monkeypatch.setattr(subspace, "_COLUMNS", 8)
    monkeypatch.setattr(subspace, "_MORE_DIRECTIONS", 8)
    found = MLTrace(alpha, ridge=0.5, solver="compressed", tol=1e-6).fit(X, Y)
    exact = MLTrace(alpha, ridge=0.5, solver=road, tol=1e-6).fit(X, Y)
    assert exact.rank_ > 16
    assert -1e-6 < found.objective_ / exact.objective_ - 1 <= 1.1 * found.compression_gap_ + 1e-5
    assert found.compression_gap_ <= 5e-4
