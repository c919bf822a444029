"""Your own records and your own network: nothing has to be registered."""

import torch
from torch import nn

import fedveil


def network(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Any module without BatchNorm; it gets the shape of a record and the number of classes, and gives logits."""
    return nn.Sequential(nn.Linear(input_shape[0], 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, classes))


def records(count: int, seed: int) -> fedveil.Examples:
    """Stand-in for your tensors: two overlapping clouds of eight numbers."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    return fedveil.Examples(torch.randn(count, 8, generator=generator) + labels[:, None] * 0.8, labels)


if __name__ == "__main__":  # the workers of a run import this file for `network`
    # Nobody else can know it: the features hold no statistic of private records, and validation records are public.
    declared = {"features": "public", "validation_records": "public"}
    mine = fedveil.from_tensors("mine", records(8000, 1), records(1000, 2), 2, **declared)
    settings = {
        "data": {"clients": 40, "records": 200, "partition": "random"},
        "model": {"name": "own:network", "made_from": "public"},
        "cohort": "everyone",
        "batch.size": 200,
        "stop.rounds": 20,
        "privacy": {"epsilon": 2.0, "calibrate": True},  # σ is solved for it, record × server
    }
    result = fedveil.run("fed-cdp-calibrated", settings, dataset=mine, seed=1)
    print(f"accuracy {result.accuracy:.3f}; {result.run} has the model, the receipts and the guarantees")
