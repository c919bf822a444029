"""A whole federation on this machine: four hospitals, each with its own file, real processes and mutual TLS.

Every step is the one that people take at their own machines. What is shortened is the way between them: a file that
would be sent is read where it lies.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedveil.accounting.context import Budget
from fedveil.config.federation_plan import read_plan
from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder
from fedveil.core.errors import ArgumentError
from fedveil.core.types import Unit, View
from fedveil.data import sources
from fedveil.data.sets.heart import HOSPITALS, parse_patients
from fedveil.federation.connecting import LOOPBACK, invite
from fedveil.federation.coordinating import run_federation
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.federation.planning import make_federation_plan
from fedveil.report.model.number_texts import epsilon_text
from fedveil.report.terminal.run_progress import Reporter
from fedveil.runs.result import Result
from fedveil.runtimes.child_processes import ChildProcesses, free_port
from fedveil.runtimes.invitation import read_invitation
from fedveil.runtimes.nvflare import FlareTransport, require_nvflare
from fedveil.site.approval import approve, examine
from fedveil.site.connection import add_request, check_invitation, connect
from fedveil.site.home import SiteHome, make_site
from fedveil.site.policy import SitePolicy
from fedveil.site.spending import Spending

_HELD_OUT = 3
"""Every third row of a hospital is among the public records that the model is measured on."""

_NUMBERS = {"age": (30, 80), "trestbps": (90, 180), "chol": (100, 350), "thalach": (80, 200), "oldpeak": (0, 4)}
_FLAGS = ("sex", "fbs", "exang", "disease")
_CATEGORIES = {"cp": ("typical", "atypical", "other", "none"), "restecg": ("normal", "abnormal", "hypertrophy")}
_COLUMNS = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "disease")

_PLAN = {
    "method": "fed-cdp-batch",
    "model": {"name": "mlp", "options": {"hidden": []}},
    "cohort": {"kind": "everyone"},
    "batch": {"kind": "poisson", "size": 16},
    "local": {"steps": 2, "rate": 0.5},
    "example": {"sigma": 3.0, "clip": {"bound": 1.0, "by": "flat"}},
    "privacy": {"delta": 1e-3},
    "stop": {"rounds": 15},
}
_POLICY = SitePolicy(
    plan=Budget(10.0, 1e-3, Unit.RECORD, View.SERVER), lifetime=Budget(20.0, 1e-2, Unit.RECORD, View.SERVER)
)


@dataclass(frozen=True)
class Demonstrated:
    """How it ended."""

    result: Result
    home: CoordinatorHome
    sites: tuple[SiteHome, ...]
    spent: dict[str, float]
    """ε of each site by its own ledger, in the cell of its policy."""
    seconds: float


def demonstrate(folder: Path, reporter: Reporter, say: Callable[[str], None]) -> Demonstrated:
    """All of it, in a directory that does not exist yet."""
    require_nvflare()
    begun = time.monotonic()
    if folder.exists():
        raise ArgumentError("out", f"{folder} already exists; choose another")
    patients = {name: _patients(name) for name in HOSPITALS}  # nothing is made where they are not here
    with disk_errors(folder):
        make_folder(folder, PRIVATE_FOLDER)
        sites = _found_sites(folder, patients)
    for site in sites:
        say(f"{site.name}: {site.registration.records} records, which stay in its own directory")
    home = _make_plan(folder, sites)
    for site, path in zip(sites, invite(home, _registrations(sites), LOOPBACK[0], free_port()), strict=True):
        say(f"{site.name}: {_agree(site, path)}")
    with ChildProcesses(folder) as processes:
        for site in sites:
            processes.start(site.name, ["fedveil.cli", "site", "serve", "--home", str(site.directory)])
        with FlareTransport(home.kit) as transport:
            result = run_federation(home, transport, reporter=reporter)
    return Demonstrated(
        result=result,
        home=home,
        sites=tuple(sites),
        spent={site.name: _spent(site, home.plan.hash) for site in sites},
        seconds=time.monotonic() - begun,
    )


def _found_sites(folder: Path, patients: Mapping[str, list[list[str]]]) -> list[SiteHome]:
    (folder / "schema.toml").write_text(tomli_w.dumps(_schema()), encoding="utf-8")
    public: list[list[str]] = []
    sites = []
    for name, rows in patients.items():
        public += rows[::_HELD_OUT]
        table = folder / f"{name}.csv"
        _write_rows(table, [row for place, row in enumerate(rows) if place % _HELD_OUT])
        sites.append(make_site(folder / name, name=name, data=table, schema=folder / "schema.toml", policy=_POLICY))
        add_request(sites[-1])
    _write_rows(folder / "public.csv", public)
    return sites


def _make_plan(folder: Path, sites: Sequence[SiteHome]) -> CoordinatorHome:
    about = {
        "name": "hearts",
        "sites": [str(path.relative_to(folder)) for path in _registrations(sites)],
        "schema": "schema.toml",
        "validation": "public.csv",
        "deadline": 120.0,
    }
    settings = folder / "hearts.toml"
    settings.write_text(tomli_w.dumps({**_PLAN, "federation": about}), encoding="utf-8")
    return make_federation_plan(settings, folder / "coordinator")


def _registrations(sites: Sequence[SiteHome]) -> list[Path]:
    return [site.registration_file for site in sites]


def _agree(site: SiteHome, path: Path) -> str:
    invitation = read_invitation(path)
    check_invitation(site, invitation)
    plan = read_plan(invitation.plan.encode())
    examined = examine(site, plan)
    approve(site, plan)
    connect(site, invitation)
    allowed = site.policy.plan
    return f"agrees to ε = {epsilon_text(examined.price)} of {site.policy.cell}; its policy allows {allowed.epsilon:g}"


def _spent(site: SiteHome, plan: str) -> float:
    with site.opened_ledger() as ledger:
        return Spending(site).of_plan(ledger, plan)


def _patients(name: str) -> list[list[str]]:
    file = sources.read_source("heart", HOSPITALS[name])
    rows = []
    for values in parse_patients(file.path, file.content.decode("ascii")):
        age, sex, pain, pressure, cholesterol, sugar, ecg, rate, angina, depression, disease = values
        flags = ["yes" if value > 0 else "no" for value in (sex, sugar, angina, disease)]
        texts = [f"{value:g}" for value in (age, pressure, cholesterol, rate, depression)]
        chest, trace = _CATEGORIES["cp"][int(pain) - 1], _CATEGORIES["restecg"][int(ecg)]
        rows.append(
            [texts[0], flags[0], chest, texts[1], texts[2], flags[1], trace, texts[3], flags[2], texts[4], flags[3]]
        )
    return rows


def _write_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([_COLUMNS, *rows])


def _schema() -> dict[str, object]:
    numbers = {
        name: {"type": "number", "low": low, "high": high, "outside": "clip"} for name, (low, high) in _NUMBERS.items()
    }
    categories = {name: {"type": "category", "categories": list(values)} for name, values in _CATEGORIES.items()}
    flags = {name: {"type": "flag"} for name in _FLAGS}
    columns = numbers | categories | flags
    return {"target": "disease", "columns": {name: columns[name] for name in _COLUMNS}}
