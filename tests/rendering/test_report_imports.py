"""What importing the renderers loads, and what they say where a library is absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lrml.report import render_html
from rendering.sample_summary import sample_summary


def test_without_matplotlib_there_is_a_remedy():
    script = """
import sys
sys.modules["matplotlib"] = None
from lrml.report import render_figures
try:
    render_figures({"figures": []})
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 'pip install "lrml[plots]"' in run.stdout


def test_importing_the_package_loads_no_other_library():
    script = """
import sys
from lrml.report import render_figures, render_html, render_tables
print(sorted({"matplotlib", "jinja2"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_missing_library_names_the_remedy(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2", reason="Jinja2 is not installed")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "lrml\[report\]"'):
        render_html(sample_summary())
