"""Anderson acceleration: exact on linear maps, and the combination that its formula says."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lrml.solvers.alternating import Anderson


def linear_map(seed, size, contraction=0.9):
    """y ↦ M y + c with ‖M‖₂ = contraction, and its fixed point."""
    rng = np.random.default_rng(seed)
    M, c = rng.normal(size=(size, size)), rng.normal(size=size)
    M *= contraction / np.linalg.norm(M, 2)
    return (lambda y: M @ y + c), np.linalg.solve(np.eye(size) - M, c)


def run(accelerator, function, y, steps):
    """Iterate; return the last point and the pairs (image, residual) that were seen."""
    pairs = []
    for _ in range(steps):
        image = function(y)
        pairs.append((image, image - y))
        y = accelerator.extrapolate(*pairs[-1])
    return y, pairs


def by_least_squares(pairs, memory):
    """g_k − ΔG γ with γ = argmin ‖r_k − ΔR γ‖, written out over the last differences."""
    images, residuals = (np.array(part).T for part in zip(*pairs[-memory - 1 :], strict=True))
    gamma = np.linalg.lstsq(np.diff(residuals), residuals[:, -1], rcond=None)[0]
    return images[:, -1] - np.diff(images) @ gamma


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 6))
def test_a_linear_map_of_few_dimensions_is_solved_in_about_as_many_steps(seed, size):
    function, solution = linear_map(seed, size)
    start = np.zeros(size)
    # One step for every difference, two to begin with, one because the regularisation leaves a remainder.
    y, _ = run(Anderson(8), function, start, size + 3)
    plain, _ = run(Anderson(0), function, start, size + 3)
    scale = np.linalg.norm(solution)
    assert np.linalg.norm(y - solution) <= 1e-6 * scale
    assert np.linalg.norm(y - solution) <= 1e-2 * np.linalg.norm(plain - solution) + 1e-12 * scale


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), memory=st.integers(1, 5), steps=st.integers(3, 14))
def test_every_extrapolation_is_the_least_squares_combination_of_the_last_differences(seed, memory, steps):
    function, _ = linear_map(seed, 40, contraction=0.99)
    y, pairs = run(Anderson(memory), function, np.zeros(40), steps)
    assert_allclose(y, by_least_squares(pairs, memory), rtol=1e-4, atol=1e-4)
