from __future__ import annotations

import json

import pytest

from lrml.experiments._encoding import to_csv, to_json


def test_csv_has_empty_cells_for_none_and_ten_digits():
    assert to_csv([{"a": None, "b": 1 / 3}, {"a": 2, "b": 10.0}]) == b"a,b\n,0.3333333333\n2,10.0\n"


def test_json_rounds_at_every_depth_and_refuses_nan():
    assert json.loads(to_json({"a": [0.1 + 0.2, {"b": (1 / 3,)}]})) == {"a": [0.3, {"b": [0.3333333333]}]}
    with pytest.raises(ValueError, match="JSON"):
        to_json(float("nan"))
