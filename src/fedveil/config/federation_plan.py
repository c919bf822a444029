"""A federation's plan: all that a site agrees to, in one file with one hash.

The resolved spec, who takes part with how many records, the schema that all of them encode with, the network's size and
first weights, the quorum (in the spec), the deadline, the coordinator's key and the protocol. What is not in the plan
can't be asked for under it. Two plans that differ in anything have different hashes, because the hash is that of the
one way in which a plan can be written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from fedveil.accounting.context import Context
from fedveil.config.data_spec import OWN_RECORDS
from fedveil.config.spec import METHOD_KEYS, Spec, resolve
from fedveil.core.checks import plain_name
from fedveil.core.errors import FedveilError
from fedveil.core.openness import features_caveats
from fedveil.core.parameters import Layout
from fedveil.core.tasks import Classification
from fedveil.core.types import Population
from fedveil.data.partitions import NaturalSites
from fedveil.data.record_form import RecordForm, form_toml, parse_form, private_columns, shape_of
from fedveil.models.registry import MODELS, build
from fedveil.parts.personal import Attention
from fedveil.runtimes.messages import PROTOCOL

MIXES_UPLOADS = "'attention' would send each site a mixture of single sites' uploads; models of their own stay at them"

LARGEST_PLAN = 4 * 2**20
LONGEST_DEADLINE = 7 * 86400.0
MOST_PLANNED_ROUNDS = 100_000
"""A site computes the price of every round before it agrees; a plan must not keep it busy for days."""

_SITE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HEX_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RegisteredSite:
    """A site as it registered itself. `key` is the public half of what it signs with, in hexadecimal.

    `held_out` is how many further records it holds out from the training, to measure models on.
    """

    name: str
    records: int
    key: str
    held_out: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _SITE_NAME.fullmatch(self.name):
            raise FedveilError(f"sites: a site's name has small letters, digits and dashes, unlike {self.name!r}")
        if type(self.records) is not int or not 1 <= self.records < 2**31:
            raise FedveilError(f"site '{self.name}': its number of records must be a positive whole number")
        if type(self.held_out) is not int or not 0 <= self.held_out < 2**31:
            raise FedveilError(f"site '{self.name}': its number of records that are held out must be a whole number")
        check_key(f"site '{self.name}'", self.key)


@dataclass(frozen=True, kw_only=True)
class FederationPlan:
    """What is agreed. Sites are numbered in their order here."""

    name: str
    settings: dict[str, Any]  # the spec, resolved: nothing in it is left to the defaults of a version
    sites: tuple[RegisteredSite, ...]
    schema_text: str
    initial: int  # the seed of the network's first weights
    parameters: int
    layers: int
    deadline: float  # seconds within which a site must answer
    coordinator: str  # its public key, in hexadecimal
    protocol: int = PROTOCOL

    def __post_init__(self) -> None:
        plain_name("name", self.name)
        if self.protocol != PROTOCOL:
            raise FedveilError(f"plan: is of protocol {self.protocol}; this version speaks protocol {PROTOCOL}")
        if not 0 < self.deadline <= LONGEST_DEADLINE:
            raise FedveilError(f"deadline: must be above 0 and at most {LONGEST_DEADLINE:g} seconds")
        check_key("coordinator", self.coordinator)
        for field in ("name", "key"):
            several = [value for value, times in Counter(getattr(s, field) for s in self.sites).items() if times > 1]
            if several:
                raise FedveilError(f"sites: two have the {field} {several[0]}")
        if form_toml(self.schema) != self.schema_text:
            raise FedveilError("schema: is not written as this version writes it")
        if private_columns(self.schema):
            columns = ", ".join(private_columns(self.schema))
            raise FedveilError(f"schema: what was read off records is private, and would be shown to all: {columns}")
        _check_spelt_out(self.settings)
        if self.spec.to_dict() != self.settings:
            raise FedveilError("spec: is not resolved, or by another version with other settings")
        if self.spec.data.clients != len(self.sites):
            raise FedveilError(f"data.clients: is {self.spec.data.clients}, and there are {len(self.sites)} sites")
        problem = federation_problem(self.spec)
        if problem is not None:
            raise FedveilError(problem)
        if self.spec.privacy.calibrate:
            raise FedveilError("privacy.calibrate: the noise is not solved for yet")
        if self.spec.method.rounds > MOST_PLANNED_ROUNDS:
            raise FedveilError(
                f"stop.rounds: a plan has at most {MOST_PLANNED_ROUNDS} rounds, not {self.spec.method.rounds}"
            )
        self.spec.method.check(self.population)
        self._check_counts()

    def _check_counts(self) -> None:
        if self.spec.evaluation.counts is None:
            return
        if not isinstance(self.schema.task, Classification):
            raise FedveilError("evaluation.sigma: sites count right answers; of numbers, measure on public records")
        lacking = [site.name for site in self.sites if not site.held_out]
        if lacking:
            raise FedveilError(f"evaluation.sigma: {', '.join(lacking)} holds out no records to measure on")

    @cached_property
    def spec(self) -> Spec:
        return resolve(self.settings, task={})  # whatever is known here of a data set of that name

    @cached_property
    def schema(self) -> RecordForm:
        return parse_form(self.schema_text, "schema")

    @cached_property
    def population(self) -> Population:
        """Who takes part. Their numbers of records are public: whoever has the plan knows them."""
        return Population(tuple(site.records for site in self.sites), tuple(site.name for site in self.sites))

    @cached_property
    def context(self) -> Context:
        """What the accountant must know. Features come from the public schema."""
        return self.spec.context(self.population, self.layers, caveats=features_caveats(self.schema.openness))

    @cached_property
    def content(self) -> bytes:
        """The one way in which this plan is written."""
        table = {
            "protocol": self.protocol,
            "name": self.name,
            "spec": self.settings,
            "sites": [[site.name, site.records, site.key, site.held_out] for site in self.sites],
            "schema": self.schema_text,
            "initial": self.initial,
            "parameters": self.parameters,
            "layers": self.layers,
            "deadline": self.deadline,
            "coordinator": self.coordinator,
        }
        return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.content).digest()

    @property
    def hash(self) -> str:
        return self.digest.hex()

    def number(self, name: str) -> int:
        """The place of a site among all."""
        names = self.population.names
        if name not in names:
            raise FedveilError(f"the plan does not name the site '{name}'; it names {', '.join(names)}")
        return names.index(name)

    def network(self) -> nn.Module:
        """The network, with its first weights."""
        spec, schema = self.spec, self.schema
        model = build(spec.model.name, shape_of(schema), schema.task.outputs, spec.model.options, seed=self.initial)
        layout = Layout.of(model)
        if (layout.size, layout.group_count) != (self.parameters, self.layers):
            raise FedveilError(
                f"model: has {layout.size} parameters in {layout.group_count} layers, and the plan says"
                f" {self.parameters} in {self.layers}"
            )
        return model


def read_plan(text: bytes) -> FederationPlan:
    """The plan that was written so; every way of writing it but one is refused."""
    if len(text) > LARGEST_PLAN:
        raise FedveilError(f"plan: larger than {LARGEST_PLAN} bytes")
    try:
        table = json.loads(text)
        plan = FederationPlan(
            name=table["name"],
            settings=table["spec"],
            sites=tuple(RegisteredSite(*site) for site in table["sites"]),
            schema_text=table["schema"],
            initial=_whole(table["initial"]),
            parameters=_whole(table["parameters"]),
            layers=_whole(table["layers"]),
            deadline=table["deadline"],
            coordinator=table["coordinator"],
            protocol=table["protocol"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise FedveilError("plan: can't be read; it is not a plan of this version, or was changed") from None
    if plan.content != text:
        raise FedveilError("plan: is not written as this version writes it, so its hash says nothing")
    return plan


def federation_problem(spec: Spec) -> str | None:
    """Why real sites can't train by this spec; None where they can. A site's policy may still refuse it."""
    method = spec.method
    if spec.model.name not in MODELS:
        return f"model.name: '{spec.model.name}' is code that a site does not have; choose one of {', '.join(MODELS)}"
    if isinstance(method.personal, Attention):
        return f"personal: {MIXES_UPLOADS}"
    if spec.data.test:
        return "data.test: what a site measures on its own records is not covered by any noise, and does not leave it"
    if not isinstance(spec.data.partition, NaturalSites):
        return "data.partition: real sites hold the records that they have; choose 'sites'"
    return None


def _check_spelt_out(settings: dict[str, Any]) -> None:
    """Refuse settings that leave a choice open, or name files: resolving them would read what a stranger names.

    A plan comes from outside. Whoever reads it must not open a file, load a data set or import code because of it.
    """
    lacking = [key for key in (*METHOD_KEYS, "data", "model", "evaluation", "privacy") if key not in settings]
    if lacking:
        raise FedveilError(f"spec: is not resolved: {lacking[0]} is missing")
    data = settings["data"]
    named = [key for key in OWN_RECORDS if isinstance(data, dict) and key in data]
    if named:
        raise FedveilError(f"data.{named[0]}: a plan names no files; each site knows where its own records are")


def check_key(whose: str, key: object) -> None:
    if not isinstance(key, str) or not _HEX_KEY.fullmatch(key):
        raise FedveilError(f"{whose}: its key must be 32 bytes in hexadecimal")


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a whole number")
    return value
