"""Seconds to attack 100 MNIST victims: all at once against one `torch.optim.LBFGS` after another.

`make bench` runs it. Both steal the same gradients, start from the same seeds and minimise the same distance with the
same history, in two comparisons. `equal_updates`: so many updates each, whatever comes of it; the peer has a line
search too. `until_matched`: each victim until its gradient is matched to `goal`, or so many updates; the peer is as
attacks are published (step length 1, no line search) and stops by the same rule, at any evaluation. Everything is
interleaved; one after another takes a sample of the victims, and times are per victim. Results go to
benchmarks/results/attacks.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedveil.attacks.inversion.distances import SquaredL2
from fedveil.attacks.inversion.invert import MATCHED, Inversion, invert
from fedveil.attacks.inversion.labels import recovered
from fedveil.attacks.inversion.lbfgs import Lbfgs
from fedveil.attacks.inversion.minimise import UPDATES
from fedveil.attacks.inversion.seeds import Patterned
from fedveil.attacks.inversion.victims import Stolen, Truth, choose_victims, steal
from fedveil.core.cores import usable_cores
from fedveil.core.types import View
from fedveil.engine.client import Broadcast
from fedveil.studies.attack import opened, scene_of

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Task:
    stolen: Stolen
    truth: Truth
    iterations: int
    history: int
    goal: float  # the relative distance at which an attack ends
    line_search: str | None  # of the peer

    @property
    def attack(self) -> Inversion:
        return Inversion(distance=SquaredL2(), optimiser=Lbfgs(history=self.history, goal=self.goal))


@dataclass(frozen=True)
class Outcome:
    seconds: float  # per victim
    errors: list[float]  # every victim's RMSE
    matched: list[bool]  # which gradients were matched to 1e-4, where an adversary takes its guess for right


def together(task: Task, workers: int) -> Outcome:
    begun = time.perf_counter()
    generator = torch.Generator().manual_seed(0)
    found = invert(task.attack, task.stolen, task.iterations, generator, workers=workers)
    seconds = time.perf_counter() - begun
    errors = (found.inputs - task.truth.inputs).flatten(1).square().mean(dim=1).sqrt()
    return Outcome(seconds / len(errors), errors.tolist(), (found.distances <= MATCHED).tolist())


def one_after_another(task: Task, victims: range) -> Outcome:
    facts = task.stolen.facts
    model, tensors, labels = facts.model, task.stolen.tensors, recovered(task.stolen)
    seeds = Patterned().draw(len(tensors), facts.input_shape, torch.Generator().manual_seed(0))
    begun = time.perf_counter()
    results = [_invert(model, facts.gradients.layout.split(tensors[v]), seeds[v], labels[v], task) for v in victims]
    seconds = time.perf_counter() - begun
    errors = [
        float((found.clamp(0, 1) - task.truth.inputs[v]).square().mean().sqrt())
        for v, (found, _) in zip(victims, results, strict=True)
    ]
    return Outcome(seconds / len(victims), errors, [distance <= MATCHED for _, distance in results])


class _Matched(Exception):
    """The goal is reached: PyTorch's optimiser has no other way out."""


def _invert(
    model: nn.Module, target: dict[str, Tensor], seed: Tensor, label: Tensor, task: Task
) -> tuple[Tensor, float]:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    stolen = list(target.values())
    scale = float(sum(part.square().sum() for part in stolen))
    dummy = seed[None].clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS(
        [dummy],
        lr=1,
        max_iter=task.iterations * UPDATES,
        max_eval=10**9,
        history_size=task.history,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn=task.line_search,
    )
    last = float("inf")

    def closure() -> Tensor:
        nonlocal last
        loss = nn.functional.cross_entropy(model(dummy), label)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        distance = sum((g - s).square().sum() for g, s in zip(gradients, stolen, strict=True)) / scale
        last = float(distance.detach())
        if last <= task.goal:
            raise _Matched
        (dummy.grad,) = torch.autograd.grad(distance, dummy)
        return distance.detach()

    with suppress(_Matched):
        optimiser.step(closure)
    return dummy.detach(), last


def compare(task: Task, sample: int, repeats: int) -> dict[str, Any]:
    """Interleaved: all victims together on all cores and on one, and a share of the sample one after another."""
    measured: dict[str, list[Outcome]] = {"together, all cores": [], "together, one core": [], "one after another": []}
    share = -(-sample // repeats)
    for first in range(0, sample, share):
        measured["together, all cores"].append(together(task, usable_cores()))
        measured["one after another"].append(one_after_another(task, range(first, min(first + share, sample))))
        measured["together, one core"].append(together(task, 1))
    times = {name: statistics.median(one.seconds for one in ones) for name, ones in measured.items()}
    peer = times["one after another"]
    return {
        "ratio_all_cores": round(peer / times["together, all cores"], 2),
        "ratio_one_core": round(peer / times["together, one core"], 2),
        "milliseconds_per_victim": {name: round(value * 1e3, 1) for name, value in times.items()},
        "samples": {name: [round(one.seconds * 1e3, 1) for one in ones] for name, ones in measured.items()},
        "median_rmse": {
            name: round(statistics.median(value for one in ones for value in one.errors), 5)
            for name, ones in measured.items()
        },
        "share_matched": {
            name: round(statistics.mean(value for one in ones for value in one.matched), 3)
            for name, ones in measured.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--victims", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=15, help="of 20 updates")
    parser.add_argument("--history", type=int, default=50)
    parser.add_argument("--goal", type=float, default=1e-6, help="relative distance, for `until_matched`")
    parser.add_argument("--sample", type=int, default=25, help="victims that are attacked one after another")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results/attacks.json")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    prepared, state = opened("fedavg", {"data.name": "mnist"}, seed=0)
    scene = scene_of(prepared)
    victims = choose_victims(scene, asked.victims, torch.Generator().manual_seed(0))
    stolen, truth = steal(scene, Broadcast(0, state.parameters), victims, View.ON_DEVICE)
    equal = Task(stolen, truth, asked.iterations, asked.history, goal=0.0, line_search="strong_wolfe")
    together(replace(equal, iterations=1), 1)
    results: dict[str, Any] = {
        "victims": asked.victims,
        "attacked_one_after_another": asked.sample,
        "updates": asked.iterations * UPDATES,
        "history": asked.history,
        "goal": asked.goal,
        "equal_updates": compare(equal, asked.sample, asked.repeats),
        "until_matched": compare(replace(equal, goal=asked.goal, line_search=None), asked.sample, asked.repeats),
        "cores": usable_cores(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
