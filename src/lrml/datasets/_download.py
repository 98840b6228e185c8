"""Download of registered files: streamed, verified, and moved into place only when whole."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from lrml._files import staged_file
from lrml.datasets._cache import CACHE_VARIABLE, sha256_of
from lrml.datasets._registry import RegisteredFile

OnBytes: TypeAlias = Callable[[int], object]  # called with the number of bytes received so far

TIMEOUT = 15.0  # seconds of silence, for the connection and for each read
# A server that sends a byte now and then is never silent: so many bytes must come in so many seconds.
SLOWEST = (300_000, 30.0)
PAUSES = (0.5, 2.0)  # seconds before the second and the third attempt
_CHUNK = 1 << 16
_TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_WRONG_CONTENT = "Something on the way sent another file (a proxy? a sign-in page?); nothing was kept."
_CHECK_NETWORK = "Check the network connection and, behind a proxy, the variable https_proxy."


class DownloadError(OSError):
    """A file cannot be downloaded, or what was sent is not the file.

    The message names the rule, the value received and a remedy, and ends with how to do without a download.
    """


class _TooSlow(TimeoutError):  # noqa: N818 - never leaves this module
    """What has arrived is less than `SLOWEST` asks for."""


class _FailedAttempt(Exception):  # noqa: N818 - never leaves this module
    """One attempt failed: what is wrong, what to do, and whether the next attempt may fare better.

    It is no OSError, such that failures of the network pass through the handler for those of the disk.
    """

    def __init__(self, wrong: str, remedy: str, *, transient: bool = False) -> None:
        super().__init__(f"{wrong}. {remedy}")
        self.transient = transient


def download_files(
    files: Sequence[RegisteredFile],
    folder: Path,
    *,
    progress: bool | None,
    advice: Callable[[Sequence[RegisteredFile]], str],
) -> None:
    """Download files into a folder, one after the other.

    Each is there as a whole, with the size and the sha256 of the registry, or not at all. Several processes
    or threads may do this at the same time.

    Parameters
    ----------
    files : sequence of RegisteredFile
        The files.
    folder : Path
        Where to put them; created if needed.
    progress : bool or None
        Whether to draw bars on standard error; None draws them if it is a terminal.
    advice : callable
        Gets the files that are not there yet, and returns the last part of an error message.

    Raises
    ------
    DownloadError
        If one of them cannot be had; those before it stay.
    """
    with _bars(progress) as bar_of, _no_empty_folders(folder):
        for position, file in enumerate(files):
            try:
                _download(file, folder, bar_of(file))
            except _FailedAttempt as failure:
                raise DownloadError(
                    f"{file.name} cannot be downloaded from {file.url}: {failure}\n{advice(files[position:])}"
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
    with _writing(file, folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with staged_file(target) as stream, closing(_receive(file)) as blocks:
                received, digest = 0, hashlib.sha256()
                for block in blocks:
                    stream.write(block)
                    digest.update(block)
                    received += len(block)
                    on_bytes(received)
                _check_content(file, received, digest.hexdigest())
        except PermissionError:
            # Windows replaces no file that somebody has open. Then another process was first: same bytes.
            if not target.is_file() or sha256_of(target) != file.sha256:
                raise


@contextmanager
def _writing(file: RegisteredFile, folder: Path) -> Iterator[None]:
    """Turn errors of the disk into failed attempts."""
    try:
        yield
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


def _check_content(file: RegisteredFile, received: int, sha256: str) -> None:
    if received < file.size:  # a server that announces another length is found out before
        raise _FailedAttempt(
            f"the connection must last until all {file.size} bytes are there, got its end after {received}",
            "Try again later.",
            transient=True,
        )
    if sha256 != file.sha256:
        raise _FailedAttempt(f"the file must have sha256 {file.sha256}, got {sha256}", _WRONG_CONTENT)


def _receive(file: RegisteredFile) -> Generator[bytes, None, None]:
    """Yield the file's bytes as they arrive, never more of them than the file has."""
    left = file.size
    try:
        with _opener().open(file.url, timeout=TIMEOUT) as response:
            _check_answer(file, response)
            while left and (block := response.read(min(_CHUNK, left))):
                left -= len(block)
                yield block
            if not left and response.read(1):
                raise _wrong_size(file, "more")
    except (OSError, HTTPException) as error:
        raise _network_failure(error, file, file.size - left) from error


def _check_answer(file: RegisteredFile, response: Any) -> None:
    if response.status != 200:
        raise _status_failure(response.status, response.reason)
    announced = response.headers.get("Content-Length", "")
    if announced.isdecimal() and int(announced) != file.size:
        raise _wrong_size(file, announced)


