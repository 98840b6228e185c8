from __future__ import annotations

import gzip
import importlib.util
import io
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lrml.datasets import load_yeast

DATA = resources.files("lrml.datasets").joinpath("data")
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_yeast.py"


@pytest.fixture(scope="module")
def make_yeast():
    spec = importlib.util.spec_from_file_location("make_yeast", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def csv_of(dataset):
    """Write a dataset as river ships it: test rows first, decimals without trailing zeros."""
    lines = [",".join(dataset.feature_names + dataset.label_names)]
    for X, Y in (dataset.test, dataset.train):
        for x, y in zip(X.tolist(), Y.tolist(), strict=True):
            lines.append(
                ",".join([f"{value:.6f}".rstrip("0").rstrip(".") for value in x] + [str(v) for v in y])
            )
    return "\n".join(lines) + "\n"


def test_types_names_and_split():
    yeast = load_yeast()
    assert yeast.name == "yeast"
    assert yeast.shape == (2417, 103, 14)
    assert (yeast.X.dtype, yeast.Y.dtype) == (np.float64, np.uint8)
    assert yeast.n_train == 1500
    assert yeast.feature_names[0] == "Att1"
    assert yeast.feature_names[-1] == "Att103"
    assert yeast.label_names == tuple(f"Class{i}" for i in range(1, 15))
    assert "river 0.26.1" in yeast.provenance


def test_first_values_of_either_part():
    # Read off the two ARFF files.
    yeast = load_yeast()
    assert_array_equal(yeast.train[0][0, :4], [0.0937, 0.139771, 0.062774, 0.007698])
    assert_array_equal(yeast.train[1][0], [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    assert_array_equal(yeast.test[0][0, :4], [0.004168, -0.170975, -0.156748, -0.142151])
    assert_array_equal(yeast.test[1][0], [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0])


@pytest.mark.real_data
def test_equals_the_arff_files_bit_for_bit(mulan):
    embedded, original = load_yeast(), mulan("yeast")
    assert embedded.X.tobytes() == original.X.tobytes()
    assert embedded.Y.tobytes() == original.Y.tobytes()
    assert embedded.feature_names == original.feature_names
    assert embedded.label_names == original.label_names
    assert embedded.n_train == original.n_train


def test_each_call_returns_its_own_arrays():
    load_yeast().X[:] = 0
    assert load_yeast().X.any()


def test_licence_names_source_and_holder():
    text = DATA.joinpath("yeast.LICENSE").read_text("utf-8")
    for part in ("river 0.26.1", "BSD 3-Clause License", "Copyright (c) 2020, the river developers", "Mulan"):
        assert part in text


def test_script_reproduces_the_embedded_arrays(make_yeast):
    arrays = make_yeast.convert(gzip.compress(csv_of(load_yeast()).encode()))
    with np.load(io.BytesIO(DATA.joinpath("yeast.npz").read_bytes()), allow_pickle=False) as embedded:
        assert list(arrays) == list(embedded)
        for name in embedded:
            assert arrays[name].dtype == embedded[name].dtype
            assert_array_equal(arrays[name], embedded[name])


def test_script_writes_the_same_bytes_whenever_it_runs(make_yeast, tmp_path):
    arrays = {"a": np.arange(5, dtype="<u2"), "b": np.eye(2)}
    make_yeast.write_npz(tmp_path / "one.npz", arrays)
    make_yeast.write_npz(tmp_path / "two.npz", arrays)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_script_rejects_values_that_millionths_cannot_hold(make_yeast):
    text = csv_of(load_yeast()).replace("0.0937,", "0.09370001,", 1)
    with pytest.raises(ValueError, match="more than six decimals"):
        make_yeast.convert(gzip.compress(text.encode()))


def test_script_takes_the_file_out_of_the_wheel(make_yeast, tmp_path):
    with zipfile.ZipFile(tmp_path / "river.whl", "w") as wheel:
        wheel.writestr("river/datasets/yeast.csv.gz", b"content")
    assert make_yeast.read_source(tmp_path / "river.whl") == b"content"


def test_script_rejects_another_source(make_yeast, tmp_path, monkeypatch, capsys):
    source, output = tmp_path / "yeast.csv.gz", tmp_path / "yeast.npz"
    source.write_bytes(gzip.compress(b"Att1\n1\n"))
    monkeypatch.setattr("sys.argv", ["make_yeast.py", str(source), "--output", str(output)])
    with pytest.raises(SystemExit):
        make_yeast.main()
    assert "must have sha256 2969cb4b" in capsys.readouterr().err
    assert not output.exists()
