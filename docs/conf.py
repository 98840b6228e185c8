"""Settings of the site: `make docs` builds it, with warnings as errors and without a network."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from lrml import __version__

project, author, copyright = "lrml", "The lrml developers", "The lrml developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "commands",
]
exclude_patterns = ["_ext", "gallery/*.ipynb", "gallery/*.zip"]
templates_path = ["_templates"]
smartquotes = False  # options begin with two hyphens
default_role = "py:obj"  # `LRML` in a docstring is a link where there is such a name
autodoc_typehints = "none"  # docstrings have them in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "lrml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "lrml"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("index", "reproduction", "faq", "changelog")}
html_context = {"default_mode": "auto"}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.Order",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "matplotlib_animations": False,
}

_PAGE = re.compile(r"`{0,2}docs/(\w+)\.md`{0,2}")
_LITERAL = re.compile(r"(``.*?``|`[^`]*`_{0,2})")
_MARKUP = re.compile(r"(?<=\w)_(?!\w)|\|")  # coef_ would be a link, |w| a substitution


def made_readable(app, what, name, obj, options, lines):
    """Make links of the pages that docstrings name, and leave their mathematics as it is."""
    indent = None  # of the line that begins a literal block
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if indent is not None and (not line.strip() or depth > indent):
            continue
        indent = depth if line.rstrip().endswith("::") else None
        if line.lstrip().startswith((">>>", "...", "..", ":")):
            continue
        parts = _LITERAL.split(_PAGE.sub(r":doc:`/\1`", line))
        parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
        lines[number] = "".join(parts)


def setup(app):
    """Register what this file adds."""
    app.connect("autodoc-process-docstring", made_readable)
