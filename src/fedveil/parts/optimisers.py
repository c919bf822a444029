"""Optimisers as pure functions of flat parameters and gradients, for clients (`[K, P]`) and the server (`[P]`).

All of them post-process a gradient that is already noisy, so none has a privacy cost.
`state` is a tuple of tensors shaped like the parameters; `step` counts from 0. `out` takes the new parameters, which
may be the old ones' own memory: fresh pages cost more than the arithmetic done on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from fedveil.core.checks import positive, within
from fedveil.core.deferred import torch

if TYPE_CHECKING:
    from torch import Tensor

State: TypeAlias = "tuple[Tensor, ...]"


@dataclass(frozen=True)
class Sgd:
    """w ← w − η·g"""

    kind: ClassVar[str] = "sgd"

    def initial(self, parameters: Tensor) -> State:
        return ()

    def apply(
        self, parameters: Tensor, gradient: Tensor, state: State, rate: float, step: int, out: Tensor | None = None
    ) -> tuple[Tensor, State]:
        return torch.add(parameters, gradient, alpha=-rate, out=out), ()


@dataclass(frozen=True)
class Momentum:
    """v ← β·v + g;  w ← w − η·v"""

    kind: ClassVar[str] = "momentum"
    beta: float = 0.9

    def __post_init__(self) -> None:
        within("beta", self.beta, 0, 1)

    def initial(self, parameters: Tensor) -> State:
        return (torch.zeros_like(parameters),)

    def apply(
        self, parameters: Tensor, gradient: Tensor, state: State, rate: float, step: int, out: Tensor | None = None
    ) -> tuple[Tensor, State]:
        velocity = torch.add(gradient, state[0], alpha=self.beta)
        return torch.add(parameters, velocity, alpha=-rate, out=out), (velocity,)


@dataclass(frozen=True)
class Adam:
    """Adam with bias correction (Kingma and Ba, 2015)."""

    kind: ClassVar[str] = "adam"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        within("beta1", self.beta1, 0, 1)
        within("beta2", self.beta2, 0, 1)
        positive("epsilon", self.epsilon)

    def initial(self, parameters: Tensor) -> State:
        return (torch.zeros_like(parameters), torch.zeros_like(parameters))

    def apply(
        self, parameters: Tensor, gradient: Tensor, state: State, rate: float, step: int, out: Tensor | None = None
    ) -> tuple[Tensor, State]:
        first = torch.lerp(gradient, state[0], self.beta1)
        second = (state[1] * self.beta2).addcmul_(gradient, gradient, value=1.0 - self.beta2)
        # Both corrections are numbers: as factors of the rate and of epsilon they cost no pass over the parameters.
        correction1 = 1.0 - self.beta1 ** (step + 1)
        correction2 = math.sqrt(1.0 - self.beta2 ** (step + 1))
        denominator = second.sqrt().add(self.epsilon * correction2)
        moved = torch.addcdiv(parameters, first, denominator, value=-rate * correction2 / correction1, out=out)
        return moved, (first, second)


@dataclass(frozen=True)
class AdaGrad:
    """Each coordinate's rate falls with the squares of its gradients so far (Duchi et al., 2011)."""

    kind: ClassVar[str] = "adagrad"
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    def initial(self, parameters: Tensor) -> State:
        return (torch.zeros_like(parameters),)

    def apply(
        self, parameters: Tensor, gradient: Tensor, state: State, rate: float, step: int, out: Tensor | None = None
    ) -> tuple[Tensor, State]:
        total = torch.addcmul(state[0], gradient, gradient)
        moved = torch.addcdiv(parameters, gradient, total.sqrt().add(self.epsilon), value=-rate, out=out)
        return moved, (total,)


Optimiser = Sgd | Momentum | Adam | AdaGrad
