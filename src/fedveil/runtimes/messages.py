"""What goes between a coordinator and its sites: a signed header in JSON, and tensors as safetensors. Nothing else.

A message is, in bytes:

    "FVL", the protocol's number | hash of the plan (32) | signature (64) | length of the header (4) | header | tensors

The signature (Ed25519) covers who speaks (a coordinator or a site), the plan, and the header; the header has a digest
(SHA-256) of the tensors. So sizes are checked before anything is copied, the signature before anything is parsed, and
the digest before a tensor is made. There is no pickle. What can't be read is a `MessageUnreadable`, whatever is wrong
with it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fedveil.core.signing import PublicKey, SigningKey

PROTOCOL = 2
"""Changed whenever an older version would take a message for something else. A plan states it."""

LARGEST_QUESTION = 256 * 2**20
LARGEST_HEADER = 2**16

_MAGIC = b"FVL"
_START = struct.Struct(">3sB32s64sI")


class Speaker(StrEnum):
    """Who signs. Nothing that one of them signed can be taken for the other's."""

    COORDINATOR = "coordinator"
    SITE = "site"


class MessageUnreadable(ValueError):
    """The bytes are not a message of this protocol, or not signed by whom they should be."""


@dataclass(frozen=True)
class Message:
    """What somebody says under a plan."""

    header: dict[str, Any]
    tensors: dict[str, Tensor]


def plan_named_in(data: bytes, largest: int = LARGEST_QUESTION) -> bytes:
    """The hash of the plan that a message belongs to, which says by whose key it must be signed."""
    return _parts(data, largest)[0]


def write_message(
    key: SigningKey,
    speaker: Speaker,
    plan: bytes,
    header: Mapping[str, Any],
    tensors: bytes = b"",
    digest: str | None = None,
) -> bytes:
    """A signed message; `tensors` are what `tensor_bytes` made, so that those for many sites are made once.

    `digest` is their `tensor_digest`, where that is known, so that it is computed once as well.
    """
    text = json.dumps({**header, "tensors": digest or tensor_digest(tensors)}, allow_nan=False).encode()
    if len(text) > LARGEST_HEADER:
        raise ValueError(f"a header of {len(text)} bytes is too large")
    signature = key.sign(_signed(speaker, plan, text))
    return _START.pack(_MAGIC, PROTOCOL, plan, signature, len(text)) + text + tensors


def read_message(data: bytes, speaker: Speaker, plan: bytes, key: bytes, largest: int = LARGEST_QUESTION) -> Message:
    """What was signed with `key` under this plan."""
    named, signature, text, rest = _parts(data, largest)
    if named != plan:
        raise MessageUnreadable("it belongs to another plan")
    if not PublicKey(key).confirms(signature, _signed(speaker, plan, text)):
        raise MessageUnreadable(f"it is not signed by the {speaker}")
    header = _read_json(text)
    if header.get("tensors") != tensor_digest(rest):
        raise MessageUnreadable("its tensors are not those that were signed")
    return Message(header, _read_tensors(rest))


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Nothing at all where there are none. The same tensors give the same bytes."""
    return save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}) if tensors else b""


def tensor_digest(tensors: bytes) -> str:
    """By which a header names its tensors."""
    return hashlib.sha256(tensors).hexdigest()


def _parts(data: bytes, largest: int) -> tuple[bytes, bytes, bytes, bytes]:
    """Plan, signature, header and tensors of a message, unread."""
    if not isinstance(data, bytes) or not _START.size <= len(data) <= largest:
        raise MessageUnreadable(f"it must have {_START.size} to {largest} bytes")
    magic, protocol, plan, signature, length = _START.unpack_from(data)
    if magic != _MAGIC:
        raise MessageUnreadable("it is not a message of fedveil's")
    if protocol != PROTOCOL:
        raise MessageUnreadable(f"it is of protocol {protocol}; this version speaks protocol {PROTOCOL}")
    if length > LARGEST_HEADER or _START.size + length > len(data):
        raise MessageUnreadable("it was cut off, or its header is too large")
    end = _START.size + length
    return plan, signature, data[_START.size : end], data[end:]


def _signed(speaker: Speaker, plan: bytes, header: bytes) -> bytes:
    return b"fedveil message %d by a %s\0" % (PROTOCOL, speaker.encode()) + plan + header


def _read_json(text: bytes) -> dict[str, Any]:
    try:
        header = _HEADERS.decode(text.decode())
    except (ValueError, RecursionError):
        raise MessageUnreadable("its header is not JSON") from None
    if not isinstance(header, dict):
        raise MessageUnreadable("its header is not a table")
    return header


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


_HEADERS = json.JSONDecoder(parse_constant=_no_number)


def _read_tensors(data: bytes) -> dict[str, Tensor]:
    if not data:
        return {}
    try:
        return load(data)
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError, OverflowError):
        raise MessageUnreadable("its tensors can't be read") from None
