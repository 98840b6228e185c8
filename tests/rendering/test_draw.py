from __future__ import annotations

import functools
import json
import struct
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from lrml.report import _draw, dots, lines, render_figures, series
from rendering.sample_summary import sample_summary

SVG = "{http://www.w3.org/2000/svg}"


def make_series(name: str, x: list[Any], y: list[Any], style: str = "line", **changes: Any) -> dict[str, Any]:
    return series(name, x, y, style, **changes)


def make_lines(drawn: list[dict[str, Any]], x: str = "linear", y: str = "linear", title: str = "a") -> Any:
    return lines(title, "the x", "the y", drawn, x, y_scale=y)


def make_map(kind: str, marks: list[dict[str, Any]], title: str = "trace norm") -> dict[str, Any]:
    x, y = np.linspace(-2, 5, 15), np.linspace(-3, 4, 13)
    z = np.abs(x - 1)[None, :] + (y[:, None] - 1) ** 2 / 8
    return {
        "kind": kind,
        "title": title,
        "x": {"label": "M₂₃", "values": x.tolist()},
        "y": {"label": "M₃₄", "values": y.tolist()},
        "z": {"label": "height", "values": z.tolist()},
        "marks": marks,
    }


def make_figure(panels: list[dict[str, Any]], columns: int = 2) -> dict[str, Any]:
    return {"id": "f", "title": "t", "caption": "c", "alt": "a", "columns": columns, "panels": panels}


def compose(figure: dict[str, Any]) -> Figure:
    return _composed(json.dumps(figure))


@functools.lru_cache(16)
def _composed(figure: str) -> Figure:
    """Lay a figure out once for tests that follow each other; it comes as JSON."""
    return compose_one_of([json.loads(figure)], json.loads(figure))


def compose_one_of(figures: list[dict[str, Any]], figure: dict[str, Any]) -> Figure:
    """Return one of several figures with the looks that series have in all of them."""
    with matplotlib.rc_context(_draw._STYLE):
        return _draw.compose(figure, _draw.series_looks(figures))


def svg_of(figure: dict[str, Any]) -> ElementTree.Element:
    return ElementTree.fromstring(_drawn_svg(json.dumps(figure)))


@functools.cache
def _drawn_svg(figure: str) -> bytes:
    """Draw a figure once for all tests; it comes as JSON."""
    return drawn_as("svg", json.loads(figure))


def drawn_as(suffix: str, figure: dict[str, Any]) -> bytes:
    """Draw one of the three files of a figure."""
    return _draw.draw(figure, _draw.series_looks([figure]), [suffix])[suffix]


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in svg.iter(f"{SVG}text")]


def drawn_lines(figure: dict[str, Any]) -> dict[str, Any]:
    return {line.get_gid(): line for axes in compose(figure).axes for line in axes.lines}


def change_z(kind: str, **changes: Any) -> dict[str, Any]:
    panel = make_map(kind, [{"name": "hole", "x": 1.0, "y": 1.0, "z": 0.0}])
    return {**panel, "z": {**panel["z"], **changes}}


def make_dots(names: list[str], n_series: int = 2) -> dict[str, Any]:
    x = [0.2 + 0.1 * place for place in range(len(names))]
    low, high = ([value + change for value in x] for change in (-0.05, 0.1))
    drawn = [make_series(f"s{k}", x, [], "points", low=low, high=high) for k in range(n_series)]
    return dots("dots", "score", names, drawn)


MAPS = ("contour", "surface")
HOLES = [[None if (row, column) == (6, 6) else row + column for column in range(15)] for row in range(13)]
SAMPLES = {figure["id"]: figure for figure in sample_summary()["figures"]}
CORNERS = [
    {"name": "a mark with a long name", "x": x, "y": y, "z": 1.23456789}
    for x, y in ((-2.0, -3.0), (-2.0, 4.0), (5.0, -3.0), (5.0, 4.0))
]
AWKWARD = {
    "corners": make_figure([make_map("contour", CORNERS), make_map("surface", CORNERS)]),
    "lone surface": make_figure([make_map("surface", CORNERS[:1])], columns=1),
    "long words": make_figure(
        [make_lines([make_series("a name that goes on and on " * 5, [1], [1])], title="a long title " * 9)], 1
    ),
    "four columns": make_figure(
        [make_lines([make_series(f"method number {k}", [1, 2], [k, 2 * k]) for k in range(9)])] * 4, 4
    ),
    "nothing to show": make_figure([make_lines([]), make_lines([make_series("none", [1, 2], [None, None])])]),
    "no panels": make_figure([]),
    "a plain": make_figure([change_z(kind, values=[[3.0] * 15] * 13) for kind in MAPS]),
    "holes": make_figure([change_z(kind, values=HOLES) for kind in MAPS]),
    "dots": make_figure([make_dots(["a", "a name that goes on and on " * 4, "c"]), make_lines([])]),
    "long height": make_figure([change_z(kind, label="a long name of a height " * 5) for kind in MAPS]),
}


