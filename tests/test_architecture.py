"""How large the library may be, and who may import what; the layers stand in pyproject.toml.

The ceilings may only fall. A commit that raises one says what the reader gets for it.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import Path

import pytest

import lrml

SOURCE = Path(lrml.__file__).parent
NUMERIC_HALF = {
    *("core", "solvers", "estimators", "engines", "theory", "completion", "text", "inspection", "displays"),
    *("metrics", "model_selection", "thresholds", "blocks", "_ranking", "_measures", "_door"),
}

CEILINGS = {
    "lines": 30_280,
    "files": 129,
    "lines of the numeric half": 18_720,
    "records": 112,
    "numeric constants": 139,
}
LONGEST = 500
# Names of classes that stand for two things.
AMBIGUOUS = {"Block", "Comparison", "Evaluation"}
# Functions with more than eight parameters, beside constructors.
MOST_PARAMETERS = 8
CROWDED = 11

# Other people's libraries that only one place knows.
ONE_DOOR = {
    "array_api_compat": "core/arrays.py",
    "dask": "engines/",
    "distributed": "engines/",
    "typer": "cli/",
    "starlette": "serving/",
    "jinja2": "report/",
}
OPEN = ("lrml.core.", "lrml.engines.dask")


@functools.cache
def sources():
    """Every file of the library: its name, its number of lines, and what stands in it, the module first."""
    return {
        path.relative_to(SOURCE).as_posix(): (len(text.splitlines()), tuple(ast.walk(ast.parse(text))))
        for path in sorted(SOURCE.rglob("*.py"))
        for text in [path.read_text(encoding="utf-8")]
    }


def nodes(kind):
    return [
        (name, node) for name, (_, inside) in sources().items() for node in inside if isinstance(node, kind)
    ]


def is_numeric(node):
    match node:
        case ast.Constant(value=int() | float() as value):
            return not isinstance(value, bool)
        case ast.UnaryOp():
            return is_numeric(node.operand)
        case ast.BinOp():
            return is_numeric(node.left) and is_numeric(node.right)
    return False


def is_record(node):
    return any(
        "dataclass" in ast.unparse(part) or ast.unparse(part) == "NamedTuple"
        for part in (*node.decorator_list, *node.bases)
    )


def counts():
    lines = Counter()
    for name, (n_lines, _) in sources().items():
        lines[name.split("/")[0].removesuffix(".py")] += n_lines
    return {
        "lines": lines.total(),
        "files": len(sources()),
        "lines of the numeric half": sum(lines[part] for part in NUMERIC_HALF),
        "records": sum(is_record(node) for _, node in nodes(ast.ClassDef)),
        "numeric constants": sum(
            isinstance(node, ast.Assign | ast.AnnAssign) and is_numeric(node.value)
            for _, module in nodes(ast.Module)
            for node in module.body
        ),
    }


@pytest.mark.parametrize("what", CEILINGS)
def test_there_is_no_more_of_it(what):
    assert counts()[what] <= CEILINGS[what]


def test_files_are_short():
    long = {name: n_lines for name, (n_lines, _) in sources().items() if n_lines > LONGEST}
    assert not long


def test_a_name_of_a_class_means_one_thing():
    names = Counter(node.name for _, node in nodes(ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} <= AMBIGUOUS


def test_few_functions_take_many_parameters():
    crowded = []
    for file, node in nodes(ast.FunctionDef):
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        own = [parameter for parameter in every if parameter.arg not in ("self", "cls")]
        if node.name != "__init__" and len(own) > MOST_PARAMETERS:
            crowded.append(f"{file}: {node.name}")
    assert len(crowded) <= CROWDED, crowded


def imports():
    """Each import, as (file, full name of a module or of something in it)."""
    for file, node in nodes(ast.Import):
        yield from ((file, alias.name) for alias in node.names)
    for file, node in nodes(ast.ImportFrom):
        assert node.level == 0, f"{file} has a relative import"
        yield from ((file, f"{node.module}.{alias.name}") for alias in node.names)


def test_a_package_is_imported_as_a_whole():
    """Its `__init__` says what others may use; only the modules of `OPEN` are public themselves."""
    modules = {file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in sources()}
    trespasses = []
    for file, name in imports():
        home, *inner = name.removeprefix("lrml.").split(".") if name.startswith("lrml.") else [""]
        if file.split("/")[0].removesuffix(".py") == home:
            continue
        private = any(part.startswith("_") and not part.startswith("__") for part in inner)
        inside = inner and f"{home}.{inner[0]}" in modules and not name.startswith(OPEN)
        if private or inside:
            trespasses.append(f"{file} imports {name}")
    assert not trespasses


def test_other_libraries_come_in_by_one_door():
    trespasses = [
        f"{file} imports {name}"
        for file, name in imports()
        for library, door in ONE_DOOR.items()
        if name.split(".")[0] == library and not file.startswith(door)
    ]
    assert not trespasses
