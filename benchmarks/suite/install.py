"""Install every peer by itself; one that fails is noted in the environment and does not stop the others.

python benchmarks/suite/install.py benchmarks/requirements.txt
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

FAILURES = Path(sys.prefix) / "peers-left-out.json"


def requirements(text: str) -> list[str]:
    """Return the requirements of a pip file, one per line, without comments."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def name_of(requirement: str) -> str:
    """Return the package that a requirement such as ``himalaya>=0.4,<0.5`` is about."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()


def reason_of(output: str) -> str:
    """Return pip's first error line, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("ERROR:")), lines[-1] if lines else "no message")


def main(path: str) -> None:
    failures = {}
    for requirement in requirements(Path(path).read_text(encoding="utf-8")):
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            requirement,
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        print(f"{requirement}: {'installed' if done.returncode == 0 else 'left out'}", flush=True)
        if done.returncode:
            failures[name_of(requirement)] = reason_of(done.stdout)
    FAILURES.write_text(json.dumps(failures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
