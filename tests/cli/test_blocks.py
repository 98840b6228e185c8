"""`lrml fit --blocks` as real processes on real files, also processes that are killed."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import lrml
from cli.programs import program, tagged_texts, write_csv
from forking import CAN_FORK, Program
from low_rank_data import make_low_rank_labels
from lrml.cli import main
from lrml.datasets import read_dataset, write_dataset
from lrml.storage import read_header


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One file of rows, the same rows in two files and as a table, and a model of all rows at once."""
    folder = tmp_path_factory.mktemp("blocks")
    dataset = make_low_rank_labels(150, 12, 6, rank=2, density=0.4, random_state=0)
    write_dataset(dataset, folder / "all.xmc")
    header, *rows = (folder / "all.xmc").read_text().splitlines()
    assert header == "150 12 6"
    for name, some in (("part-1", rows[:80]), ("part-2", rows[80:])):
        (folder / f"{name}.xmc").write_text("\n".join([f"{len(some)} 12 6", *some, ""]))
    X, Y = (pd.DataFrame(matrix.toarray()) for matrix in (dataset.X, sparse.csr_array(dataset.Y)))
    X.columns, Y.columns = [f"x{k}" for k in range(12)], [f"tag{k}" for k in range(6)]
    pd.concat([X, Y], axis=1).to_csv(folder / "all.csv", index=False)
    run = program("fit", folder / "all.xmc", "--theta", 2, "-o", folder / "whole.lrml")
    assert run.returncode == 0, run.stderr
    return folder


def fit(folder, name, *arguments, command="fit"):
    out = folder / f"{name}.lrml"
    run = program(command, *arguments, "-o", out, "--json", "--force")
    assert run.returncode == 0, run.stderr
    return lrml.load(out), json.loads(run.stdout), run.stderr


@pytest.mark.parametrize(
    ("sources", "options", "blocks"),
    [
        (["all.xmc"], ["--blocks", "--read", "rows=40"], 4),
        (["part-1.xmc", "part-2.xmc"], ["--blocks", "--read", "rows=40"], 4),
        (["all.csv"], ["--labels", -6, "--blocks"], 1),
    ],
)
def test_a_fit_in_blocks_is_that_of_all_rows(folder, sources, options, blocks):
    paths = [folder / name for name in sources]
    model, found, told = fit(folder, "blocks", *options, "--theta", 2, *paths)
    assert (found["rows"], found["blocks"]) == (150, blocks)
    assert "12 features, 6 labels" in told
    summary = read_header(folder / "blocks.lrml")["summary"]
    assert (summary["rows"], summary["blocks"]) == (150, blocks)
    assert summary["data"] == sources[0][:-4]
    whole = lrml.load(folder / "whole.lrml")
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    names = "tag" if sources == ["all.csv"] else "label"
    assert list(model.classes_) == [f"{names}{k}" for k in range(6)]
    assert (sources == ["all.csv"]) == hasattr(model, "feature_names_in_")
    run = program("predict", folder / "blocks.lrml", paths[0], "--json", "-k", 6)
    assert run.returncode == 0, run.stderr
    scores = whole.decision_function(read_dataset(folder / "all.xmc").X)
    for line, expected in zip(run.stdout.splitlines(), scores, strict=len(sources) == 1):
        found = json.loads(line)
        columns = [int(name.removeprefix(names)) for name in found["tags"]]
        np.testing.assert_allclose(found["scores"], expected[columns], atol=1e-5)


def test_a_checkpoint_serves_other_models_of_the_same_file_only(folder):
    kept = ["--blocks", "--read", "rows=40", "--checkpoint", folder / "sums"]
    fit(folder, "kept", folder / "all.xmc", *kept)
    model, found, told = fit(folder, "kept", folder / "all.xmc", *kept, "--theta", 2)
    assert f"all 4 blocks are in {folder / 'sums'}" in told
    assert (found["rows"], found["blocks"]) == (150, 4)
    np.testing.assert_allclose(model.coef_, lrml.load(folder / "whole.lrml").coef_, atol=1e-5)
    for other in (["part-1.xmc", *kept], ["all.xmc", "--blocks", "--read", "rows=41", *kept[3:]]):
        run = program("fit", folder / other[0], *other[1:], "-o", folder / "other.lrml")
        assert run.returncode == 2
        assert "other rows" in run.stderr
    run = program("tune", folder / "all.xmc", *kept, "--method", "ml-fro", "-o", folder / "other.lrml")
    assert run.returncode == 2
    assert "of a search" in run.stderr
    assert not (folder / "other.lrml").exists()


def test_a_search_in_blocks(folder):
    given = [folder / "all.xmc", "--method", "ml-fro", "--alphas", "0.1,1,10"]
    model, found, _ = fit(folder, "tuned", *given, "--blocks", "--read", "rows=40", command="tune")
    assert (found["rows"], found["blocks"]) == (150, 4)
    whole, other, _ = fit(folder, "tuned", *given, command="tune")
    assert model.best_params_ == whole.best_params_
    assert list(model.classes_) == list(whole.classes_) == [f"label{k}" for k in range(6)]
    np.testing.assert_allclose(found["held_out_score"], other["held_out_score"], atol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(np.eye(12)), whole.decision_function(np.eye(12)), atol=1e-5
    )


