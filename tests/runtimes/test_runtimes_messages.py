"""Messages are read as they were written, or not at all."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from byte_damage import damaged

from fedveil.core.signing import SigningKey
from fedveil.runtimes.messages import (
    LARGEST_HEADER,
    PROTOCOL,
    MessageUnreadable,
    Speaker,
    plan_named_in,
    read_message,
    tensor_bytes,
    write_message,
)

KEY = SigningKey.generate()
PUBLIC = KEY.public.raw
PLAN = bytes(range(32))
TENSORS = {"a": torch.arange(5.0), "b": torch.tensor([1.5], dtype=torch.float64)}


def written(header: dict[str, Any] | None = None, speaker: Speaker = Speaker.SITE) -> bytes:
    return write_message(KEY, speaker, PLAN, header or {"kind": "update", "round": 3}, tensor_bytes(TENSORS))


def test_a_message_is_read_as_it_was_written() -> None:
    message = read_message(written(), Speaker.SITE, PLAN, PUBLIC)
    assert {key: message.header[key] for key in ("kind", "round")} == {"kind": "update", "round": 3}
    assert all(torch.equal(message.tensors[name], tensor) for name, tensor in TENSORS.items())
    assert plan_named_in(written()) == PLAN


def test_the_same_content_is_written_in_the_same_bytes() -> None:
    assert written() == written()


def test_what_one_side_signed_is_not_taken_for_the_others() -> None:
    with pytest.raises(MessageUnreadable, match="not signed by the coordinator"):
        read_message(written(speaker=Speaker.SITE), Speaker.COORDINATOR, PLAN, PUBLIC)


def test_a_message_under_another_plan_or_key_is_not_read() -> None:
    with pytest.raises(MessageUnreadable, match="another plan"):
        read_message(written(), Speaker.SITE, bytes(32), PUBLIC)
    other = SigningKey.generate().public.raw
    with pytest.raises(MessageUnreadable, match="not signed"):
        read_message(written(), Speaker.SITE, PLAN, other)


def test_a_large_message_is_refused_before_it_is_looked_into() -> None:
    with pytest.raises(MessageUnreadable, match="bytes"):
        read_message(written(), Speaker.SITE, PLAN, PUBLIC, largest=len(written()) - 1)
    with pytest.raises(ValueError, match="too large"):
        written({"text": "x" * LARGEST_HEADER})


def test_another_protocol_is_named() -> None:
    data = bytearray(written())
    data[3] = 200
    with pytest.raises(MessageUnreadable, match=f"protocol 200; this version speaks protocol {PROTOCOL}"):
        plan_named_in(bytes(data))


@pytest.mark.parametrize("header", ["[1]", '{"a": NaN}', "{" * 30000, "1" * 5000, '{"a": 1', "null"])
def test_a_signed_header_that_is_no_table_is_unreadable(header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedveil.runtimes.messages.json.dumps", lambda *given, **more: header)
    data = write_message(KEY, Speaker.SITE, PLAN, {})
    with pytest.raises(MessageUnreadable):
        read_message(data, Speaker.SITE, PLAN, PUBLIC)


@pytest.mark.parametrize("tensors", [b"x", b"\xff" * 64, bytes(8) + b"{}", b"\x02" + bytes(7) + b"{}" + b"left over"])
def test_signed_tensors_that_are_none_are_unreadable(tensors: bytes) -> None:
    data = write_message(KEY, Speaker.SITE, PLAN, {"kind": "update"}, tensors)
    with pytest.raises(MessageUnreadable, match="tensors can't be read"):
        read_message(data, Speaker.SITE, PLAN, PUBLIC)


def check_damage(times: int, seed: int) -> None:
    chance, data = random.Random(seed), written()
    for _ in range(times):
        changed = damaged(data, chance)
        if changed == data:
            continue
        with pytest.raises(MessageUnreadable):
            read_message(changed, Speaker.SITE, PLAN, PUBLIC)


def test_no_damage_goes_unnoticed_and_none_is_a_crash() -> None:
    check_damage(500, seed=1)


@pytest.mark.slow
def test_no_damage_goes_unnoticed_many_times() -> None:
    check_damage(10_000, seed=2)
