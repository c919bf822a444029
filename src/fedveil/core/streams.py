"""Independent random streams, addressed by (purpose, round, client, step).

Every random decision has an address, so it does not matter in which order, in which chunk or on which worker the
work is done, and a resumed run draws what the interrupted one would have drawn. Bits come from AES-256 in
counter mode: the address is the counter block, the key belongs to the run.

There are two kinds of keys. A *seed* makes a run reproducible and therefore not private. Without a seed the key comes
from the operating system's secure source and never touches the disk.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

from fedveil.core.deferred import np

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext
    from numpy.typing import DTypeLike, NDArray


class Purpose(StrEnum):
    """What a stream is for; each purpose has a key of its own."""

    INITIAL = "initial model"
    COHORT = "cohort"
    BATCH = "batch"
    DROPOUT = "dropout"
    EXAMPLE_NOISE = "example noise"
    ROW_NOISE = "row noise"
    UPLOAD_NOISE = "upload noise"
    SERVER_NOISE = "server noise"
    REPORT_NOISE = "report noise"
    COUNT_NOISE = "count noise"
    SELECTION = "selection"
    AUDIT = "audit"


class Address(NamedTuple):
    """Which stream of a purpose."""

    round: int = 0
    client: int = 0
    step: int = 0


class SideBySide(Sequence[Address]):
    """The addresses of clients side by side, at one step of a round. NumPy takes all of them at once."""

    def __init__(self, round: int, clients: Sequence[int]) -> None:
        self._places = np.array([(round, client, 0) for client in clients], np.uint32).reshape(-1, 3)

    def at(self, step: int) -> SideBySide:
        """The same clients' at this step."""
        made = copy(self)
        made._places = self._places.copy()
        made._places[:, 2] = step
        return made

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Address: ...
    @overload
    def __getitem__(self, place: slice) -> list[Address]: ...
    def __getitem__(self, place: int | slice) -> Address | list[Address]:
        if isinstance(place, slice):
            return [Address(*numbers) for numbers in self._places[place].tolist()]
        return Address(*self._places[place].tolist())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.uint32]:
        return self._places


NOWHERE = Address()
"""The address of draws that belong to no round."""


@dataclass(frozen=True)
class Streams:
    """All random streams of one run, from one 32-byte key."""

    key: bytes = field(repr=False)
    seeded: bool

    @staticmethod
    def from_seed(seed: int) -> Streams:
        """Reproducible streams: for tests and experiments, never for a private run."""
        return Streams(key=hashlib.blake2b(f"fedveil seed {seed}".encode(), digest_size=32).digest(), seeded=True)

    @staticmethod
    def from_system() -> Streams:
        """Streams keyed from the operating system's secure source."""
        return Streams(key=secrets.token_bytes(32), seeded=False)

    def purpose_key(self, purpose: Purpose) -> bytes:
        """The key of one purpose: 32 bytes."""
        return hashlib.blake2b(purpose.encode(), key=self.key, digest_size=32).digest()

    @cached_property
    def _ciphers(self) -> dict[Purpose, CipherContext]:
        return {}

    def __getstate__(self) -> dict[str, object]:
        return {"key": self.key, "seeded": self.seeded}  # cipher contexts stay in their process

    def fill(self, purpose: Purpose, address: Address, words: NDArray[np.uint32], block: int = 0) -> None:
        """Random words of the stream at `address`, from its block of 16 bytes on. `words` is a multiple of 4 long."""
        counter = struct.pack(">IIII", address.round, address.client, address.step, block)
        cipher = self._ciphers.get(purpose)
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

            cipher = Cipher(algorithms.AES(self.purpose_key(purpose)), modes.CTR(counter)).encryptor()
            self._ciphers[purpose] = cipher
        else:
            cipher.reset_nonce(counter)
        words.fill(0)  # the key stream is the encryption of zeros
        plain = words.view(np.uint8).data
        cipher.update_into(plain, plain)

    def hashed(self, purpose: Purpose, address: Address, *numbers: int) -> bytes:
        """64 bytes more for the rare draw that wants them: a keyed hash of where it is."""
        where = struct.pack(f">III{len(numbers)}Q", address.round, address.client, address.step, *numbers)
        return hashlib.blake2b(where, key=self.purpose_key(purpose), person=b"more bits").digest()

    def generator(self, purpose: Purpose, address: Address = NOWHERE) -> np.random.Generator:
        """A NumPy generator for sampling decisions (cohorts, batches, initial weights)."""
        word = struct.pack(">III", address.round, address.client, address.step)
        digest = hashlib.blake2b(word, key=self.purpose_key(purpose), digest_size=16).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "big")))

    def integer(self, purpose: Purpose, address: Address = NOWHERE) -> int:
        """A 63-bit seed for a generator that takes nothing else (torch's own)."""
        return int(self.generator(purpose, address).integers(2**63))
