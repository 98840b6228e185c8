"""Mulan's datasets: yeast from this package, all from a folder of the user, the cache or the network."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from importlib import import_module, resources
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from lrml._files import staged_file
from lrml.datasets._errors import ChecksumError, DownloadError
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._registry import (
    CACHE_VARIABLE,
    DATA_HOME_VARIABLE,
    FileStatus,
    MulanEntry,
    RegisteredFile,
    cache_folder,
    data_folder,
    dataset_status,
    find_entry,
    sha256_of,
)
from lrml.datasets.arff import read_arff

OnBytes: TypeAlias = Callable[[int], object]  # called with the number of bytes received so far

TIMEOUT = 15.0  # seconds of silence, for the connection and for each read
# A server that sends single bytes is never silent, so this many bytes must arrive in this many seconds.
SLOWEST = (300_000, 30.0)
PAUSES = (0.5, 2.0)  # seconds before the second and the third attempt
_TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_WRONG_CONTENT = "Something on the way sent another file (a proxy? a sign-in page?); nothing was kept."
_CHECK_NETWORK = "Check the network connection and, behind a proxy, the variable https_proxy."


def fetch_mulan(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool | None = None,
) -> MultiLabelDataset:
    r"""Load one of Mulan's datasets, with its original split into training and test set.

    Each of its three files is taken from the first place that has it:

    1. ``<data_home>/<name>/``, where `data_home` is the argument or else the environment variable
       ``LRML_DATA_HOME``;
    2. ``<cache>/mulan/<name>/``, where the cache is the environment variable ``LRML_CACHE`` or else the
       folder that the platform has for this: ``$XDG_CACHE_HOME/lrml`` or ``~/.cache/lrml``, on macOS
       ``~/Library/Caches/lrml``, on Windows ``%LOCALAPPDATA%\lrml\Cache``;
    3. Mulan's repository on GitHub, from which it is downloaded into the cache.

    Each must have the sha256 that the registry of this package names; it is checked before the file is
    parsed. A wrong file in the cache is downloaded again; a wrong file in the data home, which is yours, is
    an error.

    Parameters
    ----------
    name : {"bibtex", "delicious", "yeast", "corel5k", "emotions", "enron"}
        Which dataset.
    data_home : path-like, default=None
        The folder with one folder per dataset; None takes the environment variable ``LRML_DATA_HOME``.
    download : bool, default=True
        Whether missing files are downloaded; False never uses the network.
    progress : bool, default=None
        Whether a download draws a bar on standard error; None draws it if that is a terminal.

    Returns
    -------
    MultiLabelDataset
        The dataset; the labels are in the order of the ARFF files, see :func:`read_arff`.

    Raises
    ------
    ValueError
        If the registry has no dataset of that name.
    FileNotFoundError
        If a file is missing and `download` is False. The message names each missing file, its hash and
        its place.
    ChecksumError
        If a file is in the data home, but is not the one that the registry names; with ``download=False``
        also if it is in the cache.
    DownloadError
        If a file cannot be downloaded, cannot be stored, or what the server sends is not the file.

    See Also
    --------
    load_yeast : The yeast dataset, which comes with this package.

    Notes
    -----
    A file gets its name in the cache only when it is whole and verified, so several processes may fetch the
    same dataset at once. Nothing is ever unpacked or executed: the files are plain ARFF and XML. Addresses
    and file names come from the registry only; redirects are followed to http and https. Proxies are taken
    from the usual environment variables (``https_proxy``, ``no_proxy``).

    Examples
    --------
    >>> from lrml.datasets import fetch_mulan
    >>> fetch_mulan("bibtex")  # doctest: +SKIP
    <MultiLabelDataset bibtex: X (7395, 1836) sparse, Y (7395, 159) sparse, train 4880 / test 2515>
    """
    entry = find_entry(name)
    paths = _obtain(entry, data_home, download=download, progress=progress)
    train, test = (
        read_arff(paths[file.name], paths[entry.labels.name]) for file in (entry.train, entry.test)
    )
    dataset = MultiLabelDataset.from_split(train, test, name=name)
    return replace(dataset, provenance=f"Mulan, {entry.domain}; {entry.source}; cite {entry.citation}")


def _obtain(
    entry: MulanEntry, data_home: str | os.PathLike[str] | None, *, download: bool, progress: bool | None
) -> dict[str, Path]:
    """Return the path of each file by its name, after all have been verified."""
    found = dataset_status(entry.name, data_home, verify=True).files
    for status in found:
        if status.damaged and not (download and status.to_download):
            raise _checksum_error(entry, status)
    wanted = [status.file for status in found if status.to_download]
    if wanted and not download:
        raise FileNotFoundError(
            f"The {entry.name} dataset needs files which were not found, and download=False. "
            + _offline_advice(entry, wanted, data_home)
        )
    if wanted:
        _download_files(entry, wanted, data_home, progress)
    return {status.file.name: status.path for status in found}


def _checksum_error(entry: MulanEntry, status: FileStatus) -> Exception:
    if status.place == "cache":
        remedy = "It is damaged: delete it, or fetch it again with download=True."
    else:
        remedy = (
            f"It is damaged or another version: replace it by the one from {entry.source}, "
            "or read it as it is, by its path."
        )
    rule = f"the file must have sha256 {status.file.sha256}"
    return ChecksumError.at(status.path, None, rule, sha256_of(status.path), remedy)


def _offline_advice(
    entry: MulanEntry, files: Sequence[RegisteredFile], data_home: str | os.PathLike[str] | None
) -> str:
    """Say how to do without a download: which files, where from, where to."""
    folder = data_folder(entry, data_home) or cache_folder(entry)
    places = "".join(f"\n  {folder / file.name}  (sha256 {file.sha256})" for file in files)
    return (
        f"To do without a download, get these files from {entry.source}, and put them here "
        f"(or into {entry.name}/ in any folder that you pass as data_home or set as {DATA_HOME_VARIABLE}):"
        f"{places}"
    )


class _FailedAttempt(Exception):  # noqa: N818 - never leaves this module
    """One attempt failed: what is wrong, what to do, and whether another attempt may help.

    It is no OSError, so that network failures pass through the handler for disk failures.
    """

    def __init__(self, wrong: str, remedy: str, *, transient: bool = False) -> None:
        super().__init__(f"{wrong}. {remedy}")
        self.transient = transient


def _download_files(
    entry: MulanEntry,
    files: Sequence[RegisteredFile],
    data_home: str | os.PathLike[str] | None,
    progress: bool | None,
) -> None:
    """Download files into the cache; each is there as a whole, with the right sha256, or not at all."""
    folder = cache_folder(entry)
    with _bars(progress) as bar_of, _no_empty_folders(folder):
        for position, file in enumerate(files):
            try:
                _download(file, folder, bar_of(file))
            except _FailedAttempt as failure:
                advice = _offline_advice(entry, files[position:], data_home)
                raise DownloadError(
                    f"{file.name} cannot be downloaded from {file.url}: {failure}\n{advice}"
                ) from failure.__cause__


@contextmanager
def _no_empty_folders(folder: Path) -> Iterator[None]:
    """Remove, after a failure, the folders that were made for the files and have none."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):  # it is not empty, or was never made
                place.rmdir()
        raise


