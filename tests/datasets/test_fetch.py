"""Downloads from a local server that behaves badly in many ways; nothing leaves this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from experiments.runner_jobs import wait_until
from lrml import _files
from lrml.datasets import DownloadError, fetch_mulan
from lrml.datasets._registry import parse_registry

NAMES = ("toy-train.arff", "toy-test.arff", "toy.xml")
# Seconds that nothing takes, not even on a busy machine: tests end if something never comes.
PATIENCE = 300.0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.path.rpartition("/")[2]
        self.server.hits.append(name)
        behave = self.server.behave.get(name, send)
        with suppress(ConnectionError):  # the client may hang up
            behave(self, self.server.files[name])

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """Serves files; ``behave[name]`` replaces the answer for one of them, ``hits`` lists the requests."""

    request_queue_size = 32

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.behave, self.hits = files, {}, []
        self.closing = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_port}"


def send(handler, body, length=None):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = length is not None


def send_half(handler, content):
    send(handler, content[: len(content) // 2], length=len(content))
    handler.wfile.flush()


def chunked_half(handler, content):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(content) // 2, content[: len(content) // 2]))
    handler.close_connection = True  # without the last chunk


def reset(handler, content):
    send_half(handler, content)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stall(handler, content):
    send_half(handler, content)
    handler.server.closing.wait()


def drip(handler, content):
    """Send a byte, and another, and never fall silent; the answer is endless."""
    send(handler, b"", length=len(content))
    while not handler.server.closing.wait(0.01):
        handler.wfile.write(b"#")


def drip_headers(handler, content):
    handler.send_response(200)
    handler.flush_headers()
    while not handler.server.closing.wait(0.01):
        handler.wfile.write(b"x")


def wrong_bytes(handler, content):
    send(handler, b"#" * len(content))


def too_long(handler, content):
    send(handler, content + b"\n")


def too_short(handler, content):
    send(handler, content[:-1])


def endless(handler, content):
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    for _ in range(200):  # far too much, but no danger to the disk if the client does not hang up
        handler.wfile.write(content)


def status(code):
    return lambda handler, content: handler.send_error(code)


def redirect(target):
    def answer(handler, content):
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def first(count, bad):
    """Return a behaviour that is bad `count` times, then good."""
    left = [bad] * count

    def answer(handler, content):
        behave = left.pop() if left else send
        behave(handler, content)

    return answer


@pytest.fixture
def server(toy_files, toy_registry, tmp_path, monkeypatch):
    """A local server, a registry that points to it, an empty cache, no data home, and no pauses."""
    server = Server(toy_files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    use_registry(monkeypatch, toy_registry(server.address))
    monkeypatch.delenv("LRML_DATA_HOME", raising=False)
    monkeypatch.setenv("LRML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("lrml.datasets._mulan.PAUSES", (0.0, 0.0))
    monkeypatch.setattr("lrml.datasets._mulan.TIMEOUT", PATIENCE)
    monkeypatch.setattr("lrml.datasets._mulan.SLOWEST", (300_000, PATIENCE))
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache(server, tmp_path):
    return tmp_path / "cache" / "mulan" / "toy"


def use_registry(monkeypatch, text):
    entries = parse_registry(text)
    monkeypatch.setattr("lrml.datasets._registry.mulan_entries", lambda: entries)


def contents(folder):
    """All files in a folder, hidden ones too; empty if there is none."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def test_downloads_once_into_the_cache(server, cache, toy_files):
    for _ in range(2):
        dataset = fetch_mulan("toy")
        assert (dataset.shape, dataset.n_train) == ((3, 1, 1), 2)
    assert contents(cache) == toy_files
    assert server.hits == list(NAMES)


def test_downloads_only_what_is_missing_or_damaged(server, cache, toy_files, tmp_path):
    home = tmp_path / "home" / "toy"
    for folder, name in ((home, NAMES[0]), (cache, NAMES[1]), (cache, NAMES[2])):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(toy_files[name])
    (cache / NAMES[2]).write_bytes(b"#" * len(toy_files[NAMES[2]]))
    assert fetch_mulan("toy", data_home=home.parent).shape == (3, 1, 1)
    assert server.hits == [NAMES[2]]
    assert contents(cache) == {name: toy_files[name] for name in NAMES[1:]}


def test_a_failed_download_leaves_no_empty_folders(server, cache, tmp_path):
    server.behave[NAMES[0]] = status(404)
    with pytest.raises(DownloadError, match="HTTP 404"):
        fetch_mulan("toy")
    assert list(tmp_path.iterdir()) == []
    cache.parent.mkdir(parents=True)  # what was there before stays
    with pytest.raises(DownloadError, match="HTTP 404"):
        fetch_mulan("toy")
    assert list(cache.parent.iterdir()) == []


