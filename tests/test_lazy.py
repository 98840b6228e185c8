"""What is imported when: in processes of their own, as this one has imported everything."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lrml
import lrml.datasets

# Each line of code, and what of the slow or of ours it imports beyond the lines before it.
STEPS = {
    "import lrml, lrml.datasets, lrml.cli; lrml.__version__": set(),
    "lrml.cli.main(['datasets'])": {"rich"},
    "lrml.datasets.describe(lrml.datasets.load_yeast())": {"numpy", "scipy"},
    "lrml.theory.__all__": set(),
    "lrml.model_selection.__all__": {"sklearn"},
    "assert lrml.estimators.LRML is lrml.LRML": {"lrml.estimators", "lrml.solvers"},
}


def test_only_what_is_needed_is_imported():
    """Nothing slow for a version, no scikit-learn for theory, no solver for splits."""
    slow = "numpy", "scipy", "sklearn", "rich", "lrml.estimators", "lrml.solvers"
    told = f"print(*(name for name in {slow!r} if name in sys.modules), file=sys.stderr)"
    code = "\n".join(["import sys", *(f"{step}\n{told}" for step in STEPS)])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [set(line.split()) for line in run.stderr.splitlines()]
    assert loaded == [set().union(*list(STEPS.values())[: n + 1]) for n in range(len(STEPS))]


@pytest.mark.parametrize("module", [getattr(lrml, name) for name in lrml._SUBMODULES])
def test_public_modules_show_public_names_only(module):
    assert [name for name in dir(module) if not name.startswith("__")] == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_package_shows_public_names_only():
    shown = {name for name in dir(lrml) if not name.startswith("__")}
    assert set(lrml.__all__) - {"__version__"} <= shown
    assert {name for name in shown if name[0] == "_" or name in ("lazy_names", "TYPE_CHECKING")} == set()
    for name in shown:
        assert getattr(lrml, name).__doc__


@pytest.mark.parametrize("module", [lrml, lrml.datasets])
def test_all_names_are_there_and_listed(module):
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nope'"):
        _ = module.nope
    with pytest.raises(ImportError, match="cannot import name 'nope'"):
        exec(f"from {module.__name__} import nope")