def test_a_cluster_finds_the_same(folder):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    options = {"n_workers": 1, "processes": False, "protocol": "tcp", "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        paths = [folder / "part-1.xmc", folder / "part-2.xmc"]
        model, found, _ = fit(folder, "dask", *paths, "--dask", cluster.scheduler_address, "--theta", 2)
    assert found["rows"] == 150
    np.testing.assert_allclose(model.coef_, lrml.load(folder / "whole.lrml").coef_, atol=1e-5)
    run = program("fit", folder / "all.xmc", "--dask", "nonsense://x", "-o", folder / "none.lrml")
    assert run.returncode == 2
    assert "'nonsense://x'" in run.stderr


def test_wrong_usage(folder, monkeypatch, capsys):
    write_csv(folder / "texts.csv", *tagged_texts(20))
    write_dataset(lrml.datasets.load_yeast(), folder / "split.arff")
    (folder / "plain.csv").write_text("a,b\n1,2\n")
    (folder / "sub").mkdir()
    for name in ("1.csv", "2.csv", "README.md", ".hidden"):
        (folder / "sub" / name).write_text("a,b\n1,2\n")
    monkeypatch.chdir(folder)
    for arguments, message in (
        (["tune", "all.xmc", "--blocks", "--loss", "logistic"], "loss"),
        (["fit", "all.xmc", "--blocks", "--read", "rows=0"], "rows is 0"),
        (["fit", "all.xmc", "--checkpoint", "x"], "--checkpoint .*--blocks"),
        (["fit", "all.xmc", "none.xmc", "--blocks"], "'none.xmc'"),
        (["fit", "all.xmc", "--blocks", "--checkpoint", "none/x"], "--checkpoint: .*'none'"),
        (["fit", "all.xmc", "--blocks", "--checkpoint", "new.lrml"], "--checkpoint: .*new.lrml"),
        (["fit", "all.xmc", "--blocks", "--checkpoint", "all.xmc"], "--checkpoint: .*all.xmc"),
        (["fit", "all.xmc", "--blocks", "--checkpoint", "all.csv"], "all.csv"),
        (["fit", "texts.csv", "--blocks"], "has texts"),
        (["fit", "all.xmc", "--blocks", "--kernel", "rbf"], "kernel"),
        (["fit", "all.xmc", "--blocks", "--threshold", "auto"], "threshold"),
        (["fit", "all.xmc", "--blocks", "--checkpoint", "x", "--loss", "logistic"], "loss"),
        (["fit", "sub", "--blocks"], "is a folder.*csv"),
        (["fit", "all.csv", "--labels", "-6", "--test", "all.csv", "--blocks"], "has a test set"),
        (["fit", "split.arff", "--blocks"], "has a test set"),
        (["fit", "yeast", "--blocks"], "'yeast' has a test set"),
    ):
        assert main([*arguments, "-o", "new.lrml"]) == 2, arguments
        told = capsys.readouterr().err.splitlines()[-1]
        assert re.search(message, told), told
        assert not (folder / "new.lrml").exists()


# A process that has imported everything forks the command again and again and kills it, at random moments.
_KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from lrml.blocks import Checkpoint
from lrml.cli import main
from lrml.core.moments import Statistics
Checkpoint.__init__.__defaults__ = (Statistics, 0.0)  # keep every block
keep, left = Checkpoint.keep, [10**9]
def keep_or_wait(*arguments, **options):  # a run that should be killed must not end before
    keep(*arguments, **options)
    left[0] -= 1
    if not left[0] and not options:
        time.sleep(60)
Checkpoint.keep = keep_or_wait
folder = Path(sys.argv[1])
def command(name):
    options = ["--blocks", "--read", "rows=2", "--theta", "2", "--checkpoint", str(folder / f"{name}.sums")]
    return ["fit", str(folder / "all.xmc"), *options, "-o", str(folder / f"{name}.lrml")]
assert main(command("quiet")) == 0
drawn, kept = random.Random(0), folder / "killed.sums"
def start():
    child = os.fork()
    if child == 0:
        log = os.open(folder / "killed.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        code = main(command("killed"))
        sys.stderr.flush()
        os._exit(code)
    return child
def stopped(child, number):
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
codes, left[0] = [], 9
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
    before = kept.stat().st_mtime_ns if kept.exists() else 0
    child = start()
    while not kept.exists() or kept.stat().st_mtime_ns == before:  # some block more
        time.sleep(0.0005)
    time.sleep(drawn.uniform(0, 0.03))
    codes.append(stopped(child, number))
left[0] = 10**9
codes.append(os.waitstatus_to_exitcode(os.waitpid(start(), 0)[1]))
print(codes)
"""


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(folder):
    done = Program(folder, code=_KILLER).result()
    assert done.returncode == 0, done.stderr
    told = (folder / "killed.err").read_text()
    assert done.stdout.splitlines()[-1] == "[-9, 143, 130, 0]", told
    assert told.count("going on from block") == 3
    assert told.count("run the same command again") == 2
    with np.load(folder / "quiet.sums") as quiet, np.load(folder / "killed.sums") as killed:
        assert quiet["n_blocks"] == 75
        assert quiet["n_rows"] == 150
        assert {name: quiet[name].tobytes() for name in quiet} == {
            name: killed[name].tobytes() for name in killed
        }
    models = [lrml.load(folder / f"{name}.lrml") for name in ("quiet", "killed")]
    np.testing.assert_array_equal(*(model.coef_ for model in models))
