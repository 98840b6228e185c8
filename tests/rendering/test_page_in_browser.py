"""Themes, plots, layout and print of the HTML report in a real Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from rendering.browser import DESKTOP, PHONE, Opener, header, wait_until
from rendering.sample_summary import sample_summary

pytestmark = pytest.mark.usefixtures("no_errors_and_no_network")

NO_STORAGE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("refused", "SecurityError"); } })"""
GROUNDS = """() => ["body", "#figure1-panel-1 .main-svg"].map(
    (place) => getComputedStyle(document.querySelector(place)).backgroundColor)"""


def test_theme_follows_the_system_and_the_button(open_page: Opener) -> None:
    page = open_page(scheme="dark")
    dark = page.evaluate(GROUNDS)
    page.get_by_role("button", name="Light theme").click()
    light = page.evaluate(GROUNDS)
    assert dark[0] == dark[1]
    assert light[0] == light[1]
    assert dark[0] != light[0]
    page.reload()
    assert page.evaluate(GROUNDS) == light  # remembered
    page.emulate_media(color_scheme="light")  # every plot is drawn again, in the same colours
    wait_until(page, "darkSystem.matches", False)
    assert page.evaluate(GROUNDS) == light
    zoom = "document.getElementById('figure1-panel-2')._fullLayout.xaxis.range"
    whole = page.evaluate(zoom)
    page.mouse.move(*point(page, "figure1-panel-2", 20, 0.7))
    page.mouse.down()
    page.mouse.move(*point(page, "figure1-panel-2", 60, 0.7), steps=3)
    page.mouse.up()
    part = page.evaluate(zoom)
    assert part != whole
    assert part == pytest.approx([20, 60], abs=1)
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(GROUNDS) == dark
    assert page.evaluate(zoom) == part


def test_theme_without_storage_and_a_change_of_the_system(open_page: Opener) -> None:
    page = open_page(script=NO_STORAGE)
    light = page.evaluate(GROUNDS)
    page.emulate_media(color_scheme="dark")
    wait_until(page, f"(({GROUNDS})())[1] !== '{light[1]}'")
    dark = page.evaluate(GROUNDS)
    assert light[0] != dark[0] == dark[1]
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(GROUNDS) == light


def point(page: Any, plot: str, x: float, y: float) -> tuple[float, float]:
    """Return where Plotly draws a point, in pixels of the window."""
    page.locator(f"#{plot}").scroll_into_view_if_needed()
    script = """([id, x, y]) => {
        const plot = document.getElementById(id), box = plot.getBoundingClientRect();
        const { xaxis, yaxis } = plot._fullLayout;
        return [box.left + xaxis._offset + xaxis.d2p(x), box.top + yaxis._offset + yaxis.d2p(y)];
    }"""
    left, top = page.evaluate(script, [plot, x, y])
    return left, top


def hover_text(page: Any, plot: str, x: float, y: float) -> str:
    page.mouse.move(*point(page, plot, x, y))
    label = page.locator(f"#{plot} .hoverlayer .hovertext")
    label.wait_for()
    text: str = " ".join(label.locator("tspan.line").all_text_contents())
    return text


def test_hovering_shows_values(shared: Any) -> None:
    page = shared
    series = sample_summary()["figures"][0]["panels"][0]["series"]
    x, y = series[0]["x"][3], series[0]["y"][3]
    text = hover_text(page, "figure1-panel-1", x, y)
    assert text == (
        f"LRML θ / L (%): {x} average precision: {y:.6g} "
        f"{series[0]['low'][3]:.6g} to {series[0]['high'][3]:.6g}"
    )
    x, y = series[1]["x"][4], series[1]["y"][4]
    text = hover_text(page, "figure1-panel-1", x, y)
    assert text == f"R&D <LRML> θ / L (%): {x} average precision: {y:.6g}"
    text = hover_text(page, "figure2-panel-1", 30, 2 / 30)
    assert text == "pg step: 30 objective less optimum: 0.0666667"
    panel = sample_summary()["figures"][3]["panels"][0]
    text = hover_text(page, "figure4-panel-1", panel["x"]["values"][3], panel["y"]["values"][2])
    assert text.endswith(f"one panel & <two> marks: {panel['z']['values'][2][3]:.6g}")


def test_legend_switches_a_series_in_all_panels(shared: Any) -> None:
    page = shared
    lines = page.locator("#figure1 .scatterlayer .trace")
    before = lines.count()
    button = page.locator("#figure1").get_by_role("button", name="ML-trace")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert lines.count() == before - 3
    button.click()
    assert lines.count() == before


def test_mode_bar_has_two_buttons(shared: Any) -> None:
    page = shared
    titles = page.eval_on_selector_all(
        "#figure1-panel-1 .modebar-btn", "(all) => all.map((one) => one.dataset.title)"
    )
    assert len(titles) == 2
    assert "Download" in titles[0]
    assert "Reset" in titles[1]


OVERLAPS = """() => Array.from(document.querySelectorAll(".plot")).flatMap((plot) => {
    const frame = plot.getBoundingClientRect();
    const texts = Array.from(plot.querySelectorAll("svg text")).filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const outside = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 ||
        box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    const found = outside.map(([text]) => `${plot.id}: ${text} is outside`);
    boxes.forEach(([text, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
            found.push(`${plot.id}: ${text} on ${other}`);
    }));
    if (boxes.length < 6) found.push(`${plot.id}: only ${boxes.length} texts`);
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
    ends = "Array.from(document.querySelectorAll('.main-svg'), (one) => one.getBoundingClientRect().right)"
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
    screen = page.evaluate(GROUNDS)
    page.emulate_media(media="print")
    heights = page.eval_on_selector_all(
        "#all-runs .data tbody tr", "(rows) => rows.map((row) => row.getBoundingClientRect().height)"
    )
    assert len(heights) == 300
    assert min(heights) > 5
    assert page.locator("#all-runs .scroll").evaluate("(box) => box.scrollHeight <= box.clientHeight + 1")
    wait_until(page, GROUNDS, ["rgb(255, 255, 255)", "rgb(255, 255, 255)"])
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator(".controls").first.is_visible()
    assert page.locator("#figure1").evaluate("(figure) => getComputedStyle(figure).breakInside") == "avoid"
    page.emulate_media(media="screen")
    wait_until(page, GROUNDS, screen)


def test_keyboard_reaches_the_content_first(open_page: Opener) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_drawings_are_described_once(shared: Any) -> None:
    page = shared
    for figure in sample_summary()["figures"]:
        labels = page.eval_on_selector_all(
            f"#{figure['id']} [role=img]", "(all) => all.map((one) => one.getAttribute('aria-label'))"
        )
        assert len(labels) == page.locator(f"#{figure['id']} .plot").count()
        assert all(figure["alt"] in label for label in labels)
    assert page.locator("[role=img] button").count() == 0
