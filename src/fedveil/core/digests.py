"""Short hashes of texts."""

from __future__ import annotations

import hashlib


def text_digest(text: str) -> str:
    """A hash by which texts can be compared without keeping them."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
