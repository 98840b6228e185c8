"""The HTML report as text: what is in it, that nothing leaves it, and that it can be read."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from lrml.report import render_html
from rendering.html_page import Page
from rendering.sample_summary import HOSTILE, sample_summary

pytest.importorskip("jinja2", reason="Jinja2 is not installed")
pytest.importorskip("plotly", reason="Plotly is not installed")

PNG = b"\x89PNG\r\n\x1a\n not a real image"


@pytest.fixture(scope="module")
def text() -> str:
    return render_html(sample_summary(), stills={"figure3": PNG, "figure1": PNG})


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_same_summary_same_text(text: str) -> None:
    summary = json.loads(json.dumps(sample_summary()))
    assert render_html(summary, stills={"figure3": PNG, "figure1": PNG}) == text


def test_summary_is_left_alone() -> None:
    summary = sample_summary()
    render_html(summary)
    assert summary == sample_summary()


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
    styles = "".join(page.texts[place] for place in page.all("style"))
    assert "url(" not in styles
    assert "@import" not in styles


def test_hostile_text_is_text(page: Page) -> None:
    # The theme, Plotly, the plots' data and the page's own script: no text of the summary became a fifth.
    assert len(page.all("script")) == 4
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


def test_choices_in_order_of_appearance(page: Page) -> None:
    table = sample_summary()["tables"][1]
    selects = page.all("select", page.by_id(table["id"]))
    for key, select in zip(table["filters"], selects, strict=True):
        options = [page.texts[place] for place in page.all("option", select)]
        assert options == ["all", *dict.fromkeys(row[key] for row in table["rows"])]


def test_exact_values_are_kept_for_sorting(page: Page) -> None:
    kept = [found["data-value"] for found in page.attributes if "data-value" in found]
    values = [
        row[column["key"]]
        for part in sample_summary()["tables"]
        for row in part["rows"]
        for column in part["columns"]
        if column["kind"] != "text" and row[column["key"]] is not None
    ]
    assert [float(text) for text in kept] == values
    assert 1e-8 in values  # shown as 0.0000


def test_negative_zero_has_no_sign() -> None:
    summary = sample_summary()
    summary["tables"] = summary["tables"][:1]
    summary["tables"][0]["rows"][0]["gap"] = -0.00001
    page = Page(render_html(summary))
    assert page.rows(page.all("table", page.by_id("table2"))[0])[0][4] == "0.0000"


def plots_of(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.texts[page.by_id("plots")])
    return found


def test_plots_have_the_values(page: Page) -> None:
    plots = plots_of(page)
    for figure in sample_summary()["figures"]:
        drawn = [panel for panel in figure["panels"] if panel["kind"] != "surface"]
        for number, panel in enumerate(drawn, start=1):
            plot = plots.pop(f"{figure['id']}-panel-{number}")
            if panel["kind"] == "contour":
                assert plot["data"][0]["z"] == panel["z"]["values"]
                assert [trace["x"] for trace in plot["data"][1:]] == [[mark["x"]] for mark in panel["marks"]]
                continue
            assert plot["layout"]["xaxis"]["type"] == panel["x"]["scale"]
            assert plot["layout"]["yaxis"]["type"] == panel["y"]["scale"]
            for trace, series in zip(plot["data"], panel["series"], strict=True):
                assert (trace["x"], trace["y"]) == (series["x"], series["y"])
                if series["high"]:
                    tops = [y + up for y, up in zip(trace["y"], trace["error_y"]["array"], strict=True)]
                    assert tops == pytest.approx(series["high"])
                    feet = [
                        y - down for y, down in zip(trace["y"], trace["error_y"]["arrayminus"], strict=True)
                    ]
                    assert feet == pytest.approx(series["low"])
    assert plots == {}


def test_a_name_has_one_colour_everywhere(page: Page) -> None:
    okabe_ito = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333"]
    found: dict[str, set[tuple[str, str]]] = {}
    for plot in plots_of(page).values():
        for trace in plot["data"]:
            if trace["type"] == "scatter" and "line" not in trace["marker"]:
                look = (trace["marker"]["color"], trace["marker"]["symbol"])
                found.setdefault(trace["name"], set()).add(look)
    names = ["LRML", "R&amp;D &lt;LRML&gt;", "ML-trace", "ML-Fro", "pg", "alternating"]
    assert list(found) == names
    looks = [looks.pop() for looks in found.values() if len(looks) == 1]
    assert [colour for colour, _ in looks] == okabe_ito[:6]
    symbols = dict(zip(names, (symbol for _, symbol in looks), strict=True))
    for together in (names[:4], ["LRML", "pg", "alternating"]):  # those of one figure
        assert len({symbols[name] for name in together}) == len(together)


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


def test_a_wide_grid_is_thinned() -> None:
    summary = sample_summary()
    panel = summary["figures"][3]["panels"][0]
    panel["x"]["values"] = [float(step) for step in range(101)]
    panel["z"]["values"] = [[float(row * step) for step in range(101)] for row in range(17)]
    page = Page(render_html(summary))
    table = page.all("table", page.by_id("figure4"))[0]
    rows = page.rows(table)
    assert len(rows) == 17
    assert rows[2] == ["-2", *(f"{2 * step:g}" for step in range(0, 101, 5))]
    assert "more points than this table" in page.texts[page.by_id("figure4")]


def test_stills_only_where_surfaces_are(page: Page) -> None:
    (image,) = page.all("img")
    assert page.inside(image, page.by_id("figure3"))
    source = page.attributes[image]["src"]
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == PNG
    assert sample_summary()["figures"][2]["alt"] in page.attributes[image]["alt"]
    assert "static image only" in Page(render_html(sample_summary())).texts[0]


def test_plots_have_a_description(page: Page) -> None:
    for figure in sample_summary()["figures"]:
        images = page.all("div", page.by_id(figure["id"]), role="img")
        assert images
        assert all(figure["alt"] in page.attributes[place]["aria-label"] for place in images)


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


def test_what_json_cannot_hold_becomes_a_gap() -> None:
    summary = sample_summary()
    summary["figures"][0]["panels"][0]["series"][0]["y"][1] = float("nan")
    plot = plots_of(Page(render_html(summary)))["figure1-panel-1"]
    assert plot["data"][0]["y"][1] is None
    assert plot["data"][0]["error_y"]["array"][1] is None
