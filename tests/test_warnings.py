"""Which warnings fail a test, by the settings of the project."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest
from _pytest.config import apply_warning_filters


class NotedWarning(UserWarning):
    """One of those that packages have for deprecations, instead of Python's."""


# The module that a warning is attributed to, its class and text, and whether it is an error.
CASES = [
    ("lrml.estimators.lrml", UserWarning, "of ours", True),
    ("lrml", DeprecationWarning, "a call of ours will end", True),
    ("lrml.core.quadratic", FutureWarning, "a default that we rely on will change", True),
    ("lrml.core.quadratic", NotedWarning, "deprecated, and we call it", True),
    ("sklearn.utils.validation", UserWarning, "X does not have valid feature names", True),
    ("numpy.linalg._linalg", RuntimeWarning, "invalid value encountered in det", True),
    ("dask.dataframe", ResourceWarning, "unclosed socket", True),
    ("starlette.testclient", NotedWarning, "Using `httpx` with it\nis deprecated; install `httpx2`", False),
    ("dask.dataframe", FutureWarning, "meta will be required", False),
    ("pandas.core.frame", PendingDeprecationWarning, "soon", False),
    ("lrmlish", DeprecationWarning, "of a namesake", False),
    ("tests.test_export", DeprecationWarning, "a call of a test will end", False),
]


@pytest.mark.parametrize(("module", "kind", "text", "fails"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_what_others_say_about_their_future_is_no_error(pytestconfig, module, kind, text, fails):
    place = vars(ModuleType(module)) | {"warn": warnings.warn, "text": text, "kind": kind}
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        apply_warning_filters(pytestconfig.getini("filterwarnings"), [])
        if fails:
            with pytest.raises(kind):
                exec("warn(text, kind, stacklevel=1)", place)
        else:
            exec("warn(text, kind, stacklevel=1)", place)
    assert len(told) == (not fails)
