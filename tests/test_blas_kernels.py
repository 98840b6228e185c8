"""The numeric core with other kernels of OpenBLAS than those that it picks for this CPU.

Kernels add in different orders, so that the last digits differ: a test that hangs on them passes on one
machine and fails on the next. `make test-kernels` runs all numeric tests with several kernels, and
`make test` a small part of them with those for the oldest CPUs, which every x86 CPU can run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401  # loads the BLAS of SciPy, which is another one
from threadpoolctl import threadpool_info

OLDEST = "Nehalem"
# OpenBLAS may have been built without those for Zen, and then takes these.
ALIASES = {"zen": {"zen", "haswell"}}
SMALL_PART = (
    "tests/test_blas_kernels.py",
    "tests/solvers/test_alternating.py",
    "tests/solvers/test_optimality.py",
)


def architectures(found: list[dict[str, object]]) -> list[str]:
    """The kernels in use by each OpenBLAS; there are two if NumPy and SciPy come from wheels."""
    return [str(each["architecture"]) for each in found if each["internal_api"] == "openblas"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the kernels for the oldest CPUs, as if by hand."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"OPENBLAS_CORETYPE": OLDEST, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = Path(__file__).parents[1]
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_the_kernels_are_those_of_the_environment():
    wanted = os.environ.get("OPENBLAS_CORETYPE")
    if not wanted:
        pytest.skip("OPENBLAS_CORETYPE is not set: OpenBLAS picks the kernels for this CPU")
    found = architectures(threadpool_info())
    assert found, f"OPENBLAS_CORETYPE={wanted} does nothing here: no library uses OpenBLAS"
    names = {name.lower() for name in found}
    assert names <= ALIASES.get(wanted.lower(), {wanted.lower()})


def test_a_small_part_with_the_kernels_for_the_oldest_cpus():
    probe = (
        "import json, scipy.linalg, numpy, threadpoolctl; print(json.dumps(threadpoolctl.threadpool_info()))"
    )
    found = architectures(json.loads(run("-c", probe).stdout))
    if not found or set(found) != {OLDEST}:
        pytest.skip(f"OPENBLAS_CORETYPE={OLDEST} does not switch the kernels here: {found or 'no OpenBLAS'}")
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not oldest")
    done = run("-m", "pytest", *options, *SMALL_PART)
    assert done.returncode == 0, f"with the kernels for {OLDEST}:\n{done.stdout}\n{done.stderr}"
    assert "OPENBLAS_CORETYPE" not in done.stdout, "the check of the kernels was skipped"
