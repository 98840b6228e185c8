"""Pages that stand alone: numbers and words first, then figures, then tables.

A page is a dictionary made by `page` of tables (`table`, `column`) and figures (`figure`). What a figure
draws is a function that returns a matplotlib figure; it is called when the page is made, and once. matplotlib
and Jinja2 are imported then.
"""

from lrml.report._figures import COLOURS, MARKERS, canvas, draw_dots, figure, image, legend_below, panel
from lrml.report._page import needed, page, page_style, render_html
from lrml.report._tables import column, rounded, shown_cell, table

__all__ = ["COLOURS", "MARKERS"]
__all__ += [
    "canvas",
    "column",
    "draw_dots",
    "figure",
    "image",
    "legend_below",
    "needed",
    "page",
    "page_style",
]
__all__ += ["panel", "render_html", "rounded", "shown_cell", "table"]
