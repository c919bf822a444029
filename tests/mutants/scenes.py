"""The runs and audits that planted bugs are exercised by: real ones, on made-up records, with tiny networks.

`fork_server.py` imports this file beside the copy of the sources that it examines, so fedveil is imported late.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedveil.data.dataset import Dataset, Examples

CLIENTS, RECORDS = 12, 30

SMALL = {
    "data.clients": CLIENTS,
    "data.records": RECORDS,
    "data.partition": "random",
    "model.name": "mlp",
    "model.options.hidden": [32],
    "cohort": {"kind": "fixed", "size": 4},
    "batch": {"kind": "partition", "size": 5},
    "local.steps": 6,
    "stop.rounds": 4,
}
"""Four clients of twelve in each of four rounds: somebody takes part twice."""


@dataclass(frozen=True)
class Scene:
    """A preset with settings over it. `enormous`: some records have values whose gradients are not finite."""

    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    enormous: bool = False


RUNS = {
    "rows": Scene("fed-cdp", {"example.clip.bound": 0.01}),
    "poisson": Scene(
        "fed-cdp",
        {
            "cohort": {"kind": "fixed", "size": 4, "most": 2},
            "batch": {"kind": "poisson", "size": 10},
            "local.steps": 15,
            "example.clip.bound": 0.01,
        },
    ),
    "upload": Scene("fed-sdp-client", {"upload.clip.bound": 0.01}),
    "upload reports": Scene("ldp-sgd-quantile", {"batch": {"kind": "all"}}),
    "many reports": Scene(
        "ldp-sgd-quantile", {"batch": {"kind": "all"}, "cohort": {"kind": "everyone"}, "stop.rounds": 12}
    ),
    "server": Scene("fed-sdp", {"server.clip.bound": 0.01}),
    "server reports": Scene("geyer-private", {"cohort": {"kind": "poisson", "rate": 0.5}, "stop.rounds": 12}),
    "examples and uploads": Scene(
        "fed-cdp",
        {"example.clip.bound": 0.01, "upload": {"clip": {"bound": 0.01}, "sigma": 1.0, "unit": "client"}},
    ),
    "limit of rounds": Scene(
        "fed-cdp", {"cohort": {"kind": "fixed", "size": 4, "most": 2}, "example.clip.bound": 0.01, "stop.rounds": 6}
    ),
    "noise on the sum": Scene("fed-cdp-batch", {"example.clip.bound": 0.01}),
    "server, long updates": Scene("fed-sdp", {"server.clip.bound": 0.01, "local.rate": 0.001}),
    "many rounds": Scene("fed-sdp", {"stop.rounds": 40, "local.steps": 1}),
    "enormous records": Scene("fed-cdp", {"example.clip.bound": 0.01}, enormous=True),
    "enormous updates": Scene("fed-sdp-client", {"local.rate": 1e30}, enormous=True),
    "enormous updates, server": Scene("fed-sdp", {"local.rate": 1e30}, enormous=True),
}


def run(name: str) -> str | None:
    """Train a scene as a user would: why the run was stopped, None if it came to its end."""
    from fedveil.core.errors import FedveilError
    from fedveil.runs.run import run

    scene = RUNS[name]
    with tempfile.TemporaryDirectory() as directory:
        try:
            run(
                scene.preset,
                {**SMALL, **scene.settings},
                out=Path(directory, "run"),
                workers=1,
                dataset=records(scene.enormous),
            )
        except FedveilError as error:
            return f"{type(error).__name__}: {error}".replace(f"{directory}/", "")
    return None


def records(enormous: bool) -> Dataset:
    """Three heaps of points."""
    from fedveil.data.dataset import from_tensors

    train = points(CLIENTS * RECORDS, 1)
    if enormous:
        train.inputs[::7] = 3e38
    return from_tensors("points", train, points(60, 2))


def points(count: int, seed: int) -> Examples:
    import torch

    from fedveil.data.dataset import Examples

    labels = torch.arange(count) % 3
    noise = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return Examples(3 * torch.eye(3, 6)[labels] + noise, labels)