def _download(file: RegisteredFile, folder: Path, on_bytes: OnBytes) -> None:
    """Try a few times, as long as waiting may help."""
    for pause in PAUSES:
        try:
            _attempt(file, folder, on_bytes)
        except _FailedAttempt as failure:
            if not failure.transient:
                raise
        else:
            return
        time.sleep(pause)
    _attempt(file, folder, on_bytes)


def _attempt(file: RegisteredFile, folder: Path, on_bytes: OnBytes) -> None:
    target = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with staged_file(target) as stream:
                receiver = _Receiver(file, stream, on_bytes)
                _receive(receiver)
                receiver.check()
        except PermissionError:
            # Windows replaces no open file. Then another process was first, with the same bytes.
            if not target.is_file() or sha256_of(target) != file.sha256:
                raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise _FailedAttempt(
                f"the disk is full: {folder} must have room for {file.size} bytes, got an error ({reason})",
                f"Free some space, or set {CACHE_VARIABLE} to a folder on another disk.",
            ) from error
        raise _FailedAttempt(
            f"the cache folder must be writable, got {os.fspath(folder)!r} ({reason})",
            f"Set {CACHE_VARIABLE} to a folder that can be written.",
        ) from error


class _Receiver:
    """The file that pooch writes to, and the progress bar that it reports to; both count, hash and refuse."""

    def __init__(self, file: RegisteredFile, stream: IO[bytes], on_bytes: OnBytes) -> None:
        self.file, self.received = file, 0
        self._stream, self._on_bytes, self._digest = stream, on_bytes, hashlib.sha256()
        self.flush = stream.flush
        self.update = self.reset = self.close = lambda *_: None

    @property
    def total(self) -> int:
        """Number of bytes; pooch sets it to what the server announces, or to 0."""
        return self.file.size

    @total.setter
    def total(self, announced: int) -> None:
        if announced not in (0, self.file.size):
            raise self._wrong_size(announced)

    def write(self, block: bytes) -> None:
        self.received += len(block)
        if self.received > self.file.size:
            raise self._wrong_size("more")
        self._stream.write(block)
        self._digest.update(block)
        self._on_bytes(self.received)

    def check(self) -> None:
        """Make sure that all bytes are there, and are the right ones."""
        if self.received < self.file.size:  # a wrong length announced by the server is detected before
            raise _ended(f"all {self.file.size} bytes are there", f"{self.received}")
        if self._digest.hexdigest() != self.file.sha256:
            wrong = f"the file must have sha256 {self.file.sha256}, got {self._digest.hexdigest()}"
            raise _FailedAttempt(wrong, _WRONG_CONTENT)

    def _wrong_size(self, got: object) -> _FailedAttempt:
        return _FailedAttempt(f"the file must have {self.file.size} bytes, got {got}", _WRONG_CONTENT)


