"""The benchmark of GPUs runs, with torch on the CPU where it is installed, and agrees with NumPy."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_every_section_runs_on_torch_and_ends_where_numpy_does(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("bibtex", "delicious"):
        X = (rng.random((200, 30)) < 0.2).astype(float)
        Y = (X[:, :8] @ rng.normal(size=(8, 12)) + 0.3 * rng.normal(size=(200, 12)) > 0.7).astype(float)
        for part, matrix in (("X", X), ("Y", Y)):
            sp.save_npz(tmp_path / f"{name}_train_{part}.npz", sp.csr_array(matrix))
    out = tmp_path / "gpu.json"
    arguments = ["--device", "cpu", "--quick", "--data", tmp_path, "--out", out]
    run = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(out.read_text())
    assert found["device"]["torch"]
    sections = {"fit", "path", "search", "kernel", "logistic", "leml", "predict"}
    assert {item["section"] for item in found["results"]} == sections
    for item in found["results"]:
        assert isinstance(item["first s"], float), item
        assert isinstance(item["CPUs s"], float), item
        loose = 1e-4 if item["section"] in ("logistic", "leml") else 1e-9
        assert item.get("objectives differ by", 0.0) <= loose, item
