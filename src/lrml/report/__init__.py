"""Reports of a summary: CSV, Markdown and LaTeX tables, static figures, and one HTML page.

A renderer sees only the summary, a plain dictionary, and returns text or bytes; the caller writes files. What
a renderer needs beyond the standard library (matplotlib, Plotly, Jinja2) is imported when it is called.
"""

from lrml.report._draw import render_figures, render_still
from lrml.report._html import render_html
from lrml.report._tables import render_tables

__all__ = ["render_figures", "render_html", "render_still", "render_tables"]
