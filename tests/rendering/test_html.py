"""The HTML report as text: what is in it, that nothing leaves it, and that it can be read."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from lrml.report import lines, render_html, series
from rendering.html_page import Page
from rendering.sample_summary import HOSTILE, sample_summary
from rendering.test_draw import make_figure

pytest.importorskip("jinja2", reason="Jinja2 is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_same_summary_same_text(text: str) -> None:
    summary = json.loads(json.dumps(sample_summary()))
    assert render_html(summary) == text
    assert summary == sample_summary()
    assert len(text.encode()) < 1_000_000


def test_nothing_is_fetched(page: Page) -> None:
    addresses = [
        value
        for attributes in page.attributes
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "poster", "data", "xlink:href")
    ]
    assert len(addresses) > 10
    links = {page.attributes[place]["href"] for place in page.all("a")}
    assert all(address.startswith(("#", "data:")) or address in links for address in addresses)
    assert not {"iframe", "object", "embed", "base"} & set(page.tags)
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in page.attributes[policy]["content"]
    (style,) = page.all("style")
    styles = page.texts[style]
    assert "url(" not in styles
    assert "@import" not in styles


def test_hostile_text_is_text(page: Page) -> None:
    # The theme and the page's own script: no text of the summary became a third.
    assert len(page.all("script")) == 2
    assert not page.all("b", page.by_id("section-summary"))
    items = [page.texts[place] for place in page.all("li", page.by_id("section-summary"))]
    assert items == sample_summary()["summary"]
    errors = [page.texts[place] for place in page.all("dd")]
    assert errors == [failure["error"] for failure in sample_summary()["failures"]]
    assert HOSTILE in page.texts[page.by_id("figure4")]
    assert page.rows(page.all("table", page.by_id("table2"))[0])[4][0] == 'a <b> & "c"'


def test_every_anchor_exists_once(page: Page) -> None:
    ids = Counter(found["id"] for found in page.attributes if "id" in found)
    assert max(ids.values()) == 1
    links = [page.attributes[place]["href"] for place in page.all("a")]
    assert all(link.removeprefix("#") in ids for link in links if link.startswith("#"))
    summary = sample_summary()
    assert {f"#{part['id']}" for part in summary["tables"] + summary["figures"]} <= set(links)
    labels = [found["aria-labelledby"] for found in page.attributes if "aria-labelledby" in found]
    assert all(label in ids for label in labels)


def test_files_stand_beside_the_page(page: Page) -> None:
    summary = sample_summary()
    wanted = {part["id"]: ("tables", ("csv", "md", "tex")) for part in summary["tables"]}
    wanted |= {part["id"]: ("figures", ("png", "svg", "pdf")) for part in summary["figures"]}
    for part, (folder, suffixes) in wanted.items():
        links = page.all("a", page.by_id(part))
        addresses = [page.attributes[place]["href"] for place in links]
        assert addresses == [f"{folder}/{part}.{suffix}" for suffix in suffixes]
        for address in addresses:  # relative, and no way out of the folders beside the page
            parts = urlsplit(address)
            assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "")
            assert address.count("/") == 1
    (paragraph,) = page.all("p", page.by_id("table2"), **{"class": "files"})
    shown = re.sub(" of Table 2: average precision, ours and the paper's", "", page.texts[paragraph])
    assert shown == "csv · md · tex"


def test_an_odd_id_is_still_a_file_beside_the_page() -> None:
    summary = sample_summary()
    summary["figures"] = []
    summary["tables"] = [{**summary["tables"][2], "id": "javascript:alert(1)?#"}]
    page = Page(render_html(summary))
    addresses = [
        page.attributes[place]["href"] for place in page.all("a", page.by_id(summary["tables"][0]["id"]))
    ]
    assert [urlsplit(address).scheme for address in addresses] == [""] * 3
    assert unquote(addresses[0]) == "tables/javascript:alert(1)?#.csv"


def test_notes_and_helps_are_below_their_table(page: Page) -> None:
    for table in sample_summary()["tables"]:
        items = [page.texts[place] for place in page.all("li", page.by_id(table["id"]))]
        helps = [f"{column['title']}: {column['help']}" for column in table["columns"] if column["help"]]
        assert items == helps + table["notes"]


def test_a_short_table_needs_no_search(page: Page) -> None:
    for table in sample_summary()["tables"][:2]:
        (label,) = (p for p in page.all("label", page.by_id(table["id"])) if page.texts[p].startswith("Find"))
        assert ("hidden" in page.attributes[label]) == (len(table["rows"]) < 8)


def test_headings_are_in_order(page: Page) -> None:
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.attributes[page.tags.index("html")]["lang"] == "en"
    assert page.all("meta", name="viewport")


def expected_cell(value: Any, column: dict[str, Any]) -> str:
    """Format a cell by decimal arithmetic, not by the page's own code."""
    if value is None:
        return "–"
    if column["kind"] == "text":
        return str(value)
    digits = 0 if column["kind"] == "integer" else column["digits"]
    return f"{round(value, digits):.{digits}f}".replace("-", "−")


