"""A site's own model: it begins where it should, survives deaths, and never leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from federation_scene import Scene, make_scene, policy
from killing import Asker, DiesBefore, Killed

from fedveil.core.errors import FedveilError
from fedveil.parts.personal import Attention, Identity, Interpolated, Shared
from fedveil.site.own_model import OwnModel
from fedveil.site.serving import AnswerStep, SiteServer

OWN: dict[str, Any] = {"personal": {"kind": "interpolated", "alpha": 0.25}}
ONE = {"north": 60}
SHARED = torch.zeros(3)


def test_a_round_begins_with_the_model_of_the_last_round_before_it(tmp_path: Path) -> None:
    own = OwnModel(Interpolated(alpha=0.25), tmp_path / "models")
    assert torch.equal(own.start(0, SHARED, ()), torch.zeros(1, 3))
    own.keep(0, 0, SHARED, torch.ones(3), ())
    assert torch.equal(own.start(0, SHARED, {0}), torch.zeros(1, 3))  # once more, it begins where it began
    assert torch.equal(own.start(1, SHARED, {0}), torch.full((1, 3), 0.75))
    own.keep(1, 1, SHARED, torch.full((3,), 2.0), {0})
    own.keep(2, 2, SHARED, torch.full((3,), 4.0), {0, 1})
    assert own.kept() == [(1, 1), (2, 2)]
    assert torch.equal(own.start(2, SHARED, {0, 1, 2}), torch.full((1, 3), 1.5))


def test_a_model_whose_answer_was_not_given_is_not_begun_with(tmp_path: Path) -> None:
    """Not even where the same round was answered before: what was cut off is computed again, with other noise."""
    own = OwnModel(Interpolated(alpha=0.0), tmp_path / "models")
    own.keep(0, 0, SHARED, torch.ones(3), ())
    own.keep(1, 1, SHARED, torch.full((3,), 2.0), {0})
    assert torch.equal(own.start(2, SHARED, {0}), torch.ones(1, 3))
    own.keep(1, 2, SHARED, torch.full((3,), 3.0), {0, 1})
    assert torch.equal(own.start(2, SHARED, {0, 1}), torch.full((1, 3), 2.0))
    assert torch.equal(own.start(2, SHARED, {0, 1, 2}), torch.full((1, 3), 3.0))


def test_by_identity_everybody_begins_with_the_question_s_model(tmp_path: Path) -> None:
    own = OwnModel(Identity(), tmp_path / "models")
    own.keep(0, 0, SHARED, torch.ones(3), ())
    assert torch.equal(own.start(1, SHARED, {0}), torch.zeros(1, 3))


def test_an_update_that_is_not_finite_leaves_the_question_s_model(tmp_path: Path) -> None:
    own = OwnModel(Interpolated(alpha=0.0), tmp_path / "models")
    own.keep(0, 0, SHARED, torch.tensor([1.0, float("nan"), 1.0]), ())
    assert torch.equal(own.start(1, SHARED, {0}), torch.zeros(1, 3))


@pytest.mark.parametrize("rule", [Shared(), Attention()])
def test_rules_without_a_model_to_begin_with_are_refused(tmp_path: Path, rule: Any) -> None:
    with pytest.raises(FedveilError, match="no model of its own"):
        OwnModel(rule, tmp_path)


def test_a_damaged_model_is_not_begun_with(tmp_path: Path) -> None:
    own = OwnModel(Interpolated(), tmp_path)
    own.keep(0, 0, SHARED, torch.ones(3), ())
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(FedveilError, match="damaged"):
        own.start(1, SHARED, {0})


def answers(scene: Scene, deaths: tuple[AnswerStep, ...] = ()) -> list[torch.Tensor]:
    """Three rounds of one site, which dies before these steps of the second round and comes back."""
    updates, home = [], scene.sites["north"]
    for round in range(3):
        for step in deaths if round == 1 else ():
            with SiteServer(home, DiesBefore(step)) as server, pytest.raises(Killed):
                Asker(scene, "north", server.answer).ask(round)
        with SiteServer(home) as server:
            updates.append(Asker(scene, "north", server.answer).ask(round).tensors["update"])
    return updates


def test_a_site_that_dies_at_every_step_goes_on_with_its_own_model(tmp_path: Path) -> None:
    """Seeded, so that what is computed again is the same, if it begins with the same."""
    scenes = []
    for name in ("calm", "storm"):
        (tmp_path / name).mkdir()
        scenes.append(make_scene(tmp_path / name, {**OWN, "seed": 3}, sizes=ONE, allowed=policy(rehearsal=True)))
    calm, storm = answers(scenes[0]), answers(scenes[1], tuple(AnswerStep))
    assert all(torch.equal(one, other) for one, other in zip(calm, storm, strict=True))
    home, plan = scenes[1].sites["north"], scenes[1].plan
    assert OwnModel(plan.spec.method.personal, home.models(plan.hash)).kept() == [(1, 1), (2, 2)]


@pytest.mark.parametrize("step", [AnswerStep.OUTBOX, AnswerStep.ANSWERED])
def test_what_was_computed_and_not_given_shows_in_no_later_answer(tmp_path: Path, step: AnswerStep) -> None:
    """It may be computed again for its charge; a later round that had begun with it would be its second release."""
    later = []
    for name, dies in (("never asked", False), ("cut off", True)):
        (tmp_path / name).mkdir()
        scene = make_scene(tmp_path / name, {**OWN, "seed": 3}, sizes=ONE, allowed=policy(rehearsal=True))
        home = scene.sites["north"]
        with SiteServer(home) as server:
            Asker(scene, "north", server.answer).ask(0)
        if dies:
            with SiteServer(home, DiesBefore(step)) as server, pytest.raises(Killed):
                Asker(scene, "north", server.answer).ask(1)
        with SiteServer(home) as server:
            later.append(Asker(scene, "north", server.answer).ask(2).tensors["update"])
    assert torch.equal(*later)


def test_the_own_model_matters_and_does_not_leave(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {**OWN, "seed": 3}, sizes=ONE, allowed=policy(rehearsal=True))
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        first = asker.ask(0)
        second = asker.ask(1)
    assert set(second.tensors) == {"update"}
    plain_root = tmp_path / "plain"
    plain_root.mkdir()
    plain = make_scene(plain_root, {"seed": 3}, sizes=ONE, allowed=policy(rehearsal=True))
    with SiteServer(plain.sites["north"]) as server:
        other = Asker(plain, "north", server.answer)
        assert torch.equal(other.ask(0).tensors["update"], first.tensors["update"])
        assert not torch.equal(other.ask(1).tensors["update"], second.tensors["update"])
    with pytest.raises(FedveilError, match="mixture of single sites' uploads"):
        scene.another_plan({"personal": {"kind": "attention"}})
