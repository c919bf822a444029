"""What a coordinator sends to each site: the plan, where to connect, and the certificate for the key the site kept.

There is no secret in it. The plan is checked where it is agreed to, the certificate where the connection is made.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fedveil.core.atomic import disk_errors
from fedveil.core.errors import FedveilError

LARGEST_INVITATION = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """For one site. Texts, since a certificate and a plan are texts."""

    site: str
    federation: str
    host: str
    port: int
    certificate: str
    authority: str
    plan: str

    @property
    def text(self) -> bytes:
        return (json.dumps({"invitation": 1, **asdict(self)}, indent=2) + "\n").encode()


def read_invitation(path: Path) -> Invitation:
    """The invitation in a file."""
    with disk_errors(path), path.open("rb") as file:
        content = file.read(LARGEST_INVITATION + 1)
    try:
        if len(content) > LARGEST_INVITATION:
            raise ValueError("it is too large")
        table = json.loads(content)
        if not isinstance(table, dict) or table.pop("invitation", None) != 1:
            raise ValueError("it does not say so")
        kinds = {field.name: int if field.name == "port" else str for field in fields(Invitation)}
        if table.keys() != kinds.keys() or any(type(table[name]) is not kind for name, kind in kinds.items()):
            raise ValueError("something is missing, or not what it should be")
    except (ValueError, RecursionError) as error:
        raise FedveilError(f"{path}: not an invitation ({error})") from None
    return Invitation(**table)
