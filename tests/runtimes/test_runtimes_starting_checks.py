"""What keeps NVFlare from starting is found before, and said in one line."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from fedveil.core.errors import FedveilError
from fedveil.runtimes import starting_checks
from fedveil.runtimes.child_processes import free_port
from fedveil.runtimes.starting_checks import kit_problem, wait_for_port


def kit_at(folder: Path, port: int) -> Path:
    (folder / "startup").mkdir()
    server = {"service": {"target": f"localhost:{port}"}}
    (folder / "startup" / "fed_server.json").write_text(json.dumps({"servers": [server]}))
    return folder


def listening(port: int) -> socket.socket:
    """As NVFlare does: the port may be shared with whoever else lets it be shared."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_port_that_another_process_listens_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting_checks, "PORT_SECONDS", 0.3)
    port = free_port()
    kit = kit_at(tmp_path, port)
    with listening(port), pytest.raises(FedveilError, match=rf"^port {port}: .*another process listens to it"):
        wait_for_port(kit)
    wait_for_port(kit)


def test_a_port_that_becomes_free_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    kit, listener = kit_at(tmp_path, port), listening(port)
    threading.Timer(0.5, listener.close).start()
    begun = time.monotonic()
    wait_for_port(kit)
    assert 0.2 < time.monotonic() - begun < 5


def test_a_kit_of_a_site_listens_to_nothing_and_one_without_certificate_has_no_time(tmp_path: Path) -> None:
    wait_for_port(tmp_path)
    assert kit_problem(tmp_path) is None
