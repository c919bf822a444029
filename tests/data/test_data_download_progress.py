"""How a download is told: lines in a log, a bar on a terminal."""

from __future__ import annotations

import io

import pytest

from fedveil.data.download_progress import progress_on


def test_plain_lines_tell_quarters() -> None:
    stream = io.StringIO()
    with progress_on(stream) as progress:
        progress.begin("file", 4_000_000, 1_000_000)
        for _ in range(3):
            progress.advance(1_000_000)
        progress.end()
        progress.begin("other", None, 0)
        progress.advance(10)
    assert stream.getvalue().splitlines() == [
        "file: 4.0 MB, 1.0 MB already here",
        "file: 50 %",
        "file: 75 %",
        "file: 100 %",
        "other: size unknown",
    ]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    with progress_on(stream) as progress:
        progress.say("trying [somewhere]")
        progress.begin("file", 100, 0)
        progress.advance(100)
        progress.end()
    assert "trying [somewhere]" in stream.getvalue()
    assert "━" in stream.getvalue()
