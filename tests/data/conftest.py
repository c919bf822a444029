"""Data sets that may not be here, a cache of one's own, and a small web server that can misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from data_site import Site

from fedveil.core.errors import FedveilError
from fedveil.data import sources
from fedveil.data.dataset import Dataset, load


@pytest.fixture(scope="session")
def data_set() -> Callable[[str], Dataset]:
    """Load a data set once per session, or skip the test and say why."""
    loaded: dict[str, Dataset] = {}

    def get(name: str) -> Dataset:
        if name not in loaded:
            try:
                loaded[name] = load(name)
            except FedveilError as error:
                pytest.skip(str(error))
        return loaded[name]

    return get


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, and no other place to look for data."""
    monkeypatch.setattr(sources, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.delenv("FEDVEIL_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server on this machine only."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted_range = self.headers.get("Range")
            served.requests.append((self.path, wanted_range))
            content = served.files.get(self.path)
            trick = served.mischief.pop(0) if served.mischief else ""
            if content is None or trick == "error 503":
                self.send_error(404 if content is None else 503)
                return
            start = int(wanted_range.removeprefix("bytes=").removesuffix("-")) if wanted_range else 0
            if trick == "no ranges":
                start = 0
            if start and start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            rest = content[start:]
            self.wfile.write(rest[: len(rest) // 2] if trick == "break off" else rest)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()
