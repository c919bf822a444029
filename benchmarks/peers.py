"""How others train the same clients: one after another, with Opacus, or without privacy in a plain loop of torch.

Run as a script it times one arrangement and prints µs per local step per client.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedveil.data.dataset import to_float
from workloads import CLIP, RATE, SIGMA, WORKLOADS, Workload

Client = Callable[[nn.Module, list[tuple[Tensor, Tensor]]], None]


def plain_sgd(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for inputs, labels in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()


def opacus_per_layer(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    from opacus import GradSampleModule
    from opacus.optimizers import DPPerLayerOptimizer

    wrapped = GradSampleModule(model)
    parameters = list(model.parameters())
    optimiser = DPPerLayerOptimizer(
        torch.optim.SGD(parameters, lr=RATE),
        noise_multiplier=SIGMA,
        max_grad_norm=[CLIP] * len(parameters),
        expected_batch_size=len(batches[0][1]),
    )
    for inputs, labels in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(wrapped(inputs), labels).backward()
        optimiser.step()


PEERS: dict[bool, Client] = {True: opacus_per_layer, False: plain_sgd}


def microseconds(workload: Workload, client: Client, clients: int, steps: int) -> float:
    """µs per step, over `clients` clients one after another; the first one warms up and is not counted."""
    examples = workload.examples(steps * workload.batch)
    inputs, labels = to_float(examples.inputs).split(workload.batch), examples.labels.split(workload.batch)
    batches = list(zip(inputs, labels, strict=True))
    network = workload.network()
    client(copy.deepcopy(network), batches)
    begun = time.perf_counter()
    for _ in range(clients):
        client(copy.deepcopy(network), batches)
    return (time.perf_counter() - begun) / (clients * steps) * 1e6


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--private", action="store_true")
    parser.add_argument("--threads", type=int, help="default: as torch chooses")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    print(microseconds(WORKLOADS[asked.workload], PEERS[asked.private], asked.clients, asked.steps))
