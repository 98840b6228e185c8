"""The colours of the page by the rule of the Web Content Accessibility Guidelines."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest


def luminance(colour: str) -> float:
    """Return WCAG's relative luminance of "#rrggbb"."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Return WCAG's contrast ratio, from 1 to 21."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_formula() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the well-known lightest grey


def styles_of(package: str) -> str:
    """Return all that a page of a package may draw with: the common styles and its own files."""
    own = sorted((files(package) / "page").iterdir(), key=str)
    common = (files("lrml.report") / "page" / "base.css").read_text("utf-8")
    return common + "".join(file.read_text("utf-8") for file in own if file.name != "base.css")


PACKAGES = pytest.mark.parametrize("package", ["lrml.report", "lrml.serving"])


@PACKAGES
def test_every_variable_that_is_used_is_defined(package: str) -> None:
    styles = styles_of(package)
    assert set(re.findall(r"var\(--([a-z-]+)", styles)) <= set(re.findall(r"--([a-z-]+):", styles))


@PACKAGES
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast_of_both_themes(package: str, theme: int) -> None:
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", styles_of(package))
    colours = {name: values[theme] for name, *values in pairs}
    for ground in {"paper", "raised", "failed", "better", "worse"} & set(colours):
        for ink in ("text", "muted"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    assert contrast(colours["link"], colours["paper"]) >= 4.5
    for edge in {"strong-rule", "better-edge", "worse-edge"} & set(colours):  # borders of controls and words
        assert contrast(colours[edge], colours["paper"]) >= 3, edge
