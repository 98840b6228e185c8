from __future__ import annotations

from itertools import pairwise

import pytest

from lrml.datasets import describe
from lrml.experiments import LogGrid, Spec, load_spec, published_table1


def test_grid_is_ascending_and_keeps_its_ends():
    values = LogGrid(0.1, 1000.0, 13).values
    assert len(values) == 13
    assert (values[0], values[-1]) == pytest.approx((0.1, 1000.0), rel=1e-15)
    ratios = [right / left for left, right in pairwise(values)]
    assert ratios == pytest.approx([10 ** (1 / 3)] * 12)


def test_spec_survives_a_round_trip_through_plain_data():
    spec = load_spec("yeast")
    assert Spec.from_dict(spec.as_dict()) == spec


@pytest.mark.parametrize("change", [{"alhpa": 1.0}, {"seed": 0}])
def test_an_unknown_key_is_an_error(change):
    with pytest.raises(TypeError, match=next(iter(change))):
        Spec.from_dict(load_spec("yeast").as_dict() | change)


def test_an_unknown_dataset_has_no_published_row():
    with pytest.raises(ValueError, match=r"bibtex, delicious, yeast, corel5k, got 'iris'"):
        published_table1("iris")


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["bibtex", "delicious", "yeast", "corel5k"])
def test_published_statistics_are_those_of_the_data(name, mulan):
    found, published = describe(mulan(name)).as_dict(), published_table1(name)
    for key in ("instances", "attributes", "labels", "distinct_label_sets"):
        assert str(found[key]) == published[key]
    for key in ("cardinality", "density"):
        assert f"{found[key]:.3f}" == published[key]