def test_three_files_per_figure_and_always_the_same():
    figures = [SAMPLES["figure2"], make_figure([change_z(kind) for kind in MAPS])]  # every kind of panel
    files = render_figures({"figures": figures})
    assert set(files) == {f"{id_}.{suffix}" for id_ in ("figure2", "f") for suffix in ("png", "svg", "pdf")}
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "yellow"}):  # a user's own
        again = _draw.draw(figures[1], _draw.series_looks(figures), ["svg", "pdf"])
        assert all(content == files[f"f.{suffix}"] for suffix, content in again.items())
        assert matplotlib.rcParams["font.size"] == 20
    for name, content in files.items():
        for trace in (b"Software", b"CreationDate", b"<dc:date>"):
            assert trace not in content, name


@pytest.mark.parametrize(("columns", "centimetres"), [(1, 11.2), (3, 16)])
def test_png_has_250_dots_per_inch(columns: int, centimetres: float):
    figure = make_figure([make_lines([make_series("a", [1, 2], [1, 2])])] * 3, columns)
    png = drawn_as("png", figure)
    width, height = struct.unpack(">II", png[16:24])
    assert width == pytest.approx(centimetres / 2.54 * 250, abs=3)
    assert height == int(compose(figure).get_figheight() * 250)


@pytest.mark.parametrize("figure", SAMPLES.values(), ids=SAMPLES)
def test_all_words_are_text(figure: dict[str, Any]):
    found = texts(svg_of(figure))
    for panel in figure["panels"]:
        for words in (panel["title"], panel["x"]["label"], panel["y"]["label"]):
            assert words in " ".join(found)  # a long one has several lines
        for one in panel.get("series", ()):
            assert found.count(one["name"]) == 1  # the legend, once per figure
        for mark in panel.get("marks", ()):
            assert any(text[1:].startswith(f" {mark['name']}: ") for text in found)


@pytest.mark.parametrize("figure", SAMPLES.values(), ids=SAMPLES)
def test_every_series_is_drawn(figure: dict[str, Any]):
    ids = {element.get("id") for element in svg_of(figure).iter()}
    lines = drawn_lines(figure)
    for number, panel in enumerate(figure["panels"]):
        for position, one in enumerate(panel.get("series", ())):
            gid = f"series-{number}-{position}"
            assert gid in ids
            np.testing.assert_array_equal(lines[gid].get_xdata(), one["x"])


@pytest.mark.parametrize("figure", [*SAMPLES.values(), *AWKWARD.values()], ids=[*SAMPLES, *AWKWARD])
def test_nothing_leaves_the_canvas(figure: dict[str, Any]):
    canvas = compose(figure)
    page, ink = canvas.bbox, canvas.get_tightbbox().transformed(canvas.dpi_scale_trans)
    assert ink.x0 >= page.x0 - 1
    assert ink.y0 >= page.y0 - 1
    assert ink.x1 <= page.x1 + 1
    assert ink.y1 <= page.y1 + 1


def test_a_legend_covers_nothing():
    canvas = compose(AWKWARD["four columns"])
    [legend] = canvas.legends
    for axes in canvas.axes:
        assert not axes.get_tightbbox().overlaps(legend.get_window_extent())


