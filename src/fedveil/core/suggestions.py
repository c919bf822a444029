""" "Did you mean …?": the known name that is nearest to one that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 0.7
"""Names that are less alike than this are no guess worth making."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: the same but for case, `-`, `_` and spaces, or else a similar one."""
    plain = {_plain(one): one for one in known}
    near = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_NEAR)
    return plain[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean fed-cdp?", or nothing where no name is near."""
    near = closest(name, known)
    return "" if near is None else f"; did you mean {near}?"


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").replace(" ", "")
