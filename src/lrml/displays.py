"""Pictures of models for notebooks and papers, in the style of scikit-learn's displays.

A display holds data and draws it: ``from_estimator`` takes both steps at once, ``plot`` draws again, on axes
of one's own if wanted, and ``ax_`` and ``figure_`` are there to be changed afterwards. Matplotlib is imported
when something is drawn; get it with ``pip install "lrml[plots]"``. Estimators may be searches, taggers and
pipelines that end in a model of this library. Colours are safe for colour-blind readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._arrays import to_host
from lrml._checks import is_integer
from lrml._inner import free_values, inner_model, label_vectors
from lrml._shown import shown
from lrml.report import DIRECTIONS, free_places

__all__ = ["ConvergenceDisplay", "LabelMapDisplay", "PathDisplay", "SpectrumDisplay"]


def __dir__() -> list[str]:
    return __all__


_Floats: TypeAlias = npt.NDArray[np.float64]

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "0.45"  # Okabe and Ito's
# With more singular values than this, bars would be hairs.
_MOST_BARS = 60
# With more cells in a row of a heat map, their values would not fit.
_MOST_VALUES = 8
# Scores that are further below the best than so many times the median share one colour.
_SPREAD = 4.0
_N_NAMES = 60


class _Display:
    """What all displays share: axes to draw on, and the figure that they belong to."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any, size: tuple[float, float] = (5.0, 3.4)) -> Any:
        """Return the given axes, or those of a new figure, and remember them."""
        try:
            pyplot = import_module("matplotlib.pyplot")
        except ImportError as error:
            raise ImportError(
                f"{type(self).__name__} needs matplotlib, which is not installed. Get it with: "
                'pip install "lrml[plots]"'
            ) from error
        if ax is None:
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


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

    Attributes
    ----------
    ax_, figure_
        What was drawn on.

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
        """Draw the spectrum of a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted: of this library, or a pipeline or search that ends in one.
        name : str, optional
            The class of the model by default.
        ax : matplotlib axes, optional
            New ones by default.
        """
        model = inner_model(estimator, cls.__name__).model
        name = type(model).__name__ if name is None else name
        return cls(model.singular_values_, theta=free_values(model), name=name).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; return the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            New ones by default.
        """
        ax = self._axes(ax)
        sigma = self.singular_values
        places = np.arange(1, len(sigma) + 1)
        tail = np.zeros(len(sigma), dtype=np.bool_) if self.theta is None else places > self.theta
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
        ax.set(xlabel="index j", ylabel="singular value", title=self._title(sigma))
        ax.set_ylim(bottom=0)
        ax.spines[["top", "right"]].set_visible(False)
        ax.xaxis.get_major_locator().set_params(integer=True)
        return self

    def _title(self, sigma: _Floats) -> str:
        rank = f"rank {np.count_nonzero(sigma)}"
        return rank if self.name is None else f"{self.name}: {rank}"


class ConvergenceDisplay(_Display):
    """How the objective of a fit fell, iteration by iteration.

    What is drawn is F_k − F_best relative to F_best, on a logarithmic axis, and the estimated gap that
    ``tol`` limits where the solver has one.

    Parameters
    ----------
    history : mapping of str to array
        As ``history_`` of a model: ``iteration``, ``objective``, ``gap``, ``phase``, ``seconds``.
    name : str, optional
        What to call the model in the title.
    """

    def __init__(self, history: Mapping[str, npt.ArrayLike], *, name: str | None = None) -> None:
        self.history = {key: np.asarray(to_host(values)) for key, values in history.items()}
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, by: str = "iteration", name: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the history of a fitted model; of a search, that of its last fit.

        Parameters
        ----------
        estimator : estimator
            Fitted: of this library, or a pipeline or search that ends in one.
        by : {"iteration", "seconds"}, default="iteration"
            What runs along the horizontal axis.
        name : str, optional
            The class of the model by default.
        ax : matplotlib axes, optional
            New ones by default.
        """
        model = inner_model(estimator, cls.__name__).model
        return cls(model.history_, name=type(model).__name__ if name is None else name).plot(ax, by=by)

    def plot(self, ax: Any = None, *, by: str = "iteration") -> Self:
        """Draw; return the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            New ones by default.
        by : {"iteration", "seconds"}, default="iteration"
        """
        if by not in ("iteration", "seconds"):
            raise ValueError(f'by must be "iteration" or "seconds", got {shown(by)}. Pass one of these.')
        ax = self._axes(ax)
        along = self.history[by]
        objective = self.history["objective"].astype(np.float64)
        least = float(objective.min())
        excess = (objective - least) / (abs(least) or 1.0)
        gap = self.history.get("gap", np.full(len(along), np.inf)).astype(np.float64)
        several = len(along) > 1  # otherwise a closed form, or a start that was the solution
        drawn = several & (excess > 0)
        if drawn.any():
            ax.plot(
                along[drawn],
                excess[drawn],
                "o-",
                color=_BLUE,
                markersize=3.5,
                label="above the best",
            )
        known = several & np.isfinite(gap) & (gap > 0)
        if known.any():
            ax.plot(along[known], gap[known], "s--", color=_ORANGE, markersize=3.5, label="estimated gap")
        if drawn.any() or known.any():
            ax.set_yscale("log")
            ax.legend(frameon=False)
        else:
            ax.text(
                0.5,
                0.5,
                f"solved at once\nobjective {least:.6g}",
                ha="center",
                va="center",
                transform=ax.transAxes,
            )
            ax.set_yticks([])
        title = f"{len(along) - 1} iterations"
        ax.set(
            xlabel="iteration" if by == "iteration" else "seconds",
            ylabel="relative distance",
            title=title if self.name is None else f"{self.name}: {title}",
        )
        ax.spines[["top", "right"]].set_visible(False)
        if by == "iteration":
            ax.xaxis.get_major_locator().set_params(integer=True)
        return self


