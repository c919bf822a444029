"""The one method that a way of reaching sites must have, so that an engine can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

Answer = Callable[[bytes], bytes]
"""What a site does with a question. Handed to a transport, which does not know what the bytes mean."""


class Transport(Protocol):
    """Carries questions to sites and their answers back."""

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        """The sites' names and answers, as they come, for at most `deadline` seconds. Who is missing does not come."""
        ...
