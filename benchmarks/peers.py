"""How others train the same clients: one after another, with Opacus or a `torch.func` loop.

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
from torch.func import functional_call, grad, vmap

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


def func_loop(private: bool) -> Client:
    def train(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
        parameters = {name: value.detach().clone() for name, value in model.named_parameters()}

        def loss(values: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
            logits = functional_call(model, values, (record.unsqueeze(0),))
            return nn.functional.cross_entropy(logits, label.unsqueeze(0))

        def mean_loss(values: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
            return nn.functional.cross_entropy(functional_call(model, values, (inputs,)), labels)

        rows = vmap(grad(loss), in_dims=(None, 0, 0))
        layers = {name.rpartition(".")[0] for name in parameters}
        with torch.no_grad():
            for inputs, labels in batches:
                if not private:
                    for name, gradient in grad(mean_loss)(parameters, inputs, labels).items():
                        parameters[name] = parameters[name] - RATE * gradient
                    continue
                gradients = rows(parameters, inputs, labels)
                for layer in layers:
                    names = [name for name in parameters if name.rpartition(".")[0] == layer]
                    norm = torch.stack([gradients[name].flatten(1).norm(dim=1) for name in names]).norm(dim=0)
                    factor = CLIP / norm.clamp_min(CLIP)
                    for name in names:
                        total = torch.einsum("b,b...->...", factor, gradients[name])
                        total += SIGMA * CLIP * len(labels) ** 0.5 * torch.randn_like(total)
                        parameters[name] = parameters[name] - RATE / len(labels) * total

    return train


PEERS: dict[tuple[str, bool], Client] = {
    ("opacus", True): opacus_per_layer,
    ("opacus", False): plain_sgd,
    ("func", True): func_loop(True),
    ("func", False): func_loop(False),
}


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
    parser.add_argument("peer", choices=["opacus", "func"])
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--private", action="store_true")
    parser.add_argument("--threads", type=int, help="default: as torch chooses")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    print(microseconds(WORKLOADS[asked.workload], PEERS[asked.peer, asked.private], asked.clients, asked.steps))
