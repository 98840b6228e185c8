"""Test the packages that a release would publish: ``python scripts/packages.py dist``.

Each, wheel and source, is installed into an environment with nothing but what it asks for, and pytest. There
the examples of all docstrings run, and a user's first commands, in an empty folder: nothing of this clone is
in reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

COMMANDS = (
    "lrml --version",
    "lrml datasets",
    "lrml datasets example articles.csv new.csv",
    "lrml tune articles.csv -o articles.lrml",
    "lrml predict articles.lrml new.csv -k 2",
    "lrml evaluate articles.lrml new.csv --json",
    "lrml fit yeast -o yeast.lrml",
    "lrml inspect yeast.lrml",
)


def check(package: Path, folder: Path) -> None:
    """Install a package, and do with it what a user would do."""
    venv.create(folder / "env", with_pip=True)
    bin_folder = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = str(bin_folder / "python")
    work = folder / "work"
    work.mkdir()

    def run(*command: str) -> None:
        print("  " + " ".join(command), flush=True)
        subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)

    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, str(package.resolve()), "pytest")
    where = [python, "-c", "import lrml, pathlib; print(pathlib.Path(lrml.__file__).parent)"]
    told = subprocess.run(where, cwd=work, check=True, capture_output=True, text=True)
    library = Path(told.stdout.strip())
    if not library.is_relative_to(folder.resolve()):
        sys.exit(f"{library} is tested, which {package.name} did not install.")
    if not (library / "py.typed").exists():
        sys.exit(f"{package.name} has no py.typed: type checkers will not look into it.")
    options = ["--doctest-modules", "--doctest-ignore-import-errors", "-q", "-p", "no:cacheprovider"]
    options += ["-o", "doctest_optionflags=NORMALIZE_WHITESPACE ELLIPSIS"]
    options += [f"--ignore={library / module}" for module in ("displays.py", "export.py")]  # they need extras
    run(python, "-m", "pytest", *options, str(library))
    for command in COMMANDS:
        name, *words = command.split()
        run(str(bin_folder / name), *words)


def main() -> None:
    """Check the one wheel and the one source package of a folder."""
    packages = sorted(Path(sys.argv[1]).glob("lrml-*"))
    if [package.suffix for package in packages] != [".whl", ".gz"]:
        sys.exit(f"{sys.argv[1]} has {len(packages)} packages, not one wheel and one source package.")
    for package in packages:
        print(package.name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            check(package, Path(folder))


if __name__ == "__main__":
    main()
