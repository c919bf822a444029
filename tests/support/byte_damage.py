"""What happens to bytes on their way."""

from __future__ import annotations

import random


def damaged(data: bytes, chance: random.Random) -> bytes:
    """One of the things that happen to bytes: flipped, cut, repeated, moved, replaced, or grown."""
    where, other = sorted(chance.sample(range(len(data) + 1), 2))
    match chance.randrange(6):
        case 0:
            changed = bytearray(data)
            for _ in range(chance.randint(1, 8)):
                changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            return bytes(changed)
        case 1:
            return data[:where]
        case 2:
            return data[:other] + data[where:]
        case 3:
            return data[where:other] + data[:where] + data[other:]
        case 4:
            return data[:where] + chance.randbytes(other - where) + data[other:]
        case _:
            return data + chance.randbytes(chance.randint(1, 1000))
