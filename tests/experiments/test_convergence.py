"""The curves of Figure 3, against Algorithm 1 written down once more in plain NumPy."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from lrml.experiments import count_steps, render_figures, render_tables, reproduce


def algorithm1(X, Y, theta, alpha, gamma, steps):
    """Objectives of the printed algorithm on the raw data, without spectral coordinates."""
    W = np.zeros((X.shape[1], Y.shape[1]))
    t = 2 * np.linalg.norm(X, 2) ** 2
    objectives = [float((Y**2).sum())]
    for _ in range(steps):
        t *= gamma
        U, s, Vt = np.linalg.svd(W - 2 * X.T @ (X @ W - Y) / t, full_matrices=False)
        head = np.where(s > alpha / t, s, 0.0)
        tail = np.maximum(s - alpha / t, 0.0)
        s = np.where(np.arange(len(s)) < theta, head, tail)
        W = (U * s) @ Vt
        objectives.append(((Y - X @ W) ** 2).sum() + alpha * s[theta:].sum())
    return objectives


@pytest.mark.parametrize("which", [1, 2])
def test_curves_of_algorithm_1_equal_a_plain_implementation(yeast, small_spec, small_result, which):
    X, Y = yeast.train
    panel = small_result.figure3[0]
    gamma = small_spec.convergence.gammas[which - 1]
    expected = algorithm1(X, Y.astype(float), panel.theta, small_spec.convergence.alpha, gamma, 20)
    np.testing.assert_allclose(panel.curves[which].objective, expected, rtol=1e-10)


def test_panels_hold_every_method_and_the_best_value(small_result):
    assert [panel.theta for panel in small_result.figure3] == [3, 8]
    for panel in small_result.figure3:
        names = ["default solver", "Algorithm 1, gamma = 1.01", "Algorithm 1, gamma = 1"]
        assert [curve.method for curve in panel.curves] == names
        assert min(panel.excess(curve).min() for curve in panel.curves) == 0.0
        assert panel.lowest().method == "default solver"
        default = panel.curves[0]
        assert 0 < default.stop < len(default.objective)
        assert default.residual <= 1e-5


def test_caption_states_alpha_and_the_caveat(small_result):
    assert "alpha = 10." in small_result.caption
    assert "not convex" in small_result.caption
    assert "here: default solver" in small_result.caption


def test_curves_are_written_in_full(small_result):
    text = render_tables(small_result)["figure3_convergence.csv"].decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == sum(len(c.objective) for panel in small_result.figure3 for c in panel.curves)
    assert rows[0]["phase"] == "start"
    assert rows[0]["residual"] == ""  # a starting point has none
    best = min(float(row["objective"]) for row in rows if row["theta"] == "3")
    for row in rows[:10]:
        assert float(row["relative_excess"]) == pytest.approx(float(row["objective"]) / best - 1, abs=1e-9)


def test_figures_repeat_to_the_byte_and_carry_no_clock(small_result):
    first, second = render_figures(small_result), render_figures(small_result)
    assert first == second
    assert list(first) == ["figure3_convergence.png", "figure3_convergence.pdf"]
    png, pdf = first.values()
    assert png.startswith(b"\x89PNG")
    assert b"Software" not in png
    assert b"tIME" not in png
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_progress_is_reported_once_per_step(yeast, small_spec):
    steps = []
    reproduce(yeast, small_spec, on_step=steps.append)
    assert len(steps) == count_steps(small_spec) == 12
    assert steps[0] == "table: paper, LRML, theta 3"
    assert steps[-1] == "figure 3: theta 8, Algorithm 1, gamma = 1"
