"""The plain task of the first workload in another simulator: one round after another, µs per local step per client.

It runs in that simulator's own environment, without fedveil. The first round warms up and is not counted.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

BATCH, RATE, ROUNDS = 5, 0.01, 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(12, 12, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(588, 10),
    )


def records(steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random records of one client, enough for one pass in so many steps."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(steps * BATCH, 1, 28, 28, generator=generator)
    return inputs, torch.randint(0, 10, (steps * BATCH,), generator=generator)


def by_pfl(clients: int, steps: int) -> list[float]:
    """Seconds of each round; one process."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs)  # type: ignore[no-any-return]

        def loss(self, inputs: torch.Tensor, labels: torch.Tensor, eval: bool = False) -> torch.Tensor:
            self.eval() if eval else self.train()
            return nn.functional.cross_entropy(self(inputs), labels)

        def metrics(self, inputs: torch.Tensor, labels: torch.Tensor, eval: bool = True) -> dict[str, Any]:
            return {}  # pfl asks for the function; nothing is evaluated

    ended: list[float] = []

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
            ended.append(time.perf_counter())
            return False, Metrics()

    inputs, labels = records(steps)
    users = {str(client): Dataset((inputs, labels)) for client in range(clients)}
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", list(users)))
    module = Model()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=ROUNDS + 1,
            evaluation_frequency=10**6,
            train_cohort_size=clients,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=RATE),
        model_eval_params=None,
        callbacks=[Clock()],
    )
    return [later - earlier for earlier, later in pairwise(ended)]


def by_flower(clients: int, steps: int) -> list[float]:
    """Seconds of each round; the simulation's own workers, one core for each client at work."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import Context, ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    class Client(NumPyClient):  # type: ignore[misc]
        def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> Any:
            torch.set_num_threads(1)
            model = network()
            for own, given in zip(model.parameters(), parameters, strict=True):
                own.data = torch.from_numpy(np.array(given))
            optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
            inputs, labels = records(steps)
            for batch, target in zip(inputs.split(BATCH), labels.split(BATCH), strict=True):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(batch), target).backward()
                optimiser.step()
            return [value.detach().numpy() for value in model.parameters()], len(labels), {}

    begun: list[float] = []
    taken: list[float] = []

    class Timed(FedAvg):  # type: ignore[misc]
        def configure_fit(self, *arguments: Any, **options: Any) -> Any:
            begun.append(time.perf_counter())
            return super().configure_fit(*arguments, **options)

        def aggregate_fit(self, *arguments: Any, **options: Any) -> Any:
            outcome = super().aggregate_fit(*arguments, **options)
            taken.append(time.perf_counter() - begun[-1])
            return outcome

    def server(context: Context) -> ServerAppComponents:
        start = ndarrays_to_parameters([value.detach().numpy() for value in network().parameters()])
        strategy = Timed(
            fraction_fit=1.0, fraction_evaluate=0.0, min_available_clients=clients, initial_parameters=start
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS + 1))

    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(client_fn=lambda context: Client().to_client()),
        num_supernodes=clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return taken[1:]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulator", choices=["pfl", "flower"])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rounds = (by_pfl if asked.simulator == "pfl" else by_flower)(asked.clients, asked.steps)
    print(statistics.median(rounds) / (asked.clients * asked.steps) * 1e6)
