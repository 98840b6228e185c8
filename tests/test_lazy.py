"""What is imported when: in processes of their own, as this one has imported everything."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

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


PARTS = [part for part in map(lrml.__getattr__, lrml.__all__) if isinstance(part, ModuleType)]


def test_the_library_shows_public_names_only():
    assert {name for name in dir(lrml) if name[:2] != "__"} == set(lrml.__all__) - {"__version__"}


@pytest.mark.parametrize("module", [lrml, *PARTS])
def test_public_modules_have_what_they_list(module):
    assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(ImportError):
        exec(f"from {module.__name__} import nope")
