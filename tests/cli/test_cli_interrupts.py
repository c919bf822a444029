"""Ctrl-C in the middle of an import waits until the import is over."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedveil.cli.interrupts import defer_while_importing


@pytest.fixture
def deferring() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    defer_while_importing()
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("deferring")
def test_an_interrupt_during_an_import_comes_when_the_module_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "interrupted_module.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = sum(range(10))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come as soon as the import is over
        import interrupted_module  # type: ignore[import-not-found]

        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.01)
    assert sys.modules["interrupted_module"].whole == 45
    assert interrupted_module is sys.modules["interrupted_module"]


@pytest.mark.usefixtures("deferring")
def test_an_interrupt_elsewhere_comes_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_somebody_else_is_left_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        defer_while_importing()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
