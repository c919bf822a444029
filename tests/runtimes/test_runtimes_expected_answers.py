"""Answers that a site has signed and that are not what the plan declares: each is left out, and the round goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from federation_scene import Scene, answers_of, make_scene, policy
from torch import Tensor

from fedveil.core.types import Unit
from fedveil.federation.coordinating import run_federation
from fedveil.ledger.store import Ledger
from fedveil.runtimes.messages import LARGEST_QUESTION, Speaker, read_message, tensor_bytes, write_message

Tensors = dict[str, Tensor]
Lie = Callable[[dict[str, Any], Tensors], object]
TWO = {"cohort": {"kind": "everyone", "quorum": 2}}
CLIENT_NOISE: dict[str, Any] = {
    "method": "fed-sdp-client",
    "example": "none",
    "upload": {"sigma": 9.0, "clip": {"bound": {"kind": "quantile", "start": 1.0}, "by": "flat"}, "unit": "client"},
}


def changed(name: str, change: Callable[[Tensor], Tensor]) -> Lie:
    return lambda header, tensors: tensors.update({name: change(tensors[name])})


def put(value: float, name: str = "update") -> Lie:
    return changed(name, lambda tensor: torch.cat([tensor[:-1], tensor.new_tensor([value])]))


WRONG: dict[str, Lie] = {
    "not a number": put(float("nan")),
    "infinite": put(float("inf")),
    "huge": put(3e38),
    "a thousand times as long": changed("update", lambda update: update * 1000),
    "another type": changed("update", lambda update: update.double()),
    "half precision": changed("update", lambda update: update.half()),
    "integers": changed("update", lambda update: update.to(torch.int32)),
    "another shape": changed("update", lambda update: update.unsqueeze(0)),
    "too short": changed("update", lambda update: update[:-1]),
    "empty": changed("update", lambda update: update[:0]),
    "one more": lambda header, tensors: tensors.update(losses=torch.zeros(3)),
    "none": lambda header, tensors: tensors.clear(),
    "no receipts": lambda header, tensors: header.update(receipts=[]),
    "receipts of nothing": lambda header, tensors: header.update(receipts=7),
    "less noise": lambda header, tensors: header["receipts"][0]["did"].update(sum_std=1e-3),
    "another question": lambda header, tensors: header.update(question="0" * 64),
    "another kind": lambda header, tensors: header.update(kind="counts"),
}
FINE: dict[str, Lie] = {"the truth": lambda header, tensors: None, "nearly zero": put(1e-45)}


def told(scene: Scene, lies: list[Lie], kind: str = "train") -> list[bool]:
    """Whether each of a site's answers counted, of one round after the other; it lies when it is asked this."""
    south = scene.sites["south"]
    with scene.serving() as transport:
        honest = transport.answers["south"]

        def lying(question: bytes) -> bytes:
            answer, (asked,) = honest(question), answers_of([question])
            if asked["kind"] != kind:
                return answer
            key = bytes.fromhex(south.public_key)
            message = read_message(answer, Speaker.SITE, scene.plan.digest, key, LARGEST_QUESTION)
            header, tensors = message.header, message.tensors
            lies[asked["round"] - (kind == "evaluate")](header, tensors)
            header.pop("tensors")
            return write_message(south.signing_key, Speaker.SITE, scene.plan.digest, header, tensor_bytes(tensors))

        transport.answers["south"] = lying
        assert run_federation(scene.coordinator, transport).rounds == len(lies)
    with Ledger(scene.coordinator.run.ledger) as ledger:
        return [1 in entry.arrived for entry in ledger.rounds()]


def test_answers_that_the_plan_does_not_declare_are_left_out(tmp_path: Path) -> None:
    lies = {**WRONG, **FINE}
    scene = make_scene(tmp_path, {**TWO, "stop": {"rounds": len(lies)}}, allowed=policy(200.0, 400.0))
    counted = told(scene, list(lies.values()))
    assert dict(zip(lies, counted, strict=True)) == {name: name in FINE for name in lies}
    assert {contact.problem for contact in scene.coordinator.contacts() if contact.problem} == {"not-declared"}


@pytest.mark.parametrize(
    "lie", [put(1e300, "report"), put(1e9, "cells"), put(0.5, "cells")], ids=["report", "cells", "off the grid"]
)
def test_a_report_or_a_sum_beyond_what_noise_can_do_is_left_out(tmp_path: Path, lie: Lie) -> None:
    """A site's report of its norm moves everybody's clipping bound."""
    allowed = policy(1e3, 1e3, unit=Unit.CLIENT)
    scene = make_scene(tmp_path, {**CLIENT_NOISE, **TWO, "stop": {"rounds": 2}}, allowed=allowed)
    assert told(scene, [FINE["the truth"], lie]) == [True, False]


def test_counts_beyond_what_noise_can_do_are_left_out_of_the_figure(tmp_path: Path) -> None:
    settings = {**TWO, "stop": {"rounds": 2}, "evaluation": {"every": 1, "sigma": 8.0}}
    scene = make_scene(tmp_path, settings, held_out=40)
    assert told(scene, [FINE["the truth"], put(1e300, "counts")], "evaluate") == [True, True]  # of the training
    assert {(c.site, c.problem) for c in scene.coordinator.contacts() if c.problem} == {("south", "not-declared")}
    losses = [event["loss"] for event in scene.coordinator.run.read_events() if "loss" in event]
    assert len(losses) == 2
    assert all(abs(loss) < 100 for loss in losses)
