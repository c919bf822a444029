"""Seconds to attack 100 MNIST victims: all at once against one `torch.optim.LBFGS` after another.

`make bench` runs it. Both steal the same gradients, start from the same seeds, minimise the same distance with the same
history, and make the same number of updates; the peer does it the way attacks are published. The two are
interleaved; one after another takes a sample of the victims, and times are per victim. Results go to
benchmarks/results/attacks.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedveil.attacks.distances import SquaredL2
from fedveil.attacks.invert import Attack, invert
from fedveil.attacks.labels import recovered
from fedveil.attacks.lbfgs import Lbfgs
from fedveil.attacks.minimise import UPDATES
from fedveil.attacks.seeds import Patterned
from fedveil.attacks.victims import Stolen, Truth, choose_victims, steal
from fedveil.core.types import View
from fedveil.engine.client import Broadcast
from fedveil.experiment.attack import opened, scene_of
from fedveil.runtimes.local import usable_cores

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Task:
    stolen: Stolen
    truth: Truth
    iterations: int
    history: int

    @property
    def attack(self) -> Attack:
        return Attack(distance=SquaredL2(), optimiser=Lbfgs(history=self.history, goal=0.0))


def together(task: Task, workers: int) -> tuple[float, list[float]]:
    """Seconds a victim, and every victim's RMSE."""
    begun = time.perf_counter()
    generator = torch.Generator().manual_seed(0)
    found = invert(task.attack, task.stolen, task.iterations, generator, workers=workers)
    seconds = time.perf_counter() - begun
    errors = (found.inputs - task.truth.inputs).flatten(1).square().mean(dim=1).sqrt()
    return seconds / len(errors), errors.tolist()


def one_after_another(task: Task, victims: range) -> tuple[float, list[float]]:
    facts = task.stolen.facts
    model, tensors, labels = facts.model, task.stolen.tensors, recovered(task.stolen)
    seeds = Patterned().draw(len(tensors), facts.input_shape, torch.Generator().manual_seed(0))
    begun = time.perf_counter()
    results = [_invert(model, facts.gradients.layout.split(tensors[v]), seeds[v], labels[v], task) for v in victims]
    seconds = time.perf_counter() - begun
    errors = [
        float((found.clamp(0, 1) - task.truth.inputs[v]).square().mean().sqrt())
        for v, found in zip(victims, results, strict=True)
    ]
    return seconds / len(victims), errors


def _invert(model: nn.Module, target: dict[str, Tensor], seed: Tensor, label: Tensor, task: Task) -> Tensor:
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
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        loss = nn.functional.cross_entropy(model(dummy), label)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        distance = sum((g - s).square().sum() for g, s in zip(gradients, stolen, strict=True)) / scale
        (dummy.grad,) = torch.autograd.grad(distance, dummy)
        return distance.detach()

    optimiser.step(closure)
    return dummy.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--victims", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=15, help="of 20 updates")
    parser.add_argument("--history", type=int, default=50)
    parser.add_argument("--sample", type=int, default=25, help="victims that are attacked one after another")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results/attacks.json")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    prepared, state = opened("fedavg", {"data.name": "mnist"}, seed=0)
    scene = scene_of(prepared)
    victims = choose_victims(scene, asked.victims, torch.Generator().manual_seed(0))
    stolen, truth = steal(scene, Broadcast(0, state.parameters), victims, View.ON_DEVICE)
    task = Task(stolen, truth, asked.iterations, asked.history)
    together(Task(stolen, truth, 1, asked.history), 1)
    samples: dict[str, list[float]] = {"together, all cores": [], "together, one core": [], "one after another": []}
    errors: dict[str, list[float]] = {}
    share = -(-asked.sample // asked.repeats)
    for first in range(0, asked.sample, share):
        for name, measured in (
            ("together, all cores", together(task, usable_cores())),
            ("one after another", one_after_another(task, range(first, min(first + share, asked.sample)))),
            ("together, one core", together(task, 1)),
        ):
            samples[name].append(measured[0])
            errors[name] = errors.get(name, []) + measured[1] if name == "one after another" else measured[1]
    results: dict[str, Any] = {
        "victims": asked.victims,
        "attacked_one_after_another": asked.sample,
        "updates": asked.iterations * UPDATES,
        "history": asked.history,
        "milliseconds_per_victim": {name: round(statistics.median(v) * 1e3, 1) for name, v in samples.items()},
        "samples": {name: [round(value * 1e3, 1) for value in values] for name, values in samples.items()},
        "median_rmse": {name: round(statistics.median(values), 5) for name, values in errors.items()},
        "ratio_all_cores": round(
            statistics.median(samples["one after another"]) / statistics.median(samples["together, all cores"]), 2
        ),
        "ratio_one_core": round(
            statistics.median(samples["one after another"]) / statistics.median(samples["together, one core"]), 2
        ),
        "cores": usable_cores(),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
