"""What is imported when: in processes of their own, as this one has imported everything."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lrml
import lrml.datasets


def loaded_by(code):
    """Run code, and return which of the slow packages it has imported."""
    slow = "numpy", "scipy", "sklearn", "rich"
    code += f"\nimport sys\nprint(*(name for name in {slow!r} if name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import lrml, lrml.datasets, lrml.cli\nlrml.__version__", set()),
        ("from lrml.cli import main\nmain(['datasets'])", {"rich"}),
        ("from lrml.datasets import load_yeast, describe\ndescribe(load_yeast())", {"numpy", "scipy"}),
    ],
)
def test_only_what_is_needed_is_imported(code, expected):
    assert loaded_by(code) == expected


@pytest.mark.parametrize("module", ["theory", "model_selection"])
def test_theory_and_splits_load_no_solver(module):
    code = f"import sys, lrml.{module}\nfor name in sorted(sys.modules): print(name)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    loaded = run.stdout.split()
    assert f"lrml.{module}" in loaded
    assert not [name for name in loaded if name.startswith(("lrml.solvers", "lrml.estimators"))]
    if module == "theory":
        assert "sklearn" not in loaded


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


def test_submodules_are_found_without_importing_them_first():
    code = "import lrml\nassert lrml.estimators.LRML is lrml.LRML\nassert lrml.datasets.load_yeast"
    assert "sklearn" in loaded_by(code)