@pytest.mark.parametrize("kind", MAPS)
def test_names_of_marks_hide_nothing(kind: str):
    [axes] = compose(make_figure([make_map(kind, CORNERS)], 1)).axes
    [text] = [text for text in axes.texts if "a mark" in text.get_text()]
    assert [line[1:] for line in text.get_text().splitlines()] == [" a mark with a long name: 1.2346"] * 4
    assert len({line[0] for line in text.get_text().splitlines()}) == 4  # as many signs
    assert len({line.get_marker() for line in axes.lines}) == 4
    above = text.get_window_extent()
    assert not above.overlaps(axes.title.get_window_extent())
    if kind == "contour":
        assert above.y0 > axes.bbox.y1
    else:  # the highest corner of the box around a surface
        corners = [(x, y, axes.get_zlim()[1]) for x in axes.get_xlim() for y in axes.get_ylim()]
        projected = [axes.get_proj() @ (*corner, 1.0) for corner in corners]
        heights = [axes.transData.transform(point[:2] / point[3])[1] for point in projected]
        assert above.y0 > max(heights)


def test_contours_have_numbers_that_are_true():
    figure = make_figure([make_map("contour", [])], 1)
    [axes] = compose(figure).axes
    assert len(axes.texts) >= 4
    for text in axes.texts:
        x, y = text.get_position()
        assert abs(x - 1) + (y - 1) ** 2 / 8 == pytest.approx(float(text.get_text()), abs=0.1)


def test_log_axes_are_logarithmic():
    x, y = [1, 10, 100, 1000], [1.0, 1e-3, 1e-6, 1e-9]
    [axes] = compose(make_figure([make_lines([make_series("a", x, y)], "log", "log")], 1)).axes
    pixels = axes.transData.transform(list(zip(x, y, strict=True)))
    np.testing.assert_allclose(np.diff(pixels, axis=0), np.diff(pixels, axis=0)[:1].repeat(3, axis=0))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "100", "1000"]
    assert {"10⁰", "10⁻⁸"} <= {label.get_text() for label in axes.get_yticklabels()}


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.8, 1200, [1, 10, 100, 1000]),
        (0.5e-9, 2, [1e-8, 1e-6, 1e-4, 1e-2, 1]),
        (18, 85, [20, 50]),
        (0.9, 60, [1, 2, 5, 10, 20, 50]),
    ],
)
def test_log_ticks(low: float, high: float, ticks: list[float]):
    room = 0.05 / 1.1  # of the axis, free on both sides of the data
    ends = low * (high / low) ** room, high / (high / low) ** room
    [axes] = compose(make_figure([make_lines([make_series("a", [1, 2], ends)], y="log")], 1)).axes
    assert axes.get_ylim() == pytest.approx((low, high))
    assert list(axes.get_yticks()) == pytest.approx(ticks)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_missing_value_breaks_the_line(scale: str):
    missing = [None] if scale == "linear" else [None, 0.0, -1.0]
    for value in missing[-2:]:
        figure = make_figure(
            [make_lines([make_series("a", [1, 2, 3, 4, 5], [1, 2, value, 4, 5])], y=scale)], 1
        )
        path = next(e for e in svg_of(figure).iter() if e.get("id") == "series-0-0").find(f"{SVG}path")
        assert path is not None
        assert (path.get("d") or "").count("M") == 2  # the pen is lifted once
        np.testing.assert_array_equal(
            np.isnan(drawn_lines(figure)["series-0-0"].get_ydata()), [0, 0, 1, 0, 0]
        )


def test_the_spread_is_drawn_as_bars_or_as_a_band():
    few, many = [20, 40, 60], list(range(50))
    bars = make_series("few", few, [1, 2, 3], low=[0.5, None, 2], high=[1.5, None, 5])
    band = make_series("many", many, many, low=[v - 1 for v in many], high=[v + 1 for v in many])
    first, second = compose(make_figure([make_lines([bars]), make_lines([band])])).axes
    ends = [segment[:, 1].tolist() for segment in first.collections[0].get_segments() if len(segment)]
    assert [end for end in ends if not np.isnan(end).any()] == [[0.5, 1.5], [2, 5]]
    assert first.get_ylim()[1] > 5
    assert second.collections[0].get_datalim(second.transData).y1 == 50


