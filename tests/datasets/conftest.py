"""What the tests of the readers share."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from lrml.datasets import _lines


@pytest.fixture(scope="session")
def limits():
    """Change limits of the readers of text: ``with limits(_CHUNK_BYTES=40): ...``."""

    @contextmanager
    def change(**values):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in values.items():
                patch.setattr(_lines, name, value)
            yield

    return change
