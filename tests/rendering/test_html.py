"""Pages as text: what is in them, that nothing leaves them, and that they can be read."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

from lrml.evaluation import assess
from lrml.report import figure, page, render_html, table
from rendering.html_page import Page
from rendering.sample_page import COLUMNS, HOSTILE, N_ROWS, draw_lines, long_rows, sample_page

EMPTY = page("t", [], [], [], [])


@pytest.fixture(scope="module")
def found(text: str) -> Page:
    return Page(text)


def test_an_evaluation_of_many_labels_is_below_a_megabyte() -> None:
    rng = np.random.default_rng(0)
    Y, scores = rng.random((60, 2_700)) < 0.05, rng.random((60, 2_700))
    names = [f"a label with a name of some length {place}" for place in range(2_700)]
    text = render_html(assess(Y.astype(int), scores, label_names=names, n_bootstrap=0).summary("many"))
    assert text.count(names[-1]) == 1
    assert len(text.encode()) < 1_000_000


def test_a_table_is_cut_where_a_page_would_not_open() -> None:
    rows = [{"theta": place} for place in range(3_005)]
    found = Page(render_html(page("t", [], [], table("t", "T", "", COLUMNS[2:3], rows), [])))
    rows = found.rows(found.all("table")[0])
    assert (len(rows), rows[-1]) == (3_000, ["2,999"])
    assert found.texts[found.all("li")[-1]] == "These are the first 3,000 of 3,005 rows."


def test_nothing_is_fetched(found: Page) -> None:
    names = ("src", "href", "srcset", "action", "poster", "data", "xlink:href")
    addresses = [own[name] for own in found.attributes for name in names if name in own]
    links = {found.attributes[place]["href"] for place in found.all("a")}
    assert all(address.startswith(("#", "data:")) or address in links for address in addresses)
    assert {link for link in links if link[0] != "#"} == {"tables/short.csv", "figures/a%20b%3F.pdf"}
    assert not {"iframe", "object", "embed", "base"} & set(found.tags)
    (policy,) = found.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in found.attributes[policy]["content"]
    (style,) = found.all("style")
    assert not re.search(r"url\(|@import", found.texts[style])


def test_hostile_text_is_text(found: Page) -> None:
    assert len(found.all("script")) == 1
    places = [found.all("h1")[0], found.all("dd")[0], found.all("p", found.by_id("section-summary"))[0]]
    places += [found.all("li", found.by_id("short"))[0], found.all("p", found.by_id("short"))[0]]
    assert [found.texts[place] for place in places] == [HOSTILE] * 5
    (drawing,) = found.all("svg", found.by_id("figure2"))
    assert found.attributes[drawing]["aria-label"] == HOSTILE
    words = [found.texts[place] for place in found.all("text", drawing)]
    assert "$b$" in words
    assert any(word.startswith("</script>") for word in words)


def test_numbers_and_words_come_first_and_figures_before_tables(found: Page) -> None:
    sections = [own["id"] for own in found.attributes if own.get("id", "").startswith("section-")]
    assert sections == [f"section-{name}" for name in ("summary", "failures", "figures", "tables", "about")]
    assert found.rows(found.all("table")[0]) == [["values", "3 of 4", "4"]]
    empty = Page(render_html(EMPTY))
    sections = [own["id"] for own in empty.attributes if own.get("id", "").startswith("section-")]
    assert sections == ["section-summary", "section-about"]


def test_every_anchor_exists_once(found: Page) -> None:
    ids = Counter(own["id"] for own in found.attributes if "id" in own)
    assert max(ids.values()) == 1
    links = [found.attributes[place]["href"] for place in found.all("a")]
    assert all(link.removeprefix("#") in ids for link in links if link.startswith("#"))
    assert {"#figure1", "#figure2", "#short", "#long"} <= set(links)
    assert found.attributes[found.tags.index("html")]["lang"] == "en"


def expected_cell(value: Any, column: dict[str, Any]) -> str:
    """Format a cell by decimal arithmetic, not by the page's own code."""
    if value is None:
        return "–"
    if column["kind"] == "text":
        return str(value)
    digits = 0 if column["kind"] == "integer" else column["digits"]
    return f"{round(value, digits):.{digits}f}".replace("-", "−")


def test_tables_have_all_rows_and_mark_the_best(found: Page) -> None:
    element = found.by_id("long")
    rows = found.rows(found.all("table", element)[0])
    wanted = [[expected_cell(row[one["key"]], one) for one in COLUMNS] for row in long_rows()]
    assert rows == wanted
    assert len(found.all("th", element, scope="row")) == N_ROWS
    (short,) = found.all("table", found.by_id("short"))
    assert found.rows(short) == [["a", "0.2500", "0.0000"]]  # a negative zero has no sign
    assert [found.texts[place] for place in found.all("td", short, **{"class": "best"})] == ["0.2500"]
    assert found.texts[found.all("li", element)[0]] == "theta: how many are free"


# Drawings


def test_drawings_refer_to_parts_of_their_own(found: Page) -> None:
    drawing_of: dict[str, int] = {}
    references: list[tuple[str, int]] = []
    for drawing in found.all("svg"):
        for own in (found.attributes[place] for place in found.all_inside(drawing)):
            drawing_of |= {own["id"]: drawing} if "id" in own else {}
            names = re.findall(r"url\(#(.+?)\)", " ".join(own.values()))
            names += [own["xlink:href"][1:]] if own.get("xlink:href", "").startswith("#") else []
            references += [(name, drawing) for name in names]
    assert len(references) > 20
    assert all(drawing_of[name] == drawing for name, drawing in references)


def test_a_figure_is_drawn_once_whatever_a_user_has_set() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    calls: list[int] = []

    def draw() -> Any:
        calls.append(1)
        return draw_lines()

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        odd = render_html(EMPTY | {"figures": [figure("f", "F", "", "", draw)]})
    assert odd == render_html(EMPTY | {"figures": [figure("f", "F", "", "", draw_lines)]})
    assert len(calls) == 1


# What is imported


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_missing_library_names_the_remedy(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{module}.*pip install .*\.\[report\]"):
        render_html(sample_page())


def test_importing_the_package_loads_no_other_library() -> None:
    script = "import sys, lrml.report; print({'matplotlib', 'jinja2', 'pandas'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