def test_without_download_nothing_is_asked_or_made(server, cache):
    with pytest.raises(FileNotFoundError, match="download=False"):
        fetch_mulan("toy", download=False)
    assert server.hits == []
    assert not cache.exists()


MESSAGES = {
    "404": r"the server has no such file \(HTTP 404\)\. It may have moved",
    "status": r"must send the file \(HTTP 200\), got HTTP (403|500|503) \(",
    "size": r"the file must have \d+ bytes, got (more|\d+)\. Something on the way sent another file",
    "hash": r"the file must have sha256 \w{64}, got \w{64}\. Something on the way sent another file",
    "ended": r"the connection must last until .*, got its end after \d+",
    "timeout": r"127\.0\.0\.1 must answer within 0\.3 seconds, got silence after \d+ bytes\. Try again later",
    "slow": r"127\.0\.0\.1 must send at least 300000 bytes in 0\.1 seconds, got \d+ in [\d.]+\. Try again",
    "refused": r"127\.0\.0\.1 must accept the connection, got a refusal\. Check the network",
    "dns": r"the network must know the address of mulan\.invalid, got an error \(nobody knows\)\. Check",
    "unreachable": r"127\.0\.0\.1 must be reachable, got an error \(.*\)\. Check the network",
    "certificate": r"127\.0\.0\.1 must show a valid certificate, got an error \(.*self.signed.*\)\. Check",
    "full": r"the disk is full: .* must have room for \d+ bytes, got an error \(.*\)\. Free some space",
    "unwritable": r"the cache folder must be writable, got '.*' \(.*\)\. Set LRML_CACHE",
}


def assert_says(message, kind, folder, toy_registry, missing=NAMES):
    """One kind of failure is reported, and the advice names each missing file, its hash and place."""
    assert [key for key, pattern in MESSAGES.items() if re.search(pattern, message)] == [kind]
    entry = parse_registry(toy_registry("http://x"))["toy"]
    places = [
        f"  {folder / file.name}  (sha256 {file.sha256})" for file in entry.files if file.name in missing
    ]
    lines = message.splitlines()
    assert lines[-len(places) :] == places
    assert lines[-len(places) - 1].startswith("To do without a download, get these files from Somewhere r, ")


def assert_fails(kind, cache, toy_registry):
    with pytest.raises(DownloadError) as caught:
        fetch_mulan("toy")
    assert isinstance(caught.value, OSError)
    assert_says(str(caught.value), kind, cache, toy_registry)
    assert contents(cache) == {}


@pytest.mark.parametrize(
    ("behave", "kind", "attempts"),
    [
        (status(404), "404", 1),
        (status(403), "status", 1),
        (status(500), "status", 3),
        (status(503), "status", 3),
        (wrong_bytes, "hash", 1),
        (too_long, "size", 1),
        (too_short, "size", 1),
        (endless, "size", 1),
        (send_half, "ended", 3),
        (chunked_half, "ended", 3),
        (reset, "ended", 3),
        (stall, "timeout", 3),
        (drip, "slow", 3),
        (drip_headers, "slow", 3),
    ],
)
def test_each_bad_answer_has_its_own_message(
    server, cache, toy_registry, monkeypatch, behave, kind, attempts
):
    if behave is stall:
        monkeypatch.setattr("lrml.datasets._mulan.TIMEOUT", 0.3)
    if behave in (drip, drip_headers):
        monkeypatch.setattr("lrml.datasets._mulan.SLOWEST", (300_000, 0.1))
    server.behave[NAMES[0]] = behave
    assert_fails(kind, cache, toy_registry)
    wait_until(lambda: len(server.hits) >= attempts)  # a client that does not wait may be ahead of the server
    assert server.hits == [NAMES[0]] * attempts


@pytest.mark.parametrize("bad", [status(500), status(429), send_half, reset])
def test_transient_failures_are_tried_again(server, cache, toy_files, bad):
    server.behave[NAMES[0]] = first(2, bad)
    assert fetch_mulan("toy").shape == (3, 1, 1)
    assert server.hits == [NAMES[0]] * 3 + list(NAMES[1:])
    assert contents(cache) == toy_files


def test_files_before_the_failure_stay_and_are_left_out_of_the_advice(server, cache, toy_files, toy_registry):
    server.behave[NAMES[1]] = status(404)
    with pytest.raises(DownloadError) as caught:
        fetch_mulan("toy")
    assert_says(str(caught.value), "404", cache, toy_registry, missing=NAMES[1:])
    assert contents(cache) == {NAMES[0]: toy_files[NAMES[0]]}


def test_a_damaged_file_stays_if_the_download_fails(server, cache):
    cache.mkdir(parents=True)
    (cache / NAMES[0]).write_bytes(b"damaged")
    server.behave[NAMES[0]] = status(404)
    with pytest.raises(DownloadError, match="HTTP 404"):
        fetch_mulan("toy")
    assert contents(cache) == {NAMES[0]: b"damaged"}


