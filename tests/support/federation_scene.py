"""A small federation in this process: tables, sites with homes of their own, a plan, a coordinator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedveil.accounting.context import Budget
from fedveil.config.federation_plan import FederationPlan
from fedveil.core.signing import SigningKey
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.data.own_sites import from_sites
from fedveil.data.schema_file import read_schema
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.federation.planning import plan_of, read_validation, write_home
from fedveil.runtimes.in_process import InProcess
from fedveil.site.approval import approve
from fedveil.site.home import SiteHome, make_site
from fedveil.site.policy import SitePolicy
from fedveil.site.serving import AnswerStep, SiteServer

SCHEMA = """
target = "sick"
[columns.age]
type = "number"
low = 0
high = 100
[columns.pressure]
type = "number"
low = 50
high = 250
[columns.smokes]
type = "flag"
[columns.sick]
type = "flag"
"""

SIZES = {"north": 60, "south": 40, "west": 80}

SETTINGS: dict[str, Any] = {
    "method": "fed-cdp-batch",
    "model": {"name": "mlp", "options": {"hidden": [8]}},
    "batch": {"kind": "poisson", "size": 10},
    "local": {"steps": 2, "rate": 0.5},
    "example": {"sigma": 4.0, "clip": {"bound": 1.0, "by": "flat"}},
    "privacy": {"delta": 1e-3},
    "stop": {"rounds": 4},
}


def policy(
    epsilon: float = 20.0,
    lifetime: float = 50.0,
    *,
    delta: float = 1e-3,
    unit: Unit = Unit.RECORD,
    view: View = View.SERVER,
    rehearsal: bool = False,
) -> SitePolicy:
    return SitePolicy(
        plan=Budget(epsilon, delta, unit, view), lifetime=Budget(lifetime, delta, unit, view), rehearsal=rehearsal
    )


def write_table(path: Path, rows: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    lines = ["age,pressure,smokes,sick"]
    for _ in range(rows):
        sick = generator.random() < 0.5
        age = np.clip(generator.normal(65 if sick else 40, 10), 0, 100)
        pressure = np.clip(generator.normal(150 if sick else 120, 15), 50, 250)
        smokes = generator.random() < (0.6 if sick else 0.3)
        lines.append(f"{age:.1f},{pressure:.1f},{'yes' if smokes else 'no'},{'yes' if sick else 'no'}")
    path.write_text("\n".join(lines) + "\n")


@dataclass
class Scene:
    """Everybody's directories, and the plan that all sites have agreed to."""

    root: Path
    plan: FederationPlan
    key: SigningKey
    sites: dict[str, SiteHome]
    coordinator: CoordinatorHome

    @contextmanager
    def serving(self, before: Mapping[str, Callable[[AnswerStep], None]] | None = None) -> Iterator[InProcess]:
        """All sites answer in this process. `before` of a site is called before each of its steps."""
        with ExitStack() as stack:
            servers = {
                name: stack.enter_context(SiteServer(home, (before or {}).get(name, lambda step: None)))
                for name, home in self.sites.items()
            }
            yield InProcess({name: server.answer for name, server in servers.items()})

    @property
    def dataset(self) -> Dataset:
        """The same records in one place, for the simulation."""
        return from_sites(
            {name: self.root / f"{name}.csv" for name in self.sites},
            name=self.plan.name,
            schema=self.root / "schema.toml",
            validation=self.root / "public.csv",
            validation_records="public",
        )

    def another_plan(
        self, settings: Mapping[str, Any], *, name: str = "another", agreed: bool = True
    ) -> FederationPlan:
        """A further plan for the same sites, by the same coordinator."""
        plan = made_plan(self.root, self.sites, settings, name=name, key=self.key)
        for home in self.sites.values() if agreed else ():
            approve(home, plan)
        return plan


def make_scene(
    root: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    allowed: SitePolicy | None = None,
    agreed: bool = True,
    deadline: float = 30.0,
    held_out: int = 0,
) -> Scene:
    """Sites of these sizes and a plan of these settings on top of `SETTINGS`; each holds out so many records more."""
    sizes = sizes or SIZES
    (root / "schema.toml").write_text(SCHEMA)
    write_table(root / "public.csv", 50, seed=99)
    sites = {}
    for number, (name, size) in enumerate(sizes.items()):
        write_table(root / f"{name}.csv", size, seed=number)
        if held_out:
            write_table(root / f"{name}-held-out.csv", held_out, seed=100 + number)
        sites[name] = make_site(
            root / "homes" / name,
            name=name,
            data=root / f"{name}.csv",
            schema=root / "schema.toml",
            policy=allowed or policy(),
            validation=root / f"{name}-held-out.csv" if held_out else None,
        )
    key = SigningKey.generate()
    plan = made_plan(root, sites, settings or {}, name="study", key=key, deadline=deadline)
    home = write_home(CoordinatorHome(root / "coordinator"), plan, key, root / "public.csv")
    for site in sites.values() if agreed else ():
        approve(site, plan)
    return Scene(root, plan, key, sites, home)


def made_plan(
    root: Path,
    sites: Mapping[str, SiteHome],
    settings: Mapping[str, Any],
    *,
    name: str,
    key: SigningKey,
    deadline: float = 30.0,
) -> FederationPlan:
    schema = read_schema(root / "schema.toml")
    return plan_of(
        {**SETTINGS, **settings},
        name=name,
        sites=[home.registration for home in sites.values()],
        schema=schema,
        validation=read_validation(root / "public.csv", schema),
        deadline=deadline,
        key=key,
    )


def answers_of(messages: Sequence[bytes]) -> list[dict[str, Any]]:
    """The headers of messages, unchecked."""
    headers = []
    for message in messages:
        length = int.from_bytes(message[100:104], "big")
        headers.append(json.loads(message[104 : 104 + length]))
    return headers
