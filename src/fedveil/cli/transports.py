"""How the commands reach sites. The engine that carries questions is an extra, and is looked for when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedveil.core.errors import FedveilError
from fedveil.runtimes.transport import Answer, Transport

ENGINE = "fedveil.runtimes.nvflare"


@contextmanager
def opened_transport(
    kit: Path, sites: frozenset[str], seconds: float, say: Callable[[str], None]
) -> Iterator[Transport]:
    """The coordinator's end. Waits so many seconds for the sites to be there; who is not may come later."""

    def changed(site: str, here: bool) -> None:
        say(f"{site} is {'connected' if here else 'away'}")

    with _engine().FlareTransport(kit, changed) as transport:
        say(f"waiting up to {seconds:g} s for {', '.join(sorted(sites))}")
        transport.wait_for(sites, seconds)
        yield transport


def serve(kit: Path, answer: Answer, say: Callable[[str], None]) -> None:
    """A site's end: hand questions to `answer` until interrupted."""
    _engine().serve_site(kit, answer, say)


def _engine() -> Any:
    if find_spec(ENGINE) is None or find_spec("nvflare") is None:
        raise FedveilError("a federation needs NVFlare: pip install 'fedveil[federation]'")
    return import_module(ENGINE)
