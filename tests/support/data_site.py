"""What the tests see of their web server. A module of its own, as `conftest` is no name to import from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Site:
    """Files by path, how the server spoils its next answers, and the requests it has seen."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    mischief: list[str] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
