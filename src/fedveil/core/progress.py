"""How far long work is. Whoever wants to see it says so once; nothing that is computed depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Progress = Callable[[str, float], None]
"""Told what is being done, and which share of it; 1 when it is done."""

Item = TypeVar("Item")


def nobody_watches(title: str, share: float) -> None:
    """The progress that nobody is told of."""


_WATCHER: ContextVar[Progress] = ContextVar("fedveil-watcher", default=nobody_watches)


@contextmanager
def watched_by(progress: Progress) -> Iterator[None]:
    """Inside this block `progress` is told; other threads tell nobody."""
    before = _WATCHER.set(progress)
    try:
        yield
    finally:
        _WATCHER.reset(before)


def tell(title: str, share: float) -> None:
    """Tell whoever watches."""
    _WATCHER.get()(title, share)


def told(title: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items one by one; after each it is told how many are done."""
    for done, item in enumerate(items, 1):
        yield item
        tell(title, done / len(items))
