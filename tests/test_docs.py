"""Examples of the documentation run as printed, and give what is printed beside them."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sklearn

from lrml.datasets import load_yeast

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A comment after a print says what that gives: numbers as they round, texts and truths as they are.
_TOLD = re.compile(r"^ *print\(.*\)  # (.*)$")
_FACT = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?|True|False|'[^']*'")


def says(printed: str, comment: str) -> bool:
    """Whether the facts of a comment are printed, in this order; others may stand between them."""
    facts = iter(_FACT.findall(printed))

    def follows(told: str) -> bool:
        if told[-1].isdigit():
            digits = len(told.partition(".")[2])
            return any(f"{float(one):.{digits}f}" == told for one in facts if one[-1].isdigit())
        return told in facts

    return all(map(follows, _FACT.findall(comment)))


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


MODULES = [
    *("blocks", "completion", "datasets", "engines.dask", "evaluation", "inspection", "metrics"),
    *("model_selection", "penalties", "theory", "thresholds"),
]


@pytest.mark.parametrize("module", ["lrml", *(f"lrml.{name}" for name in MODULES)])
def test_the_reference_lists_every_public_name(module: str) -> None:
    if "dask" in module:
        pytest.importorskip("distributed")
    listed: set[str] = set()
    for page in (ROOT / "docs").glob("api*.md"):
        for part in page.read_text("utf-8").split(".. currentmodule:: ")[1:]:
            name, *lines = part.partition("```")[0].splitlines()
            if name == module:
                listed |= {line.strip() for line in lines if re.fullmatch(r"   \w+", line)}
    library = import_module(module)
    public = {name for name in library.__all__ if callable(getattr(library, name))}
    assert listed == public


def test_every_name_of_the_library_has_an_example() -> None:
    """Examples of docstrings run as doctests; that of `save` loads."""
    library = import_module("lrml")
    names = {name: getattr(library, name) for name in library.__all__ if name != "load"}
    assert not [name for name, one in names.items() if callable(one) and ">>>" not in (one.__doc__ or "")]


_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors that hosts of repositories and the site make of the headings of a page."""
    titles = [re.sub(r"[^\w\s-]", "", title.lower()) for title in _HEADING.findall(page.read_text("utf-8"))]
    return {re.sub(r"\s", "-", title.strip()) for title in titles}


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if path.startswith("gallery/"):  # made of an example
            target = ROOT / "examples" / f"{Path(path).stem}.py"
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


PAGES = [
    page
    for page in ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))
    if page not in ("docs/gpu.md", "docs/serving.md") and _BLOCK.search((ROOT / page).read_text("utf-8"))
]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    needed = {"docs/cluster.md": ["distributed"], "docs/sklearn.md": ["sklearn.callback"]}
    for package in ("pandas", "jinja2", *needed.get(page, ())):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    if "cluster" in page:  # real processes are killed in tests/engines
        here = partial(import_module("lrml.engines.dask").connect, processes=False)
        monkeypatch.setattr("lrml.engines.dask.connect", here)
    pyplot.switch_backend("agg")
    blocks = _BLOCK.findall((ROOT / page).read_text("utf-8"))
    block, names = "", dict[str, Any]()

    def checked(*values: Any, **_: Any) -> None:
        line = block.splitlines()[sys._getframe(1).f_lineno - 1]
        printed = " ".join(map(str, values))
        if told := _TOLD.match(line):
            assert says(printed, told[1]), f"{line} gives {printed}"

    names["print"] = checked
    for block in blocks:
        is_download = ("bibtex" in block or "delicious" in block) and not os.environ.get("LRML_DATA_HOME")
        if not is_download and "mlflow" not in block:  # a package of others
            exec(compile(block, page, "exec"), names)
    pyplot.close("all")
    assert blocks
