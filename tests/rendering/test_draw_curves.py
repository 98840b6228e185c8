"""Published series, legends, rows of panels, and markers along curves."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrml.report._series import assigned, marked
from rendering.test_draw import compose, drawn_lines, make_figure, make_lines, make_series

PAIRS = ("LRML", "LEML", "LRML, paper", "CPLST, paper", "LEML, paper", "CPLST")


def make_pairs(names: tuple[str, ...] = PAIRS) -> list[dict[str, Any]]:
    """Return series that rise; all are given as plain lines, because the names alone must tell."""
    return [make_series(name, [20, 40, 60, 80], [k, k + 1, k + 3, k + 4]) for k, name in enumerate(names)]


@pytest.mark.parametrize("names", [PAIRS, PAIRS[::-1], PAIRS[2:] + PAIRS[:2]])
def test_published_values_look_like_ours_but_dotted_and_hollow(names: tuple[str, ...]):
    lines = drawn_lines(make_figure([make_lines(make_pairs(names))], 1))
    by_name = {name: lines[f"series-0-{position}"] for position, name in enumerate(names)}
    assert len({by_name[name].get_color() for name in ("LRML", "LEML", "CPLST")}) == 3
    for name in ("LRML", "LEML", "CPLST"):
        own, published = by_name[name], by_name[f"{name}, paper"]
        assert published.get_color() == own.get_color()
        assert published.get_marker() == own.get_marker()
        assert (own.get_linestyle(), published.get_linestyle()) == ("-", "--")  # how matplotlib calls its own
        assert published._unscaled_dash_pattern[1][0] == 1  # a dot, and then a gap
        assert own.get_markerfacecolor() == own.get_color()
        assert published.get_markerfacecolor() == "white"


@given(st.lists(st.sets(st.integers(0, 12), max_size=5), max_size=6))
def test_names_of_one_figure_differ(groups: list[set[int]]):
    """A name with fewer than seven others beside it, in all of its figures, finds one of seven choices."""
    figures = [make_figure([make_lines(make_pairs(tuple(map(str, sorted(g)))))]) for g in groups]
    chosen = assigned(figures, 7)
    neighbours: dict[str, set[str]] = {}
    for group in groups:
        for one, other in permutations(map(str, group), 2):
            neighbours.setdefault(one, set()).add(other)
    for group in groups:
        for one, other in combinations(map(str, group), 2):
            if max(len(neighbours[one]), len(neighbours[other])) < 7:
                assert chosen[one] != chosen[other]


def legend_rows(figure: dict[str, Any]) -> list[list[str]]:
    [legend] = compose(figure).legends
    placed: dict[int, list[tuple[float, str]]] = {}
    for text in legend.get_texts():
        if text.get_text():
            extent = text.get_window_extent()
            placed.setdefault(round(extent.y0 / 20), []).append((extent.x0, text.get_text()))
    return [[name for _, name in sorted(placed[row])] for row in sorted(placed, reverse=True)]


def test_the_legend_has_ours_above_the_published():
    rows = legend_rows(make_figure([make_lines(make_pairs())] * 2))
    assert rows == [["LRML", "LEML", "CPLST"], ["LRML, paper", "LEML, paper", "CPLST, paper"]]


def test_a_lone_name_leaves_a_hole_in_the_legend():
    names = ("LRML", "ML-trace", "LEML", "LEML, paper", "LRML, paper")
    figure = make_figure([make_lines(make_pairs(names))] * 2)
    assert legend_rows(figure) == [["LRML", "ML-trace", "LEML"], ["LRML, paper", "LEML, paper"]]


@pytest.mark.parametrize("n_names", [4, 7, 10])
def test_legends_have_two_rows_at_most(n_names: int):
    names = tuple(f"method no. {k}" for k in range(n_names))
    assert len(legend_rows(make_figure([make_lines(make_pairs(names))] * 2))) <= 2


@pytest.mark.parametrize("n_panels", [10])
def test_many_rows_fit_on_a_page(n_panels: int):
    panels = [make_lines(make_pairs(), title=f"panel {k}") for k in range(n_panels)]
    canvas = compose(make_figure(panels))
    assert canvas.get_figheight() <= 9
    heights = [axes.bbox.height / canvas.dpi for axes in canvas.axes]
    assert min(heights) > 0.9  # inches: flat, but not too flat to be read
    boxes = [axes.get_tightbbox() for axes in canvas.axes]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_three_rows_keep_their_shape():
    panels = [make_lines(make_pairs())] * 6
    assert compose(make_figure(panels)).get_figheight() > 6.9


@pytest.mark.parametrize(
    ("n_panels", "columns", "shared"),
    [(3, 2, False), (4, 3, True), (5, 3, False)],
)
def test_a_hole_opens_no_gap_above_it(n_panels: int, columns: int, shared: bool):
    """The panels are as high as those of the full grid, and all columns end with a label and numbers."""
    shares = [[20, 80] if shared else [10.0**k, 3 * 10.0**k] for k in range(n_panels + columns)]
    panels = [make_lines([make_series("a", x, [1, 2])]) for x in shares]
    full = compose(make_figure(panels[: -(-n_panels // columns) * columns], columns)).axes
    holed = compose(make_figure(panels[:n_panels], columns)).axes
    for one, other in zip(full, holed, strict=False):
        assert other.bbox.height == pytest.approx(one.bbox.height, rel=0.02)
    for axes in holed[n_panels - columns :]:
        assert axes.get_xlabel() == "the x"
        assert all(label.get_visible() for label in axes.get_xticklabels())
    boxes = [axes.get_tightbbox() for axes in holed]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def marked_places(x: list[Any], y: list[Any], scale: str) -> np.ndarray:
    """Return where along the axis markers are, in inches of the canvas."""
    figure = make_figure([make_lines([make_series("a", x, y)], scale)], 1)
    [axes] = compose(figure).axes
    kept = axes.lines[0].get_markevery()
    assert kept is not None
    places = axes.transData.transform(np.column_stack([np.array(x)[kept], np.ones(len(kept))]))[:, 0]
    return np.asarray(places / axes.figure.dpi)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_markers_are_even_in_axis_space(scale: str):
    x = list(range(1, 2001))
    gaps = np.diff(marked_places(x, [1.0 / v for v in x], scale))
    assert 4 <= len(gaps) <= 8
    np.testing.assert_allclose(gaps, gaps.mean(), rtol=0.12)


def test_few_points_have_all_their_markers_unless_crowded():
    few = make_series("few", [20, 40, 60, 80], [1, 2, 3, 4])
    crowded = make_series("crowded", list(range(1, 13)), list(range(12)))
    scattered = make_series("scattered", list(range(1, 1001)), [1] * 1000, "points")
    lines = drawn_lines(make_figure([make_lines([few]), make_lines([crowded, scattered], "log")]))
    assert lines["series-0-0"].get_markevery() is None
    assert len(lines["series-1-0"].get_markevery()) < 12
    assert lines["series-1-1"].get_markevery() is None  # a point without its marker would be gone


def test_a_series_may_settle_its_markers_and_a_panel_start_at_zero():
    x = [float(k) for k in range(1, 41)]
    drawn = [make_series(name, x, [k + 5 for k in x]) | {"markers": name} for name in ("all", "none")]
    panel = make_lines(drawn)
    panel["y"]["from_zero"] = True
    [axes] = compose(make_figure([panel], 1)).axes
    assert [line.get_markevery() for line in axes.lines] == [None, []]
    assert axes.get_ylim()[0] <= 0


@given(st.lists(st.floats(0, 1), min_size=13, max_size=60), st.integers(0, 8))
def test_marked_points_are_few_and_contain_the_ends(places: list[float], position: int):
    kept = marked(np.array(places), position)
    assert kept is not None
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(places) - 1)
    assert len(kept) <= 10
