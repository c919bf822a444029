"""Ed25519 keys of people and sites: made, kept in PEM files, and used to sign bytes.

A private key is a PKCS #8 file that only its owner can read; the public key lies beside it as `NAME.pub`. Both are
what other programs (openssl, age, cosign) read as well. A key is named by its fingerprint, the SHA-256 of its 32 bytes.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fedveil.core.atomic import disk_errors, private_opener, sync_folder, write_whole
from fedveil.core.errors import ArgumentError, FedveilError

PUBLIC_SUFFIX = ".pub"
LARGEST_KEY_FILE = 10_000
SHORT_FINGERPRINT = 16


@dataclass(frozen=True)
class PublicKey:
    """The 32 bytes that everybody may have."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise FedveilError(f"a public key has 32 bytes, not {len(self.raw)}")

    @staticmethod
    def from_hex(text: object) -> PublicKey:
        """ValueError for anything but 64 small hexadecimal digits."""
        if not isinstance(text, str) or len(text) != 64 or not set(text) <= set("0123456789abcdef"):
            raise ValueError("a public key is written as 64 hexadecimal digits")
        return PublicKey(bytes.fromhex(text))

    @property
    def hex(self) -> str:
        return self.raw.hex()

    @property
    def fingerprint(self) -> str:
        """By which people compare keys."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def short(self) -> str:
        return self.fingerprint[:SHORT_FINGERPRINT]

    def confirms(self, signature: bytes, message: bytes) -> bool:
        """Whether the owner of this key signed the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def pem(self) -> bytes:
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class SigningKey:
    """A private key. It is never printed."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @staticmethod
    def generate() -> SigningKey:
        return SigningKey(Ed25519PrivateKey.generate())

    @property
    def public(self) -> PublicKey:
        return PublicKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def pem(self) -> bytes:
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def make_key_files(path: Path) -> PublicKey:
    """A new pair of files: the private key, mode 0600, and `PATH.pub`. A key that is there is never replaced."""
    public_path = public_path_of(path)
    for place in (path, public_path):
        if place.exists() or place.is_symlink():
            raise ArgumentError("out", f"{place} already exists; a key is never replaced, choose another name")
    if not path.parent.is_dir():
        raise ArgumentError("out", f"there is no directory {path.parent}")
    key = SigningKey.generate()
    with disk_errors(path), open(path, "xb", opener=private_opener) as file:
        file.write(key.pem())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    write_whole(public_path, key.public.pem())
    return key.public


def public_path_of(path: Path) -> Path:
    return path.with_name(path.name + PUBLIC_SUFFIX)


def read_signing_key(path: Path) -> SigningKey:
    """A private key from its file; one that others can read is refused, since they could sign with it."""
    content = _key_bytes(path)
    with disk_errors(path):
        mode = path.stat().st_mode
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        wrong = "is a public key; signing takes the private one" if b"PUBLIC KEY" in content else "can't be read"
        raise FedveilError(f"{path}: {wrong} (an Ed25519 key without a password, as `fedveil key` makes)") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FedveilError(f"{path}: not an Ed25519 key; `fedveil key` makes one")
    if mode & 0o077:
        raise FedveilError(f"{path}: others can read this private key (mode {mode & 0o777:o}); chmod 600 it")
    return SigningKey(key)


def read_public_key(path: Path) -> PublicKey:
    """A public key from its file. A private key is refused: whoever checks a signature should not have it."""
    content = _key_bytes(path)
    if b"PRIVATE KEY" in content:
        raise FedveilError(f"{path}: is a private key; checking takes the public one, {path.name}{PUBLIC_SUFFIX}")
    try:
        key = load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise FedveilError(f"{path}: can't be read as a public Ed25519 key (PEM)") from None
    if not isinstance(key, Ed25519PublicKey):
        raise FedveilError(f"{path}: not an Ed25519 key")
    return PublicKey(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def _key_bytes(path: Path) -> bytes:
    with disk_errors(path), open(path, "rb") as file:
        content = file.read(LARGEST_KEY_FILE + 1)
    if len(content) > LARGEST_KEY_FILE:
        raise FedveilError(f"{path}: too large for a key")
    return content
