"""A parser of the HTML report for its tests."""

from __future__ import annotations

import itertools
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "img", "br", "hr"}
SVG_EMPTY = {"path", "use", "rect", "image", "g", "defs"}  # closed by themselves


class Page(HTMLParser):
    """Collects elements and their text, and insists that every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[int] = []
        self.tags: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.parents: list[int] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "elements are left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>"
        self.parents.append(self.open[-1] if self.open else -1)
        self.tags.append(tag)
        self.attributes.append({name: value or "" for name, value in attrs})
        self.texts.append("")
        if tag not in VOID:
            self.open.append(len(self.tags) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG_EMPTY
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.tags[self.open.pop()] == tag

    def handle_data(self, data: str) -> None:
        for place in self.open:
            self.texts[place] += data

    def inside(self, place: int, ancestor: int) -> bool:
        while place >= 0 and place != ancestor:
            place = self.parents[place]
        return place == ancestor

    def all_inside(self, ancestor: int) -> list[int]:
        """Return the places of an element and of all in it; they follow each other."""
        later = range(ancestor + 1, len(self.tags))
        return [ancestor, *itertools.takewhile(lambda place: self.parents[place] >= ancestor, later)]

    def by_id(self, name: str) -> int:
        (place,) = (i for i, found in enumerate(self.attributes) if found.get("id") == name)
        return place

    def all(self, tag: str, within: int = 0, **attributes: str) -> list[int]:
        return [
            place
            for place, found in enumerate(self.tags)
            if found == tag
            and self.inside(place, within)
            and all(self.attributes[place].get(name) == value for name, value in attributes.items())
        ]

    def rows(self, table: int) -> list[list[str]]:
        (body,) = self.all("tbody", table)
        cells = [i for i, tag in enumerate(self.tags) if tag in ("td", "th") and self.inside(i, body)]
        return [
            [self.texts[cell] for cell in cells if self.parents[cell] == row] for row in self.all("tr", body)
        ]
