"""Mistakes that the trials must notice, or they would prove nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fedveil.ledger.store import Ledger


def files_are_not_synced() -> None:
    os.fsync = lambda descriptor: None  # SQLite has its own


def charged_after_it_was_sent() -> None:
    charge, execute, owed = Ledger.charge, Ledger.execute, list[tuple[Any, ...]]()

    def later(self: Ledger, *arguments: Any) -> None:
        owed.append(arguments)

    def now(self: Ledger, *arguments: Any) -> None:
        charge(self, *owed.pop())
        execute(self, *arguments)

    Ledger.charge, Ledger.execute = later, now  # type: ignore[method-assign]


def errors_of_the_disk_are_ignored() -> None:
    write = Ledger.charge

    def careless(self: Ledger, *arguments: Any) -> None:
        try:
            write(self, *arguments)
        except Exception:
            return

    Ledger.charge = careless  # type: ignore[method-assign]


PLANTED: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (files_are_not_synced, charged_after_it_was_sent, errors_of_the_disk_are_ignored)
}
