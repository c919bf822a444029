"""A plan has one form and one hash, and holds nothing that a site could not check."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from federation_scene import make_scene

from fedveil.config.federation_plan import (
    LARGEST_PLAN,
    FederationPlan,
    RegisteredSite,
    read_plan,
)
from fedveil.core.errors import FedveilError
from fedveil.core.signing import SigningKey
from fedveil.data.examples import Examples
from fedveil.federation.planning import plan_of
from fedveil.parts.personal import Interpolated
from fedveil.zoo import ZOO


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> FederationPlan:
    return make_scene(tmp_path_factory.mktemp("scene"), agreed=False).plan


def test_a_plan_is_read_as_it_was_written(plan: FederationPlan) -> None:
    again = read_plan(plan.content)
    assert again.hash == plan.hash
    assert again.spec == plan.spec
    assert again.population.names == ("north", "south", "west")
    assert again.population.records == (60, 40, 80)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "other"),
        ("deadline", 31.0),
        ("initial", 5),
        ("coordinator", "ab" * 32),
        ("sites", tuple(RegisteredSite(f"s{k}", 9, f"{k:064x}") for k in range(3))),
    ],
)
def test_whatever_changes_changes_the_hash(plan: FederationPlan, field: str, value: Any) -> None:
    settings = {**plan.settings, "batch": {**plan.settings["batch"], "size": 5}}
    small = replace(plan, settings=settings)
    assert replace(small, **{field: value}).hash != small.hash


def test_another_way_of_writing_a_plan_is_refused(plan: FederationPlan) -> None:
    table = json.loads(plan.content)
    for text in (json.dumps(table), json.dumps({**table, "extra": 1}, sort_keys=True, separators=(",", ":"))):
        with pytest.raises(FedveilError, match="not written as this version writes it"):
            read_plan(text.encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b'{"name": 5}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_plan_is_one_line(text: bytes) -> None:
    with pytest.raises(FedveilError, match="plan: can't be read"):
        read_plan(text)
    with pytest.raises(FedveilError, match="larger"):
        read_plan(bytes(LARGEST_PLAN + 1))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model": {"name": "os:system", "options": {}, "made_from": "public"}}, "code that a site does not have"),
        ({"personal": {"kind": "attention", "alpha": 0.1, "temperature": 1.0}}, "a mixture of single sites' uploads"),
        ({"cohort": {"kind": "everyone", "quorum": 4}}, "quorum"),
        ({"seed": "x"}, "seed"),
        ({"unknown": 1}, "unknown key"),
    ],
)
def test_a_plan_that_real_sites_cannot_train_by_is_refused(
    plan: FederationPlan, change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(FedveilError, match=problem):
        replace(plan, settings={**plan.settings, **change})


def test_models_that_stay_at_their_sites_are_no_hindrance(plan: FederationPlan) -> None:
    own = replace(plan, settings={**plan.settings, "personal": {"kind": "interpolated", "alpha": 0.1}})
    assert read_plan(own.content).spec.method.personal == Interpolated(alpha=0.1)
    assert own.hash != plan.hash


def test_a_spec_that_leaves_something_to_defaults_is_refused(plan: FederationPlan) -> None:
    settings = {key: value for key, value in plan.settings.items() if key != "local"}
    with pytest.raises(FedveilError, match="not resolved"):
        replace(plan, settings=settings)


def test_names_and_keys_are_checked(plan: FederationPlan) -> None:
    one = plan.sites[0]
    for name in ("North", "../x", "", "a" * 64, "a b"):
        with pytest.raises(FedveilError, match="small letters"):
            RegisteredSite(name, 5, one.key)
    for sites in ((one, one, plan.sites[2]), (one, replace(plan.sites[1], key=one.key), plan.sites[2])):
        with pytest.raises(FedveilError, match="two have the"):
            replace(plan, sites=sites)
    with pytest.raises(FedveilError, match="records"):
        RegisteredSite("north", True, one.key)


def test_the_network_is_the_one_that_the_plan_counts(plan: FederationPlan) -> None:
    assert sum(part.numel() for part in plan.network().parameters()) == plan.parameters
    with pytest.raises(FedveilError, match="parameters"):
        replace(plan, parameters=plan.parameters + 1).network()


@pytest.mark.parametrize("method", ["private-records", "fed-cdp"])
def test_reading_a_plan_opens_no_file_that_it_names(
    plan: FederationPlan, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A front door chooses settings from the records that a spec names: at a site, those would be anybody's files."""

    def opened(*arguments: Any, **more: Any) -> Any:
        raise AssertionError("a stranger's file was opened")

    monkeypatch.setattr("fedveil.config.public_facts.load_for", opened)
    monkeypatch.setattr("fedveil.config.public_facts.from_sites", opened)
    data = {**plan.settings["data"], "sites": {"north": "/etc/passwd"}}
    open_choice = {key: value for key, value in plan.settings.items() if key != "model"}
    for settings in ({**plan.settings, "data": data}, open_choice, {**open_choice, "data": data}):
        with pytest.raises(FedveilError):
            replace(plan, settings={**settings, "method": method})


def made_plan(plan: FederationPlan, settings: dict[str, Any]) -> FederationPlan:
    schema = plan.schema
    large = [replace(site, records=500) for site in plan.sites]
    nothing = Examples(torch.zeros(1, len(schema.features)), torch.zeros(1, dtype=torch.int64))
    return plan_of(
        settings,
        name="own", sites=large, schema=schema, validation=nothing, deadline=5.0, key=SigningKey.generate(),
    )  # fmt: skip


@pytest.mark.parametrize("name", ZOO)
def test_every_method_of_the_zoo_can_be_federated(name: str, plan: FederationPlan) -> None:
    budget = {"epsilon": 8.0} if ZOO[name].settings.get("privacy", {}).get("calibrate") else {}
    made = made_plan(plan, {"method": name, "privacy": {"delta": 1e-3, **budget}})
    assert made.spec.base == name
    assert read_plan(made.content).hash == made.hash


def test_a_method_that_mixes_single_uploads_says_why_it_cannot_be_federated(plan: FederationPlan) -> None:
    mixing = {"method": "prifedsync", "privacy": {"delta": 1e-3}, "personal": {"kind": "attention"}}
    with pytest.raises(FedveilError, match=r"^personal: 'attention' would send each site a mixture of single sites"):
        made_plan(plan, mixing)
