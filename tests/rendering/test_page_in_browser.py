"""Themes, plots, layout and print of the HTML report in a real Chromium."""

from __future__ import annotations

import pytest

from rendering.browser import DESKTOP, PHONE, Opener, header, wait_until

pytestmark = pytest.mark.usefixtures("no_errors_and_no_network")

NO_STORAGE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("refused", "SecurityError"); } })"""
# The ground of the page, and the colours of its words, and of those in a drawing.
COLOURS = """() => [
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.body).color,
    getComputedStyle(document.querySelector("#figure1 .plot text")).fill,
]"""


def test_theme_follows_the_system_and_the_button(open_page: Opener) -> None:
    page = open_page(scheme="dark")
    dark = page.evaluate(COLOURS)
    page.get_by_role("button", name="Light theme").click()
    light = page.evaluate(COLOURS)
    assert dark[1] == dark[2]
    assert light[1] == light[2]
    assert not set(dark) & set(light)
    page.reload()
    assert page.evaluate(COLOURS) == light  # remembered
    page.emulate_media(color_scheme="light")
    wait_until(page, "darkSystem.matches", False)
    assert page.evaluate(COLOURS) == light
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(COLOURS) == dark


def test_theme_without_storage_and_a_change_of_the_system(open_page: Opener) -> None:
    page = open_page(script=NO_STORAGE)
    light = page.evaluate(COLOURS)
    page.emulate_media(color_scheme="dark")
    wait_until(page, f"(({COLOURS})())[1] !== '{light[1]}'")
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(COLOURS) == light


OVERLAPS = """() => Array.from(document.querySelectorAll(".plot svg")).flatMap((plot) => {
    const frame = plot.getBoundingClientRect();
    const texts = Array.from(plot.querySelectorAll("text")).filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const outside = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 ||
        box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    const found = outside.map(([text]) => `${plot.ariaLabel}: ${text} is outside`);
    boxes.forEach(([text, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
            found.push(`${plot.ariaLabel}: ${text} on ${other}`);
    }));
    if (boxes.length < 6) found.push(`${plot.ariaLabel}: only ${boxes.length} texts`);
    return found;
})"""

CLIPPED = """() => Array.from(document.querySelectorAll("td, th")).filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const text = range.getBoundingClientRect(), box = cell.getBoundingClientRect();
    const scroll = cell.closest(".scroll"), start = scroll?.getBoundingClientRect().left - scroll?.scrollLeft;
    const right = scroll ? start + scroll.scrollWidth : innerWidth;
    return text.left < box.left - 1 || text.right > box.right + 1 || text.bottom > box.bottom + 1 ||
        box.right > right + 1;
}).map((cell) => cell.textContent)"""


def test_layout_follows_the_window(open_page: Opener) -> None:
    page = open_page((PHONE[1], PHONE[0]))
    ends = "Array.from(document.querySelectorAll('.plot svg'), (one) => one.getBoundingClientRect().right)"
    for size, n_columns in ((PHONE, 1), (DESKTOP, 2)):  # figures stand one below another, or side by side
        page.set_viewport_size({"width": size[0], "height": size[1]})
        wait_until(page, f"Math.max(...{ends}) <= innerWidth")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        wait_until(page, OVERLAPS, [])
        lefts = "(all) => new Set(all.map((plot) => Math.round(plot.getBoundingClientRect().left))).size"
        assert page.eval_on_selector_all("#figure1 .plot", lefts) == n_columns
        page.eval_on_selector_all("details", "(all) => all.forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(CLIPPED) == []
        page.eval_on_selector_all("details", "(all) => all.forEach((one) => { one.open = false; })")
    page.locator("#all-runs .more").click()
    box = page.locator("#all-runs .scroll")
    assert box.evaluate("(box) => box.scrollHeight > 2 * box.clientHeight")
    box.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    tops = [
        part.evaluate("(part) => part.getBoundingClientRect().top") for part in (box, header(page, "score"))
    ]
    assert 0 <= tops[1] - tops[0] <= 3  # the header stays


def test_print_shows_everything(open_page: Opener) -> None:
    page = open_page(scheme="dark")
    page.locator("#all-runs").get_by_label("method").select_option("LRML")
    screen = page.evaluate(COLOURS)
    page.emulate_media(media="print")
    heights = page.eval_on_selector_all(
        "#all-runs .data tbody tr", "(rows) => rows.map((row) => row.getBoundingClientRect().height)"
    )
    assert len(heights) == 300
    assert min(heights) > 5
    assert page.locator("#all-runs .scroll").evaluate("(box) => box.scrollHeight <= box.clientHeight + 1")
    wait_until(page, COLOURS, ["rgb(255, 255, 255)", "rgb(0, 0, 0)", "rgb(0, 0, 0)"])
    assert not page.locator(".controls").first.is_visible()
    assert page.locator("#figure1").evaluate("(figure) => getComputedStyle(figure).breakInside") == "avoid"
    page.emulate_media(media="screen")
    wait_until(page, COLOURS, screen)


def test_keyboard_reaches_the_content_first(open_page: Opener) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
