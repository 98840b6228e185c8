"""Examples of the documentation run as printed, and give what is printed beside them."""

from __future__ import annotations

import re
from ast import literal_eval
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn

from lrml.datasets import Dataset, load_yeast

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RESULT = re.compile(
    r"^(?:print\((.+)\)|(.+?))  # (\[\[.*\]\])$", re.MULTILINE
)  # code and the lists it gives


def test_the_page_about_gpus_runs_on_a_cpu() -> None:
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIPY_ARRAY_API", "1")
        with sklearn.config_context(array_api_dispatch=False):  # the page switches it on
            names: dict[str, Any] = {}
            for block in _BLOCK.findall((ROOT / "docs/gpu.md").read_text("utf-8")):
                exec(block.replace('"cuda"', '"cpu"'), names)
            there = names["model"].score(names["X"], names["Y"])
    assert names["home"].score(*load_yeast().train) == pytest.approx(there)


def few_rows() -> Dataset:
    """Enough of yeast for code to run."""
    whole = load_yeast()
    some = np.r_[:600, whole.n_train : whole.n_train + 200]
    names = {"feature_names": whole.feature_names, "label_names": whole.label_names}
    return Dataset("yeast", whole.X[some], whole.Y[some], n_train=600, **names)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/text.md",
        "docs/pictures.md",
        "docs/data.md",
        "docs/cluster.md",
        "docs/scale.md",
        "docs/extreme.md",
    ],
)
def test_python_blocks_run_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    for package in ("pandas", "jinja2", *(["distributed"] if "cluster" in page else [])):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    if "README" in page:  # searches
        monkeypatch.setattr("lrml.datasets.load_yeast", few_rows)
    if "cluster" in page:  # real processes are killed in tests/engines
        here = partial(import_module("lrml.engines.dask").connect, processes=False)
        monkeypatch.setattr("lrml.engines.dask.connect", here)
    pyplot.switch_backend("agg")
    blocks = _BLOCK.findall((ROOT / page).read_text("utf-8"))
    names: dict[str, Any] = {}
    for block in blocks:
        if "bibtex" in block:
            continue  # a download
        exec(compile(block, page, "exec"), names)
        for printed, bare, result in _RESULT.findall(block):
            assert [list(row) for row in eval(printed or bare, names)] == literal_eval(result)
    pyplot.close("all")
    assert blocks
