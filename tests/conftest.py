"""Fixtures that several test folders share."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lrml.datasets import MultiLabelDataset, load_mulan

# Read once: some tests change the environment variable.
_DATA_HOME = os.environ.get("LRML_DATA_HOME")
_SKIP_REASON = "set LRML_DATA_HOME to a folder with the Mulan files"


def _data_home() -> Path:
    if not _DATA_HOME or not Path(_DATA_HOME).is_dir():
        pytest.skip(_SKIP_REASON)
    return Path(_DATA_HOME)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real_data") is not None:
        _data_home()


@pytest.fixture(scope="session")
def mulan_home() -> Path:
    """The folder with Mulan's files; the test is skipped if there is none."""
    return _data_home()


@pytest.fixture(scope="session")
def mulan(mulan_home: Path) -> Callable[[str], MultiLabelDataset]:
    """A loader of Mulan's datasets that reads each only once: ``mulan("yeast")``."""

    @cache
    def load(name: str) -> MultiLabelDataset:
        return load_mulan(name, data_home=mulan_home)

    return load
