"""Messages stay readable whatever a file, a frame or a caller calls its columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lrml import LRML
from lrml._shown import did_you_mean
from lrml.datasets import read_dataset

LONG = "long name " * 7000
X, Y = np.arange(12.0).reshape(4, 3), np.array([[0, 1], [1, 0], [1, 1], [0, 0]], np.uint8)


def message_of(call, *args, **options):
    with pytest.raises((ValueError, TypeError)) as caught:
        call(*args, **options)
    return str(caught.value)


def check(message, words="long name long"):
    assert words in message
    assert len(message) < 800


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ("word,0\n", {"labels": ["y"]}),
        ("inf,0\n", {"labels": ["y"]}),
        ("2,0\n", {"labels": [LONG]}),
        ("2,0\n", {"labels": ["y", LONG + "?"]}),
        ("2,0\n", {"labels": ["nothing like it"]}),
        ("2,0\n", {"labels": ["y"], "ignore": [LONG, LONG]}),
        ("2,0\n", {"labels": ["y"], "features": [LONG], "ignore": [LONG]}),
        ("2,0\n", {"labels": LONG}),
        (",0\n", {"tags": LONG}),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(tmp_path, kind, rows, options):
    if kind == "csv":
        path = tmp_path / "toy.csv"
        path.write_text(f"{LONG},y\n{rows}")
    else:
        path = tmp_path / "toy.parquet"
        cell = rows.split(",")[0]
        numbers = [float(cell)] if cell in ("inf", "2") else [cell]
        pq.write_table(pa.table({LONG: numbers, "y": [0]}), path)
    check(message_of(read_dataset, path, **options))


@pytest.mark.parametrize("name", ["toy.arff", "toy.csv"])
def test_real_targets_are_sent_to_their_estimator(tmp_path, name):
    head = "@attribute a real\n@attribute b real\n@data\n" if "arff" in name else "a,b\n"
    (tmp_path / name).write_text(f"{head}1,2.5\n")
    check(message_of(read_dataset, tmp_path / name, labels=["b"]), "SpectralRegressorCV")


def test_frames():
    frame = pd.DataFrame(Y, columns=["p", LONG])
    check(message_of(LRML().fit, X, pd.DataFrame(Y, columns=[LONG, LONG])))
    check(message_of(LRML().fit, X, frame, observed=pd.DataFrame(Y == 0, columns=["p", "q"])))
    check(message_of(LRML().fit(X, frame).score, X, frame[[LONG, "p"]]))
    check(message_of(LRML().fit, X, np.array([[LONG, "0"]] * 4, dtype=object)))
    check(message_of(LRML(solver=LONG).fit, X, Y))
    check(message_of(LRML(alpha=LONG).fit, X, Y))
    check(message_of(LRML(threshold=[LONG]).fit, X, Y))
    check(message_of(LRML().fit, X, Y, sample_weight=[LONG] * 4))


def test_a_part_of_a_name_is_enough_to_suggest_it():
    tags = ["uitoolkit::gtk", "role::program", "interface::x11"]
    assert "uitoolkit::gtk" in did_you_mean("GTK", tags)
    assert "role::program" in did_you_mean("rolle::program", tags)  # a spelling comes before a part
    assert did_you_mean("", tags) == did_you_mean("qt", tags) == ""
