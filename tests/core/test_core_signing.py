"""Keys: what is signed can be checked by everybody, and a private key stays with its owner."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.signing import PublicKey, SigningKey, make_key_files, read_public_key, read_signing_key


def test_a_signature_is_confirmed_for_its_message_and_key_alone() -> None:
    key, other = SigningKey.generate(), SigningKey.generate()
    signature = key.sign(b"message")
    assert key.public.confirms(signature, b"message")
    assert not key.public.confirms(signature, b"massage")
    assert not other.public.confirms(signature, b"message")
    assert not key.public.confirms(signature[:-1], b"message")


def test_files_give_back_the_same_pair_and_the_private_one_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.key"
    public = make_key_files(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_public_key(tmp_path / "mine.key.pub") == public == read_signing_key(path).public
    assert PublicKey.from_hex(public.hex) == public


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mine.key"
    make_key_files(path)
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match="already exists"):
        make_key_files(path)
    assert path.read_bytes() == before


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.key"
    make_key_files(path)
    path.chmod(0o644)
    with pytest.raises(FedveilError, match="others can read this private key"):
        read_signing_key(path)


def test_keys_in_the_wrong_place_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.key"
    make_key_files(path)
    with pytest.raises(FedveilError, match="is a public key"):
        read_signing_key(tmp_path / "mine.key.pub")
    with pytest.raises(FedveilError, match="is a private key"):
        read_public_key(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN PUBLIC KEY-----\n!!\n", b"\0" * 20_000])
def test_what_is_no_key_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "no.key"
    path.write_bytes(content)
    path.chmod(0o600)
    for read in (read_public_key, read_signing_key):
        with pytest.raises(FedveilError) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert "no.key" in str(caught.value)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = tmp_path / "other.key"
    path.write_bytes(X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(FedveilError, match="not an Ed25519 key"):
        read_signing_key(path)


@pytest.mark.parametrize("text", ["", "00", "g" * 64, "A" * 64, 5, None])
def test_a_public_key_in_json_is_64_digits(text: object) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal"):
        PublicKey.from_hex(text)
