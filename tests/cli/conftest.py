"""Commands in this process."""

from __future__ import annotations

import json

import pytest

from lrml.cli import main


@pytest.fixture
def call(capsys):
    """Run a command in this process, and expect its exit code; return what it prints, and its errors.

    With ``--json`` the first is an object, or a list of them for `lrml predict`.
    """

    def run(*arguments, code=0):
        assert main(list(map(str, arguments))) == code
        out, err = capsys.readouterr()
        if code == 0 and "--json" in arguments:
            rows = out.splitlines() if arguments[0] == "predict" and "-o" not in arguments else None
            out = json.loads(out) if rows is None else [json.loads(row) for row in rows]
        return out, err

    return run
