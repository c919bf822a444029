"""From a file of settings and the registrations of sites to a plan."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedveil.config.federation_plan import FederationPlan, RegisteredSite, federation_problem
from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder, write_whole
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.openness import Openness
from fedveil.core.signing import SigningKey
from fedveil.core.tasks import Classification
from fedveil.data.dataset import Dataset
from fedveil.data.examples import Examples
from fedveil.data.picture_form import PictureForm
from fedveil.data.record_form import RecordForm, form_digest, form_toml, read_form, read_records, shape_of
from fedveil.data.site_records import sites_in_order
from fedveil.federation.coordinator_home import CoordinatorHome, read_registration
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import Prepared, prepare

DEADLINE = 600.0
"""Seconds within which a site must answer, if nothing is said."""

PLAN_KEYS = ("name", "sites", "schema", "validation", "deadline")
"""What the table `federation` of a plan's settings says; all else is a spec."""


def make_federation_plan(settings: str | Path, home: str | Path) -> CoordinatorHome:
    """The plan that a TOML file describes, in a new directory of the coordinator's.

    The file is a spec with one more table, `federation`: the plan's name, the registrations of the sites, the schema,
    the public validation records and the deadline. Paths are relative to the file.
    """
    path = Path(settings)
    table, about = _read_settings(path)
    schema = read_form(path.parent / about["schema"])
    digest = form_digest(schema)
    sites = tuple(read_registration(path.parent / one, digest) for one in about["sites"])
    validation = None if "validation" not in about else (path.parent / about["validation"]).resolve()
    key = SigningKey.generate()
    plan = plan_of(
        table,
        name=about.get("name", path.stem),
        sites=sites,
        schema=schema,
        validation=read_validation(validation, schema),
        deadline=float(about.get("deadline", DEADLINE)),
        key=key,
    )
    return write_home(CoordinatorHome(Path(home)), plan, key, validation)


def registration_files(settings: str | Path) -> list[Path]:
    """The registrations that a plan's settings name."""
    path = Path(settings)
    return [path.parent / one for one in _read_settings(path)[1]["sites"]]


def _read_settings(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A spec, and what is said of the federation."""
    with disk_errors(path):
        text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise FedveilError(f"{path}: not a TOML file ({error})") from None
    return table, _about(table.pop("federation", None))


def _about(table: Any) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise FedveilError(f"federation: is missing; say in it {', '.join(PLAN_KEYS)}")
    for key in table:
        if key not in PLAN_KEYS:
            raise FedveilError(f"federation.{key}: unknown key; there are {', '.join(PLAN_KEYS)}")
    for key, kind in (("sites", list), ("schema", str), ("validation", str)):
        if not isinstance(table.get(key), kind) and (key in table or key != "validation"):
            raise FedveilError(f"federation.{key}: is missing, or not what it should be")
    if not all(isinstance(one, str) for one in table["sites"]) or not table["sites"]:
        raise FedveilError("federation.sites: must be a list of the files that sites registered themselves with")
    deadline = table.get("deadline", DEADLINE)
    if isinstance(deadline, bool) or not isinstance(deadline, int | float):
        raise FedveilError("federation.deadline: must be a number of seconds")
    return dict(table)


def write_home(
    home: CoordinatorHome, plan: FederationPlan, key: SigningKey, validation: Path | None
) -> CoordinatorHome:
    """A new directory of the coordinator's. Its plan is written last: without it there is none."""
    with disk_errors(home.directory):
        if home.directory.exists() and any(home.directory.iterdir()):
            raise ArgumentError("home", f"{home.directory} already exists and is not empty; choose another")
        if not home.directory.exists():
            make_folder(home.directory, PRIVATE_FOLDER)
    write_whole(home.key_file, key.pem(), private=True)
    write_whole(home.settings_file, json.dumps({} if validation is None else {"validation": str(validation)}).encode())
    write_whole(home.plan_file, plan.content)
    return home


def plan_of(
    settings: Mapping[str, Any],
    *,
    name: str,
    sites: Sequence[RegisteredSite],
    schema: RecordForm,
    validation: Examples,
    deadline: float,
    key: SigningKey,
) -> FederationPlan:
    """The plan of a spec for these sites: resolved, its noise solved for where that is asked, its network counted."""
    dataset = records_elsewhere(name, sites, schema, validation)
    spec = resolve_for(_at_real_sites(settings), None, dataset)
    if not len(validation) and spec.evaluation.counts is None:
        raise FedveilError("federation.validation: name public records, or let sites measure (evaluation.sigma)")
    problem = federation_problem(spec)
    if problem is not None:
        raise FedveilError(problem)
    prepared = prepare(spec, dataset)
    return FederationPlan(
        name=name,
        settings=json.loads(json.dumps(prepared.spec.to_dict())),
        sites=tuple(sites),
        schema_text=form_toml(schema),
        initial=prepared.initial,
        parameters=prepared.layout.size,
        layers=prepared.layout.group_count,
        deadline=deadline,
        coordinator=key.public.hex,
    )


def _at_real_sites(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The front door for records, and no test sets of single clients, if nothing else is said."""
    data = settings.get("data", {})
    whole = {"method": "private-records", **settings}
    return whole | {"data": {"test": 0, **data}} if isinstance(data, Mapping) else whole


def prepared_from(plan: FederationPlan, validation: Examples) -> Prepared:
    """The training as the coordinator has it: everything but the records."""
    dataset = records_elsewhere(plan.name, plan.sites, plan.schema, validation)
    return prepare(plan.spec, dataset, initial=plan.initial)


def records_elsewhere(name: str, sites: Sequence[RegisteredSite], schema: RecordForm, validation: Examples) -> Dataset:
    """A data set whose training records are at their sites: how many each holds is known, and nothing else."""
    nothing = Examples(validation.inputs[:0], validation.labels[:0])
    counts = [site.records for site in sites]
    return Dataset(
        name=name,
        train=nothing,
        validation=validation,
        task=schema.task,
        input_shape=shape_of(schema),
        description=f"{sum(counts)} records of {len(sites)} sites, which stay there",
        features=schema.openness,
        validation_records=Openness.PUBLIC,
        sites=sites_in_order([site.name for site in sites], counts, [0] * len(sites)),
        schema=None if isinstance(schema, PictureForm) else schema,
    )


def read_validation(path: Path | None, schema: RecordForm) -> Examples:
    """The coordinator's own public records; none where the sites measure."""
    if path is not None:
        return read_records(path, schema)
    labels = torch.int64 if isinstance(schema.task, Classification) else torch.float32
    inputs = torch.uint8 if isinstance(schema, PictureForm) else torch.float32
    return Examples(torch.empty((0, *shape_of(schema)), dtype=inputs), torch.empty(0, dtype=labels))
