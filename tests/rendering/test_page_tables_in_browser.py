"""The tables of the HTML report in a real Chromium: sorting, filtering, paging, copying, links to files."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from rendering.browser import DESKTOP, Opener, header, new_page, wait_until
from rendering.sample_summary import sample_summary

pytestmark = pytest.mark.usefixtures("no_errors_and_no_network")


def column_texts(page: Any, table: str, place: int, *, shown_only: bool = False) -> list[str]:
    rows = "tr:not([hidden], .later)" if shown_only else "tr"
    script = "(rows, place) => rows.map((row) => row.cells[place].textContent)"
    texts: list[str] = page.eval_on_selector_all(f"#{table} .data tbody {rows}", script, place)
    return texts


def long_table() -> dict[str, Any]:
    table: dict[str, Any] = sample_summary()["tables"][1]
    return table


def sorted_rows(rows: list[dict[str, Any]], key: str, *, down: bool = False) -> list[dict[str, Any]]:
    """Sort as Python does: stable, nulls last, text without regard to case."""
    known = [row for row in rows if row[key] is not None]
    unknown = [row for row in rows if row[key] is None]

    def rank(row: dict[str, Any]) -> Any:
        return row[key].lower() if isinstance(row[key], str) else row[key]

    return sorted(known, key=rank, reverse=down) + unknown


def identity(rows: list[dict[str, Any]]) -> list[str]:
    """Return dataset and θ of each row, which tell most rows apart."""
    return [f"{row['dataset']} {row['theta']}" for row in rows]


def shown_identity(page: Any) -> list[str]:
    datasets, shares = (column_texts(page, "all-runs", place) for place in (0, 4))
    return [f"{dataset} {share}" for dataset, share in zip(datasets, shares, strict=True)]


def test_sorting_by_click(shared: Any) -> None:
    page = shared
    rows = long_table()["rows"]
    for key, title in (("score", "score"), ("method", "method"), ("spread", "standard error")):
        head = header(page, title)
        head.get_by_role("button").click()
        rows = sorted_rows(rows, key)
        assert shown_identity(page) == identity(rows)
        assert head.get_attribute("aria-sort") == "ascending"
        head.get_by_role("button").click()
        rows = sorted_rows(rows, key, down=True)
        assert shown_identity(page) == identity(rows)
        assert head.get_attribute("aria-sort") == "descending"
        assert page.locator("#all-runs [aria-sort]").count() == 1
    button = header(page, "standard error").get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    assert button.evaluate("(element) => getComputedStyle(element).outlineStyle") == "solid"
    assert shown_identity(page) == identity(long_table()["rows"])
    assert page.locator("#all-runs [aria-sort]").count() == 0


def test_filters_hide_rows_and_say_so(shared: Any) -> None:
    page = shared
    table, rows = page.locator("#all-runs"), long_table()["rows"]
    table.get_by_label("dataset").select_option('a <b> & "c"')
    chosen = [row for row in rows if row["dataset"] == 'a <b> & "c"']
    assert 0 < len(chosen) < 300
    assert table.get_by_role("status").text_content() == (
        f"showing 25 of {len(chosen)} matching rows, 300 in all"
    )
    table.get_by_label("method").select_option("ML-trace")
    table.get_by_label("Find").fill("FIVE  precision")
    chosen = [
        row
        for row in chosen
        if (row["method"], row["protocol"], row["metric"]) == ("ML-trace", "five folds", "average precision")
    ]
    assert 1 < len(chosen) < 25
    assert column_texts(page, "all-runs", 4, shown_only=True) == [str(row["theta"]) for row in chosen]
    count = len(chosen)
    assert table.get_by_role("status").text_content() == (
        f"showing {count} of {count} matching rows, 300 in all"
    )
    assert not table.locator(".more").is_visible()
    table.get_by_label("Find").fill("nothing has this")
    assert table.get_by_role("status").text_content() == "showing 0 of 0 matching rows, 300 in all"
    table.get_by_label("Find").fill("")
    for label in ("dataset", "method"):
        table.get_by_label(label).select_option("all")
    assert table.get_by_role("status").text_content() == "showing 25 of 300 rows"


def test_a_long_table_begins_with_25_rows(open_page: Opener) -> None:
    page = open_page()
    table, rows = page.locator("#all-runs"), long_table()["rows"]
    more = table.get_by_role("button", name="Show all 300 rows")
    assert page.locator("#all-runs .data tbody tr:visible").count() == 25
    box = table.locator(".scroll")
    assert box.evaluate("(box) => box.scrollHeight <= box.clientHeight + 1")  # no box that scrolls by itself
    header(page, "score").get_by_role("button").click()  # sorting takes rows from all
    best = [f"{row['theta']}" for row in sorted_rows(rows, "score")[:25]]
    assert column_texts(page, "all-runs", 4, shown_only=True) == best
    more.focus()
    page.keyboard.press("Enter")
    assert page.locator("#all-runs .data tbody tr:visible").count() == 300
    assert table.get_by_role("status").text_content() == "showing 300 of 300 rows"
    fewer = table.get_by_role("button", name="Show the first 25 rows only")
    assert fewer.get_attribute("aria-expanded") == "true"
    assert fewer.evaluate("(button) => button === document.activeElement")
    assert page.locator(f"#{fewer.get_attribute('aria-controls')} tr").count() == 300
    page.keyboard.press("Space")
    assert page.locator("#all-runs .data tbody tr:visible").count() == 25
    top = more.evaluate("(button) => button.getBoundingClientRect().top")
    assert 0 <= top < DESKTOP[1]  # the reader is still at the table
    assert not page.locator("#table2 .more").is_visible()


def test_without_scripts_all_rows_are_there(browser: Any, address: str) -> None:
    page = new_page(browser, java_script_enabled=False)
    page.goto(address)
    assert page.locator("#all-runs .data tbody tr:visible").count() == 300
    assert not page.locator("#all-runs .more").is_visible()
    assert not page.locator("#all-runs .controls").is_visible()
    page.close()


def test_copied_csv_has_the_matching_rows_in_full_precision(shared: Any) -> None:
    page = shared
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    table = page.locator("#all-runs")
    table.get_by_label("dataset").select_option('a <b> & "c"')
    score = header(page, "score").get_by_role("button")
    score.click()
    table.get_by_role("button", name="Copy as CSV").click()
    wait_until(page, "window.copied !== undefined")
    table.get_by_label("dataset").select_option("all")
    score.dblclick()  # descending, and back to the order of the report
    head, *body = csv.reader(io.StringIO(page.evaluate("window.copied")))
    columns = long_table()["columns"]
    assert head == [column["title"] for column in columns]
    wanted = [row for row in sorted_rows(long_table()["rows"], "score") if row["dataset"] == 'a <b> & "c"']
    assert len(body) == len(wanted) > 25  # those that are put off as well
    for texts, row in zip(body, wanted, strict=True):
        for text, column in zip(texts, columns, strict=True):
            value = row[column["key"]]
            assert (
                (text or None) == value if column["kind"] == "text" or value is None else float(text) == value
            )


def test_copying_where_the_clipboard_is_refused(shared: Any) -> None:
    page = shared
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    page.locator("#table2").get_by_role("button", name="Copy as CSV").click()
    page.locator("#table2").get_by_role("button", name="Copied").wait_for()
