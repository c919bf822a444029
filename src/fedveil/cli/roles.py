"""Whose directory it is: a site's, a coordinator's, or neither's."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


class Role(StrEnum):
    """Whoever takes part in a federation."""

    SITE = "site"
    COORDINATOR = "coordinator"


def role_of(directory: Path) -> Role | None:
    """By the file that makes it one; None where it is a run, or nothing."""
    if (directory / "site.toml").is_file():
        return Role.SITE
    return Role.COORDINATOR if (directory / "plan.json").is_file() else None
