"""Work tells whoever watches, and nobody else."""

from __future__ import annotations

import threading

from fedveil.core.progress import tell, told, watched_by


def test_each_item_is_told_when_it_is_done() -> None:
    seen: list[tuple[str, float]] = []
    with watched_by(lambda title, share: seen.append((title, share))):
        assert list(told("counting", [5, 6])) == [5, 6]
        tell("more", 0.25)
    assert seen == [("counting", 0.5), ("counting", 1.0), ("more", 0.25)]


def test_nobody_is_told_outside_the_block_or_from_another_thread() -> None:
    seen: list[str] = []
    with watched_by(lambda title, share: seen.append(title)):
        other = threading.Thread(target=tell, args=("thread", 1.0))
        other.start()
        other.join()
    tell("after", 1.0)
    assert seen == []
