"""Pages in a real Chromium: themes, layout, print, and tables that are sorted, searched and cut."""

from __future__ import annotations

from typing import Any

import pytest

from rendering.browser import DESKTOP, OVERLAPS, PHONE, WIDE, Watched, wait_until
from rendering.sample_page import HOSTILE, N_ROWS, long_rows

# The ground of the page, and the colours of its words, and of those in a drawing.
COLOURS = """() => [
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.body).color,
    getComputedStyle(document.querySelector("#figure1 .plot text")).fill,
]"""
WITHOUT_SCROLLING = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def shared(watched: Watched) -> Any:
    page = watched.open()
    yield page
    page.close()


def test_the_theme_is_that_of_the_system(watched: Watched) -> None:
    page = watched.open(scheme="dark")
    dark = page.evaluate(COLOURS)
    page.emulate_media(color_scheme="light")
    wait_until(page, f"(({COLOURS})())[1] !== '{dark[1]}'")
    light = page.evaluate(COLOURS)
    for ground, words, drawn in (dark, light):
        assert words == drawn != ground
    assert not set(dark) & set(light)
    page.close()


def test_layout_follows_the_window(watched: Watched) -> None:
    page = watched.open(PHONE)
    for size in (PHONE, DESKTOP, WIDE):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        wait_until(page, WITHOUT_SCROLLING)
        wait_until(page, OVERLAPS, [])
    boxes = (
        "Array.from(document.querySelectorAll('.scroll')).every((box) => box.scrollWidth <= box.clientWidth)"
    )
    wait_until(page, boxes)
    page.locator("#long .more").click()
    box = page.locator("#long .scroll")
    box.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    tops = [
        part.evaluate("(part) => part.getBoundingClientRect().top")
        for part in (box, page.locator("#long thead th").first)
    ]
    assert 0 <= tops[1] - tops[0] <= 3  # the header stays in sight
    page.close()


def test_without_scripts_all_rows_are_there(watched: Watched) -> None:
    page = watched.open(java_script_enabled=False)
    assert page.locator("#long tbody tr:visible").count() == N_ROWS
    assert not page.locator("#long .more, #long input").first.is_visible()
    page.close()


# Tables


def thetas(page: Any, *, shown_only: bool = False) -> list[str]:
    rows = "tr:not([hidden], .later)" if shown_only else "tr"
    script = "(rows) => rows.map((row) => row.cells[2].textContent)"
    found: list[str] = page.eval_on_selector_all(f"#long tbody {rows}", script)
    return found


def ordered(rows: list[dict[str, Any]], key: str, *, down: bool = False) -> list[dict[str, Any]]:
    """Sort as Python does: stable, missing values last, text without regard to case."""
    known = [row for row in rows if row[key] is not None]

    def rank(row: dict[str, Any]) -> Any:
        return row[key].lower() if isinstance(row[key], str) else row[key]

    return sorted(known, key=rank, reverse=down) + [row for row in rows if row[key] is None]


def test_a_click_sorts_down_and_back(shared: Any) -> None:
    rows = long_rows()
    for key in ("dataset", "gap"):
        head = shared.locator("#long thead th", has_text=key)
        for down, word in ((False, "ascending"), (True, "descending")):
            head.get_by_role("button").click()
            rows = ordered(rows, key, down=down)
            assert thetas(shared) == [str(row["theta"]) for row in rows]
            assert head.get_attribute("aria-sort") == word
    head.get_by_role("button").focus()
    shared.keyboard.press("Enter")
    assert thetas(shared) == [str(row["theta"]) for row in long_rows()]
    assert shared.locator("#long [aria-sort]").count() == 0


def test_a_long_table_begins_with_25_rows_and_is_searched(shared: Any) -> None:
    table = shared.locator("#long")
    assert not shared.locator("#short .more").is_visible()
    assert not shared.locator("#short input").is_visible()
    assert len(thetas(shared, shown_only=True)) == 25
    table.get_by_role("button", name=f"Show all {N_ROWS} rows").click()
    assert len(thetas(shared, shown_only=True)) == N_ROWS
    fewer = table.get_by_role("button", name="Show the first 25 rows only")
    assert fewer.get_attribute("aria-expanded") == "true"
    fewer.click()
    table.get_by_label("Find").fill("ALERT  m3")
    wanted = [row for row in long_rows() if (row["dataset"], row["method"]) == (HOSTILE, "m3")]
    assert thetas(shared, shown_only=True) == [str(row["theta"]) for row in wanted]
    table.get_by_label("Find").fill("nothing has this")
    assert thetas(shared, shown_only=True) == []
    table.get_by_label("Find").fill("")
    assert len(thetas(shared, shown_only=True)) == 25
