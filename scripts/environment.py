"""Make a virtual environment, install lrml into it, and say what happens and how long it took.

Usage::

    python scripts/environment.py .venv '.[paper,tables]' --group test
    python scripts/environment.py .venv-oldest '.[paper,tables]' --group test --oldest

An environment that is there stays, with all else that was installed into it. If the variable UV names the
program uv, it does the work, in seconds; otherwise pip does, in minutes. This file runs on old versions of
Python too, so that it can say which one is needed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

# Written when the environment is whole: Python makes bin/python first, and may then fail to install pip.
MADE = ".made"


def run(command: list[str]) -> None:
    """Run a command that writes to our terminal."""
    print("  " + " ".join(command), flush=True)
    subprocess.run(command, check=True)


def make(folder: Path, uv: str | None) -> None:
    """Make an empty environment that has pip, in place of one that was never finished."""
    create = [uv, "venv", "--seed", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    run([*create, "--clear", str(folder)])
    (folder / MADE).touch()


def packages_of(name: str) -> list[str]:
    """Return the packages of a dependency group of pyproject.toml: pip knows --group from 25.1 on only."""
    import tomllib  # noqa: PLC0415 - Python 3.11 has it, and this file says so where it is older

    groups = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["dependency-groups"]
    found = [packages_of(one["include-group"]) if isinstance(one, dict) else [one] for one in groups[name]]
    return [package for packages in found for package in packages]


def install(requirement: str, packages: list[str], folder: Path, uv: str | None, oldest: bool) -> None:
    """Install lrml in editable mode, with the newest or the oldest versions of what it needs."""
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    if oldest and not uv:  # pip cannot choose the oldest versions
        run([*pip, "uv"])
        uv = str(folder / "bin" / "uv")
    if uv:
        pip = [uv, "pip", "install", "--python", python]
    if oldest:
        pip += ["--upgrade", "--resolution", "lowest-direct"]
    run([*pip, *packages, "--editable", requirement])


def main() -> None:
    """Make the environment if need be, and install what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("requirement", help="lrml and its extras, such as '.[report]'")
    parser.add_argument("--group", help="a dependency group of pyproject.toml, such as test")
    parser.add_argument("--oldest", action="store_true", help="take the lowest allowed versions")
    options = parser.parse_args()
    found = "{}.{}".format(*sys.version_info)
    if sys.version_info < (3, 11):  # noqa: UP036 - the caller may have any Python
        sys.exit(f"lrml needs Python 3.11 or newer, and this is {found}. Set PYTHON=python3.x.")
    uv = os.environ.get("UV")
    started = time.monotonic()
    print(
        f"Setting up {options.folder} (Python {found}) for {options.group or options.requirement}: with "
        + ("uv, less than a minute" if uv else "pip, one to several minutes (with uv, less than one)")
        + ", most of it to download packages.",
        flush=True,
    )
    try:
        if not (options.folder / MADE).exists():
            make(options.folder, uv)
        packages = packages_of(options.group) if options.group else []
        install(options.requirement, packages, options.folder, uv, options.oldest)
    except (OSError, subprocess.CalledProcessError) as error:
        remedy = " `make UV= …` takes pip instead of uv." if uv else ""
        sys.exit(f"{options.folder} is not set up: {error}.{remedy} The next call starts again.")
    except KeyboardInterrupt:
        sys.exit(f"{options.folder} is not set up: interrupted. The next call starts again.")
    print(f"{options.folder} is ready after {time.monotonic() - started:.0f} s.", flush=True)


if __name__ == "__main__":
    main()
