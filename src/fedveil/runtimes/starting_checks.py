"""What keeps NVFlare from starting, found before it is tried: NVFlare would hang, or listen beside another process."""

from __future__ import annotations

import errno
import json
import socket
import time
from pathlib import Path

from fedveil.core.atomic import disk_errors
from fedveil.core.errors import FedveilError
from fedveil.runtimes.tls_certificates import validity_problem

PORT_SECONDS = 10.0
"""For so long a port is waited for. The process of a coordinator that was killed holds it for a second or two."""

_HERE = ("localhost", "127.0.0.1")


def kit_problem(kit: Path) -> str | None:
    """Why nobody can be reached from this kit now, by its certificate and this machine's clock."""
    for name in ("client.crt", "server.crt"):
        path = kit / "startup" / name
        if path.is_file():
            with disk_errors(path):
                problem = validity_problem(path.read_bytes())
            return None if problem is None else f"{kit}: {problem}"
    return None


def wait_for_port(kit: Path) -> None:
    """Wait until a coordinator's port is free; an error where another process keeps it.

    NVFlare asks the system to share a port with whoever else shares it: two coordinators would each get some of the
    connections, and none of the sites would know why.
    """
    path = kit / "startup" / "fed_server.json"
    if not path.is_file():
        return
    with disk_errors(path):
        target = json.loads(path.read_bytes())["servers"][0]["service"]["target"]
    host, _, port = target.rpartition(":")
    end = time.monotonic() + PORT_SECONDS
    while (reason := _refusal("127.0.0.1" if host in _HERE else "", int(port))) is not None:
        if reason != errno.EADDRINUSE or time.monotonic() > end:
            why = "another process listens to it" if reason == errno.EADDRINUSE else errno.errorcode.get(reason, reason)
            raise FedveilError(
                f"port {port}: can't be listened to ({why}); end that, or invite the sites to another port"
            )
        time.sleep(0.2)


def _refusal(address: str, port: int) -> int | None:
    """The system's error number, if nobody else can listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have just ended do not count
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno
    return None
