from __future__ import annotations

import socket
import struct
import threading

import pytest

from fedveil.runtimes.frames import FRAME_HEADER_LIMIT, FrameLink

LARGEST = 1_000_000


def test_frames_arrive_whole_and_in_order() -> None:
    here, end = FrameLink.pair(LARGEST)
    there = FrameLink(end, LARGEST)
    frames = [({"kind": "ask", "n": n}, bytes([n]) * (n * 90_000)) for n in range(10)]
    sender = threading.Thread(target=lambda: [here.send(*frame) for frame in frames])
    sender.start()
    assert [there.receive() for _ in frames] == frames
    sender.join()
    here.close()
    with pytest.raises(EOFError):
        there.receive()
    there.close()


def test_what_is_too_large_is_neither_sent_nor_received() -> None:
    here, end = FrameLink.pair(LARGEST)
    with pytest.raises(ValueError, match="too large"):
        here.send({}, bytes(LARGEST + 1))
    with pytest.raises(ValueError, match="too large"):
        here.send({"name": "x" * FRAME_HEADER_LIMIT})
    end.sendall(struct.pack(">IQ", 2, LARGEST + 1))
    with pytest.raises(EOFError, match="too large"):
        here.receive()
    here.close()
    end.close()


def test_a_torn_frame_is_the_end() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack(">IQ", 100, 0) + b"{")
    theirs.close()
    link = FrameLink(ours, LARGEST)
    with pytest.raises(EOFError):
        link.receive()
    link.close()
