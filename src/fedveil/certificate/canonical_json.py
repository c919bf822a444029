"""One form of JSON for one content, so that what is signed is what is read.

Keys are sorted, texts are UTF-8 as they are, numbers are written as Python writes them (the shortest digits that give
the same double). A file that is spelt in any other way is refused, so that there is no second reading of it.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

LARGEST_FILE = 4_000_000
LARGEST_WHOLE = 2**53
"""Beyond it other readers of JSON would see another number."""


class NotCanonical(ValueError):
    """The text is not JSON, or not in the one form."""


def signed_form(value: Any) -> bytes:
    """What signatures and digests are over: no spaces at all."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def file_form(value: Any) -> bytes:
    """What stands in a file: the same, with line breaks for people."""
    return (json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()


def read_file_form(content: bytes) -> Any:
    """What `file_form` wrote; `NotCanonical`, in a few words, for anything else."""
    if len(content) > LARGEST_FILE:
        raise NotCanonical(f"larger than {LARGEST_FILE:,} bytes")
    try:
        value = json.loads(content.decode(), parse_constant=_no_constant)
    except NotCanonical:
        raise
    except UnicodeDecodeError:
        raise NotCanonical("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise NotCanonical(f"not whole JSON ({error.msg.lower()} in line {error.lineno})") from None
    except (ValueError, RecursionError) as error:
        raise NotCanonical("numbers too long, or nested too deeply") from error
    _check_numbers(value)
    try:
        same = file_form(value) == content
    except (ValueError, RecursionError):  # a lone surrogate has no UTF-8
        same = False
    if not same:
        raise NotCanonical("not in the one form that is signed (keys twice, other spaces, other spellings)")
    return value


def _no_constant(name: str) -> NoReturn:
    raise NotCanonical(f"{name} is not a number")


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            _check_numbers(entry)
    elif isinstance(value, int | float) and not (math.isfinite(value) if isinstance(value, float) else _safe(value)):
        raise NotCanonical("a number is too large")


def _safe(whole: int) -> bool:
    return -LARGEST_WHOLE <= whole <= LARGEST_WHOLE
