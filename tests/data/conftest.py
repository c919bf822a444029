"""Data sets that may not be here, a cache of one's own, a small web server that can misbehave, and a toy set on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from data_site import Site

from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sources
from fedveil.data.dataset import Dataset, load
from fedveil.data.known_sets import SETS
from fedveil.data.named_set import NamedSet, RoughCosts, SplitArrays
from fedveil.data.origins import files_below


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


@pytest.fixture
def toy(home: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of two small files, of which the site is the only origin."""
    contents = {"one.bin": b"first file" * 100, "two.bin": b"second file" * 100}
    site.files |= {f"/toy/{name}": content for name, content in contents.items()}
    declared = NamedSet(
        name="toy",
        description="two small files",
        class_names=("no", "yes"),
        input_shape=(2,),
        files=tuple(
            sources.SourceFile((sources.Form(f"toy/{name}", sources.sha256_of(content)),))
            for name, content in contents.items()
        ),
        origins=(files_below(f"{site.address}/toy"),),
        load=_never,
        task={},
        costs=RoughCosts(gradient_microseconds=1.0, evaluation_seconds=1.0),
        features=Openness.PUBLIC,
        validation_records=Openness.PUBLIC,
    )
    monkeypatch.setitem(SETS, "toy", declared)
    return home / "data" / "toy"


def _never() -> SplitArrays:
    raise AssertionError("the toy files hold no records")
