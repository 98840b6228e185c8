"""A static check of portable modules: what NumPy takes and the Array API standard, or a GPU, does not.

It reads the source and finds, outside of host functions and of branches that hold NumPy arrays only,

``size``
    ``x.size``, which is a method in torch; use ``math.prod(x.shape)``;
``device``
    ``xp.zeros(…)`` and other creation functions without ``device=``: they would create on the default device;
``out``
    ``out=`` in a function of ``xp``;
``numpy``
    a call of NumPy, which copies arrays of a device to the host, or fails;
``method``
    methods of NumPy's arrays, such as ``x.sum(axis=0)`` and ``x.astype(…)``; use ``xp.sum(x, axis=0)``.

A branch holds NumPy arrays only if its test says ``is_host(…)``, ``place.is_host``, ``is_sparse(…)`` or
``isinstance(…, np.ndarray)``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

_CREATION = {"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros"}
_METHODS = {
    *("all", "any", "argmax", "argmin", "argsort", "astype", "clip", "cumsum", "dot", "flatten", "max"),
    *("mean", "min", "nonzero", "prod", "ravel", "repeat", "reshape", "round", "sort", "squeeze", "std"),
    *("sum", "take", "tolist", "transpose", "var"),
}
# Owners of functions and methods by the same names: ``math.prod``, and ``sum`` of `lrml.core.rows.Rows`.
_NO_ARRAYS = {"math", "rows"}
# They touch no arrays.
_HARMLESS_NUMPY = {"dtype", "errstate", "finfo"}


class Finding(NamedTuple):
    """What is wrong, and where."""

    line: int
    rule: str
    text: str


def findings(source: str, host_functions: Collection[str] = ()) -> list[Finding]:
    """Check a module; functions and classes by these names, and what is in them, hold NumPy arrays only."""
    return sorted(set(_walk(ast.parse(source), host_functions)))


def function_names(source: str) -> set[str]:
    """Names of all functions, methods and classes of a module."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {node.name for node in found}


def _walk(node: ast.AST, host_functions: Collection[str]) -> Iterator[Finding]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in host_functions:
        return
    yield from _found_at(node)
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if isinstance(node, ast.If | ast.IfExp) and name == _host_branch(node.test):
            continue
        for child in children:
            if isinstance(child, ast.AST):
                yield from _walk(child, host_functions)
            if isinstance(child, ast.If) and _host_branch(child.test) == "orelse" and _leaves(child.body):
                break  # arrays of a device have left: the rest of the block is the branch of the host


def _found_at(node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Attribute) and node.attr == "size":
        yield Finding(node.lineno, "size", ast.unparse(node))
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    owner, name = node.func.value, node.func.attr
    given = {keyword.arg for keyword in node.keywords}
    if _is_numpy(owner):
        if name not in _HARMLESS_NUMPY:
            yield Finding(node.lineno, "numpy", ast.unparse(node.func))
    elif _is_namespace(owner):
        if name in _CREATION and not {"device", "copy"} & given:
            yield Finding(node.lineno, "device", ast.unparse(node.func))
        if "out" in given:
            yield Finding(node.lineno, "out", ast.unparse(node.func))
    elif name in _METHODS and not _holds_no_device_array(owner):
        yield Finding(node.lineno, "method", ast.unparse(node.func))


def _holds_no_device_array(owner: ast.expr) -> bool:
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "to_numpy"
    return ast.unparse(owner).rpartition(".")[2] in _NO_ARRAYS


def _root(node: ast.expr) -> ast.expr:
    """What stands first in ``root.a.b``."""
    while isinstance(node, ast.Attribute) and node.attr != "xp":
        node = node.value
    return node


def _is_numpy(owner: ast.expr) -> bool:
    root = _root(owner)
    return isinstance(root, ast.Name) and root.id in ("np", "numpy", "sp", "scipy")


def _is_namespace(owner: ast.expr) -> bool:
    """Whether functions of the standard are taken from this: xp, place.xp, namespace(x), xp.linalg."""
    root = _root(owner)
    if isinstance(root, ast.Call):
        return isinstance(root.func, ast.Name) and root.func.id == "namespace"
    return (isinstance(root, ast.Attribute) and root.attr == "xp") or (
        isinstance(root, ast.Name) and root.id == "xp"
    )


def _host_branch(test: ast.expr) -> str:
    """Name of the branch, "body" or "orelse", that holds NumPy arrays only; "" if there is none."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return "body" if any(_host_branch(value) == "body" for value in test.values) else ""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return {"body": "orelse", "orelse": "body"}.get(_host_branch(test.operand), "")
    if isinstance(test, ast.Call) and ast.unparse(test).endswith(", np.ndarray)"):
        return "body"
    says = test.func if isinstance(test, ast.Call) else test
    word = says.id if isinstance(says, ast.Name) else says.attr if isinstance(says, ast.Attribute) else ""
    return "body" if word in ("is_host", "is_sparse") else ""


def _leaves(body: list[ast.stmt]) -> bool:
    last = body[-1]
    return _leaves(last.body) if isinstance(last, ast.With) else isinstance(last, ast.Return | ast.Raise)
