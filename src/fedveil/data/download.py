"""Downloading one file over HTTP: resumed where it broke off, tried again after a pause.

An address that can't be reached at all is given up at once, so that a machine without the internet comes to
the next source within seconds. Whether the bytes are right is not decided here, but by whoever fetches them, by
checksum.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from fedveil.data.download_progress import DownloadProgress

_CHUNK = 1 << 18


class SourceFailed(Exception):
    """This source can't serve; the text says why in a few words. Another source may still do."""


class _Interrupted(Exception):
    """The transfer broke off; worth another attempt."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for an answer, and how often to try again without any new byte having arrived."""

    timeout: float = 6.0
    attempts: int = 3
    pause: float = 0.5


PATIENT = Patience()


def download(url: str, part: Path, label: str, progress: DownloadProgress, patience: Patience = PATIENT) -> None:
    """Fetch `url` into `part`, going on from the bytes that an earlier attempt left there."""
    part.parent.mkdir(parents=True, exist_ok=True)
    failures, farthest = 0, 0
    while True:
        try:
            _transfer(url, part, label, progress, patience.timeout)
            return
        except _Interrupted as error:
            size = part.stat().st_size if part.exists() else 0
            failures = 1 if size > farthest else failures + 1
            farthest = max(farthest, size)
            if failures >= patience.attempts:
                raise SourceFailed(str(error)) from None
            time.sleep(patience.pause * 2 ** (failures - 1))


def _transfer(url: str, part: Path, label: str, progress: DownloadProgress, timeout: float) -> None:
    offset = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "fedveil"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    response = _open(request, part, offset, timeout)
    if response is None:
        return
    with response:
        if offset and not (response.headers.get("Content-Range") or "").startswith(f"bytes {offset}-"):
            offset = 0  # the server sends everything again
        length = response.headers.get("Content-Length")
        remaining = int(length) if length and length.isdecimal() else None
        progress.begin(label, None if remaining is None else offset + remaining, offset)
        try:
            with part.open("ab" if offset else "wb") as file:
                received = 0
                while chunk := _read(response):
                    file.write(chunk)
                    progress.advance(len(chunk))
                    received += len(chunk)
        finally:
            progress.end()
    if remaining is not None and received < remaining:
        raise _Interrupted("the connection broke off")


def _open(request: urllib.request.Request, part: Path, offset: int, timeout: float) -> http.client.HTTPResponse | None:
    """The answer to a request; None if the file is complete already."""
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # nothing after `offset`: complete, or not our file at all
                if (error.headers.get("Content-Range") or "").endswith(f"/{offset}"):
                    return None
                part.unlink()
                raise _Interrupted("the server refused to resume") from None
            if error.code == 429 or error.code >= 500:
                raise _Interrupted(f"HTTP error {error.code}") from None
            raise SourceFailed(f"HTTP error {error.code}") from None
    except urllib.error.URLError as error:
        raise SourceFailed(f"can't be reached ({error.reason})") from None
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(f"no proper answer ({error or type(error).__name__})") from None
    return response


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(f"the connection broke off ({error or type(error).__name__})") from None
