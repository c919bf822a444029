"""Short hashes of texts."""

from __future__ import annotations

import hashlib
import hmac


def text_digest(text: str) -> str:
    """A hash by which texts can be compared without keeping them. Whoever can guess a text can check the guess."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def keyed_digest(key: bytes, text: str) -> str:
    """HMAC-SHA256: a hash that nobody can compare a guess with, or make, without the key."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
