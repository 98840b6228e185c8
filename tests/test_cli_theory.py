"""``lrml theory`` as a real process."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from forking import run_program
from lrml import LRML, save
from lrml.datasets import load_yeast


def lrml(*arguments):
    return run_program("theory", *arguments)


def test_json_holds_the_norms_of_the_model_and_every_bound():
    run = lrml("yeast", "--theta", "3", "--alpha", "20", "--json", "--draws", "4")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    X, Y = load_yeast().train
    model = LRML(3, 20.0, fit_intercept=False).fit(normalize(X), Y)
    s = model.singular_values_
    assert found["model"] == {"theta": 3, "alpha": 20.0, "ridge": 0.0}
    assert found["facts"]["trace_norm"] == pytest.approx(s.sum(), rel=1e-6)
    assert found["facts"]["tail_sum"] == pytest.approx(s[3:].sum(), rel=1e-6)
    scores = normalize(X) @ model.coef_.T
    assert found["facts"]["r"] == pytest.approx(np.mean(np.sum(scores**2, axis=1)), rel=1e-6)
    for row in found["bounds"]:
        assert row["value"] == pytest.approx(sum(row["terms"].values()))


def test_the_table():
    run = lrml("yeast", "--draws", "4")
    assert run.returncode == 0, run.stderr
    assert "Theorem 2" in run.stdout
    assert "…" not in run.stdout


def test_a_model_file_in_place_of_a_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("LRML_DATA_HOME", str(tmp_path))  # the embedded data, as below, not a copy of Mulan's
    X, Y = load_yeast().train
    model = LRML(3, 20.0, fit_intercept=False).fit(X, Y)
    save(model, tmp_path / "yeast.lrml")
    fitted = lrml("yeast", "--raw", "--theta", "3", "--alpha", "20", "--json", "--draws", "4")
    loaded = lrml("yeast", "--model", tmp_path / "yeast.lrml", "--json", "--draws", "4")
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout) == json.loads(fitted.stdout)
    alone = lrml(tmp_path / "yeast.lrml", "--json")
    assert alone.returncode == 0, alone.stderr
    facts, all_facts = json.loads(alone.stdout)["facts"], json.loads(fitted.stdout)["facts"]
    assert facts == pytest.approx({key: all_facts[key] for key in facts}, rel=1e-6)
    assert "lrml theory DATA --model" in " ".join(lrml(tmp_path / "yeast.lrml").stdout.split())


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "bad.lrml").write_bytes(b"PK\x03\x04 and so on")
    run = lrml("yeast", "--model", tmp_path / "bad.lrml")
    assert run.returncode != 0
    assert "no model file" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "'nothing' is neither"),
        (("yeast", "--theta", "many"), "'--theta': 'many'"),
        (("yeast", "--theta", "99", "--alpha", "1"), "theta is 99"),
        (("yeast", "--alpha", "-1"), "alpha"),
        (("yeast", "--draws", "0"), "n_draws"),
    ],
)
def test_wrong_usage_is_named(arguments, message):
    run = lrml(*arguments)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


def test_missing_features_are_counted(tmp_path):
    path = tmp_path / "holes.csv"
    path.write_text("a,b,red\n1,2,0\n,3,1\n4,,1\n5,1,0\n", encoding="utf-8")
    run = lrml(path, "--labels", "red")
    assert (run.returncode, run.stdout) == (2, "")
    assert "2 missing values" in run.stderr
