"""What displays draw is the data, names do not overlap, and matplotlib is imported only when needed."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from lrml import (
    LRML,
    LRMLCV,
    ConvergenceDisplay,
    LowRankDisplay,
    MLFro,
    MLFroCV,
    MLTrace,
    PathDisplay,
    SpectrumDisplay,
)
from lrml.inspection import low_rank_gain

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def no_figures_left(monkeypatch):
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 8))
    Y = (X @ rng.standard_normal((8, 5)) + rng.standard_normal((90, 5)) > 0.5).astype(int)
    return X, pd.DataFrame(Y, columns=["a", "b", "a $name$", "d_e", "f"])


@pytest.fixture(scope="module")
def search(data):
    return LRMLCV(thetas=[0, 1, 3], alphas=[0.5, 2.0, 8.0, 32.0], ridges=[0.1, 1.0]).fit(*data)


def test_spectrum_shows_every_value_and_where_the_tail_begins(data):
    model = MLTrace(1.0).fit(*data)
    display = SpectrumDisplay.from_estimator(make_pipeline(FunctionTransformer(), model).fit(*data))
    heights = [bar.get_height() for bar in display.ax_.patches[: model.rank_]]
    np.testing.assert_allclose(heights, model.singular_values_)
    model = LRML(2, 1.0).fit(*data)
    display = SpectrumDisplay.from_estimator(model, name="mine")
    free, tail = display.ax_.containers
    np.testing.assert_allclose([bar.get_height() for bar in free], model.singular_values_[:2])
    np.testing.assert_allclose([bar.get_height() for bar in tail], model.singular_values_[2:])
    assert display.ax_.lines[0].get_xdata()[0] == 2.5
    assert display.ax_.get_title() == f"mine: rank {model.rank_}"
    assert len(SpectrumDisplay.from_estimator(MLFro().fit(*data)).ax_.lines) == 0  # no tail


def test_convergence_is_the_history(data):
    model = LRML(2, 3.0).fit(*data)
    ax = plt.subplots()[1]
    display = ConvergenceDisplay.from_estimator(model, ax=ax)
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    objective = model.history_["objective"]
    excess = (objective - objective.min()) / objective.min()
    line = display.ax_.lines[0]
    np.testing.assert_allclose(line.get_ydata(), excess[excess > 0])
    np.testing.assert_array_equal(line.get_xdata(), model.history_["iteration"][excess > 0])
    assert display.ax_.get_yscale() == "log"
    by_time = display.plot(by="seconds")
    np.testing.assert_array_equal(by_time.ax_.lines[0].get_xdata(), model.history_["seconds"][excess > 0])
    with pytest.raises(ValueError, match=r"^by .*'step'"):
        display.plot(by="step")
    at_once = ConvergenceDisplay.from_estimator(MLFro().fit(*data))
    assert not at_once.ax_.lines
    assert len(at_once.ax_.texts) == 1  # which says so


def test_heat_map_has_the_best_score_of_each_cell(search):
    display = PathDisplay.from_estimator(search)
    results = search.cv_results_
    (image,) = display.ax_.images
    cells = image.get_array()
    for i, theta in enumerate([0, 1, 3]):
        for j, alpha in enumerate([0.5, 2.0, 8.0, 32.0]):
            here = (results["param_theta"] == theta) & (results["param_alpha"] == alpha)
            assert cells[i, j] == pytest.approx(results["mean_test_score"][here].max())
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["0.5", "2", "8", "32"]
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["0", "1", "3"]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("alpha", "theta")
    assert display.ax_.get_title().endswith("best ridge")
    (frame,) = display.ax_.patches
    chosen = [0, 1, 3].index(search.best_params_["theta"])
    assert frame.get_y() == chosen - 0.5


def test_one_parameter_is_a_line(data):
    search = MLFroCV(alphas=[0.1, 1.0, 10.0]).fit(*data)
    display = PathDisplay.from_estimator(search)
    line = display.ax_.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [0.1, 1.0, 10.0])
    np.testing.assert_allclose(line.get_ydata(), search.cv_results_["mean_test_score"])
    with pytest.raises(TypeError, match=r"MLFro\(\)"):
        PathDisplay.from_estimator(MLFro().fit(*data))


def test_the_gain_of_low_rank_is_drawn_above_the_noise(data):
    display = LowRankDisplay(low_rank_gain(*data), name="data").plot()
    found = display.found
    np.testing.assert_array_equal(display.ax_.lines[1].get_ydata(), found.singular_values)
    (noise,) = display.ax_.collections
    assert noise.get_paths()[0].vertices[:, 1].max() == found.noise[: len(found.singular_values)].max()
    (inset,) = display.ax_.child_axes
    assert inset.lines[1].get_xdata()[0] == found.gain
    assert display.ax_.get_title().startswith("data: ")


def test_matplotlib_is_asked_for_when_something_is_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    display = SpectrumDisplay([2.0, 1.0])
    with pytest.raises(ImportError, match=r"SpectrumDisplay.*\[plots\]"):
        display.plot()