def _ended(goal: str, after: str) -> _FailedAttempt:
    wrong = f"the connection must last until {goal}, got its end after {after}"
    return _FailedAttempt(wrong, "Try again later.", transient=True)


def _receive(receiver: _Receiver) -> None:
    """Let pooch download in a thread; if too little arrives, abandon the thread, which cannot be stopped."""
    pooch, requests = import_module("pooch"), import_module("requests")
    outcome: Future[None] = Future()
    responses: list[Any] = []  # pooch does not close them
    download = pooch.HTTPDownloader(
        progressbar=receiver,
        chunk_size=1 << 14,
        timeout=TIMEOUT,
        headers={"User-Agent": "lrml", "Accept-Encoding": "identity"},
        hooks={"response": lambda response, **_: responses.append(response)},
    )

    def work() -> None:
        error: BaseException | None = None
        try:
            download(receiver.file.url, receiver, None)
        except BaseException as caught:
            error = caught
        for response in responses:
            response.close()
        outcome.set_result(None) if error is None else outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    least, seconds = SLOWEST
    before, start = 0, time.monotonic()
    while not wait([outcome], timeout=seconds).done:
        got, before = receiver.received - before, receiver.received
        if got < least:
            host, waited = urlsplit(receiver.file.url).hostname, time.monotonic() - start
            wrong = f"{host} must send at least {least} bytes in {seconds:g} seconds"
            wrong += f", got {got} in {waited:.1f}"
            raise _FailedAttempt(wrong, "Try again later. " + _CHECK_NETWORK, transient=True)
        start = time.monotonic()
    try:
        outcome.result()
    except requests.RequestException as error:
        raise _network_failure(error, receiver) from error