class PathDisplay(_Display):
    """Scores of a search over two of its parameters, theta × alpha by default, as a heat map.

    Where a cell has several candidates (other ridges, say), it shows the best. Candidates need not form a
    full grid: cells without one are grey. The chosen candidate has a frame. Scores far below the rest share
    the darkest colour, so that the others can be told apart.

    Parameters
    ----------
    results : mapping
        As ``cv_results_`` of a search: ``param_…`` and ``mean_test_…``.
    best_params : mapping, optional
        The parameters that the search chose.
    name : str, optional
        What to call the search in the title.
    """

    def __init__(
        self,
        results: Mapping[str, Any],
        *,
        best_params: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.results = results
        self.best_params = best_params
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        scoring: str | None = None,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the candidates of a fitted search.

        Parameters
        ----------
        estimator : estimator
            A fitted search of this library, or a tagger or a pipeline that ends in one.
        x, y, scoring, ax
            As in `plot`.
        name : str, optional
            The class of the search by default.
        """
        model = inner_model(estimator, cls.__name__).model
        if not hasattr(model, "cv_results_"):
            raise TypeError(
                f"{cls.__name__} needs a search, got {shown(model)}. Fit {type(model).__name__}CV, say."
            )
        name = type(model).__name__ if name is None else name
        best = getattr(model, "best_params_", None)
        return cls(model.cv_results_, best_params=best, name=name).plot(ax, x=x, y=y, scoring=scoring)

    def plot(
        self, ax: Any = None, *, x: str | None = None, y: str | None = None, scoring: str | None = None
    ) -> Self:
        """Draw; return the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            New ones by default.
        x, y : str, optional
            Parameters along the axes. By default those of alpha, theta, rank and ridge that vary; if only one
            does, its scores are drawn as a line.
        scoring : str, optional
            Which score to draw if the search had several; the first by default.
        """
        column = self._scores(scoring)
        scores = np.asarray(self.results[column], dtype=np.float64)
        across, up = self._parameters(x, y)
        label = f"held-out {column.removeprefix('mean_test_').replace('_', ' ')}"
        along = np.asarray(self.results[f"param_{across}"], dtype=np.float64)
        if up is None:
            return self._plot_line(ax, across, along, scores, label)
        return self._plot_map(
            ax, (across, along), (up, np.asarray(self.results[f"param_{up}"])), scores, label
        )

    def _scores(self, scoring: str | None) -> str:
        known = [key for key in self.results if key.startswith("mean_test_")]
        if scoring is None:
            return known[0]
        if f"mean_test_{scoring}" not in known:
            names = ", ".join(key.removeprefix("mean_test_") for key in known)
            raise ValueError(f"scoring must be one of {names}, got {shown(scoring)}. Pass one of these.")
        return f"mean_test_{scoring}"

    def _parameters(self, x: str | None, y: str | None) -> tuple[str, str | None]:
        known = [key.removeprefix("param_") for key in self.results if key.startswith("param_")]
        for given in (x, y):
            if given is not None and given not in known:
                raise ValueError(
                    f"x and y must be among {', '.join(known)}, got {shown(given)}. Pass one of these."
                )
        varying = [name for name in known if len(np.unique(self.results[f"param_{name}"])) > 1]
        wanted = [
            name for name in ("alpha", "rank", "ridge", "theta") if name in varying and name not in (x, y)
        ]
        across = x or (wanted.pop(0) if wanted else next(name for name in known if name != y))
        if y is None and "theta" in wanted:
            return across, "theta"
        return across, y or next((name for name in wanted if name != across), None)

    def _plot_line(self, ax: Any, name: str, along: _Floats, scores: _Floats, label: str) -> Self:
        ax = self._axes(ax)
        values = np.unique(along)
        best = [np.nanmax(scores[along == value], initial=-np.inf) for value in values]
        ax.plot(values, best, "o-", color=_BLUE, markersize=4)
        if _spans_decades(values):
            ax.set_xscale("log")
        chosen = None if self.best_params is None else self.best_params.get(name)
        if chosen is not None:
            ax.axvline(
                chosen, color=_ORANGE, linestyle="--", linewidth=1.2, label=f"chosen: {_short(chosen)}"
            )
            ax.legend(frameon=False)
        ax.set(xlabel=name, ylabel=label, title=self.name or "")
        ax.spines[["top", "right"]].set_visible(False)
        return self

    def _plot_map(
        self, ax: Any, across: tuple[str, _Floats], up: tuple[str, _Floats], scores: _Floats, label: str
    ) -> Self:
        columns, column = np.unique(across[1], return_inverse=True)
        rows, row = np.unique(up[1].astype(np.float64), return_inverse=True)
        cells = np.full((len(rows), len(columns)), np.nan)
        for i, j, score in zip(row, column, scores, strict=True):
            cells[i, j] = np.fmax(cells[i, j], score)
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
            axis.set_ticks(range(0, len(values), step), [_short(value) for value in values[::step]])
        if len(columns) > 6:
            ax.tick_params(axis="x", rotation=45)
        if few and len(rows) <= 14:
            self._write_values(ax, cells, image)
        self._frame_chosen(ax, across[0], columns, up[0], rows)
        others = [
            key.removeprefix("param_")
            for key in self.results
            if key.startswith("param_")
            and key not in (f"param_{across[0]}", f"param_{up[0]}")
            and len(np.unique(self.results[key])) > 1
        ]
        title = [self.name or "", f"best over {', '.join(others)}" if others else ""]
        ax.set(xlabel=across[0], ylabel=up[0], title=", ".join(part for part in title if part))
        return self

    def _write_values(self, ax: Any, cells: _Floats, image: Any) -> None:
        for (i, j), score in np.ndenumerate(cells):
            if np.isfinite(score):
                dark = image.norm(score) < 0.5
                ax.text(
                    j, i, f"{score:.3f}", ha="center", va="center", fontsize=7, color="w" if dark else "k"
                )

    def _frame_chosen(self, ax: Any, x: str, columns: _Floats, y: str, rows: _Floats) -> None:
        chosen = self.best_params or {}
        if x not in chosen or y not in chosen:
            return
        place = [int(np.argmin(np.abs(v - chosen[n]))) - 0.5 for n, v in ((x, columns), (y, rows))]
        patches = import_module("matplotlib.patches")
        frame = {"fill": False, "edgecolor": _ORANGE, "linewidth": 2.5, "clip_on": False, "label": "chosen"}
        ax.add_patch(patches.Rectangle(place, 1, 1, **frame))


class LabelMapDisplay(_Display):
    """Labels in the plane of the two largest singular values.

    Label l stands at (σ₁ V_l1, σ₂ V_l2), its coefficients projected on the two directions that carry most of
    W. Labels in the same direction from the origin are predicted together, those on opposite sides exclude
    each other. The most important labels are named, as far as names have room.

    Parameters
    ----------
    positions : array of shape (L, 2)
    names : sequence of str
    importance : array of shape (L,), optional
        The higher, the sooner a label is named and the larger its point; the distance from the origin by
        default.
    shares : pair of float, optional
        Share of ‖W‖²_F along the two axes, for their labels.
    name : str, optional
        What to call the model in the title.
    """

    def __init__(
        self,
        positions: npt.ArrayLike,
        names: Sequence[Any],
        *,
        importance: npt.ArrayLike | None = None,
        shares: tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        self.positions = np.asarray(to_host(positions), dtype=np.float64)
        self.names = [str(each) for each in names]
        distance = np.linalg.norm(self.positions, axis=1)
        self.importance = (
            distance if importance is None else np.asarray(to_host(importance), dtype=np.float64)
        )
        self.shares = shares
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        importance: npt.ArrayLike | None = None,
        n_names: int = _N_NAMES,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the labels of a fitted model of rank 2 or more.

        Parameters
        ----------
        estimator : estimator
            Fitted: of this library, or a pipeline or search that ends in one.
        importance : array of shape (L,), optional
            Such as how often each label occurs; the length of its coefficient vector by default.
        n_names : int, default=60
            How many labels to name at most.
        name : str, optional
            The class of the model by default.
        ax : matplotlib axes, optional
            New ones by default.
        """
        model = inner_model(estimator, cls.__name__).model
        vectors = label_vectors(model)
        if vectors.shape[1] < 2:
            raise ValueError(
                f"{cls.__name__} needs a model of rank 2 or more, got rank {vectors.shape[1]}. "
                "Fit with a smaller alpha, or a larger theta or rank."
            )
        squares = np.asarray(model.singular_values_, dtype=np.float64) ** 2
        shares = squares[:2] / squares.sum()
        found = cls(
            vectors[:, :2],
            list(model.classes_),
            importance=np.linalg.norm(vectors, axis=1) if importance is None else importance,
            shares=(float(shares[0]), float(shares[1])),
            name=type(model).__name__ if name is None else name,
        )
        return found.plot(ax, n_names=n_names)

    def plot(self, ax: Any = None, *, n_names: int = _N_NAMES) -> Self:
        """Draw; return the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            New ones by default. Names are placed for the size that the axes have now.
        n_names : int, default=60
            How many labels to name at most.
        """
        if not is_integer(n_names) or n_names < 0:
            raise ValueError(
                f"n_names must be an integer of at least 0, got {shown(n_names)}. Pass 30, for example."
            )
        ax = self._axes(ax, (7.0, 5.2))
        order = np.argsort(-self.importance, kind="stable")
        points = self.positions[order]
        size = self.importance[order] / max(float(self.importance.max(initial=0.0)), 1e-300)
        ax.axhline(0, color="0.85", linewidth=0.8, zorder=0)
        ax.axvline(0, color="0.85", linewidth=0.8, zorder=0)
        ax.scatter(*points.T, s=6 + 30 * size, color=_BLUE, alpha=0.75, linewidth=0)
        ax.margins(0.08)
        for axis, place in (("x", 0), ("y", 1)):
            share = "" if self.shares is None else f" ({self.shares[place]:.0%} of ‖W‖²)"
            ax.set(**{f"{axis}label": f"factor {place + 1}{share}"})
        ax.set_title("" if self.name is None else f"{self.name}: {len(points)} labels")
        ax.spines[["top", "right"]].set_visible(False)
        self._write_names(ax, points, [self.names[place] for place in order[:n_names]])
        return self

    def _write_names(self, ax: Any, points: _Floats, names: Sequence[str]) -> None:
        """Write the names that find room, in pixels of the figure as it is now."""
        self.figure_.canvas.draw()  # settles the layout
        renderer = self.figure_.canvas.get_renderer()
        dots = self.figure_.dpi / 72
        texts = [ax.text(0, 0, name, fontsize=7.5, parse_math=False) for name in names]
        sizes = np.array(
            [[box.width, box.height] for box in (text.get_window_extent(renderer) for text in texts)]
        )
        at = ax.transData.transform(points) - [ax.bbox.x0, ax.bbox.y0]
        frame = (float(ax.bbox.width), float(ax.bbox.height))
        for text, point, place in zip(
            texts, points, free_places(at, sizes.reshape(-1, 2), frame, 4 * dots), strict=False
        ):
            text.remove()
            if place is not None:
                across, up = DIRECTIONS[place]
                ax.annotate(
                    text.get_text(),
                    point,
                    xytext=(4 * across, 4 * up),
                    textcoords="offset points",
                    fontsize=7.5,
                    ha={1: "left", 0: "center", -1: "right"}[across],
                    va={1: "bottom", 0: "center", -1: "top"}[up],
                    parse_math=False,
                )


def _spans_decades(values: _Floats) -> bool:
    return bool(values.min() > 0 and values.max() / values.min() >= 20)


def _short(value: float) -> str:
    return f"{value:.3g}"