@pytest.mark.parametrize("place", [0, 1])
def test_tables_have_all_rows(page: Page, place: int) -> None:
    table = sample_summary()["tables"][place]
    (element,) = page.all("table", page.by_id(table["id"]))
    wanted = [
        [expected_cell(row[column["key"]], column) for column in table["columns"]] for row in table["rows"]
    ]
    assert page.rows(element) == wanted
    heads = page.all("th", element, scope="col")
    assert [page.texts[head] for head in heads] == [column["title"] for column in table["columns"]]
    assert len(page.all("th", element, scope="row")) == len(table["rows"])
    assert len(page.all("caption", element)) == 1
    for number, row in enumerate(page.all("tr", page.all("tbody", element)[0])):
        kind = table["rows"][number]["_class"]
        assert page.attributes[row].get("class") == (f"row-{kind}" if kind else None)


def test_negative_zero_has_no_sign() -> None:
    summary = sample_summary()
    summary["tables"], summary["figures"] = summary["tables"][:1], []
    summary["tables"][0]["rows"][0]["gap"] = -0.00001
    page = Page(render_html(summary))
    assert page.rows(page.all("table", page.by_id("table2"))[0])[0][4] == "0.0000"


def test_values_behind_a_plot(page: Page) -> None:
    panel = sample_summary()["figures"][0]["panels"][0]
    table = page.all("table", page.by_id("figure1"))[0]
    rows = page.rows(table)
    assert len(rows) == sum(len(series["x"]) for series in panel["series"])
    first = panel["series"][0]
    assert [float(text) for text in rows[2][1:]] == pytest.approx(
        [first["x"][2], first["y"][2], first["low"][2], first["high"][2]], rel=1e-5
    )
    assert rows[8] == ["R&D <LRML>", "40", "–", "–", "–"]
    without_bounds = page.rows(page.all("table", page.by_id("figure2"))[1])
    assert without_bounds[0] == ["alternating", "0.001", "100"]


def test_a_table_of_very_many_points_is_left_out() -> None:
    points = [float(place) for place in range(400)]
    panels = [lines("many", "x", "y", [series("a", each, each, "line")]) for each in (points, points[:9])]
    page = Page(render_html(sample_summary() | {"figures": [make_figure(panels)]}))
    assert len(page.all("table", page.by_id("f"))) == 1


def test_a_summary_with_nothing_in_it() -> None:
    empty = {
        "title": "t",
        "about": [],
        "summary": [],
        "left_out": [],
        "tables": [],
        "figures": [],
        "failures": [],
    }
    page = Page(render_html(empty))
    for name in ("failures", "left-out", "tables", "figures"):
        assert f"section-{name}" not in {found.get("id") for found in page.attributes}


def test_drawings_have_words_and_a_description(page: Page) -> None:
    for figure in sample_summary()["figures"]:
        drawings = page.all("svg", page.by_id(figure["id"]), role="img")
        for panel, drawing in zip(figure["panels"], drawings, strict=True):
            assert page.attributes[drawing]["aria-label"] == f"{panel['title']}. {figure['alt']}"
            words = [page.texts[place] for place in page.all("text", drawing)]
            assert {panel["title"], panel["x"]["label"]} <= set(words)
        names = {series["name"] for panel in figure["panels"] for series in panel.get("series", ())}
        items = [page.texts[place].strip() for place in page.all("li", page.by_id(figure["id"]))]
        assert set(items) == names
        assert len(items) == len(names)


def test_drawings_refer_to_parts_of_their_own(page: Page) -> None:
    drawing_of: dict[str, int] = {}
    references: list[tuple[str, int]] = []
    for drawing in page.all("svg"):
        for found in (page.attributes[place] for place in page.all_inside(drawing)):
            drawing_of |= {found["id"]: drawing} if "id" in found else {}
            names = re.findall(r"url\(#(.+?)\)", " ".join(found.values()))
            names += [found["xlink:href"][1:]] if found.get("xlink:href", "").startswith("#") else []
            references += [(name, drawing) for name in names]
    assert len(references) > 50
    assert all(drawing_of[name] == drawing for name, drawing in references)


def test_the_theme_colours_words_axes_and_what_is_hollow(page: Page) -> None:
    styles = [
        page.attributes[place].get("style", "")
        for drawing in page.all("svg")
        for place in page.all_inside(drawing)
    ]
    together = " ".join(styles)
    assert not re.search("#(000000|ffffff|333333)", together)
    for colour in ("currentColor", "var(--rule)", "var(--paper)"):
        assert f"stroke: {colour}" in together
    assert "stroke: #0072b2" in together
