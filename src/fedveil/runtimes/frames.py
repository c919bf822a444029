"""Frames between two processes of this machine: a small header in JSON and a body of bytes, both bounded."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Any

FRAME_HEADER_LIMIT = 2**16
_LENGTHS = struct.Struct(">IQ")
_VARIABLE = "FEDVEIL_LINK"


class FrameLink:
    """One end of a pair of connected sockets. Several threads may send; one receives."""

    def __init__(self, end: socket.socket, largest_body: int) -> None:
        self._socket, self._largest = end, largest_body
        self._sending = threading.Lock()

    @staticmethod
    def pair(largest_body: int) -> tuple[FrameLink, socket.socket]:
        """This process's link, and the other end, to be inherited by a process that is started."""
        here, there = socket.socketpair()
        return FrameLink(here, largest_body), there

    @staticmethod
    def handed_down(end: socket.socket) -> dict[str, str]:
        """What tells a process that inherits the other end where it is."""
        return {_VARIABLE: str(end.fileno())}

    @staticmethod
    def inherited(largest_body: int) -> FrameLink:
        """The end that this process was given when it was started."""
        return FrameLink(socket.socket(fileno=int(os.environ[_VARIABLE])), largest_body)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a frame whole. `OSError` if the other process is gone."""
        text = json.dumps(header).encode()
        if len(text) > FRAME_HEADER_LIMIT or len(body) > self._largest:
            raise ValueError(f"a frame of {len(text)} and {len(body)} bytes is too large")
        with self._sending:
            self._socket.sendall(_LENGTHS.pack(len(text), len(body)) + text)
            if body:
                self._socket.sendall(body)

    def wait(self, seconds: float) -> bool:
        """Whether there is something to receive within as many seconds; the end is something, too."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next frame. `EOFError` if the other process is gone, or does not keep to the bounds."""
        header, body = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if header > FRAME_HEADER_LIMIT or body > self._largest:
            raise EOFError("a frame that is too large")
        return json.loads(self._exactly(header)), self._exactly(body)

    def close(self) -> None:
        """The other process reads the end."""
        with suppress(OSError):  # it was closed from the other side
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        buffer = bytearray(size)
        view, got = memoryview(buffer), 0
        while got < size:
            try:
                count = self._socket.recv_into(view[got:])
            except OSError as error:
                raise EOFError("the other process is gone") from error
            if not count:
                raise EOFError("the other process is gone")
            got += count
        return bytes(buffer)
