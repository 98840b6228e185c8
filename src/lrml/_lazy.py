"""Names of a package that are imported on first use (PEP 562), so that start-up is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], submodules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to str
        The module that defines each public name.
    submodules : tuple of str, default=()
        Modules of the package that are public names as well.
    """

    def load(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
        elif name in submodules:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)  # found directly from now on
        return value

    def names() -> list[str]:
        special = {name for name in vars(sys.modules[package]) if name.startswith("__")}
        return sorted({*special, *homes, *submodules})

    return load, names
