"""Models measured at the sites: noised, charged, priced, refused; and the figures that a federation ends with."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from federation_scene import Scene, make_scene, policy
from killing import Asker, DiesBefore, Killed
from safetensors.torch import load_file

from fedveil.accounting.alone import bounds_of, spent_over
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.federation.coordinating import run_federation
from fedveil.mechanisms.right_counts import counted_cells, counts_width, read_counts
from fedveil.runs.account import account
from fedveil.runs.run import run
from fedveil.runtimes.in_process import InProcess
from fedveil.site.approval import examine
from fedveil.site.approval_lines import examined_lines
from fedveil.site.refusals import RefusalKind, Refused
from fedveil.site.serving import AnswerStep, SiteServer

COUNTED: dict[str, Any] = {"evaluation": {"every": 2, "sigma": 8.0}}
ONE = {"north": 60}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path, COUNTED, sizes=ONE, held_out=30)


def refused(message: Any, kind: RefusalKind) -> str:
    assert message.header["kind"] == "refused", message.header
    assert message.header["reason"] == kind
    return str(message.header["text"])


def test_counts_are_charged_once_noised_and_given_again(scene: Scene) -> None:
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        first = asker.raw(round=2, kind="evaluate")
        assert asker.raw(round=2, kind="evaluate") == first
        (paid,) = server.ledger.paid
        assert paid.answer == hashlib.sha256(first).hexdigest()
        (declared,) = paid.declared
        assert (declared.place, declared.sampling.records) == ("evaluation", 30)
        answer = asker.ask(round=2, kind="evaluate")
        assert set(answer.tensors) == {"counts"}
        assert answer.tensors["counts"].shape == (counts_width(2),)
        (receipt,) = answer.header["receipts"]
        assert receipt["confirmed"]
        assert receipt["draws"] == counts_width(2)


def test_what_is_counted_is_what_the_model_says_of_the_records_that_are_held_out(tmp_path: Path) -> None:
    small = {"evaluation": {"every": 2, "sigma": 1e-4}}
    scene = make_scene(tmp_path, small, sizes=ONE, held_out=30, allowed=policy(rehearsal=True))
    home = scene.sites["north"]
    with SiteServer(home) as server:
        answer = Asker(scene, "north", server.answer).ask(round=2, kind="evaluate")
        std = server.ledger.paid[0].declared[0].sum_std
    records = home.held_out
    assert records is not None
    with torch.no_grad():
        outputs = scene.plan.network()(records.inputs)
    found, exact = (
        read_counts(cells, std)
        for cells in (answer.tensors["counts"], counted_cells(outputs, records.labels, std).double())
    )
    torch.testing.assert_close(found.right, exact.right, atol=2e-3, rtol=0)
    torch.testing.assert_close(found.wrong, exact.wrong, atol=2e-3, rtol=0)
    assert found.loss == pytest.approx(exact.loss, abs=5e-3)


@pytest.mark.parametrize("step", AnswerStep)
def test_a_death_at_any_step_counts_nothing_twice_or_unpaid(scene: Scene, step: AnswerStep) -> None:
    home = scene.sites["north"]
    with SiteServer(home, DiesBefore(step)) as server, pytest.raises(Killed):
        Asker(scene, "north", server.answer).ask(round=2, kind="evaluate")
    with SiteServer(home) as server:
        first = Asker(scene, "north", server.answer).raw(round=2, kind="evaluate")
        (paid,) = server.ledger.paid
        assert paid.answer == hashlib.sha256(first).hexdigest()


def test_another_model_after_the_same_round_and_more_than_the_plan_has_are_refused(scene: Scene) -> None:
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        assert asker.ask(round=2, kind="evaluate").header["kind"] == "counts"
        moved = asker.ask(round=2, kind="evaluate", parameters=asker.shifted(1e-6))
        assert "has that once" in refused(moved, RefusalKind.WRONG_QUESTION)
        assert asker.ask(round=4, kind="evaluate").header["kind"] == "counts"
        assert "2 times" in refused(asker.ask(round=3, kind="evaluate"), RefusalKind.WRONG_QUESTION)
        for round in (5, -1, "2", True, None):
            refused(asker.ask(round=round, kind="evaluate"), RefusalKind.WRONG_QUESTION)
        assert len(server.ledger.paid) == 2


def test_a_plan_that_does_not_measure_at_the_sites_is_not_asked_for_counts(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, held_out=30)
    with SiteServer(scene.sites["north"]) as server:
        answer = Asker(scene, "north", server.answer).ask(round=2, kind="evaluate")
        refused(answer, RefusalKind.WRONG_QUESTION)
        assert server.ledger.paid == ()


def test_noise_that_is_not_there_does_not_leave(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedveil.site.site_work.noised_cells", lambda clean, noise, address: clean.double())
    with SiteServer(scene.sites["north"]) as server:
        refused(Asker(scene, "north", server.answer).ask(round=2, kind="evaluate"), RefusalKind.FAILED)


# What it costs


def test_the_price_has_the_counts_and_is_shown(tmp_path: Path, scene: Scene) -> None:
    home = scene.sites["north"]
    examined = examine(home, scene.plan)
    (tmp_path / "plain").mkdir()
    plain = make_scene(tmp_path / "plain", sizes=ONE, held_out=30)
    assert examined.price > examine(plain.sites["north"], plain.plan).price
    assert examined.table.of(Unit.RECORD, View.SERVER).epsilon == pytest.approx(examined.price, rel=1e-3)
    text = "\n".join(examined_lines(examined))
    assert "counted at the sites, 2 times, on 30 records that they hold out" in text
    assert "σ = 8" in text


def test_counts_that_are_too_dear_are_refused_by_the_policy(tmp_path: Path) -> None:
    dear = {"evaluation": {"every": 1, "sigma": 0.5}}
    scene = make_scene(tmp_path, dear, sizes=ONE, held_out=30, allowed=policy(epsilon=2.0), agreed=False)
    with pytest.raises(Refused, match="the plan costs") as error:
        examine(scene.sites["north"], scene.plan)
    assert error.value.kind is RefusalKind.OVER_BUDGET


def test_a_site_that_holds_out_nothing_or_something_else_is_not_measured_at(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="holds out no records"):
        make_scene(tmp_path, COUNTED, sizes=ONE)
    (tmp_path / "again").mkdir()
    scene = make_scene(tmp_path / "again", COUNTED, sizes=ONE, held_out=30, agreed=False)
    (tmp_path / "other").mkdir()
    other = make_scene(tmp_path / "other", COUNTED, sizes=ONE, held_out=20, agreed=False)
    (scene.sites["north"].directory / "site.toml").write_text(
        scene.sites["north"].settings_file.read_text().replace(str(tmp_path / "again"), str(tmp_path / "other"))
    )
    changed = type(scene.sites["north"])(scene.sites["north"].directory)
    with pytest.raises(FedveilError):
        examine(changed, scene.plan)
    assert other.plan.hash != scene.plan.hash


# A federation


def right_share(scene: Scene) -> float:
    """What the final model gets right of all records that are held out, without noise."""
    model, right, records = scene.plan.network(), 0, 0
    model.load_state_dict(load_file(scene.coordinator.run.model))
    for home in scene.sites.values():
        assert home.held_out is not None
        with torch.no_grad():
            right += int((model(home.held_out.inputs).argmax(dim=1) == home.held_out.labels).sum())
        records += len(home.held_out)
    return right / records


def test_a_federation_without_public_records_ends_with_figures_of_its_sites(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {"evaluation": {"every": 2, "sigma": 3.0}, "stop": {"rounds": 6}}, held_out=400)
    scene.coordinator.settings_file.write_text("{}")  # as `federation init` writes it where no public records are named
    with scene.serving() as transport:
        result = run_federation(scene.coordinator, transport)
    assert result.scores is not None
    assert result.accuracy == pytest.approx(right_share(scene), abs=0.06)  # six standard deviations of the noise
    assert result.scores.overall.records == 1200
    assert [one.site for one in result.scores.sites] == ["north", "south", "west"]
    assert not result.diverged
    spent = account(scene.coordinator.run.directory).spent
    assert spent is not None
    for client, home in enumerate(scene.sites.values()):
        with home.opened_ledger() as ledger:
            places = [paid.declared[0].place for paid in ledger.paid]
            assert (places.count("example"), places.count("evaluation")) == (6, 3)
            own = bounds_of([paid.declared for paid in ledger.paid], len(home.records), Unit.RECORD, View.SERVER)
        # what the site has paid by its own ledger is what the coordinator says of it
        said = spent.client(client, Unit.RECORD, View.SERVER).epsilon
        assert said == pytest.approx(spent_over([own], 1e-3), rel=1e-3)


def test_sites_that_do_not_count_are_left_out_and_the_training_ends(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {**COUNTED, "cohort": {"kind": "everyone", "quorum": 1}}, held_out=30)
    with scene.serving() as transport:
        honest = dict(transport.answers)

        def silent(name: str) -> Any:
            def answer(question: bytes) -> bytes:
                return b"" if b'"evaluate"' in question else honest[name](question)

            return answer

        some = InProcess({**honest, "west": silent("west")})
        result = run_federation(scene.coordinator, some)
    assert result.scores is not None
    assert [one.site for one in result.scores.sites] == ["north", "south"]


def test_without_any_counts_it_is_not_known_how_good_the_model_is(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, COUNTED, held_out=30)
    with scene.serving() as transport:
        honest = dict(transport.answers)
        deaf = {
            name: (lambda question, name=name: b"" if b'"evaluate"' in question else honest[name](question))
            for name in honest
        }
        result = run_federation(scene.coordinator, InProcess(deaf))
    assert (result.rounds, result.accuracy, result.diverged) == (4, None, False)


def test_a_simulation_has_no_sites_to_ask(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, COUNTED, held_out=30)
    with pytest.raises(FedveilError, match=r"evaluation\.sigma: real sites count"):
        run(scene.plan.settings, out=tmp_path / "local", workers=1, dataset=scene.dataset)
