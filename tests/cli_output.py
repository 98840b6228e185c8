"""What the tests of the command line leave out of its output."""

from __future__ import annotations

import re


def without_progress(errors: str) -> str:
    """Leave out the lines of `lrml reproduce` that tell how far it is."""
    return re.sub(r"^lrml reproduce: \d+ of \d+ cells, .*\n", "", errors, flags=re.MULTILINE)
