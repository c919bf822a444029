"""What is trained while faults strike: every family of methods, as small as can be, as commands that a person gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SMALL = (
    "data.name=cancer", "data.clients=6", "data.records=20", "data.partition=random", "model.name=mlp",
    "model.options.hidden=[4]", "local.steps=2", "stop.rounds=3",
)  # fmt: skip
COHORT = ("cohort.kind=fixed", "cohort.size=3")
BATCH = ("batch.kind=partition", "batch.size=5")


@dataclass(frozen=True)
class Family:
    """A command that trains; `seeded` ends in the same bits however often it is interrupted."""

    command: tuple[str, ...]
    settings: tuple[str, ...]
    seeded: bool = True
    cases: int = 80
    """How many faults strike it in `make test-all`."""

    @property
    def is_series(self) -> bool:
        """Whether it makes several runs; then the same command goes on."""
        return self.command[0] != "run"

    def begin(self, out: Path) -> list[str]:
        settings = [part for setting in self.settings for part in ("--set", setting)]
        seed = ["--seed", "1"] if self.seeded else []
        return [*self.command, *settings, *seed, "--workers", "1", "--out", str(out)]

    def go_on(self, out: Path) -> list[str]:
        return self.begin(out) if self.is_series else ["resume", str(out), "--workers", "1"]


def _method(name: str, *settings: str, seeded: bool = True, cases: int = 80) -> Family:
    return Family(("run", name), (*SMALL, *COHORT, *settings), seeded, cases)


FAMILIES = {
    "fed-cdp": _method("fed-cdp", *BATCH, cases=240),
    "fed-cdp, adam at the server": _method("fed-cdp-decay", *BATCH, "aggregate.optimiser=adam", "aggregate.rate=0.1"),
    "fed-cdp, limit and budget": _method(
        "fed-cdp-calibrated", "batch.size=10", "cohort.most=2", "privacy.epsilon=4", "stop.rounds=4"
    ),
    "fed-cdp, budget, unseeded": _method(
        "fed-cdp-calibrated", "batch.size=10", "cohort.most=2", "privacy.epsilon=4", "stop.rounds=4", seeded=False
    ),
    "fed-sdp, noise at the server": _method("fed-sdp", *BATCH),
    "fed-sdp, noise at the client": _method("fed-sdp-client", *BATCH),
    "geyer, median": _method("geyer", *BATCH),
    "geyer, private bound": Family(
        ("run", "geyer-private"), (*SMALL, *BATCH, "cohort.rate=0.5", "privacy.epsilon=none")
    ),
    "ldp-sgd, falling clip": _method("ldp-sgd-poly"),
    "ldp-sgd, quantile": _method("ldp-sgd-quantile"),
    "ldp-sgd, histogram": _method("ldp-sgd-median"),
    "prifedsync": _method("prifedsync", *BATCH, "data.test=10", cases=240),
    "fedavg": _method("fedavg", *BATCH),
    "dssgd": _method("dssgd", *BATCH),
    "comparison": Family(
        ("compare", "fedavg", "prifedsync"), (*SMALL, *COHORT, *BATCH, "data.test=10", "stop.rounds=2"), cases=40
    ),
}
