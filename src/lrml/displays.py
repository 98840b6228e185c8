"""Pictures of models for notebooks and papers, in the style of scikit-learn's displays.

A display holds data and draws it: ``from_estimator`` takes both steps at once, ``plot`` draws again, on axes
of one's own if wanted, and ``ax_`` and ``figure_`` are there to be changed afterwards. Estimators may be
searches, taggers and pipelines that end in a model of this library. Colours are safe for all readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._inner import free_values, inner_model
from lrml._shown import how_to_install, shown
from lrml.core.arrays import to_host
from lrml.core.checks import check_choice

__all__ = ["ConvergenceDisplay", "LowRankDisplay", "PathDisplay", "SpectrumDisplay"]


_Floats: TypeAlias = npt.NDArray[np.float64]

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "0.45"  # Okabe and Ito's
# With more singular values than this, bars would be hairs.
_MOST_BARS = 60
# With more cells in a row of a heat map, their values would not fit.
_MOST_VALUES = 8
# Scores that are further below the best than so many times the median share one colour.
_SPREAD = 4.0


class _Display:
    """What all displays share: a name, axes to draw on, and the figure that they belong to."""

    name: str | None
    ax_: Any
    figure_: Any

    def _axes(self, ax: Any, size: tuple[float, float] = (5.0, 3.4)) -> Any:
        """Return the given axes, or those of a new figure, and remember them."""
        if ax is None:
            try:
                pyplot = import_module("matplotlib.pyplot")
            except ImportError as error:
                raise ImportError(
                    f"{type(self).__name__} needs matplotlib. {how_to_install('plots')}"
                ) from error
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _finish(self, title: str, **labels: str) -> Self:
        """Write the labels of both axes and a title that begins with the name, and leave the frame open."""
        named = ": ".join(part for part in (self.name, title) if part)
        self.ax_.set(title=named, **labels)
        self.ax_.spines[["top", "right"]].set_visible(False)
        return self


class SpectrumDisplay(_Display):
    """Singular values of a model, with the tail that the penalty acts on.

    Parameters
    ----------
    singular_values : array
        Descending.
    theta : int, optional
        So many are free of the penalty; those beyond are shaded. None if no tail is penalised.
    name : str, optional
        What to call the model in the title.

    Examples
    --------
    >>> from lrml import LRML, SpectrumDisplay
    >>> from lrml.datasets import load_yeast
    >>> display = SpectrumDisplay.from_estimator(LRML(3, 30.0).fit(*load_yeast().train))
    >>> display.ax_.get_ylabel()
    'singular value'
    """

    def __init__(
        self, singular_values: npt.ArrayLike, *, theta: int | None = None, name: str | None = None
    ) -> None:
        self.singular_values = np.asarray(to_host(singular_values), dtype=np.float64)
        self.theta = theta
        self.name = name

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the spectrum of a fitted model, by default under the name of its class, on new axes."""
        model = inner_model(estimator, cls.__name__).model
        name = type(model).__name__ if name is None else name
        return cls(model.singular_values_, theta=free_values(model), name=name).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones; return the display."""
        ax, sigma = self._axes(ax), self.singular_values
        places = np.arange(1, len(sigma) + 1)
        tail = places > (len(sigma) if self.theta is None else self.theta)
        if len(sigma) <= _MOST_BARS:
            for which, colour, label in ((~tail, _BLUE, "free"), (tail, _ORANGE, "penalised tail")):
                ax.bar(places[which], sigma[which], color=colour, label=label)
        else:
            ax.plot(places, sigma, color=_BLUE)
            ax.fill_between(places, sigma, where=tail, color=_ORANGE, alpha=0.5, label="penalised tail")
        if self.theta is not None:
            end = max(len(sigma), self.theta) + 0.5
            ax.set_xlim(0.5, end + 0.5)
            if self.theta + 0.5 < end:
                ax.axvspan(self.theta + 0.5, end + 0.5, color=_ORANGE, alpha=0.1, linewidth=0)
            ax.axvline(self.theta + 0.5, color=_GREY, linestyle="--", linewidth=1)
            ax.legend(frameon=False, title=f"theta = {self.theta}")
        ax.set_ylim(bottom=0)
        ax.xaxis.get_major_locator().set_params(integer=True)
        return self._finish(f"rank {np.count_nonzero(sigma)}", xlabel="index j", ylabel="singular value")


class LowRankDisplay(_Display):
    """Whether low rank pays: the spectrum of the predictions above its noise, and the gain over ridge.

    ``found`` is what `lrml.inspection.low_rank_gain` returns, and ``name`` what to call the data.

    >>> from lrml.datasets import load_yeast
    >>> from lrml.inspection import low_rank_gain
    >>> LowRankDisplay(low_rank_gain(*load_yeast().train, random_state=0)).plot().ax_.get_xlabel()
    'index j'
    """

    def __init__(self, found: Any, *, name: str | None = None) -> None:
        self.found = found
        self.name = name

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones; return the display."""
        ax, found = self._axes(ax, (6.4, 3.8)), self.found
        values = found.singular_values
        many, places = len(values) > _MOST_BARS, np.arange(1, len(values) + 1)
        style = {"marker": None if many else "o", "markersize": 3.5}
        noise = found.noise[: len(values)]
        ax.fill_between(places, noise, color=_GREY, alpha=0.25, linewidth=0, label="noise alone")
        ax.axhline(found.noise_level, color=_GREY, linestyle="--", linewidth=1)
        ax.plot(places, values, color=_BLUE, label="ridge regression", **style)
        if not np.array_equal(found.kept, values):
            ax.plot(places, found.kept, color=_ORANGE, label="kept by the penalty", **style)
        ax.set(ylim=(0, None), xlim=(0.8, len(values) + 0.2), xscale="log" if many else "linear")
        if not many:
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.66))
        inset = ax.inset_axes((0.56, 0.76, 0.42, 0.12))
        inset.axvline(0.0, color=_GREY, linestyle="--", linewidth=1)
        lead = {"xerr": 2.0 * found.standard_error, "color": _ORANGE, "markersize": 5, "capsize": 3}
        inset.errorbar(found.gain, 0, fmt="o", **lead)
        inset.set_title("gain over ridge ± 2 standard errors", fontsize="small")
        inset.set_yticks([])
        inset.tick_params(labelsize="small")
        inset.spines[["top", "right", "left"]].set_visible(False)
        title = f"{found.n_above_noise} directions above the noise"
        return self._finish(title, xlabel="index j", ylabel="singular value of the predictions")


