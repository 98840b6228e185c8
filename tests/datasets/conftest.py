"""Files with a content of one's own."""

from __future__ import annotations

import pandas as pd
import pytest


@pytest.fixture
def write(tmp_path):
    """Write a text, bytes or a frame to a file, and return its path."""

    def write_file(content, name="toys.csv"):
        path = tmp_path / name
        if isinstance(content, pd.DataFrame):
            content.to_parquet(path) if name.endswith("parquet") else content.to_csv(path, index=False)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