def test_refused_connection(cache, toy_registry, monkeypatch):
    with socket.socket() as deaf:  # it does not listen, and nobody else gets its port
        deaf.bind(("127.0.0.1", 0))
        use_registry(monkeypatch, toy_registry(f"http://127.0.0.1:{deaf.getsockname()[1]}"))
        assert_fails("refused", cache, toy_registry)


def test_unknown_host_is_asked_for_once(cache, toy_registry, monkeypatch):
    asked = []

    def fail(host, *_, **__):
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "nobody knows")

    monkeypatch.delenv("http_proxy")
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    use_registry(monkeypatch, toy_registry("http://mulan.invalid"))
    assert_fails("dns", cache, toy_registry)
    assert asked == ["mulan.invalid"]


def test_a_server_that_speaks_no_tls(server, cache, toy_registry, monkeypatch):
    use_registry(monkeypatch, toy_registry(f"https://127.0.0.1:{server.server_port}"))
    assert_fails("unreachable", cache, toy_registry)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, to make a certificate")
def test_a_certificate_that_nobody_vouches_for(server, cache, toy_registry, tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=127.0.0.1"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    use_registry(monkeypatch, toy_registry(f"https://127.0.0.1:{server.server_port}"))
    assert_fails("certificate", cache, toy_registry)
    assert server.hits == []


def test_the_proxy_of_the_environment_is_used(server, cache, toy_files, toy_registry, monkeypatch):
    monkeypatch.setenv("http_proxy", server.address)
    use_registry(monkeypatch, toy_registry("http://mulan.invalid"))  # only the proxy can answer
    fetch_mulan("toy")
    assert contents(cache) == toy_files


def test_redirects_are_followed_on_the_web_only(server, cache, toy_files, tmp_path, monkeypatch):
    server.files = {**toy_files, "elsewhere": toy_files[NAMES[0]]}
    secret = tmp_path / "secret"
    secret.write_bytes(toy_files[NAMES[0]])  # it would pass all checks, if it were opened
    monkeypatch.setenv("ftp_proxy", server.address)  # and so would this: the proxy serves any address
    for target in (secret.as_uri(), "ftp://mulan.invalid/elsewhere"):
        server.behave[NAMES[0]] = redirect(target)
        with pytest.raises(
            DownloadError, match=rf"redirects must lead to http or https, got.*{re.escape(target)}"
        ):
            fetch_mulan("toy")
        assert contents(cache) == {}
    server.behave[NAMES[0]] = redirect(f"{server.address}/elsewhere")
    fetch_mulan("toy")
    assert contents(cache) == toy_files


def test_the_name_appears_only_when_the_file_is_whole(server, cache, toy_files):
    half_sent, go_on = threading.Event(), threading.Event()

    def pause(handler, content):
        send_half(handler, content)
        half_sent.set()
        go_on.wait(PATIENCE)
        handler.wfile.write(content[len(content) // 2 :])

    server.behave[NAMES[0]] = pause
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(fetch_mulan, "toy")
        assert half_sent.wait(PATIENCE)
        names = [path.name for path in cache.iterdir()]
        go_on.set()
        assert result.result(PATIENCE).shape == (3, 1, 1)
    assert len(names) == 1
    assert re.fullmatch(r"\.toy-train\.arff\.\w+\.part", names[0])
    assert contents(cache) == toy_files


@pytest.fixture
def ctrl_c_is_heard():
    """A shell lets the jobs that it starts in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread")
def test_ctrl_c_leaves_nothing_behind(server, cache, ctrl_c_is_heard):
    main = threading.main_thread().ident
    lock, interrupted, parts = threading.Lock(), threading.Event(), set()

    def is_written():
        """Whether something of the file is there; its name may change, or go, between any two looks."""
        with suppress(FileNotFoundError):
            parts.update(path.name for path in cache.iterdir() if path.stat().st_size > 0)
        return bool(parts)

    def interrupt(handler, content):
        with lock:
            send_half(handler, content)
            # Once something was written the client waits for more: before, it may be anywhere inside urllib.
            wait_until(is_written)
            if not interrupted.is_set():  # on a very slow machine, the client may come a second time
                interrupted.set()
                signal.pthread_kill(main, signal.SIGINT)
        # A signal just before a system call does not wake it up; more bytes do. The last one never comes.
        handler.wfile.write(content[len(content) // 2 : -1])
        handler.server.closing.wait()

    server.behave[NAMES[0]] = interrupt
    with pytest.raises(KeyboardInterrupt):
        fetch_mulan("toy")
    assert all(re.fullmatch(r"\.toy-train\.arff\.\w+\.part", name) for name in parts)
    assert contents(cache) == {}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("missing", [NAMES[0], NAMES[2]])
def test_full_device(server, cache, toy_files, toy_registry, monkeypatch, missing):
    # The disk is found full while the long file is written, but only when the short one is closed.
    others = {name: content for name, content in toy_files.items() if name != missing}
    cache.mkdir(parents=True)
    for name, content in others.items():
        (cache / name).write_bytes(content)
    monkeypatch.setattr(_files, "_create", lambda *_: os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb"))
    with pytest.raises(DownloadError) as caught:
        fetch_mulan("toy")
    assert_says(str(caught.value), "full", cache, toy_registry, missing=[missing])
    assert contents(cache) == others


def test_a_file_where_the_cache_folder_should_be(server, cache, toy_registry):
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"mine")
    with pytest.raises(DownloadError) as caught:
        fetch_mulan("toy")
    assert_says(str(caught.value), "unwritable", cache, toy_registry)
    assert cache.read_bytes() == b"mine"
    assert server.hits == []  # found out before anything was asked for


@pytest.mark.parametrize("content", ["right", "wrong"])
def test_a_file_that_another_process_holds_open(server, cache, toy_files, toy_registry, monkeypatch, content):
    """Windows: os.replace fails. That is no error if the other process has put the same file there."""

    def refuse(part, target):
        target.write_bytes(toy_files[target.name] if content == "right" else b"other")
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    if content == "right":
        fetch_mulan("toy")
        assert contents(cache) == toy_files
    else:
        with pytest.raises(DownloadError) as caught:
            fetch_mulan("toy")
        assert_says(str(caught.value), "unwritable", cache, toy_registry)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_other_users_may_read_a_shared_cache(server, cache):
    old = os.umask(0o022)
    try:
        fetch_mulan("toy")
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o644}


def together(count):
    """Return a behaviour that answers only when `count` clients are asking."""
    barrier = threading.Barrier(count)

    def answer(handler, content):
        barrier.wait(PATIENCE)
        send(handler, content)

    return answer


def test_threads_at_once(server, cache, toy_files):
    server.behave[NAMES[0]] = together(8)
    with ThreadPoolExecutor(8) as pool:
        datasets = list(pool.map(fetch_mulan, ["toy"] * 8))
    assert [dataset.shape for dataset in datasets] == [(3, 1, 1)] * 8
    assert contents(cache) == toy_files


# What a child process runs: registry in argv[1]; prints the shape, or the error and what is in the cache.
CHILD = """
import os, sys
from lrml.datasets import DownloadError, _mulan, _registry, fetch_mulan
_mulan.TIMEOUT = 300  # the other processes may be slow to start
entries = _registry.parse_registry(sys.argv[1])
_registry.mulan_entries = lambda: entries
try:
    print(fetch_mulan("toy").shape)
except DownloadError as error:
    print(error)
    print([file for _, _, files in os.walk(os.environ["LRML_CACHE"]) for file in files], file=sys.stderr)
"""


def test_processes_at_once(server, cache, toy_files, toy_registry):
    server.behave[NAMES[0]] = together(4)
    command = [sys.executable, "-c", CHILD, toy_registry(server.address)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [child.communicate(timeout=300)[0].strip() for child in children]
    assert outputs == ["(3, 1, 1)"] * 4
    assert contents(cache) == toy_files
    assert server.hits.count(NAMES[0]) == 4  # all were at it at the same time


def can_mount():
    """Whether a process may mount file systems in a namespace of its own, as most Linux systems allow."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


@pytest.mark.parametrize(("options", "kind"), [("size=64k", "full"), ("ro", "unwritable")])
def test_real_file_systems(server, toy_registry, tmp_path, options, kind):
    if not can_mount():
        pytest.skip("needs unshare, and the right to mount in a user namespace")
    cache = tmp_path / "cache"
    cache.mkdir()
    script = 'mount -t tmpfs -o "$0" tmpfs "$LRML_CACHE" && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, options]
    command += [sys.executable, "-c", CHILD, toy_registry(server.address)]
    child = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert_says(child.stdout.strip("\n"), kind, cache / "mulan" / "toy", toy_registry)
    assert child.stderr.strip() == "[]"


class Terminal:
    """Standard error that says whether it is a terminal."""

    def __init__(self, is_terminal):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("progress", [None, True, False])
def test_bars_on_standard_error(server, monkeypatch, is_terminal, progress):
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    server.behave[NAMES[0]] = first(1, send_half)  # after another attempt the bar is as full as ever
    fetch_mulan("toy", progress=progress)
    if is_terminal if progress is None else progress:
        assert all(name in terminal.text for name in NAMES)
        assert re.search(r"240\.1/240\.1 kB", terminal.text)
    else:
        assert terminal.text == ""


def test_no_standard_error_at_all(server, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)  # as in a program without a console
    assert fetch_mulan("toy").shape == (3, 1, 1)