def _wrong_size(file: RegisteredFile, got: str) -> _FailedAttempt:
    return _FailedAttempt(f"the file must have {file.size} bytes, got {got}", _WRONG_CONTENT)


def _status_failure(status: int, reason: str) -> _FailedAttempt:
    if status == 404:
        return _FailedAttempt(
            "the server has no such file (HTTP 404)", "It may have moved: look for a newer version of lrml."
        )
    return _FailedAttempt(
        f"the server must send the file (HTTP 200), got HTTP {status} ({reason})",
        "Try again later; behind a proxy, ask whether it lets this address through.",
        transient=status in _TRANSIENT_STATUS,
    )


def _network_failure(error: OSError | HTTPException, file: RegisteredFile, received: int) -> _FailedAttempt:
    if isinstance(error, HTTPError):
        error.close()
        return _status_failure(error.code, str(error.reason))
    cause = error.reason if isinstance(error, URLError) else error
    host = urlsplit(file.url).hostname
    match cause:
        case _TooSlow():
            wrong = f"{host} must send at least {SLOWEST[0]} bytes in {SLOWEST[1]:g} seconds, got {cause}"
            return _FailedAttempt(wrong, "Try again later. " + _CHECK_NETWORK, transient=True)
        case TimeoutError():
            wrong = f"{host} must answer within {TIMEOUT:g} seconds, got silence after {received} bytes"
            return _FailedAttempt(wrong, "Try again later. " + _CHECK_NETWORK, transient=True)
        case ConnectionRefusedError():
            wrong = f"{host} must accept the connection, got a refusal"
        case socket.gaierror():
            wrong = f"the network must know the address of {host}, got an error ({cause.strerror})"
        case ssl.SSLCertVerificationError():
            wrong = f"{host} must show a valid certificate, got an error ({cause.verify_message})"
            return _FailedAttempt(wrong, "Check the clock; behind a proxy, set SSL_CERT_FILE.")
        case ConnectionError() | ssl.SSLEOFError() | HTTPException():
            wrong = f"the connection must last until the file is there, got its end after {received} bytes"
            return _FailedAttempt(f"{wrong} ({cause})", "Try again later.", transient=True)
        case _:
            wrong = f"{host} must be reachable, got an error ({cause})"
    return _FailedAttempt(wrong, _CHECK_NETWORK)


class _Paced(io.RawIOBase):
    """Bytes of a connection, as long as they do not come too slowly.

    Only the time that is spent waiting counts, not what is done with the bytes.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._received, self._waited = stream, 0, 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        least, seconds = SLOWEST
        start = time.monotonic()
        size: int = self._stream.readinto(buffer)
        self._waited += time.monotonic() - start
        self._received += size
        if size and self._waited >= seconds:
            if self._received < least:
                raise _TooSlow(f"{self._received} in {self._waited:.1f}")
            self._received, self._waited = 0, 0.0
        return size

    def close(self) -> None:
        self._stream.close()
        super().close()


class _PacedResponse(HTTPResponse):
    """An answer whose bytes, those of its headers too, do not come too slowly."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fp = io.BufferedReader(_Paced(self.fp.detach()))


class _PacedConnections(request.AbstractHTTPHandler):
    """Makes connections whose answers are paced."""

    def do_open(self, http_class: Any, req: request.Request, **options: Any) -> HTTPResponse:
        def connect(host: str, **more: Any) -> Any:
            connection = http_class(host, **more)
            connection.response_class = _PacedResponse
            return connection

        return super().do_open(connect, req, **options)


class _HTTP(_PacedConnections, request.HTTPHandler): ...


class _HTTPS(_PacedConnections, request.HTTPSHandler): ...


class _WebRedirects(request.HTTPRedirectHandler):
    """Follows redirects to http and https, and to nothing else."""

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> request.Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise HTTPError(newurl, code, f"a redirect to {newurl}, which is not allowed", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Return an opener that knows http and https only; ``urlopen`` would open file: and ftp: as well."""
    opener = request.OpenerDirector()
    opener.addheaders = [("User-Agent", "lrml")]
    for handler in (
        request.ProxyHandler(),  # from the environment, read now
        request.UnknownHandler(),
        _HTTP(),
        _HTTPS(),
        request.HTTPDefaultErrorHandler(),
        _WebRedirects(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


@contextmanager
def _bars(progress: bool | None) -> Iterator[Callable[[RegisteredFile], OnBytes]]:
    """Yield a function that starts the bar of a file and returns what advances it."""
    if not (sys.stderr is not None and sys.stderr.isatty() if progress is None else progress):
        yield lambda file: lambda received: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def bar_of(file: RegisteredFile) -> OnBytes:
            task = bars.add_task(file.name, total=file.size)
            return lambda received: bars.update(task, completed=received)

        yield bar_of
