"""Short descriptions of programs, and their tags."""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Documents(NamedTuple):
    texts: list[str]
    tags: list[list[str]]


_LINES = """\
fast and simple image viewer for the desktop | graphics viewer
edit photos and other images, with layers | graphics editor
convert images between many file formats | graphics convert
vector graphics editor for drawings | graphics editor
view photos from a digital camera | graphics viewer
convert drawings to images of any size | graphics convert
editor for source code with syntax colours | text editor
text editor for the terminal | text editor
convert text files between encodings | text convert
viewer for long text files in the terminal | text viewer
convert documents to plain text | text convert
search text files for words | text
play chess against the computer | game
chess engine that plays very well | game
puzzle game with falling blocks | game
play cards on line with friends | game network
on line chess server for friends | game network
fast web server | network server
mail server for small networks | network server
transfer files over the network | network
file server for the local network | network server
view web pages in the terminal | network viewer text
images of the files that a web server sends | network graphics
an empty package that does nothing |"""


@pytest.fixture(scope="session")
def documents() -> Documents:
    pairs = [line.split("|") for line in _LINES.splitlines()]
    return Documents([text.strip() for text, _ in pairs], [tags.split() for _, tags in pairs])
