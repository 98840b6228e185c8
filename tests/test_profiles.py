"""Property tests follow the profile that conftest.py loads, and none of them goes its own way."""

import re
from pathlib import Path

from hypothesis import settings


def test_the_test_command_draws_the_same_examples_every_time():
    profile = settings.get_profile("repeatable")
    assert (profile.derandomize, profile.database, profile.deadline) == (True, None, None)


def test_the_random_profile_draws_others():
    profile = settings.get_profile("random")
    assert (profile.derandomize, profile.deadline) == (False, None)


def test_no_test_undoes_the_profile():
    own = re.compile(r"derandomize=|deadline=(?!None)|\bdatabase=")
    folder = Path(__file__).parent
    found = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in sorted(folder.rglob("test_*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "settings(" in line and own.search(line)
    ]
    assert found == []
