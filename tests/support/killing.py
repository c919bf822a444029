"""A death at a named place, and a coordinator's questions to one site, made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from federation_scene import Scene
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.runtimes.messages import Message, Speaker, read_message, tensor_bytes, write_message
from fedveil.site.serving import AnswerStep


class Killed(BaseException):
    """Stands for kill -9: nothing in the product catches it."""


class DiesBefore:
    """Kills, once, before a named step."""

    def __init__(self, step: AnswerStep) -> None:
        self.step: AnswerStep | None = step

    def __call__(self, step: AnswerStep) -> None:
        if step is self.step:
            self.step = None
            raise Killed


class Asker:
    """Asks one site by hand, as a coordinator may: any round, any model, any header."""

    def __init__(self, scene: Scene, name: str, answer: Callable[[bytes], bytes]) -> None:
        self._scene, self._name, self._answer = scene, name, answer
        self._plan = scene.plan
        self.start = Layout.of(self._plan.network()).vector(self._plan.network())
        self.mark: str | None = None

    def question(self, round: Any = 0, parameters: Tensor | None = None, **header: Any) -> bytes:
        """The bytes of a question; further keys of the header replace the usual ones."""
        whole = {"kind": "train", "round": round, "bound": None, "mark": self.mark, **header}
        tensors = tensor_bytes({"parameters": self.start if parameters is None else parameters})
        return write_message(self._scene.key, Speaker.COORDINATOR, self._plan.digest, whole, tensors)

    def raw(self, round: Any = 0, parameters: Tensor | None = None, **header: Any) -> bytes:
        return self._answer(self.question(round, parameters, **header))

    def ask(self, round: Any = 0, parameters: Tensor | None = None, **header: Any) -> Message:
        """The answer, its signature checked."""
        key = self._scene.sites[self._name].public_key
        answer = read_message(
            self.raw(round, parameters, **header), Speaker.SITE, self._plan.digest, bytes.fromhex(key)
        )
        self.mark = answer.header.get("mark", self.mark)
        return answer

    def shifted(self, by: float) -> Tensor:
        """The first model, moved a little."""
        moved = self.start.clone()
        moved[0] += torch.tensor(by)
        return moved
