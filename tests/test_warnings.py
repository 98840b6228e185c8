"""Which warnings fail a test: asked of a child process with our settings and a test for each warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = Path(__file__).parents[1] / "pyproject.toml"
# The module that a warning is attributed to, its class and text, and whether it is an error.
CASES = [
    ("lrml.estimators.lrml", "UserWarning", "of ours", True),
    ("lrml", "DeprecationWarning", "a call of ours will end", True),
    ("lrml.core.quadratic", "FutureWarning", "a default that we rely on will change", True),
    ("lrml.core.quadratic", "NotedWarning", "deprecated, and we call it", True),
    ("lrml.core.quadratic", "RuntimeWarning", "overflow encountered in matmul", True),
    ("sklearn.linear_model._logistic", "ConvergenceWarning", "lbfgs failed to converge", True),
    ("sklearn.utils.validation", "UserWarning", "X does not have valid feature names", True),
    ("numpy.linalg._linalg", "RuntimeWarning", "invalid value encountered in det", True),
    ("dask.dataframe", "ResourceWarning", "unclosed socket", True),
    ("starlette.testclient", "NotedWarning", "Using `httpx` with it\nis deprecated; install `httpx2`", False),
    ("dask.dataframe", "FutureWarning", "meta will be required", False),
    ("pandas.core.frame", "PendingDeprecationWarning", "soon", False),
    ("lrmlish", "DeprecationWarning", "of a namesake", False),
    ("tests.test_export", "DeprecationWarning", "a call of a test will end", False),
]
TEST = """
import warnings
import pytest
from sklearn.exceptions import ConvergenceWarning

class NotedWarning(UserWarning):
    pass

@pytest.mark.parametrize(("module", "kind", "text"), {cases!r})
def test_one(module, kind, text):
    place = {{"__name__": module, "warnings": warnings, "text": text, "kind": eval(kind)}}
    exec("warnings.warn(text, kind, stacklevel=1)", place)
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Whether the test of each case passed."""
    path = tmp_path_factory.mktemp("warnings") / "test_cases.py"
    path.write_text(TEST.format(cases=[case[:3] for case in CASES]))
    command = [sys.executable, "-m", "pytest", "-c", SETTINGS, "--rootdir", path.parent, "--noconftest"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-vv", "--color=no", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    lines = [line.split() for line in done.stdout.splitlines() if "::test_one[" in line]
    found = [word for line in lines for word in line if word in ("PASSED", "FAILED") and line[0] != word]
    assert len(found) == len(CASES), done.stdout
    return found


@pytest.mark.parametrize("place", range(len(CASES)), ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_what_others_say_about_their_future_is_no_error(place: int, outcome: list[str]) -> None:
    assert (outcome[place] == "FAILED") == CASES[place][3]
