"""The library computes what it computed on the day of recording (see `cases`)."""

from __future__ import annotations

import json

import pytest

from golden import cases, runs
from golden.record import GOLDEN

RECORDED = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
pytestmark = pytest.mark.filterwarnings("ignore")


def check(name, found):
    used = runs.usage(name, runs.rounded(found), RECORDED[name])
    moved = {
        key: f"{part:.3g} of its tolerance: {runs.rounded(found).get(key)} was {RECORDED[name].get(key)}"
        for key, part in used.items()
        if not part <= 1
    }
    assert not moved


@pytest.mark.parametrize("case", cases.FITS, ids=lambda case: case.name)
def test_fit(case):
    check(case.name, runs.fit_numbers(case))


@pytest.mark.parametrize("case", cases.SEARCHES, ids=lambda case: case.name)
def test_search(case):
    check(case.name, runs.search_numbers(case))


@pytest.mark.parametrize("name", runs.PLAIN)
def test_what_is_not_a_fit(name):
    check(name, runs.PLAIN[name]())


def test_the_command_line(tmp_path):
    check("command line", runs.scenario_numbers(tmp_path))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return runs.reproduce_numbers(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("table", cases.TABLES)
def test_the_tables_of_reproduce(table, tables):
    check(f"reproduce {table}", tables[table])


def test_nothing_recorded_is_left_out():
    names = [case.name for case in (*cases.FITS, *cases.SEARCHES)]
    assert len(set(names)) == len(names)
    tables = (f"reproduce {table}" for table in cases.TABLES)
    assert {*names, *runs.PLAIN, "command line", *tables} == RECORDED.keys()
