"""Fixtures that several test folders share."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

import namespaces
from lrml.core.arrays import Place
from lrml.datasets import Dataset, fetch_mulan

# Read once: some tests change the environment variable.
_DATA_HOME = os.environ.get("LRML_DATA_HOME")
_SKIP_REASON = "set LRML_DATA_HOME to a folder with the Mulan files"

# Nothing depends on how busy the machine is. The test command draws the same examples every time;
# --hypothesis-profile=random draws others, and three times as many where a test does not say how many
# (`make test-random`). No test sets these for itself.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _UNHURRIED, derandomize=True, database=None, max_examples=30)
settings.register_profile("random", _UNHURRIED, derandomize=False, print_blob=True)
# `make fuzz` takes minutes: thousands of examples of what is read from others, drawn from its seed.
settings.register_profile("fuzz", _UNHURRIED, max_examples=3000, database=None, print_blob=True)
# For mutation tests, where it only matters that a test fails, and soon.
_UNSHRUNK = (Phase.explicit, Phase.generate)
settings.register_profile("unshrunk", _UNHURRIED, derandomize=True, database=None, phases=_UNSHRUNK)
settings.load_profile("repeatable")


gc.disable()  # while tests are collected: what they import stays


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples whichever modules are loaded.

    Hypothesis also tries numbers that it finds in the sources of loaded modules, and which ones are loaded
    depends on the order of tests, that is, on the clock.
    """
    if config.getoption("--hypothesis-profile", default=None) not in ("random", "fuzz"):
        assert hasattr(providers, "is_local_module_file"), "Hypothesis has renamed it: look for the new name"
        providers.is_local_module_file = lambda path: False


def _data_home() -> Path:
    if not _DATA_HOME or not Path(_DATA_HOME).is_dir():
        pytest.skip(_SKIP_REASON)
    return Path(_DATA_HOME)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real_data") is not None:
        _data_home()


@pytest.fixture(scope="session", autouse=True)
def _no_network_and_no_user_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep all tests, and the processes that they start, off the network and out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRML_CACHE", str(tmp_path_factory.mktemp("cache")))
        for variable in ("http_proxy", "https_proxy"):
            patch.setenv(variable, "http://127.0.0.1:9")  # nobody listens there
        patch.setenv("no_proxy", "127.0.0.1,localhost")
        yield


@pytest.fixture(scope="session", params=namespaces.places())
def place(request: pytest.FixtureRequest) -> Place:
    """A namespace and a device; the test runs in each of those that are installed (see `namespaces`)."""
    return namespaces.place_named(request.param)


@pytest.fixture(scope="session")
def mulan_home() -> Path:
    """The folder with Mulan's files; the test is skipped if there is none."""
    return _data_home()


@pytest.fixture(scope="session")
def mulan(mulan_home: Path) -> Callable[[str], Dataset]:
    """A loader of Mulan's datasets that reads each only once: ``mulan("yeast")``."""

    @cache
    def load(name: str) -> Dataset:
        return fetch_mulan(name, data_home=mulan_home, download=False)

    return load


@pytest.fixture(scope="session")
def toy_files() -> dict[str, bytes]:
    """A tiny dataset in Mulan's format; its training set is long enough to arrive in several pieces."""
    header = "@relation toy\n@attribute a numeric\n@attribute p {0,1}\n@data\n"
    texts = {
        "toy-train.arff": "% a comment\n" * 20_000 + header + "{0 1.5}\n{1 1}\n",
        "toy-test.arff": header + "{0 2,1 1}\n",
        "toy.xml": '<labels><label name="p"></label></labels>',
    }
    return {name: text.encode() for name, text in texts.items()}