def _network_failure(error: Any, receiver: _Receiver) -> _FailedAttempt:
    """Say what went wrong, by the cause that requests and urllib3 wrap."""
    if type(error).__name__ == "HTTPError":
        status, reason = error.response.status_code, error.response.reason
        wrong = f"the server must send the file (HTTP 200), got HTTP {status} ({reason})"
        remedy = "Try again later; behind a proxy, ask whether it lets this address through."
        if status == 404:
            wrong = "the server has no such file (HTTP 404)"
            remedy = "It may have moved: look for a newer version of lrml."
        return _FailedAttempt(wrong, remedy, transient=status in _TRANSIENT_STATUS)
    if type(error).__name__ == "InvalidSchema":
        wrong = f"redirects must lead to http or https, got another address ({error})"
        return _FailedAttempt(wrong, "Look for a newer version of lrml.")
    host, received, cause = urlsplit(receiver.file.url).hostname, receiver.received, error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__
    match cause:
        case TimeoutError():
            wrong = f"{host} must answer within {TIMEOUT:g} seconds, got silence after {received} bytes"
            return _FailedAttempt(wrong, "Try again later. " + _CHECK_NETWORK, transient=True)
        case ConnectionRefusedError():
            wrong = f"{host} must accept the connection, got a refusal"
        case socket.gaierror():
            wrong = f"the network must know the address of {host}, got an error ({cause.strerror})"
        case ssl.SSLCertVerificationError():
            wrong = f"{host} must show a valid certificate, got an error ({cause.verify_message})"
            return _FailedAttempt(wrong, "Check the clock; behind a proxy, set REQUESTS_CA_BUNDLE.")
        case ConnectionError() | ssl.SSLEOFError() | HTTPException() | ValueError():
            return _ended("the file is there", f"{received} bytes ({cause})")
        case _:
            wrong = f"{host} must be reachable, got an error ({cause})"
    return _FailedAttempt(wrong, _CHECK_NETWORK)


@contextmanager
def _bars(progress: bool | None) -> Iterator[Callable[[RegisteredFile], OnBytes]]:
    """Yield a function that starts the bar of a file and returns what advances it."""
    if not (sys.stderr is not None and sys.stderr.isatty() if progress is None else progress):
        yield lambda file: lambda received: None
        return
    rich, console = import_module("rich.progress"), import_module("rich.console").Console(stderr=True)
    bar = rich.BarColumn(), rich.DownloadColumn(), rich.TransferSpeedColumn()
    with rich.Progress(rich.TextColumn("{task.description}"), *bar, console=console) as bars:

        def bar_of(file: RegisteredFile) -> OnBytes:
            task = bars.add_task(file.name, total=file.size)
            return lambda received: bars.update(task, completed=received)

        yield bar_of


def load_yeast() -> MultiLabelDataset:
    """Load the yeast dataset: 2417 genes, 103 features, 14 functional classes.

    The features are micro-array expression and phylogenetic profiles; a gene belongs to 4.24 of the
    classes on average [1]_. The split is Mulan's: 1500 training genes, then 917 test genes. All values are
    bit for bit those of Mulan's files. Nothing is downloaded.

    Returns
    -------
    MultiLabelDataset
        Dense features ``Att1`` to ``Att103`` (float64) and dense labels ``Class1`` to ``Class14`` (uint8).

    Notes
    -----
    The file in this package was converted from river 0.26.1 (BSD-3-Clause); ``yeast.LICENSE`` beside it
    has the details. It holds the values as integers, in millionths: the originals have at most six
    decimals, and the quotient of two integers below 2**53 is rounded just as the decimal number is.

    References
    ----------
    .. [1] Elisseeff, Weston (2001). A Kernel Method for Multi-Labelled Classification. NIPS 14.

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> load_yeast()
    <MultiLabelDataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    data = resources.files("lrml.datasets").joinpath("data/yeast.npz")
    with data.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        high, low, packed = arrays["high"], arrays["low"], arrays["labels"]
    # scripts/make_yeast.py adds 2**20 to make the integers positive, then cuts off the low 16 bits:
    # the two parts compress better than the whole.
    millionths = (high.astype(np.int32) << 16) + low - 2**20
    return MultiLabelDataset(
        name="yeast",
        X=millionths / 1e6,
        Y=np.unpackbits(packed, axis=1, count=14),
        feature_names=tuple(f"Att{i}" for i in range(1, 104)),
        label_names=tuple(f"Class{i}" for i in range(1, 15)),
        n_train=1500,
        provenance="Elisseeff and Weston (2001); Mulan; river 0.26.1 (BSD-3-Clause)",
    )
