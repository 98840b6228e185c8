"""Datasets by name: where their files are, and downloads from a local server; nothing leaves this machine."""

from __future__ import annotations

import gc
import hashlib
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lrml.datasets import (
    _fetch,
    dataset_status,
    fetch_mulan,
    fetch_multi_target,
    mulan_entries,
)

NAMES = ("toy-train.arff", "toy-test.arff", "toy.xml")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def server(toy_files):
    """A server of the files; ``server.content`` may be changed, ``server.hits`` lists the requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.rpartition("/")[2]
            self.server.hits.append(name)
            body = self.server.content.get(name)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"") + self.server.missing))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.hits, server.missing = dict(toy_files), [], 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # pooch does not close what it is refused
        gc.collect()


@pytest.fixture
def places(tmp_path, monkeypatch, toy_files, server):
    """A data home with a tiny dataset, an empty cache, and a registry that knows it."""
    address = f"http://127.0.0.1:{server.server_port}"
    files = [
        {"name": name, "size": len(content), "sha256": sha256(content), "url": f"{address}/{name}"}
        for name, content in ((name, toy_files[name]) for name in NAMES)
    ]
    entry = {"domain": "toys", "citation": "Someone (2000).", "source": "Somewhere r", "files": files}
    monkeypatch.setattr(_fetch, "mulan_entries", lambda real=False: {} if real else {"toy": entry})
    monkeypatch.delenv("LRML_DATA_HOME", raising=False)
    monkeypatch.setenv("LRML_CACHE", str(tmp_path / "cache"))
    home, cache = tmp_path / "home" / "toy", tmp_path / "cache" / "mulan" / "toy"
    home.mkdir(parents=True)
    for name, content in toy_files.items():
        (home / name).write_bytes(content)
    return home, cache


def check(dataset):
    assert (dataset.name, dataset.n_train) == ("toy", 2)
    assert_array_equal(dataset.X.toarray(), [[1.5], [0], [2]])
    assert_array_equal(dataset.Y.toarray(), [[0], [1], [1]])
    for part in ("toys", "Somewhere r", "Someone (2000)."):
        assert part in dataset.provenance


def test_files_in_the_data_home_need_no_download(places, monkeypatch, server):
    home, cache = places
    check(fetch_mulan("toy", data_home=home.parent))
    monkeypatch.setenv("LRML_DATA_HOME", str(home.parent))
    check(fetch_mulan("toy", download=False))
    monkeypatch.setenv("HOME", str(home.parent))
    check(fetch_mulan("toy", data_home="~"))
    assert dataset_status("toy") == ("data home", [home / name for name in NAMES])
    assert (server.hits, cache.exists()) == ([], False)


def test_missing_files_are_downloaded_once_and_checked(places, server, toy_files):
    home, cache = places
    (home / "toy.xml").unlink()
    assert dataset_status("toy", home.parent)[0] == "missing"
    check(fetch_mulan("toy", data_home=home.parent))
    assert server.hits == ["toy.xml"]
    assert dataset_status("toy", home.parent) == ("cache", [*(home / n for n in NAMES[:2]), cache / NAMES[2]])
    check(fetch_mulan("toy"))
    assert server.hits == ["toy.xml", *NAMES[:2]]
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == toy_files
    for content in (b"#" * len(toy_files["toy.xml"]), b"#"):  # of the same size, and of another
        (cache / "toy.xml").write_bytes(content)
        assert dataset_status("toy")[0] == ("damaged" if content == b"#" else "cache")
        with pytest.raises(ValueError, match=r"toy\.xml.*sha256"):
            fetch_mulan("toy", download=False)
        check(fetch_mulan("toy"))
    assert server.hits[3:] == ["toy.xml"] * 2


@pytest.mark.parametrize("wrong", [b"#", None, "half"])
def test_a_download_that_fails_keeps_nothing_and_says_what_to_do(places, server, toy_files, wrong):
    _, cache = places
    server.content[NAMES[1]] = toy_files[NAMES[1]][:50] if wrong == "half" else wrong
    server.missing = 1000 if wrong == "half" else 0
    with pytest.raises(OSError, match=r"cannot be downloaded from http") as caught:
        fetch_mulan("toy")
    assert f"{cache / NAMES[1]}  (sha256 {sha256(toy_files[NAMES[1]])})" in str(caught.value)
    assert {path.name for path in cache.iterdir()} <= {NAMES[0]}


@pytest.mark.parametrize("name", ["Yeast", "../yeast", "", "yeast/", 3, None])
def test_unknown_names(name):
    with pytest.raises(ValueError, match="bibtex, delicious, yeast"):
        fetch_mulan(name)


def test_the_registry_is_complete():
    entries = mulan_entries()
    assert list(entries) == ["bibtex", "delicious", "yeast", "corel5k", "emotions", "enron"]
    files = [file for entry in entries.values() for file in entry["files"]]
    assert len({file["sha256"] for file in files}) == len({file["url"] for file in files}) == 18
    assert entries["corel5k"]["files"][2]["url"] == (
        "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a"
        "/data/multi-label/corel5k/Corel5k.xml"
    )


def test_the_registry_of_real_targets_is_complete():
    entries = mulan_entries(real=True)
    assert (len(entries), entries["wq"]["n_labels"]) == (12, 14)
    files = [file for entry in entries.values() for file in entry["files"]]
    assert len({file["sha256"] for file in files}) == 12
    assert files[0]["url"] == (
        "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a"
        "/data/multi-target/andro.arff"
    )


def test_real_targets_are_the_last_columns_and_gaps_are_nan(places, monkeypatch, server):
    lines = ("@relation r", *(f"@attribute {name} numeric" for name in "abyz"), "@data")
    content = "\n".join((*lines, "1,?,3,4", "-5.5,6,7e1,8", "")).encode()
    address = f"http://127.0.0.1:{server.server_port}/toy.arff"
    file = {"name": "toy.arff", "size": len(content), "sha256": sha256(content), "url": address}
    entry = {"n_labels": 2, "source": "Somewhere r", "files": [file]}
    monkeypatch.setattr(_fetch, "mulan_entries", lambda real=False: {"targets": entry} if real else {})
    server.content["toy.arff"] = content
    with pytest.raises(FileNotFoundError, match=r"toy\.arff"):
        fetch_multi_target("targets", download=False)
    X, Y = fetch_multi_target("targets")
    assert_array_equal(X, [[1, np.nan], [-5.5, 6]])
    assert_array_equal(Y, [[3, 4], [70, 8]])
    assert (dataset_status("targets")[0], server.hits) == ("cache", ["toy.arff"])


@pytest.mark.real_data
@pytest.mark.parametrize("name", mulan_entries())
def test_the_registry_agrees_with_the_data(mulan, mulan_home, name):
    entry, dataset = mulan_entries()[name], mulan(name)
    assert dataset.shape == tuple(entry[key] for key in ("n_instances", "n_attributes", "n_labels"))
    assert dataset.n_train == entry["n_train"]
    assert dataset_status(name, mulan_home)[0] == "data home"
    is_dense = name in ("yeast", "emotions")
    assert is_dense == isinstance(dataset.X, np.ndarray) == isinstance(dataset.Y, np.ndarray)
