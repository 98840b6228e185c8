"""One self-contained HTML page of numbers, words, figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any

from lrml._shown import how_to_install
from lrml.report._figures import embedded
from lrml.report._tables import Plain, shown_table


def page(
    title: str,
    words: Sequence[str],
    figures: Sequence[Plain],
    tables: Sequence[Plain],
    about: Sequence[tuple[str, str]],
    *,
    numbers: Sequence[tuple[str, ...]] = (),
    failures: Sequence[tuple[str, str]] = (),
    files: Sequence[str] = (),
) -> Plain:
    """Return the content of a page, in this order.

    ``numbers`` are a few rows before all else, the first with the headings, and ``words`` paragraphs.
    ``failures`` say what could not be computed, and why. Then come ``figures`` and ``tables``, as `figure`
    and `table` return them, facts ``about`` data, model and machine, and paths of ``files`` beside the page.
    """
    return {
        "title": title,
        "numbers": list(numbers),
        "summary": list(words),
        "failures": list(failures),
        "figures": list(figures),
        "tables": list(tables),
        "about": list(about),
        "files": list(files),
    }


def render_html(page: Mapping[str, Any]) -> str:
    """Return a page as one HTML document that needs no network; the same page gives the same text.

    Parameters
    ----------
    page : mapping
        What `page` returns, or the ``summary`` of an assessment, a comparison or a description.

    Raises
    ------
    ImportError
        If Jinja2 is not installed, or matplotlib, which draws the figures.
    """
    jinja2 = needed("jinja2", "report")
    if page["figures"]:
        needed("matplotlib", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text: str = environment.from_string(_part("page.html.j2")).render(
        page=page,
        figures=[embedded(figure) for figure in page["figures"]],
        tables=[shown_table(table) for table in page["tables"]],
        css=page_style() + _part("page.css"),
        script=_part("page.js"),
    )
    return text


def page_style() -> str:
    """Return the style sheet that all pages begin with: colours for light and dark, and plain elements."""
    return _part("base.css")


def _part(name: str) -> str:
    return (files("lrml.report") / "page" / name).read_text("utf-8")


def needed(module: str, extra: str) -> ModuleType:
    """Import a library, or say which extra of ours has it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is needed and cannot be imported. {how_to_install(extra)}") from error