def test_a_name_looks_the_same_everywhere_and_like_no_other():
    names = [f"method {k}" for k in range(20)]
    series = [make_series(name, [1, 2], [k, k + 1]) for k, name in enumerate(names)]
    first, second = make_figure([make_lines(series)], 1), make_figure([make_lines(series[::-1])], 1)
    looks: list[dict[str, Any]] = []
    for figure in (first, second):
        [axes] = compose_one_of([first, second], figure).axes
        order = [entry["name"] for entry in figure["panels"][0]["series"]]
        looks.append({n: (li.get_color(), li.get_marker()) for n, li in zip(order, axes.lines, strict=True)})
    assert looks[0] == looks[1]
    assert len(set(looks[0].values())) == 20
    assert [looks[0][name][0] for name in names[:2]] == ["#0072B2", "#D55E00"]


def test_a_dollar_is_a_dollar():
    assert "costs $1 and $2" in texts(svg_of(make_figure([make_lines([], title="costs $1 and $2")], 1)))


def test_common_axes_are_labelled_once():
    panel = make_lines([make_series("a", [20, 40, 60, 80], [1, 2, 3, 4])])
    found = texts(svg_of(make_figure([panel] * 4)))
    assert (found.count("the x"), found.count("the y"), found.count("20")) == (2, 2, 2)


def test_panels_of_other_sizes_keep_their_own_axes():
    panels = [make_lines([make_series("a", [20, 80], [y, 1.01 * y])]) for y in (0.1, 0.7)]
    limits = [axes.get_ylim() for axes in compose(make_figure(panels)).axes]
    assert limits[0][1] < 0.2
    assert limits[1][0] > 0.6


def test_dots_stand_on_the_lines_of_their_names():
    [axes] = compose(make_figure([make_dots(["first", "second", "third"])], 1)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second", "third"]
    assert axes.transData.transform((0, 0))[1] > axes.transData.transform((0, 2))[1]
    assert axes.get_xlim()[0] < 0
    for position in range(2):
        [line] = [one for one in axes.lines if one.get_gid() == f"series-0-{position}"]
        np.testing.assert_allclose(line.get_xdata(), [0.2, 0.3, 0.4])
        assert np.abs(line.get_ydata() - np.arange(3)).max() < 0.5
        segments = axes.collections[position].get_segments()
        np.testing.assert_allclose([one[:, 0] for one in segments], [[0.15, 0.3], [0.25, 0.4], [0.35, 0.5]])
        assert [one[0, 1] for one in segments] == pytest.approx(line.get_ydata())


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_band_shades_its_part_and_has_its_name(scale: str):
    bands = [{"low": 3.0, "high": 50.0, "name": "tail"}]
    panel = lines("a", "x", "y", [make_series("a", [1, 10], [1, 2])], scale, bands=bands)
    [axes] = compose(make_figure([panel], 1)).axes
    [patch] = axes.patches
    ends = patch.get_extents().transformed(axes.transData.inverted())
    assert (ends.x0, ends.x1) == pytest.approx((3.0, axes.get_xlim()[1]))  # 50 lies outside
    [name] = [text for text in axes.texts if text.get_text() == "tail"]
    box, extent = axes.bbox, name.get_window_extent()
    assert box.x0 < extent.x0 < extent.x1 < box.x1
    assert extent.y1 <= box.y1


def test_panels_for_a_page_stand_alone_and_share_their_limits():
    panels = [make_lines([make_series("a", [1, 2], [10.0**k, 10.0 ** (k + 1)])], y="log") for k in (0, 4)]
    figure = make_figure([*panels, make_map("surface", [])])
    drawn, samples = _draw.draw_apart(figure, _draw.series_looks([figure]))
    assert set(samples) == {"a"}
    found = [texts(ElementTree.fromstring(svg)) for svg in drawn]
    assert found[0] == found[1]
    assert {"the x", "the y", "10⁴"} <= set(found[0])
    assert [b"<image" in svg for svg in drawn] == [False, False, True]  # thousands of patches are one image


def test_thousands_of_points_are_one_image():
    drawn = []
    for places in (list(range(9)), list(range(2000))):
        figure = make_figure([make_lines([make_series("a", places, places, "points")])], 1)
        drawn += _draw.draw_apart(figure, _draw.series_looks([figure]))[0]
    assert [b"<image" in svg for svg in drawn] == [False, True]
    assert len(drawn[1]) < 100_000
