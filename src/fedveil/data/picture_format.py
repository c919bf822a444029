"""To what pictures are brought before they are trained on."""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.core.checks import count


@dataclass(frozen=True, kw_only=True)
class PictureFormat:
    """The public size to which every picture is brought, and whether it keeps its colours."""

    height: int
    width: int
    grey: bool = False

    def __post_init__(self) -> None:
        count("height", self.height)
        count("width", self.width)