class ConvergenceDisplay(_Display):
    """How the objective of a fit fell, iteration by iteration.

    What is drawn is F_k − F_best relative to F_best, on a logarithmic axis, and the estimated gap that
    ``tol`` limits where the solver has one.

    ``history`` is that of a model, and ``name`` what to call it in the title.

    >>> from lrml import LRML
    >>> from lrml.datasets import load_yeast
    >>> ConvergenceDisplay.from_estimator(LRML(3, 30.0).fit(*load_yeast().train)).ax_.get_xlabel()
    'iteration'
    """

    def __init__(self, history: Mapping[str, npt.ArrayLike], *, name: str | None = None) -> None:
        self.history = {key: np.asarray(to_host(values)) for key, values in history.items()}
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, by: str = "iteration", name: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the history of a fitted model, of a search that of its last fit, as `plot` does."""
        model = inner_model(estimator, cls.__name__).model
        return cls(model.history_, name=type(model).__name__ if name is None else name).plot(ax, by=by)

    def plot(self, ax: Any = None, *, by: str = "iteration") -> Self:
        """Draw on the given axes, or on new ones, by "iteration" or "seconds"; return the display."""
        check_choice("by", by, ("iteration", "seconds"))
        ax = self._axes(ax)
        along = self.history[by]
        objective = self.history["objective"].astype(np.float64)
        least = float(objective.min())
        excess = (objective - least) / (abs(least) or 1.0)
        gap = self.history.get("gap", np.full(len(along), np.inf)).astype(np.float64)
        lines = (excess, "o-", _BLUE, "above the best"), (gap, "s--", _ORANGE, "estimated gap")
        for values, style, colour, label in lines:
            drawn = np.isfinite(values) & (values > 0)
            if drawn.any() and len(along) > 1:  # otherwise a closed form, or a start that was the solution
                ax.plot(along[drawn], values[drawn], style, color=colour, markersize=3.5, label=label)
        if ax.lines:
            ax.set_yscale("log")
            ax.legend(frameon=False)
        else:
            found = f"solved at once\nobjective {least:.6g}"
            ax.text(0.5, 0.5, found, ha="center", va="center", transform=ax.transAxes)
            ax.set_yticks([])
        if by == "iteration":
            ax.xaxis.get_major_locator().set_params(integer=True)
        return self._finish(f"{len(along) - 1} iterations", xlabel=by, ylabel="relative distance")


class PathDisplay(_Display):
    """Scores of a search over two of its parameters, theta × alpha by default, as a heat map.

    Where a cell has several candidates (other ridges, say), it shows the best. Candidates need not form a
    full grid: cells without one are grey. The chosen candidate has a frame. Scores far below the rest share
    the darkest colour, so that the others can be told apart.

    ``results`` and ``best_params`` are ``cv_results_`` and ``best_params_`` of a search, and ``name`` what to
    call it in the title.

    >>> from lrml import LRMLCV
    >>> from lrml.datasets import load_yeast
    >>> search = LRMLCV(thetas=[0, 3], alphas=[1, 10], random_state=0).fit(*load_yeast().train)
    >>> PathDisplay.from_estimator(search).ax_.get_xlabel()
    'alpha'
    """

    def __init__(
        self, results: Mapping[str, Any], *, best_params: Any = None, name: str | None = None
    ) -> None:
        self.results = results
        self.best_params = best_params
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the candidates of a fitted search, as `plot` does, which takes the options."""
        model = inner_model(estimator, cls.__name__).model
        if not hasattr(model, "cv_results_"):
            raise TypeError(f"{shown(model)} is not a search. Fit {type(model).__name__}CV, for example.")
        name = type(model).__name__ if name is None else name
        return cls(model.cv_results_, best_params=model.best_params_, name=name).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, x: str | None = None, y: str | None = None, scoring: str | None = None
    ) -> Self:
        """Draw on the given axes, or on new ones; return the display.

        ``x`` and ``y`` are the parameters along the axes: by default those of alpha, theta, rank and ridge
        that vary; if only one does, its scores are drawn as a line. Of several scores the first is drawn, or
        ``scoring``.
        """
        metrics = self._ending("mean_test_")
        metric = check_choice("scoring", metrics[0] if scoring is None else scoring, tuple(metrics))
        scores = np.asarray(self.results[f"mean_test_{metric}"], dtype=np.float64)
        label = f"held-out {metric.replace('_', ' ')}"
        across, up = self._parameters(x, y)
        if up is None:
            return self._plot_line(ax, across, scores, label)
        return self._plot_map(ax, across, up, scores, label)

    def _ending(self, prefix: str) -> list[str]:
        """Return what comes after a prefix in the names of the results."""
        return [key.removeprefix(prefix) for key in self.results if key.startswith(prefix)]

    def _varying(self) -> list[str]:
        return [name for name in self._ending("param_") if len(np.unique(self._values(name))) > 1]

    def _values(self, name: str) -> _Floats:
        return np.asarray(self.results[f"param_{name}"], dtype=np.float64)

    def _parameters(self, x: str | None, y: str | None) -> tuple[str, str | None]:
        known = self._ending("param_")
        for name, given in (("x", x), ("y", y)):
            if given is not None:
                check_choice(name, given, tuple(known))
        varying = self._varying()
        usual = ("alpha", "rank", "ridge", "theta")
        wanted = [name for name in usual if name in varying and name not in (x, y)]
        across = x or (wanted.pop(0) if wanted else next(name for name in known if name != y))
        if y is None and "theta" in wanted:
            return across, "theta"
        return across, y or next((name for name in wanted if name != across), None)

    def _plot_line(self, ax: Any, name: str, scores: _Floats, label: str) -> Self:
        ax, along = self._axes(ax), self._values(name)
        values = np.unique(along)
        best = [np.nanmax(scores[along == value], initial=-np.inf) for value in values]
        ax.plot(values, best, "o-", color=_BLUE, markersize=4)
        if values.min() > 0 and values.max() / values.min() >= 20:
            ax.set_xscale("log")
        chosen = (self.best_params or {}).get(name)
        if chosen is not None:
            ax.axvline(chosen, color=_ORANGE, linestyle="--", linewidth=1.2, label=f"chosen: {chosen:.3g}")
            ax.legend(frameon=False)
        return self._finish("", xlabel=name, ylabel=label)

    def _plot_map(self, ax: Any, across: str, up: str, scores: _Floats, label: str) -> Self:
        columns, column = np.unique(self._values(across), return_inverse=True)
        rows, row = np.unique(self._values(up), return_inverse=True)
        cells = np.full((len(rows), len(columns)), np.nan)
        np.fmax.at(cells, (row, column), scores)
        few = len(columns) <= _MOST_VALUES
        width = min(9.0, 2.2 + (0.62 if few else 0.32) * len(columns))
        ax = self._axes(ax, (max(width, 4.2), min(7.0, 1.6 + 0.32 * len(rows) + 0.6)))
        best, middle = np.nanmax(cells), np.nanmedian(cells)
        least = max(float(np.nanmin(cells)), float(best - _SPREAD * (best - middle)))
        drawn = {"origin": "lower", "aspect": "auto", "cmap": "cividis", "vmin": least, "vmax": float(best)}
        image = ax.imshow(np.ma.masked_invalid(cells), **drawn)
        cut = "min" if least > np.nanmin(cells) else "neither"
        self.figure_.colorbar(image, ax=ax, label=label, extend=cut)
        ax.set_facecolor("0.92")  # no candidate
        for axis, values in ((ax.xaxis, columns), (ax.yaxis, rows)):
            step = -(-len(values) // 14)
            axis.set_ticks(range(0, len(values), step), [f"{value:.3g}" for value in values[::step]])
        if len(columns) > 6:
            ax.tick_params(axis="x", rotation=45)
        if few and len(rows) <= 14:
            for (i, j), score in np.ndenumerate(cells):
                if np.isfinite(score):
                    colour = "w" if image.norm(score) < 0.5 else "k"
                    ax.text(j, i, f"{score:.3f}", ha="center", va="center", fontsize=7, color=colour)
        chosen = self.best_params or {}
        if across in chosen and up in chosen:
            corner = [np.argmin(np.abs(v - chosen[n])) - 0.5 for n, v in ((across, columns), (up, rows))]
            frame = {"fill": False, "edgecolor": _ORANGE, "linewidth": 2.5, "clip_on": False}
            ax.add_patch(import_module("matplotlib.patches").Rectangle(corner, 1, 1, label="chosen", **frame))
        others = ", ".join(name for name in self._varying() if name not in (across, up))
        ax.set(xlabel=across, ylabel=up)
        ax.set_title(", ".join(part for part in (self.name, others and f"at the best {others}") if part))
        return self
