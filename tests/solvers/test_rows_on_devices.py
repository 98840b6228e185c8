"""Losses over rows where the rows live: NumPy's solution, in one block or several, and hardly any copies."""

import numpy as np
import pytest

from contracts import row_arrays
from lrml.core import rows as rows_module
from lrml.core.arrays import HOST, to_numpy
from lrml.core.loss_problem import RowProblem
from lrml.core.losses import LOSSES, LogisticLoss
from lrml.core.penalties import TailSum
from lrml.core.rows import Mask, Rows
from lrml.solvers import solve_rows
from namespaces import assert_same, places, put

EACH = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
on_devices = pytest.mark.parametrize("place", [p for p in places() if p.id != "numpy"], indirect=True)
N, D, L = 40, 6, 4


def rows_in(place, *, mask=None, weighted=False, dtype=np.float64, d=D):
    """The rows with all labels known, or only those that the mask marks as known or as unknown."""
    X, Y, known, weights = row_arrays(N, D, L)
    pattern = (
        None if mask is None else Mask(put(place, known if mask == "known" else ~known), mask == "known")
    )
    Y = Y if mask is None else Y * known
    w = put(place, weights) if weighted else None
    return Rows(put(place, X[:, :d]), put(place, Y), pattern, w).with_precision(dtype)


@on_devices
@pytest.mark.parametrize(
    ("loss", "mask", "weighted", "fit_intercept", "d", "theta", "blocks"),
    [
        ("logistic", None, False, True, D, 1, 1),
        ("logistic", "known", True, True, D, 0, 6),
        ("logistic", None, True, False, D, L, 6),  # no penalty
        ("squared_hinge", "unknown", False, False, 3, 1, 6),  # more labels than features
        ("squared_hinge", None, True, True, D, 0, 1),
        ("squared", "known", True, True, D, 0, 1),
        ("squared", "unknown", False, False, D, 1, 6),
    ],
)
def test_solution_is_that_of_numpy(loss, mask, weighted, fit_intercept, d, theta, blocks, place, monkeypatch):
    def solved(where):
        rows = rows_in(where, mask=mask, weighted=weighted, d=d)
        assert len(list(rows.map(lambda block: block.X))) == (1 if where.is_host else blocks)
        problem = RowProblem(rows, LOSSES[loss], 0.2, fit_intercept=fit_intercept)
        return problem, solve_rows(problem, TailSum(theta, 3.0), tol=1e-6)

    if blocks > 1:
        monkeypatch.setattr(rows_module, "_DEVICE_SCORES", 1)
        monkeypatch.setattr(rows_module, "_LEAST_ROWS", 7)
    (problem, expected), (there, found) = solved(HOST), solved(place)
    assert found.objective == pytest.approx(expected.objective, rel=1e-11)
    assert found.status is expected.status
    # Eigenvectors of X are unique up to their signs.
    assert_same(coefficients(found), coefficients(expected), place)
    assert_same(there.intercept(found.solution), problem.intercept(expected.solution), place)
    assert_same(there.spread, problem.spread, place)


def coefficients(result):
    return (result.factors.U * result.factors.s) @ result.factors.V.T


@EACH
def test_scores_may_be_single_but_sums_are_double(loss, place):
    problem = RowProblem(rows_in(place, mask="known", weighted=True, dtype=np.float32), loss, 0.2)
    coefficients, shift = problem.scoring(problem.origin)
    assert str(coefficients.dtype).endswith("float32")
    assert str(shift.dtype).endswith("float32")
    exact = solve_rows(RowProblem(rows_in(place, mask="known", weighted=True), loss, 0.2), TailSum(1, 3.0))
    found = solve_rows(problem, TailSum(1, 3.0))
    assert found.objective == pytest.approx(exact.objective, rel=1e-5)
    assert all(str(part.dtype).endswith("float64") for part in (found.solution, *found.factors))
    here = problem.evaluate(found.solution)
    assert all(str(part.dtype).endswith("float64") for part in (here.gradient, here.curvatures))


@pytest.mark.parametrize("place", places("torch-cpu", "torch-cuda"), indirect=True)
def test_a_pass_keeps_its_digits_where_fewer_are_allowed(place):
    """TF32 would keep three digits of a gradient, bfloat16 two."""
    torch = pytest.importorskip("torch")
    single, double = (
        RowProblem(rows_in(place, dtype=dtype), LogisticLoss()) for dtype in ("float32", "float64")
    )
    W, intercept = row_arrays(N, D, L, seed=1)[0][:D, :L], np.zeros(L)
    torch.set_float32_matmul_precision("medium")
    try:
        found, expected = (
            problem.gradient(problem.compress(*(put(place, part) for part in (W, np.eye(L), intercept))))
            for problem in (single, double)
        )
    finally:
        torch.set_float32_matmul_precision("highest")
    # The same coordinates up to signs.
    np.testing.assert_allclose(*(np.abs(to_numpy(part)) for part in (found, expected)), atol=2e-5)
