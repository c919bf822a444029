"""The table of methods in the documents is the one that the methods themselves give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federation_scene import make_scene, policy
from safetensors.torch import load_file

from fedveil.config.federation_plan import MIXES_UPLOADS
from fedveil.data.schema_file import read_schema
from fedveil.federation.coordinating import run_federation
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.federation.federable import federable_rows, federable_table
from fedveil.federation.planning import plan_of, read_validation, write_home
from fedveil.parts.personal import Attention
from fedveil.runs.run import run
from fedveil.site.approval import approve
from fedveil.zoo import ZOO

PAGE = Path(__file__).parents[2] / "docs" / "federation.md"


def test_the_page_has_the_table_of_the_methods_as_they_are() -> None:
    assert federable_table() in PAGE.read_text(encoding="utf-8")


def test_every_method_has_a_row() -> None:
    rows = {name: (can, asks) for name, can, asks in federable_rows()}
    assert rows.keys() == ZOO.keys()
    assert rows["prifedsync"][0] == "yes; each site's own model stays there"
    assert "refused" in rows["fed-sdp"][1]
    assert "server" in rows["fed-cdp"][1]
    assert "rehearsal" in rows["fedavg"][1]


@pytest.mark.parametrize("name", ["prifedsync", "fed-sdp-client"])
def test_a_preset_of_the_table_becomes_a_plan(tmp_path: Path, name: str) -> None:
    scene = make_scene(tmp_path, agreed=False)
    schema = read_schema(tmp_path / "schema.toml")
    plan = plan_of(
        {"method": name, "model": {"name": "mlp"}},
        name=name,
        sites=[home.registration for home in scene.sites.values()],
        schema=schema,
        validation=read_validation(tmp_path / "public.csv", schema),
        deadline=1.0,
        key=scene.key,
    )
    assert (plan.spec.base, plan.spec.data.test) == (name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, can, _ in federable_rows() if can.startswith("yes")])
def test_a_preset_of_the_table_ends_in_the_bits_of_the_simulation(tmp_path: Path, name: str) -> None:
    """As the preset stands, but for the small network and three rounds. Seeded, so every site is a rehearsal."""
    sizes = {"north": 120, "south": 110, "west": 130}  # batches of some presets have a hundred records
    scene = make_scene(tmp_path, sizes=sizes, agreed=False, allowed=policy(rehearsal=True))
    schema = read_schema(tmp_path / "schema.toml")
    validation = read_validation(tmp_path / "public.csv", schema)
    plan = plan_of(
        {"method": name, "model": {"name": "mlp"}, "stop": {"rounds": 3}, "seed": 5},
        name=name,
        sites=[home.registration for home in scene.sites.values()],
        schema=schema,
        validation=validation,
        deadline=30.0,
        key=scene.key,
    )
    for home in scene.sites.values():
        approve(home, plan)
    coordinator = write_home(CoordinatorHome(tmp_path / "real"), plan, scene.key, tmp_path / "public.csv")
    with scene.serving() as transport:
        result = run_federation(coordinator, transport)
    scene.plan = plan
    local = run(plan.settings, out=tmp_path / "local", workers=1, dataset=scene.dataset)
    mine, its = load_file(coordinator.run.model), load_file(tmp_path / "local" / "model.safetensors")
    assert mine.keys() == its.keys()
    assert all(torch.equal(mine[key], its[key]) for key in mine)
    assert (result.rounds, result.accuracy) == (local.rounds, local.accuracy)
    assert result.rounds > 0


def test_a_method_that_mixes_single_uploads_is_refused_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    mixing = replace(ZOO["prifedsync"], method=replace(ZOO["prifedsync"].method, personal=Attention()))
    monkeypatch.setitem(ZOO, "prifedsync", mixing)
    rows = {row[0]: row for row in federable_rows()}
    assert rows["prifedsync"][1:] == (f"no: {MIXES_UPLOADS}", "–")


def test_noise_on_rows_is_offered_only_where_the_method_takes_it() -> None:
    offered = {name for name, _, asks in federable_rows() if "on_device" in asks}
    assert {"fed-cdp", "fed-cdp-batch"} <= offered
    assert offered.isdisjoint({"fed-cdp-calibrated", "fed-cdp-allocated", "fed-sdp", "fedavg"})
