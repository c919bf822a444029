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
    "model.options.hidden": [128],
    "cohort": {"kind": "fixed", "size": 4},
    "batch": {"kind": "partition", "size": 5},
    "local.steps": 6,
    "stop.rounds": 4,
}
"""Four clients of twelve in four rounds: somebody takes part twice. 1,283 parameters, 896 in the first layer."""


@dataclass(frozen=True)
class Scene:
    """A preset with settings over it. Every seventh record has values of `enormous` size, where that is given."""

    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    enormous: float | None = None


_EXAMPLES, _LONG = {"example.clip.bound": 0.01}, {"local.rate": 1e25}

RUNS = {
    "rows": Scene("fed-cdp", {**_EXAMPLES, "local.steps": 8}),
    "each row": Scene("fed-cdp", {**_EXAMPLES, "example.each_row": True}),
    "noise on the sum": Scene("fed-cdp-batch", _EXAMPLES),
    "poisson": Scene(
        "fed-cdp",
        {"example.clip": {"bound": 0.01, "by": "flat"}, "batch": {"kind": "poisson", "size": 10}, "local.steps": 15},
    ),
    "limit of rounds": Scene("fed-cdp", {**_EXAMPLES, "cohort": {"kind": "fixed", "size": 4, "most": 1}}),
    "examples and uploads": Scene(
        "fed-cdp", {**_EXAMPLES, "upload": {"clip": {"bound": 0.01}, "sigma": 1.0, "unit": "client"}}
    ),
    "upload": Scene("fed-sdp-client", {"upload.clip.bound": 0.01}),
    "upload reports": Scene(
        "ldp-sgd-quantile", {"batch": {"kind": "all"}, "cohort": {"kind": "everyone"}, "stop.rounds": 12}
    ),
    "server": Scene("fed-sdp", {"server.clip.bound": 0.001, "local.rate": 0.002}),
    "server reports": Scene("geyer-private", {"cohort": {"kind": "poisson", "rate": 0.5}, "stop.rounds": 6}),
    "many rounds": Scene("fed-sdp", {"stop.rounds": 40, "local.steps": 1}),
    "many Poisson cohorts": Scene(
        "fed-sdp", {"cohort": {"kind": "poisson", "rate": 0.5}, "stop.rounds": 25, "local.steps": 1}
    ),
    "enormous records": Scene("fed-cdp", _EXAMPLES, enormous=3e38),
    "enormous updates": Scene("fed-sdp-client", _LONG, enormous=1e15),
    "enormous updates, server": Scene("fed-sdp", _LONG, enormous=1e15),
}


@dataclass(frozen=True)
class AuditScene:
    """A preset with settings over it, and what is guessed from which view."""

    preset: str
    settings: Mapping[str, Any]
    unit: str = "record"
    view: str = "server"
    rounds: int = 2


_WHOLE = {"batch": {"kind": "all"}, "local.steps": 3}

AUDITS = {
    "rows": AuditScene("fed-cdp", {**_EXAMPLES, "local.rate": 1.0}),
    "noise on the sum": AuditScene("fed-cdp-batch", {**_EXAMPLES, "local.rate": 1.0}),
    "each row": AuditScene("fed-cdp", {**_EXAMPLES, "example.each_row": True}, view="on_device"),
    "poisson": AuditScene(
        "fed-cdp",
        {
            "example.clip": {"bound": 0.01, "by": "flat"},
            "batch": {"kind": "poisson", "size": 10},
            "local.steps": 6,
            "local.rate": 1.0,
        },
    ),
    "upload": AuditScene("fed-sdp-client", {"upload.clip.bound": 0.01}, unit="client"),
    "upload reports": AuditScene("ldp-sgd-quantile", _WHOLE, unit="client"),
    "server": AuditScene("fed-sdp", {"server.sigma": 1.0}, unit="client", view="released", rounds=4),
    "server reports": AuditScene(
        "geyer-private",
        {"cohort": {"kind": "poisson", "rate": 0.5}, "privacy.epsilon": 1000.0, "stop.rounds": 40},
        unit="client",
        view="released",
        rounds=30,
    ),
}


def audit(name: str) -> dict[str, Any]:
    """Audit a scene as a user would: its verdict, and what contradicts."""
    from fedveil.studies.audit import audit

    scene, clients = AUDITS[name], 60
    settings = {**SMALL, "data.clients": clients, "data.records": 20, **scene.settings}
    result = audit(
        scene.preset,
        settings,
        unit=scene.unit,
        view=scene.view,
        rounds=scene.rounds,
        workers=1,
        dataset=records(None, clients * 20),
    )
    found = [str(check.kind) for check in result.checks if check.contradicts]
    found += ["guesses"] if result.refuted is not None else []
    return {"verdict": str(result.verdict), "by": found, "checks": [str(check.kind) for check in result.checks]}


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


def records(enormous: float | None, count: int = CLIENTS * RECORDS) -> Dataset:
    """Three heaps of points."""
    from fedveil.data.dataset import from_tensors

    train = points(count, 1)
    if enormous is not None:
        train.inputs[::7] = enormous
    return from_tensors("points", train, points(60, 2))


def points(count: int, seed: int) -> Examples:
    import torch

    from fedveil.data.dataset import Examples

    labels = torch.arange(count) % 3
    noise = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return Examples(3 * torch.eye(3, 6)[labels] + noise, labels)
